"""The programs of docs/python-recipes.md: each goes on in mid-epoch with the batch that is next."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

import pytest

from conftest import torchrun
from pages import Batches, make_folder, run_recorded


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("recipes"), "python-recipes.md")


@pytest.fixture(scope="module")
def two_epochs(folder: Path) -> Batches:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        make_loader = runpy.run_path("recipe_data.py")["make_loader"]
        with make_loader("numpy") as loader:
            return [batch["keys"] for _ in range(2) for batch in loader]


@pytest.mark.parametrize(
    ("package", "program", "steps", "says"),
    [
        # Steps of the whole run,
        ("pytorch_lightning", "train_lightning.py", "40", "40 steps"),
        ("transformers", "train_trainer.py", "40", "40 steps"),
        # or of this one: more than are left.
        ("accelerate", "train_accelerate.py", "100", "13 steps"),
        ("torchdata.stateful_dataloader", "train_stateful.py", "100", "13 steps"),
        ("jax", "train_jax.py", "100", "13 steps"),
    ],
)
def test_goes_on_in_mid_epoch(
    folder: Path, two_epochs: Batches, package: str, program: str, steps: str, says: str
) -> None:
    needed = [package.split(".")[0]] + ([] if package == "jax" else ["torch"])
    for one in needed:
        if importlib.util.find_spec(one) is None:
            pytest.skip(f"no {one}")
    last, (first,) = run_recorded(folder, program, "27", f"{program}.saved")
    assert last == "27 steps"
    last, (rest,) = run_recorded(folder, program, steps, f"{program}.saved")
    assert last == says
    assert len(first) == 27
    assert first + rest == two_epochs


def test_accelerate_goes_on_with_two_ranks(folder: Path, two_epochs: Batches) -> None:
    for one in ("accelerate", "torch"):
        if importlib.util.find_spec(one) is None:
            pytest.skip(f"no {one}")
    taken: Batches = []
    for steps, says in (("13", "13 steps"), ("100", "7 steps")):
        words = ("train_accelerate.py", steps, "two-ranks.saved")
        last, ranks = run_recorded(folder, *words, launcher=torchrun(folder, 2), ranks=2)
        assert last == says
        taken += [one + other for one, other in zip(*ranks, strict=True)]
    samples = sorted(key for batch in two_epochs[:20] for key in batch)
    for epoch in (taken[:10], taken[10:]):
        assert sorted(key for step in epoch for key in step) == samples
