"""Which of how many processes this is, by what is known now: it may be known late."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, NamedTuple


class Ranks(NamedTuple):
    """This process among those that read one data set."""

    #: -1: there are others, and nothing says yet which of them this is.
    rank: int
    world: int
    #: Processes of this machine that share the cores that this one may use, as sharers() says.
    sharers: int = 1


ALONE = Ranks(0, 1)


def ranks_now(rank: int | None, world: int | None) -> Ranks | None:
    """What is given, else what a process group, else what the environment says; None: nothing."""
    found = (rank, world) if rank is not None and world is not None else _found()
    return None if found is None else Ranks(*found)


def _found() -> tuple[int, int] | None:
    return _torch_group() or _jax_group() or _environment() or _launcher()


def _torch_group() -> tuple[int, int] | None:
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size()


def _jax_group() -> tuple[int, int] | None:
    """What jax.distributed.initialize() was told; to ask JAX itself would start its backends."""
    state: Any = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if getattr(state, "client", None) is None:
        return None
    return state.process_id, state.num_processes


def _environment() -> tuple[int, int] | None:
    """torchrun's variables. Lightning sets no RANK, but LOCAL_RANK on each machine."""
    rank, world = _number("RANK"), _number("WORLD_SIZE")
    if rank is not None and world is None:
        raise ValueError(f"RANK={rank} is set and WORLD_SIZE is not: they belong together")
    if world is None or (rank is None and world == 1):
        return None
    if rank is None and _number("NODE_RANK") in (None, 0):
        rank = _number("LOCAL_RANK")
    return (-1 if rank is None else rank), world


#: Of Open MPI, of MPICH and its kin, of srun: rank, number of processes.
_LAUNCHERS = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
]


def _launcher() -> tuple[int, int] | None:
    for names in _LAUNCHERS:
        rank, world = map(_number, names)
        if rank is not None and world is not None and world > 1:
            return rank, world
    return None


def sharers(world: int) -> int:
    """How many processes share the cores that this one may use."""
    if _is_bound():
        return 1
    for name in ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
        if (number := _number(name)) is not None:
            return max(1, number)
    tasks = re.match(r"\d+", os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""))
    if tasks:
        return max(1, int(tasks[0]))
    address = os.environ.get("MASTER_ADDR", "")
    is_local = address in ("localhost", "::1") or address.startswith("127.")
    return world if is_local else 1


def _is_bound() -> bool:
    """Whether the launcher has bound this process to fewer cores than it has itself."""
    try:
        return os.sched_getaffinity(0) < os.sched_getaffinity(os.getppid())
    except OSError:
        return False


def _number(variable: str) -> int | None:
    text = os.environ.get(variable)
    try:
        return None if text is None else int(text)
    except ValueError:
        raise ValueError(f"{variable}={text!r} is not a number") from None
