"""The programs of docs/migrating.md: theirs and ours take the same samples of the same data."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import run_program
from pages import make_folder


def samples_of(folder: Path) -> Iterator[tuple[str, bytes, str]]:
    """Key, PNG and class of each sample of the shards."""
    for shard in sorted(folder.glob("train-*.tar")):
        files = {}
        with tarfile.open(shard) as tar:
            for member in tar:
                file = tar.extractfile(member)
                assert file is not None
                files[member.name] = file.read()
        for name, data in files.items():
            key, suffix = name.split(".")
            if suffix == "png":
                yield key, data, files[f"{key}.cls"].decode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_folder(tmp_path_factory.mktemp("migrating"), "migrating.md")
    for key, picture, label in samples_of(folder):
        place = folder / "photos" / label / f"{key}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(picture)
    run_program("create", str(folder / "photos-%06d.tar"), "--from-folder", str(folder / "photos"))
    return folder


@pytest.mark.parametrize(
    "program",
    ["ours_webdataset.py", "ours_torchvision.py", "theirs_webdataset.py", "theirs_torchvision.py"],
)
def test_takes_every_sample_once(folder: Path, program: str) -> None:
    if program.startswith("theirs"):
        pytest.importorskip("torchvision")
        pytest.importorskip(program.removeprefix("theirs_").removesuffix(".py"))
    done = subprocess.run(
        [sys.executable, program], cwd=folder, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1000 samples"
