"""Pipeline: what is read, and how; it opens nothing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from millrace import _core
from millrace._overloads import overload
from millrace._signatures import named
from millrace.batch import Batch, DLPackArray
from millrace.functions import Function, specs_of
from millrace.loader import Loader

if TYPE_CHECKING:
    import jax as _jax
    import numpy as _numpy
    import torch as _torch

T = TypeVar("T")

Field = (
    _core.Image
    | _core.PairedImages
    | _core.Label
    | _core.Floats
    | _core.Boxes
    | _core.Text
    | _core.Audio
    | _core.Video
    | _core.Array
    | _core.Raw
    | Function
)

Spec = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Pipeline:
    """What is read, and how. It opens nothing and starts nothing: its loaders do.

    ``spec``: a brace pattern, ``::`` union, folder, manifest or URL, or a list of them; or a
    ``Mix`` of several sets.

    ``join``: shards that complete those, by their samples' keys: as many, in the same order.
    ``skip``, ``take``: leave out the first samples of the set; take only so many of the others.

    ``fields``: by name, what the members of a sample are decoded to, or what a ``Function`` of yours
    makes of it. Each becomes an array of the batch (``Raw``: a list; ``Boxes``, ``Text``, ``Audio``
    and ``Video``: several). The key of ``PairedImages`` is a tuple of its members' names.

    ``batch_size``: slots of a batch, for each rank.

    ``shuffle``, ``epochs``, ``faults``: as the classes say. None: shards in their order, of
    several streams a sample each in turn (``streams=1``: the set's own order), every sample once an
    epoch, and the first fault is raised.

    ``uneven``: an epoch's last samples that do not fill a batch on every rank are padded with
    masked slots ("pad"), make a shorter batch ("partial"), are dropped ("drop") or refused
    ("error").

    ``fill``: slots whose samples were skipped as damaged take the rank's next samples, so that batches
    are whole until the epoch's end; False: they are masked where they are. The number of batches is
    the same.

    ``mixup``, ``cutmix``: mix each picture of the field "image" with another one of its batch, by the
    alphas of the shares' Beta distributions; with both, either is drawn for each step. The fields
    "label.other" and "label.share" say with what, and how much of the target "label" is.

    ``rank``, ``world``: which of how many processes this is. None: as torch.distributed or
    jax.distributed says once it is initialised, else RANK and WORLD_SIZE, else a launcher's own
    variables (Open MPI, MPICH, srun), else 0 of 1; looked up when a loop begins, however early a
    loader is made. ``rank=0, world=1``: every process reads everything.

    ``threads``, ``io_threads``, ``prefetch``, ``memory`` ("4GiB"), ``autotune``: how fast batches
    come, never what is in them. None: the C++ default (pipeline/options.h), where ranks of one
    machine (LOCAL_WORLD_SIZE) divide its cores.

    ``cache_decoded``: keep decoded pictures in up to so much memory ("2GB"), so that each is decoded
    once, whatever random transforms follow; ``cache_decoded_in``: in a file in this folder instead,
    which is gone with the process. Each loader has its own, and no batch depends on it. None:
    pictures are decoded in every epoch.

    ``streams``: how many streams the shards are divided into over all ranks: fix it (as a multiple
    of every world size that you use) to have the same samples in the same order on any of them.
    0: up to 4 a rank.

    ``indexed``: use the indexes beside the shards. ``scan``: read the headers of shards without one
    first, so that ranks get equal shares. ``cache``: a folder that keeps what was read from the
    network, up to ``cache_size`` ("100GiB"). ``retry_for``: seconds after which a server or a pipe
    that sends nothing is given up (60). ``allow_pipe``: whether ``pipe:COMMAND`` may run.

    ``processes``: how many run the functions of samples (``Function``), beside the threads. None: as
    many as this rank's share of the machine's cores. Neither order nor values depend on it.
    ``function_timeout``: seconds after which a function that has not returned ends the loop with an
    error.

    The loaders' ``transform`` is a function of a batch. The loop's thread calls it, while the next
    batches are decoded, and gets what it returns. The order does not depend on it, nor where the
    loader stands.
    """

    @named
    def __init__(
        self,
        spec: Spec | _core.Mix,
        *,
        fields: Mapping[str | tuple[str, ...], Field],
        batch_size: int,
        shuffle: _core.Shuffle | None = None,
        epochs: _core.Epochs | None = None,
        uneven: Literal["pad", "partial", "drop", "error"] = "pad",
        fill: bool = False,
        mixup: float = 0.0,
        cutmix: float = 0.0,
        faults: _core.Faults | None = None,
        join: Spec = (),
        skip: int = 0,
        take: int | None = None,
        rank: int | None = None,
        world: int | None = None,
        threads: int | None = None,
        io_threads: int | None = None,
        prefetch: int | None = None,
        memory: int | str | None = None,
        autotune: bool | None = None,
        cache_decoded: int | str | None = None,
        cache_decoded_in: str | os.PathLike[str] | None = None,
        streams: int = 0,
        indexed: bool = True,
        scan: bool = True,
        cache: str | os.PathLike[str] | None = None,
        cache_size: int | str | None = None,
        retry_for: float | None = None,
        allow_pipe: bool = False,
        processes: int | None = None,
        function_timeout: float = 60.0,
    ) -> None:
        if (rank is None) != (world is None):
            raise ValueError("rank and world belong together: give both or neither")
        if rank is not None and world is not None and not 0 <= rank < world:
            raise ValueError(f"rank={rank}, world={world}: a rank is from 0 to world - 1")
        if processes is not None and not 1 <= processes <= 1024:
            raise ValueError(f"processes={processes}: from 1 to 1024, or None: one a core")
        # As they are now: whoever gave a dict or a list may go on with it.
        fields = dict(fields)
        spec, join = _copied(spec), _copied(join)
        self._arguments: dict[str, Any] = {k: v for k, v in locals().items() if k != "self"}
        self._rank, self._world = rank, world
        self._processes = processes
        self._fields = _by_names(fields)
        self._functions = [f for f in self._fields.values() if isinstance(f, Function)]
        self._options = _core.Options(
            spec=spec if isinstance(spec, _core.Mix) else _specs(spec),
            fields=[
                (list(names), field)
                for names, field in self._fields.items()
                if not isinstance(field, Function)
            ],
            functions=specs_of(self._fields),
            function_timeout=float(function_timeout),
            batch_size=batch_size,
            shuffle=shuffle,
            epochs=epochs,
            uneven=uneven,
            fill=fill,
            mixup=mixup,
            cutmix=cutmix,
            faults=faults,
            join=_specs(join),
            skip=skip,
            take=take,
            threads=threads,
            io_threads=io_threads,
            prefetch=prefetch,
            memory=memory,
            autotune=autotune,
            cache_decoded=cache_decoded,
            cache_decoded_in=None if cache_decoded_in is None else str(cache_decoded_in),
            streams=streams,
            indexed=indexed,
            scan=scan,
            cache=None if cache is None else str(cache),
            cache_size=cache_size,
            retry_for=retry_for,
            allow_pipe=allow_pipe,
        )

    @overload
    def torch(
        self, transform: None = None, *, pin_memory: bool | None = None
    ) -> Loader[Batch[_torch.Tensor]]: ...
    @overload
    def torch(
        self, transform: Callable[[Batch[_torch.Tensor]], T], *, pin_memory: bool | None = None
    ) -> Loader[T]: ...
    def torch(
        self,
        transform: Callable[[Batch[Any]], Any] | None = None,
        *,
        pin_memory: bool | None = None,
    ) -> Loader[Any]:
        """Batches of torch tensors; ``valid`` is a bool tensor.

        ``pin_memory``: whether the fields lie in memory that PyTorch has pinned, so that
        ``tensor.to(device, non_blocking=True)`` runs beside other work. None: where PyTorch has
        CUDA.
        """
        if pin_memory not in (None, True, False):
            raise TypeError(f"pin_memory={pin_memory!r}: must be True, False or None")
        return Loader(self, "torch", transform, pin_memory)

    @overload
    def numpy(self, transform: None = None) -> Loader[Batch[_numpy.ndarray[Any, Any]]]: ...
    @overload
    def numpy(self, transform: Callable[[Batch[_numpy.ndarray[Any, Any]]], T]) -> Loader[T]: ...
    def numpy(self, transform: Callable[[Batch[Any]], Any] | None = None) -> Loader[Any]:
        """Batches of NumPy arrays, read-only; bfloat16 needs the package ml_dtypes."""
        return Loader(self, "numpy", transform)

    @overload
    def jax(self, transform: None = None) -> Loader[Batch[_jax.Array]]: ...
    @overload
    def jax(self, transform: Callable[[Batch[_jax.Array]], T]) -> Loader[T]: ...
    def jax(self, transform: Callable[[Batch[Any]], Any] | None = None) -> Loader[Any]:
        """Batches of JAX arrays on the CPU. An integer that JAX would cut off is refused."""
        return Loader(self, "jax", transform)

    @overload
    def dlpack(self, transform: None = None) -> Loader[Batch[DLPackArray]]: ...
    @overload
    def dlpack(self, transform: Callable[[Batch[DLPackArray]], T]) -> Loader[T]: ...
    def dlpack(self, transform: Callable[[Batch[Any]], Any] | None = None) -> Loader[Any]:
        """Batches of objects that any library's ``from_dlpack`` takes; ``valid`` is uint8."""
        return Loader(self, "dlpack", transform)

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self._arguments,)

    def _repr_html_(self) -> str:
        from millrace import _html

        return _html.of_pipeline(self)

    def __repr__(self) -> str:
        shown = self._arguments | {k: without_secrets(self._arguments[k]) for k in ("spec", "join")}
        given = ", ".join(f"{k}={v!r}" for k, v in shown.items() if v is not None)
        return f"Pipeline({given})"


