"""What the tests of the Python package share: small shards, made by the program."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import millrace as mr


def run_program(*words: str) -> str:
    done = subprocess.run(
        [os.environ["MILLRACE_PROGRAM"], *words], check=True, capture_output=True, text=True
    )
    return done.stdout


def make_shards(folder: Path, count: int = 200, per_shard: int = 30, *more: str) -> str:
    pattern = str(folder / "set-%06d.tar")
    run_program(
        *("create", pattern, "--synthetic", "classes", "--count", str(count)),
        *("--size", "16", "--maxcount", str(per_shard), "--no-index", *more),
    )
    return str(folder / f"set-{{000000..{(count - 1) // per_shard:06d}}}.tar")


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> str:
    """200 pictures of 16 x 16 with labels, in 7 shards, the last one shorter."""
    return make_shards(tmp_path_factory.mktemp("shards"))


FIELDS: dict[Any, Any] = {"image": mr.Image(mr.RandomCrop(16, padding=2)), "label": mr.Label()}


def pipeline(spec: str, **arguments: Any) -> mr.Pipeline:
    """A shuffled pipeline of batches of 16."""
    usual: dict[str, Any] = {
        "fields": FIELDS,
        "batch_size": 16,
        "shuffle": mr.Shuffle(40, seed=7),
        "threads": 2,
    }
    return mr.Pipeline(spec, **{**usual, **arguments})


def run_python(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, which must end well; its output."""
    return subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "MILLRACE_LEAK_WARNINGS": "1"},
    )


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("localhost", 0))
        port: int = listening.getsockname()[1]
        return port


def torchrun(folder: Path, ranks: int) -> tuple[str, ...]:
    """What starts a program's ranks; logs go into the folder."""
    # torchrun of PyTorch 1.13 fails under Python 3.11 unless it is told what to copy to its logs,
    # --standalone is always the same port there, and it looks every 5 s whether a rank has ended.
    return (
        *("-m", "torch.distributed.run", "--redirects", "2", "--tee", "2"),
        *("--log_dir", str(folder / "logs")),
        *("--rdzv_backend", "c10d", "--rdzv_endpoint", f"localhost:{free_port()}"),
        *("--monitor_interval", "0.2", "--nproc_per_node", str(ranks)),
    )


LAUNCHERS = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR"),
    *("OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "SLURM_STEP_TASKS_PER_NODE"),
)


@pytest.fixture(autouse=True)
def _own_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launcher's variables would make every test a rank of it."""
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
