"""The programs of docs/python.md, run as the page has them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conftest import torchrun
from pages import DOCS, MARK, Batches, blocks, make_folder, run_recorded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("docs"), "python.md")


def test_the_page_prints_what_it_says(folder: Path) -> None:
    pytest.importorskip("torch")
    script = "".join(block for block in blocks("python.md", "python") if not block.startswith(MARK))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, check=True, capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    for line in (lines[0], lines[1], lines[-1]):
        assert line in (DOCS / "python.md").read_text()


def train(folder: Path, ranks: int, stop_after: int, checkpoint: str) -> tuple[str, list[Batches]]:
    words = ("train_ddp.py", "2", str(stop_after), checkpoint)
    return run_recorded(folder, *words, launcher=torchrun(folder, ranks), ranks=ranks)


def steps_of(ranks: list[Batches]) -> list[set[str]]:
    """Each step's keys; all ranks must take as many steps."""
    return [set().union(*step) for step in zip(*ranks, strict=True)]


def test_ddp_goes_on_with_any_number_of_ranks(folder: Path) -> None:
    """By processes of gloo, over shards of different sizes."""
    torch = pytest.importorskip("torch")
    # Two epochs of 1000 samples in steps of 32.
    line, (one,) = train(folder, 1, 0, "whole.pt")
    assert line == "1 ranks, 64 steps, epoch 2"
    for epoch in (one[:32], one[32:]):
        keys = [key for batch in epoch for key in batch]
        assert len(keys) == len(set(keys)) == 1000
    line, part = train(folder, 2, 21, "part.pt")
    assert line == "2 ranks, 21 steps, epoch 0"
    assert steps_of(part) == steps_of([one[:21]])
    saved = (folder / "part.pt").read_bytes()
    whole = torch.load(folder / "whole.pt")["model"]
    for ranks in (1, 4):
        (folder / "rest.pt").write_bytes(saved)
        line, rest = train(folder, ranks, 0, "rest.pt")
        assert line == f"{ranks} ranks, 64 steps, epoch 2"
        assert steps_of(rest) == steps_of([one[21:]]), f"{ranks} ranks"
        model = torch.load(folder / "rest.pt")["model"]
        for name, value in whole.items():
            assert torch.allclose(model[name], value, atol=1e-5), f"{ranks} ranks: {name}"