def _rebuild(arguments: dict[str, Any]) -> Pipeline:
    return Pipeline(**arguments)


def without_secrets(spec: Any) -> Any:
    """As messages show it: logs and notebooks are shared."""
    if isinstance(spec, _core.Mix):
        return _core.Mix([(weight, without_secrets(one)) for weight, one in spec.parts], end=spec.end)
    if isinstance(spec, (list, tuple)):
        return [without_secrets(one) for one in spec]
    return "::".join(map(_core.printable_url, spec.split("::"))) if isinstance(spec, str) else spec


def _by_names(fields: Mapping[str | tuple[str, ...], Field]) -> dict[tuple[str, ...], Field]:
    by_names: dict[tuple[str, ...], Field] = {}
    for key, field in fields.items():
        names = _names(key)
        if names in by_names:
            raise ValueError(f"fields: two are named {', '.join(names)}")
        by_names[names] = field
    return by_names


def _names(key: str | tuple[str, ...]) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else tuple(key)


def _copied(spec: Any) -> Any:
    """A list of specs, in whatever it was given; all others as they are."""
    if isinstance(spec, (str, os.PathLike, _core.Mix)):
        return spec
    return [_copied(one) for one in spec]


def _specs(spec: Any) -> list[str]:
    single = isinstance(spec, (str, os.PathLike))
    return [os.fspath(one) for one in ([spec] if single else spec)]
