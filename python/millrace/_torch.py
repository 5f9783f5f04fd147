"""What needs torch to be defined."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset, get_worker_info

from millrace._gradient_state import refuse_division

if TYPE_CHECKING:
    from millrace.loader import Loader


class BatchDataset(IterableDataset[Any]):
    """A loader's batches, for a DataLoader with batch_size=None and no workers."""

    def __init__(self, loader: Loader[Any]) -> None:
        self.loader = loader

    def __iter__(self) -> Iterator[Any]:
        if get_worker_info() is not None:
            raise RuntimeError(
                "millrace decodes on threads of its own, and each worker process would read "
                "everything again: use DataLoader(num_workers=0, batch_size=None)"
            )
        refuse_division(self)
        return iter(self.loader)

    def __len__(self) -> int:
        return len(self.loader)

    def state_dict(self) -> dict[str, Any]:
        """For torchdata's StatefulDataLoader."""
        return self.loader.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.loader.load_state_dict(state)
