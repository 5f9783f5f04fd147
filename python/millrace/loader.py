"""Loader: the batches of a Pipeline, epoch by epoch."""

from __future__ import annotations

import atexit
import json
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millrace import _core
from millrace._arrays import Allocate, Convert, converter, pinned_allocator
from millrace._ranks import rank_and_world

if TYPE_CHECKING:
    from millrace.pipeline import Pipeline

State = Mapping[str, Any]
Transform = Callable[[dict[str, Any]], Any]

_open: weakref.WeakSet[Loader] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for loader in list(_open):
        loader.close()


class Loader:
    """The batches of a pipeline: each ``for`` loop over it is one epoch.

    A batch is a dict: the pipeline's fields, ``valid`` (which slots hold a sample) and ``keys``.
    Its arrays share the loader's memory without a copy, and keep it as long as one of them lives.

    Threads start with the first batch, and end with ``close()``, at the end of a ``with`` block, or
    when the loader is gone. An epoch that is left before its last batch is begun again by the next
    loop; ``set_epoch()`` moves on.

    It serves one thread at a time. It pickles, with where it stands, so it can be sent to a process
    that was spawned; a process that was forked from one with a running loader can use none.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        kind: str,
        transform: Transform | None,
        pin_memory: bool | None = False,
    ) -> None:
        self._pipeline = pipeline
        self._kind = kind
        self._transform = transform
        self._pin_memory = pin_memory
        self._convert: Convert | None = None
        self._made: _core.Loader | None = None
        self._length: int | None = None

    def __iter__(self) -> Iterator[Any]:
        """Begins a pass over ``epoch``: where a loaded state stands, else at its beginning."""
        if self._convert is None:
            self._convert = converter(self._kind, set(self._pipeline._options.bfloat16_fields))
        return _Pass(self._core, self._core.begin(), self._convert, self._transform)

    def __len__(self) -> int:
        """Batches of a whole epoch. Raises TypeError where that is not known exactly."""
        if self._length is None:
            self._length = self._core.length()
        if self._length is None:
            raise TypeError(
                "the number of batches is not known before an epoch is read: shards are not "
                "counted, or faults may cost whole ones; Epochs(batches=...) fixes it"
            )
        return self._length

    def __bool__(self) -> bool:
        return True

    @property
    def epoch(self) -> int:
        """The epoch of the next batch: ``range(loader.epoch, 90)`` goes on after a restart."""
        return self._core.epoch

    def set_epoch(self, epoch: int) -> None:
        """Moves to the beginning of ``epoch``; within that epoch it changes nothing."""
        self._core.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands after the last batch handed out: JSON types, a few KB."""
        state: dict[str, Any] = json.loads(self._core.state())
        return state

    def load_state_dict(self, state: State | Sequence[State]) -> None:
        """Goes on after the batch that ``state`` was taken behind. ``{}`` changes nothing.

        ``state``: this rank's, or a list of all ranks', in their order, after the same step. A list
        can be continued by any other number of ranks that divides its streams.
        """
        states = [state] if isinstance(state, Mapping) else list(state)
        if any(states):
            self._core.load([json.dumps(dict(one)) for one in states])

    def statistics(self) -> _core.Statistics:
        """Counters of each stage, and ``verdict``: what limits the rate."""
        return self._core.statistics()

    def ledger(self) -> _core.Ledger:
        """What was read and skipped in the epoch of the last batch, with each fault's place."""
        return self._core.ledger()

    def close(self) -> None:
        """Ends the threads. Batches stay valid; a later loop starts again where this stands."""
        if self._made is not None:
            self._made.close()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def iterable_dataset(self) -> Any:
        """A torch ``IterableDataset``, for tools that insist on a ``DataLoader``.

        ``DataLoader(loader.iterable_dataset(), batch_size=None, num_workers=0)``: batches are made
        here, on threads; worker processes are refused.
        """
        from millrace._torch import BatchDataset

        return BatchDataset(self)

    @property
    def _core(self) -> _core.Loader:
        if self._made is None:
            rank, world = rank_and_world(self._pipeline._rank, self._pipeline._world)
            self._made = _core.Loader(
                self._pipeline._options,
                rank=rank,
                world=world,
                bits=self._kind == "numpy",
                texts={
                    name
                    for names, field in self._pipeline._fields.items()
                    for name in names
                    if getattr(field, "text", False)
                },
                allocate=self._allocator(),
            )
            _open.add(self)
        return self._made

    def _allocator(self) -> Allocate | None:
        return None if self._pin_memory is False else pinned_allocator(self._pin_memory)

    def __reduce__(self) -> tuple[object, ...]:
        state = self.state_dict() if self._made is not None else {}
        arguments = self._pipeline, self._kind, self._transform, self._pin_memory
        return _rebuild, (arguments, state)


def _rebuild(arguments: tuple[Any, ...], state: State) -> Loader:
    loader = Loader(*arguments)
    loader.load_state_dict(state)
    return loader


class _Pass:
    """One pass over an epoch."""

    def __init__(
        self, core: _core.Loader, number: int, convert: Convert, transform: Transform | None
    ) -> None:
        self._core = core
        self._number = number
        self._convert = convert
        self._transform = transform
        self._ended = False

    def __iter__(self) -> _Pass:
        return self

    def __next__(self) -> Any:
        handed = None if self._ended else self._core.next(self._number)
        if handed is None:
            self._ended = True
            raise StopIteration
        batch = self._convert(*handed)
        return batch if self._transform is None else self._transform(batch)
