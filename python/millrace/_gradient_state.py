"""Whether Accelerate is about to divide, or to accumulate over, what it does not know."""

from __future__ import annotations

import sys
import warnings
from typing import Any


def _gradient_state() -> Any:
    """Accelerate's, if this process uses it."""
    accelerate = sys.modules.get("accelerate.state")
    state = None if accelerate is None else accelerate.GradientState
    return state() if state is not None and state._shared_state else None


def _processes() -> int:
    state = sys.modules["accelerate.state"].PartialState
    return state().num_processes if state._shared_state else 1


def refuse_division(dataset: Any) -> None:
    """Raises if Accelerate hands out only a part of what this rank's loader reads."""
    state = _gradient_state()
    prepared = None if state is None else state.active_dataloader
    if prepared is None or _processes() == 1:
        return
    given = getattr(prepared, "dataset", None)
    dispatches = type(prepared).__name__ == "DataLoaderDispatcher" and given is dataset
    if dispatches or getattr(given, "dataset", None) is dataset:
        raise RuntimeError(
            "Accelerate would divide among the ranks what this rank's loader reads, which is one "
            "rank's part already, and lose the others': give accelerator.prepare() "
            "loader.accelerate(), not a DataLoader over loader.iterable_dataset()"
        )


def warn_of_lost_steps(loader: Any) -> None:
    """Warns if Accelerate will not be told that an epoch of ``loader`` ends."""
    state = _gradient_state()
    if state is None or state.num_steps == 1 or not state.sync_with_dataloader:
        return
    if getattr(getattr(state.active_dataloader, "dataset", None), "loader", None) is loader:
        return
    warnings.warn(
        "Accelerate accumulates gradients, and is not told where an epoch of this loader ends: "
        "what is left of its last steps is not applied. Give accelerator.prepare() "
        "loader.accelerate()",
        stacklevel=4,
    )
