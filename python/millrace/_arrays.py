"""From the arrays of the C++ part to those of a library, without a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Batch = dict[str, Any]
Convert = Callable[[Batch], Batch]


def converter(kind: str, bfloat16_fields: set[str]) -> Convert:
    """Imports the library. ``bfloat16_fields`` come to NumPy as the bits that they are."""
    return {"torch": _torch, "numpy": _numpy, "jax": _jax, "dlpack": _dlpack}[kind](bfloat16_fields)


def _map(batch: Batch, array: Callable[[str, Any], Any]) -> Batch:
    return {k: v if isinstance(v, list) else array(k, v) for k, v in batch.items()}


def _dlpack(_: set[str]) -> Convert:
    return lambda batch: batch


def _torch(_: set[str]) -> Convert:
    import torch
    import torch.utils.dlpack

    def array(name: str, value: Any) -> Any:
        tensor = torch.utils.dlpack.from_dlpack(value)
        return tensor.view(torch.bool) if name == "valid" else tensor

    return lambda batch: _map(batch, array)


def _jax(_: set[str]) -> Convert:
    import jax.numpy

    def array(name: str, value: Any) -> Any:
        made = jax.numpy.from_dlpack(value)
        return made.astype(bool) if name == "valid" else made

    return lambda batch: _map(batch, array)


def _numpy(bfloat16_fields: set[str]) -> Convert:
    import numpy as np

    views: dict[str, Any] = {"valid": np.bool_}
    if bfloat16_fields:
        views.update(dict.fromkeys(bfloat16_fields, _bfloat16()))

    def array(name: str, value: Any) -> Any:
        made = np.from_dlpack(value)
        return made.view(views[name]) if name in views else made

    return lambda batch: _map(batch, array)


def _bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(
            "NumPy has no bfloat16: install ml_dtypes, or decode to dtype='float32'"
        ) from error
    return ml_dtypes.bfloat16
