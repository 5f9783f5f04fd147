"""What type checkers know of the package, of its classes in use, and of the pages' programs."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import millrace as mr
from pages import MARK, blocks

PACKAGE = Path(str(mr.__file__)).parent
PROJECT = Path(__file__).parents[2] / "python" / "pyproject.toml"
#: Each line must be taken as it stands, and where it is marked, refused.
USER = '''
from typing import Any

import millrace as mr
import numpy as np
from millrace import components

data = mr.Pipeline("a.tar", fields={"image": mr.Image(mr.RandomCrop(8)),
    ("a", "b"): mr.PairedImages(mr.Image(), mr.Image())}, batch_size=8)


def size(batch: mr.Batch) -> int:
    return len(batch)


def levels(batch: mr.Batch[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    return batch["image"]


def take(**fields: object) -> None: ...


for batch in data.numpy():
    image: np.ndarray[Any, Any] = batch["image"]
    wrong: list[str] = batch["image"]  # type: ignore
    keys: list[str] = batch.raw("keys")
    numbers: list[int] = batch.raw("keys")  # type: ignore
    shape: tuple[int, ...] = batch["image"].shape
    both = {**batch, "more": image}
    plain: dict[str, np.ndarray[Any, Any]] = dict(batch)
    merged = batch | {"more": image}
    take(**batch)
for number in data.torch(size):
    print(number + 1)
for array in data.numpy(levels):
    print(array.sum())
for made in data.dlpack(size), data.jax(size):
    print(next(iter(made)).bit_length())
for tokens in data.numpy(mr.Tokens("t.json", length=7)):
    ids: np.ndarray[Any, Any] = tokens["text.ids"]
text: str = next(iter(data.jax(size)))  # type: ignore
mr.Shuffle("many")  # type: ignore
mr.Image(layout="CHW", dtype="bf16")
mr.Image(layout="NHWC")  # type: ignore
mr.Image(dtype="half")  # type: ignore
mr.Faults("ignore")  # type: ignore
mr.Mix([(1, "a")], end="never")  # type: ignore
mr.Pipeline("a", fields={}, batch_size=1, uneven="cut")  # type: ignore
mr.Label(clases=3)  # type: ignore
mr.Pipeline("a", fields={}, batch_size=1, shufle=3)  # type: ignore
components.SGD(0.1, momentun=0.9)  # type: ignore
components.Cosine(by="batch")  # type: ignore
components.Cosne()  # type: ignore
components.Adam(betas=(0.9, 0.95), groups=[{"parameters": "fc", "rate": 2}]), components.Mask("bce+dice")
mr.train("a", optimizer=components.Muon(matrices=["conv*"]), model=components.ResNet50(stem="3x3"))
mr.Raw(missing=b""), mr.CenterCrop((2, 3)), mr.Resize(256)
'''
#: What pyright alone knows.
CLOSER = """
import millrace as mr

for batch in mr.Pipeline("a.tar", fields={"label": mr.Label()}, batch_size=8).torch():
    keys: list[str] = batch["keys"]
    print(batch["keys"].device, batch["label"].device)  # type: ignore
"""


def test_the_components_of_the_stub_are_the_programs() -> None:
    """Else: python/components_stub.py PROGRAM > python/millrace/components.pyi."""
    script = PROJECT.parent / "components_stub.py"
    words = [sys.executable, str(script), os.environ["MILLRACE_PROGRAM"]]
    made = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    assert made == (PROJECT.parent / "millrace" / "components.pyi").read_text()
    assert (PACKAGE / "components.pyi").exists(), "it is in the wheel"


def check(folder: Path, *words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    (tmp_path / "user.py").write_text(USER)
    for page in ("python.md", "python-recipes.md"):
        for block in blocks(page, "python"):
            if block.startswith(MARK):
                name, text = block.removeprefix(MARK).split("\n", 1)
                (tmp_path / name).write_text(text)
    return tmp_path


def test_mypy_is_strict_with_the_package_and_its_users(programs: Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("no mypy")
    check(
        programs,
        *("mypy", "--config-file", str(PROJECT), "--cache-dir", str(programs / "cache")),
        *(str(PACKAGE), "user.py"),
    )


def test_pyright_takes_the_programs_of_the_pages(programs: Path) -> None:
    """By basedpyright, which is pyright with its program in the wheel; its own rules are off."""
    if importlib.util.find_spec("basedpyright") is None:
        pytest.skip("no basedpyright")
    (programs / "closer.py").write_text(CLOSER)
    (programs / "pyrightconfig.json").write_text(
        json.dumps(
            {
                "typeCheckingMode": "standard",
                "include": ["*.py"],
                "extraPaths": [str(PACKAGE.parent)],
                "pythonVersion": "3.10",
                "reportUnnecessaryTypeIgnoreComment": True,
                # Of libraries that say nothing of their types, or are not installed.
                "useLibraryCodeForTypes": False,
                "reportMissingImports": False,
                "reportMissingModuleSource": False,
            }
        )
    )
    check(programs, "basedpyright", "--pythonpath", sys.executable)
