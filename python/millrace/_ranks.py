"""Which of how many processes this is."""

from __future__ import annotations

import os
import sys


def rank_and_world(rank: int | None, world: int | None) -> tuple[int, int]:
    """What is given, else torch.distributed's once it is initialised, else the environment's."""
    if rank is not None and world is not None:
        return rank, world
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    if "RANK" in os.environ and "WORLD_SIZE" in os.environ:
        return _number("RANK"), _number("WORLD_SIZE")
    return 0, 1


def _number(variable: str) -> int:
    try:
        return int(os.environ[variable])
    except ValueError:
        raise ValueError(f"{variable}={os.environ[variable]!r} is not a number") from None
