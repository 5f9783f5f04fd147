"""The programs of the documents, run as the pages have them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from conftest import run_program

DOCS = Path(__file__).parents[2] / "docs"
RECORDED = Path(__file__).with_name("recorded.py")
MARK = "# file: "

Batches = list[list[str]]  # each batch's keys


def blocks(page: str, language: str) -> list[str]:
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def make_folder(folder: Path, page: str) -> Path:
    """With the shards of python.md and the files of `page`."""
    (command,) = blocks("python.md", "console")
    words = command.split()
    assert words[:3] == ["$", "millrace", "create"]
    run_program("create", str(folder / "train-%06d.tar"), *words[4:])
    for block in blocks(page, "python"):
        if block.startswith(MARK):
            name, text = block.removeprefix(MARK).split("\n", 1)
            (folder / name).write_text(text)
    return folder


def run_recorded(
    folder: Path, *words: str, launcher: tuple[str, ...] = (), ranks: int = 1
) -> tuple[str, list[Batches]]:
    """What the program prints last, and the batches of its ranks."""
    done = subprocess.run(
        [sys.executable, *launcher, str(RECORDED), *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    logs = [folder / f"batches-{rank}.jsonl" for rank in range(ranks)]
    batches = [[json.loads(line) for line in log.read_text().splitlines()] for log in logs]
    return done.stdout.strip().splitlines()[-1], batches
