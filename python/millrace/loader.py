"""Loader: the batches of a Pipeline, epoch by epoch."""

from __future__ import annotations

import atexit
import json
import os
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from millrace import _core, _metrics
from millrace._arrays import Allocate, Convert, converter, pinned_allocator
from millrace._gradient_state import warn_of_lost_steps
from millrace._ranks import ALONE, Ranks, ranks_now, sharers
from millrace.batch import Batch, join_trees
from millrace.errors import Error
from millrace.functions import Function

if TYPE_CHECKING:
    from millrace._function_processes import FunctionProcesses
    from millrace.pipeline import Pipeline

State = Mapping[str, Any]
T = TypeVar("T")

_open: weakref.WeakSet[Loader[Any]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for loader in list(_open):
        loader.close()


class Loader(Generic[T]):
    """The batches of a pipeline: each ``for`` loop over it is one epoch.

    A ``Batch`` is a dict: the pipeline's fields, ``valid`` (which slots hold a sample) and ``keys``.
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
        transform: Callable[[Batch[Any]], T] | None,
        pin_memory: bool | None = False,
    ) -> None:
        self._pipeline = pipeline
        self._kind = kind
        self._transform = transform
        self._pin_memory = pin_memory
        self._convert: Convert | None = None
        self._made: _core.Loader | None = None
        self._lengths: dict[int, int | None] = {}  # by the number of ranks
        self._functions: FunctionProcesses | None = None
        self._handed: int | None = None  # the epoch of the last batch

    def __iter__(self) -> Iterator[T]:
        """Begins a pass over ``epoch``: where a loaded state stands, else at its beginning."""
        if self._convert is None:
            self._convert = converter(self._kind, set(self._pipeline._options.bfloat16_fields))
        warn_of_lost_steps(self)
        self._start_functions()
        return _Pass(self, self._core.begin(), self._convert)

    def __len__(self) -> int:
        """Batches of a whole epoch. Raises TypeError where that is not known exactly.

        Of this rank, as far as it is known by now: with ranks that are started later it is less.
        """
        ranks = self._ranks()
        if self._lengths.get(ranks.world) is None:
            self._lengths[ranks.world] = self._core.length(ranks._replace(rank=max(0, ranks.rank)))
        length = self._lengths[ranks.world]
        if length is None:
            raise TypeError(
                "the number of batches is not known before an epoch is read: shards are not "
                "counted, or faults may cost whole ones; Epochs(batches=...) fixes it"
            )
        return length

    def _ranks(self) -> Ranks:
        return ranks_now(self._pipeline._rank, self._pipeline._world) or ALONE

    def _ranks_that_read(self) -> Ranks:
        """Who this is. Raises where nothing says so yet, or another length was said before."""
        ranks = self._ranks()
        if ranks.rank < 0:
            raise RuntimeError(
                f"WORLD_SIZE is {ranks.world}, and neither RANK nor a process group says which of "
                "them this is: each would read everything. Begin the loop when torch.distributed "
                "is initialised, or give Pipeline() rank and world"
            )
        for world in [w for w in self._lengths if w != ranks.world]:
            before = self._lengths.pop(world)
            if before is not None:
                warnings.warn(
                    f"len(loader) was {before} when this was one of {world} processes, and it is "
                    f"rank {ranks.rank} of {ranks.world} now: what was made of it is wrong",
                    stacklevel=3,
                )
        return ranks._replace(sharers=sharers(ranks.world))

    def __bool__(self) -> bool:
        return True

    @property
    def epoch(self) -> int:
        """The epoch of the next batch: ``range(loader.epoch, 90)`` goes on after a restart."""
        return self._core.epoch

    def set_epoch(self, epoch: int) -> None:
        """Moves to the beginning of ``epoch``; within that epoch it changes nothing."""
        if not 0 <= epoch < 2**32:
            raise ValueError(f"epoch {epoch}: from 0 to {2**32 - 2}")
        self._core.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands after the last batch handed out, in JSON types.

        It has where each sample of the streams' shuffle buffers lies, 1 to 4 bytes each as JSON,
        and about 1 KB besides.
        """
        state: dict[str, Any] = json.loads(self._core.state())
        return state

    def load_state_dict(self, state: State | Sequence[State]) -> None:
        """Goes on after the batch that ``state`` was taken behind. ``{}`` changes nothing.

        ``state``: this rank's, or a list of all ranks', in their order, after the same step. A list
        can be continued by any other number of ranks that divides its streams.
        """
        if isinstance(state, str | bytes):
            raise TypeError("a state is what state_dict() returned, and not its text: json.loads()")
        states = [state] if isinstance(state, Mapping) else list(state)
        if any(states):
            self._core.load([json.dumps(dict(one)) for one in states])

    def statistics(self) -> _core.Statistics:
        """Counters of each stage, and ``verdict``: what limits the rate."""
        return self._core.statistics()

    def ledger(self) -> _core.Ledger:
        """What was read and skipped in the epoch of the last batch, with each fault's place."""
        return self._core.ledger()

    def metrics(self, name: str = "train") -> str:
        """``statistics()`` as a page for Prometheus (text/plain; version=0.0.4).

        Rate, batches, each stage's samples, bytes and busy time, bytes held, and what faults have
        cost, with the names of ``millrace train --metrics-listen``. ``name`` is the label ``set``
        of each value. Any thread may ask while another one iterates; it starts nothing.
        """
        return _metrics.page(self, name)

    @contextmanager
    def trace(
        self, path: str | os.PathLike[str], *, most_events: int = 1_000_000
    ) -> Iterator[Loader[T]]:
        """Records what the loader's threads do, and writes it when the ``with`` block ends.

        >>> with loader.trace("t.json.gz"):
        ...     for batch in itertools.islice(loader, 100):
        ...         step(batch)

        The file is Chrome's trace format, packed if its name ends in ``.gz``, as ``millrace train
        --trace`` writes it: ui.perfetto.dev opens it. What comes after ``most_events`` spans and
        counters, of some 150 bytes each in memory, is left out. The threads end where the block
        begins and where it ends, and start again at the next batch. Raises NotFoundError for a
        folder that is not there and IoError if the file cannot be written, when the block ends.
        """
        self._core.begin_trace(most_events)
        try:
            yield self
        finally:
            self._core.end_trace(os.fspath(path))

    def close(self) -> None:
        """Ends the threads. Batches stay valid; a later loop starts again where this stands."""
        if self._made is not None:
            self._made.close()
        self._end_functions()

    def _start_functions(self) -> None:
        """Processes run until ``close()``, from one loop to the next, unless one of them failed."""
        functions = self._pipeline._functions
        if not functions or (self._functions is not None and self._functions.usable):
            return
        from millrace._function_processes import FunctionProcesses

        self._end_functions()
        pool = self._core.functions
        assert pool is not None
        self._functions = FunctionProcesses(pool, functions, self._num_processes())
        self._ended_with = weakref.finalize(self, self._functions.close)

    def _num_processes(self) -> int:
        ranks = self._ranks()
        cores = _core.usable_cores() // max(1, sharers(ranks.world))
        return self._pipeline._processes or max(1, cores)

    def _end_functions(self) -> None:
        if self._functions is not None:
            self._functions = None
            self._ended_with()

    def __enter__(self) -> Loader[T]:
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

    def accelerate(self, *, put_on_device: bool = True) -> Any:
        """This loader for ``Accelerator.prepare()``, which takes it as it is.

        It tells Accelerate which batch is an epoch's last one, so that gradients accumulated until
        then are applied, and puts batches on Accelerate's device. The number of an epoch's batches
        must be known. ``epoch``, ``set_epoch()``, ``state_dict()`` and ``load_state_dict()`` are
        the loader's.
        """
        from millrace._accelerate import AcceleratedLoader

        return AcceleratedLoader(self, put_on_device)

    def _is_over(self) -> bool:
        """Whether an epoch's last batch was handed out, where their number is known."""
        return self._core.over

    def _masked_slots(self) -> int:
        """Of an epoch, over all ranks, but for those of faults; -1: not known."""
        masked = self._core.masked_slots(self._ranks_that_read())
        return -1 if masked is None else masked

    @property
    def _core(self) -> _core.Loader:
        if self._made is None:
            self._made = _core.Loader(
                self._pipeline._options,
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

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            what = f"a Loader has no attribute {name!r}"
            if name == "dataset":  # which only a DataLoader has
                what += ": loader.accelerate() is what Accelerate takes, skip_first_batches() too"
            raise AttributeError(what)

    def __repr__(self) -> str:
        where = f"epoch {self.epoch}"
        if self._made is not None and self._made.statistics().batches:
            where += f", {self._made.statistics().batches} batches handed out"
        return f"<Loader: {self._kind}, {where}, of {self._pipeline!r}>"

    def _repr_html_(self) -> str:
        from millrace import _html

        return _html.of_loader(self)

    def __reduce__(self) -> tuple[object, ...]:
        state = self.state_dict() if self._made is not None else {}
        arguments = self._pipeline, self._kind, self._transform, self._pin_memory
        return _rebuild, (arguments, state)


def _rebuild(arguments: tuple[Any, ...], state: State) -> Loader[Any]:
    loader: Loader[Any] = Loader(*arguments)
    loader.load_state_dict(state)
    return loader


class _Pass:
    """One pass over an epoch."""

    def __init__(self, loader: Loader[Any], number: int, convert: Convert) -> None:
        self._loader = loader
        self._core = loader._core
        self._number = number
        self._epoch = self._core.epoch
        self._convert = convert
        self._transform = loader._transform
        # Functions would be pickled with each batch.
        self._shown = {
            names: field
            for names, field in loader._pipeline._fields.items()
            if not isinstance(field, Function)
        }
        self._ranks: Ranks | None = None
        self._ended = False
        self._failed = False  # what was to be made of the last batch

    def __iter__(self) -> _Pass:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        if self._loader._functions is None:
            self._loader._start_functions()
        if self._failed:  # it is lost to this loop, but not to a state that was taken meanwhile
            self._core.claim(self._number)
            self._failed = False
        try:
            handed = self._core.next(self._number, self._ranks_now())
        except Error as error:
            if self._loader._functions is not None:
                self._loader._functions.explain(error)
            raise
        if handed is None:
            self._ended = True
            raise StopIteration
        try:
            batch = self._made_of(*handed)
        except Exception:  # an interrupt is none: the batch comes again
            self._failed = True
            raise
        self._core.claim(self._number)
        self._loader._handed = self._epoch
        return batch

    def _made_of(self, arrays: dict[str, Any], buffer: Any) -> Any:
        batch = self._convert(arrays, buffer)
        batch._fields = self._shown
        join_trees()
        if self._transform is None:
            return batch
        try:
            return self._transform(batch)
        except StopIteration as error:  # would end the epoch as if it were over
            raise RuntimeError("the transform of batches raised StopIteration") from error

    def _ranks_now(self) -> Ranks:
        """A process group that has ended leaves a pass what it was; one that appears does not."""
        if self._ranks is None:
            self._ranks = self._loader._ranks_that_read()
            return self._ranks
        now = self._loader._ranks()
        return self._ranks if now.world == 1 or now[:2] == self._ranks[:2] else now
