"""Function: a field that a Python function makes of a sample, in processes of its own."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from millrace._signatures import named
from millrace.errors import InvalidArgumentError

DType = Literal["float32", "bfloat16", "float16", "uint8", "uint16", "int64"]


class Function:
    """What a Python function returns of a sample, as an array ``(N, *shape)`` of ``dtype``.

    ``function`` gets a dict of the sample: each member's bytes by its suffix, ``__key__``,
    ``__url__``, and ``__seed__``, an int for its random choices, which is the same for a sample of
    an epoch whatever reads it. It returns an array of ``shape``, or what NumPy makes one of. What
    it raises is a fault of the sample, with its traceback.

    It runs in processes (``Pipeline(processes=...)``) that are started with the loader, so that it
    holds back neither the pipeline's threads nor the loop. It is pickled: a function of a module,
    a ``functools.partial`` of one, or an object with ``__call__``. A script that starts a loader
    begins it below ``if __name__ == "__main__":``.

    ``members``: what it gets of a sample: suffixes, each also alternatives ("jpg;png"), of which a
    sample without any is a fault. None: all of them.
    """

    @named
    def __init__(
        self,
        function: Callable[[dict[str, Any]], Any],
        shape: Sequence[int] = (),
        dtype: DType = "float32",
        *,
        members: str | Sequence[str] | None = None,
    ) -> None:
        if not callable(function):
            raise TypeError(f"Function({function!r}): not a function")
        self.function = function
        self.shape = tuple(int(side) for side in shape)
        self.dtype: DType = dtype
        self.members = (members,) if isinstance(members, str) else tuple(members or ())
        if any(side < 1 for side in self.shape):
            raise InvalidArgumentError(f"Function(shape={self.shape}): sides are 1 or more")
        _check_pickles(function)

    @property
    def name(self) -> str:
        """The module's name and the function's, for messages."""
        of = getattr(self.function, "func", self.function)  # of a partial
        name = getattr(of, "__qualname__", type(of).__qualname__)
        return f"{getattr(of, '__module__', '?')}.{name}"

    def __repr__(self) -> str:
        members = f", members={self.members!r}" if self.members else ""
        return f"Function({self.name}, shape={self.shape}, dtype={self.dtype!r}{members})"


def specs_of(fields: Mapping[tuple[str, ...], Any]) -> list[tuple[Any, ...]]:
    """Of the Functions in ``fields``, what the extension has of them."""
    specs: list[tuple[Any, ...]] = []
    for names, field in fields.items():
        if isinstance(field, Function):
            if len(names) != 1:
                raise InvalidArgumentError(
                    "only PairedImages have a tuple of names as their key in fields"
                )
            specs.append((names[0], field.name, field.shape, field.dtype, field.members))
    return specs


def _check_pickles(function: Any) -> None:
    try:
        pickle.dumps(function)
    except Exception as error:
        raise InvalidArgumentError(
            f"Function({function!r}): it runs in another process, and does not pickle ({error}): "
            "define it at the top of a module"
        ) from error
