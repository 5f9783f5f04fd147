"""The programs of docs/python.md, run as the page has them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import run_program

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
MARK = "# file: "


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the page's shards and files."""
    path = tmp_path_factory.mktemp("docs")
    pattern = str(path / "train-%06d.tar")
    (command,) = blocks("console")
    words = command.split()
    assert words[:3] == ["$", "millrace", "create"]
    run_program("create", pattern, *words[4:])
    for block in blocks("python"):
        if block.startswith(MARK):
            name, text = block.removeprefix(MARK).split("\n", 1)
            (path / name).write_text(text)
    return path


def test_the_page_prints_what_it_says(folder: Path) -> None:
    pytest.importorskip("torch")
    script = "".join(block for block in blocks("python") if not block.startswith(MARK))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=folder, check=True, capture_output=True, text=True
    )
    lines = done.stdout.splitlines()
    for line in (lines[0], lines[1], lines[-1]):
        assert line in PAGE.read_text()


def train(folder: Path, ranks: int, stop_after: int, checkpoint: str) -> str:
    # torchrun of PyTorch 1.13 fails under Python 3.11 unless it is told what to copy to its logs.
    launch = [sys.executable, "-m", "torch.distributed.run", "--redirects", "2", "--tee", "2"]
    launch += ["--standalone", "--nproc_per_node", str(ranks)]
    done = subprocess.run(
        [*launch, "train_ddp.py", "2", str(stop_after), checkpoint],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_ddp_goes_on_with_any_number_of_ranks(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    # Two epochs of 1000 samples in steps of 32.
    assert train(folder, 1, 0, "whole.pt") == "1 ranks, 64 steps, epoch 2"
    assert train(folder, 2, 21, "part.pt") == "2 ranks, 21 steps, epoch 0"
    part = (folder / "part.pt").read_bytes()
    whole = torch.load(folder / "whole.pt")["model"]
    for ranks in (1, 4):
        (folder / "rest.pt").write_bytes(part)
        assert train(folder, ranks, 0, "rest.pt") == f"{ranks} ranks, 64 steps, epoch 2"
        rest = torch.load(folder / "rest.pt")["model"]
        for name, value in whole.items():
            assert torch.allclose(rest[name], value, atol=1e-5), f"{ranks} ranks: {name}"
