"""Batch: what a loader hands out."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

from millrace._overloads import overload

MYPY = False  # mypy takes it for True

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from millrace.pipeline import Field

    A = TypeVar("A", default=Any)
else:
    from typing import TypeVar

    A = TypeVar("A")


class DLPackArray(Protocol):
    """What any library's ``from_dlpack`` takes."""

    def __dlpack__(self, *, stream: Any = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...


class Batch(dict[str, A]):
    """A dict: the pipeline's fields, ``valid`` (which slots hold a sample) and ``keys``.

    It is a ``dict`` in all that a dict does. To type checkers its values are arrays of the library
    that was asked for: ``data.torch()`` gives ``Batch[torch.Tensor]``; ``raw()`` is for what is a
    list. A notebook shows its first pictures, and a table of its fields with their types, shapes
    and bytes.
    """

    #: The pipeline's, by the names of their arrays: what the pictures are drawn by.
    _fields: Mapping[tuple[str, ...], Field] = {}

    # mypy takes no {**batch} of an overloaded __getitem__, and sees only its own branch of this.
    if TYPE_CHECKING and not MYPY:

        @overload
        def __getitem__(self, name: Literal["keys"], /) -> list[str]: ...
        @overload
        def __getitem__(self, name: str, /) -> A: ...
        def __getitem__(self, name: str, /) -> Any: ...

    @overload
    def raw(self, name: Literal["keys"]) -> list[str]: ...
    @overload
    def raw(self, name: str) -> list[Any]: ...
    def raw(self, name: str) -> list[Any]:
        """The values of a ``Raw`` field, a ``str`` or ``bytes`` each, or ``keys``, a ``str`` each.

        That is ``batch[name]``, which to a type checker is an array. (To pyright ``batch["keys"]`` is a
        list, too.) Raises TypeError for an array.
        """
        value: Any = self[name]
        if not isinstance(value, list):
            raise TypeError(f"field {name!r} is an array: batch[{name!r}]")
        return value

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        join_trees()  # of a process that has no loader

    def _repr_html_(self) -> str:
        from millrace import _html

        return _html.of_batch(self)


_registered: set[str] = set()


def join_trees() -> None:
    """Makes batches trees of arrays to JAX and PyTorch, as dicts are, once these are imported."""
    for name, join in (("jax", _join_jax), ("torch", _join_torch)):
        if name not in _registered and name in sys.modules:
            _registered.add(name)
            join()


def _join_torch() -> None:
    from torch.utils import _pytree

    register: Any = getattr(_pytree, "register_pytree_node", None) or getattr(
        _pytree, "_register_pytree_node", None
    )
    if register is not None:
        register(
            Batch,
            lambda batch: (list(batch.values()), list(batch)),
            lambda values, names: Batch(zip(names, values)),
        )


def _join_jax() -> None:
    import jax

    def keyed(batch: Batch[Any]) -> tuple[list[tuple[Any, Any]], tuple[str, ...]]:
        names = tuple(sorted(batch))
        return [(jax.tree_util.DictKey(name), batch[name]) for name in names], names

    def rebuilt(names: tuple[str, ...], values: Any) -> Batch[Any]:
        return Batch(zip(names, values))

    jax.tree_util.register_pytree_with_keys(Batch, keyed, rebuilt)
