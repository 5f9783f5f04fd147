"""From the arrays of the C++ part to those of a library, without a copy."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from millrace.batch import Batch

#: Of what the C++ part hands out, and what an allocator returned for its memory, if there is one.
Convert = Callable[[dict[str, Any], Any], Batch[Any]]
Allocate = Callable[[int], Any]


def converter(kind: str, bfloat16_fields: set[str]) -> Convert:
    """Imports the library. ``bfloat16_fields`` come to NumPy as the bits that they are."""
    return {"torch": _torch, "numpy": _numpy, "jax": _jax, "dlpack": _dlpack}[kind](bfloat16_fields)


def pinned_allocator(wanted: bool | None) -> Allocate:
    """Allocates memory that CUDA copies from, or None without CUDA, unless it is ``wanted``.

    It is PyTorch's own: a copy with ``non_blocking=True`` goes on when the tensor is gone, and only
    PyTorch knows when it has ended and the memory can be used again.
    """

    def allocate(num_bytes: int) -> Any:
        import torch

        if torch.cuda.is_available():
            return torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
        if wanted:
            raise RuntimeError("pin_memory=True: this PyTorch has no CUDA device")
        return None

    return allocate


def _map(batch: dict[str, Any], array: Callable[[str, Any], Any]) -> Batch[Any]:
    return Batch({k: v if isinstance(v, list) else array(k, v) for k, v in batch.items()})


def _dlpack(_: set[str]) -> Convert:
    return lambda batch, _: Batch(batch)


def _torch(_: set[str]) -> Convert:
    import torch
    import torch.utils.dlpack

    def array(name: str, value: Any) -> Any:
        tensor = torch.utils.dlpack.from_dlpack(value)
        return tensor.view(torch.bool) if name == "valid" else tensor

    def part(memory: Any, name: str, value: Any) -> Any:
        """The same as a view of ``memory``, which PyTorch knows, and alone keeps."""
        tensor = array(name, value)
        if name == "valid":
            return tensor.clone()
        begin = tensor.data_ptr() - memory.data_ptr()
        end = begin + tensor.numel() * tensor.element_size()
        return memory[begin:end].view(tensor.dtype).view(tensor.shape)

    def convert(batch: dict[str, Any], memory: Any) -> Batch[Any]:
        return _map(batch, array if memory is None else functools.partial(part, memory))

    return convert


def _jax(_: set[str]) -> Convert:
    import jax.numpy
    import numpy as np

    def array(name: str, value: Any) -> Any:
        made = jax.numpy.from_dlpack(value)
        if made.dtype == np.int32:  # no field has that
            _check_fits(name, np.from_dlpack(value))
        return made.astype(bool) if name == "valid" else made

    return lambda batch, _: _map(batch, array)


def _check_fits(name: str, values: Any) -> None:
    """Raises if JAX has cut off what 64 bits hold."""
    for value in (values.min(), values.max()) if values.size else ():
        if not -(2**31) <= value < 2**31:
            raise OverflowError(
                f"field {name}: {value} does not fit into JAX's int32: "
                'jax.config.update("jax_enable_x64", True) gives it int64'
            )


def _numpy(bfloat16_fields: set[str]) -> Convert:
    import numpy as np

    views: dict[str, Any] = {"valid": np.bool_}
    if bfloat16_fields:
        views.update(dict.fromkeys(bfloat16_fields, _bfloat16()))

    def array(name: str, value: Any) -> Any:
        made = np.from_dlpack(value)
        made.flags.writeable = False  # later batches may repeat it in masked slots
        return made.view(views[name]) if name in views else made

    return lambda batch, _: _map(batch, array)


def _bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(
            "NumPy has no bfloat16: install ml_dtypes, or decode to dtype='float32'"
        ) from error
    return ml_dtypes.bfloat16
