"""Programs of two real ranks, and what they tell."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest


def need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}")


COMMON = """
import json, os, sys
import millrace as mr

def make(spec, batch=16, **more):
    return mr.Pipeline(spec, fields={"image": mr.Image(mr.RandomCrop(16, padding=2)),
                                     "label": mr.Label()},
                       batch_size=batch, shuffle=mr.Shuffle(40, seed=7), threads=1, **more).torch()

def keys(batch):
    return [key for key, valid in zip(batch["keys"], batch["valid"]) if valid]

def tell(folder, rank, what):
    with open(f"{folder}/rank-{rank}.json", "w") as file:
        json.dump(what, file)
"""


def run_ranks(
    folder: Path, script: str, *arguments: str, launcher: tuple[str, ...] = (), fails: str = ""
) -> list[Any]:
    """What the script's two ranks have told; or they must say `fails`, and not end well."""
    program = folder / "program.py"
    program.write_text(COMMON + script)
    done = subprocess.run(
        [sys.executable, *launcher, str(program), *arguments, str(folder)],
        capture_output=True,
        text=True,
        timeout=200,
    )
    if fails:
        assert done.returncode != 0 and fails in done.stderr, done.stderr
        return []
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(2)]


def assert_each_once(ranks: list[list[str]], samples: int = 200) -> None:
    counts = Counter(key for rank in ranks for key in rank)
    assert len(counts) == samples and set(counts.values()) == {1}
