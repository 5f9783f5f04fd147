"""Real ranks of PyTorch, Lightning and Accelerate: together they read every sample once."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import millrace as mr
from conftest import FIELDS, free_port, pipeline, run_python, torchrun

LAUNCHERS = ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR"]


@pytest.fixture(autouse=True)
def _no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LAUNCHERS + ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"]:
        monkeypatch.delenv(name, raising=False)


def need(*packages: str) -> None:
    for package in packages:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"no {package}")


COMMON = """
import json, os, sys
import millrace as mr

def make(spec, batch=16, **more):
    return mr.Pipeline(spec, fields={"image": mr.Image(mr.RandomCrop(16, 16, 2)),
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


SPAWNED = """
import torch.distributed as dist
import torch.multiprocessing as mp

def work(rank, loader, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    read = [key for batch in loader for key in keys(batch)]
    tell(folder, rank, [read, len(loader), loader.epoch])
    loader.close()
    dist.destroy_process_group()

if __name__ == "__main__":
    loader = make(sys.argv[1], streams=4)
    taken = []
    if sys.argv[2] == "length":
        assert len(loader) == 13 and loader.epoch == 0 and loader.state_dict()["streams"] == 0
    if sys.argv[2].endswith("batches"):
        passing = iter(loader)
        taken = [key for _ in range(int(sys.argv[2][0])) for key in keys(next(passing))]
    tell(sys.argv[3], "parent", taken)
    mp.spawn(work, (loader, sys.argv[3]), nprocs=2)
"""


@pytest.mark.parametrize("asked", ["nothing", "length", "2 batches"])
def test_a_loader_sent_to_ranks_is_divided_there(shards: str, tmp_path: Path, asked: str) -> None:
    need("torch")
    ranks = run_ranks(tmp_path, SPAWNED, shards, asked)
    taken = json.loads((tmp_path / "rank-parent.json").read_text())
    assert len(taken) == (32 if asked == "2 batches" else 0)
    assert_each_once([ranks[0][0] + taken, ranks[1][0]])
    assert [rank[1:] for rank in ranks] == [[7, 1], [7, 1]]


def test_a_loader_sent_from_half_a_step_is_refused(shards: str, tmp_path: Path) -> None:
    need("torch")
    run_ranks(tmp_path, SPAWNED, shards, "1 batches", fails="8 slots used do not divide")


LIGHTNING = """
import torch
import pytorch_lightning as L

if torch.__version__.startswith("1."):  # whose shards of tensors Python 3.11 cannot import
    L.LightningModule._register_sharded_tensor_state_dict_hooks_if_available = lambda self: None

class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(16 * 16 * 3, 10)
        self.read = []

    def training_step(self, batch, index):
        self.read += keys(batch)
        return self.layer(batch["image"].flatten(1)).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

if __name__ == "__main__":
    loader = make(sys.argv[1])
    if sys.argv[2] == "asked":
        len(loader), loader.epoch, loader.state_dict(), loader.statistics()
        next(iter(loader))
    trainer = L.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", logger=False,
                        enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    model = Model()
    trainer.fit(model, loader)
    tell(sys.argv[3], trainer.global_rank, [model.read, trainer.global_step])
"""


@pytest.mark.parametrize("asked", ["nothing", "asked"])
def test_lightning_ranks_share_an_epoch(shards: str, tmp_path: Path, asked: str) -> None:
    need("torch", "pytorch_lightning")
    ranks = run_ranks(tmp_path, LIGHTNING, shards, asked)
    assert_each_once([rank[0] for rank in ranks])
    assert [rank[1] for rank in ranks] == [7, 7]


ACCELERATE = """
import warnings
import torch
from accelerate import Accelerator
from accelerate.data_loader import DataLoaderDispatcher
from torch.utils.data import DataLoader

if not hasattr(torch.cpu, "device_count"):  # PyTorch 1.13, which Accelerate takes for a newer one
    torch.cpu.device_count, torch.cpu.set_device = lambda: 1, lambda device: None

said = []
warnings.showwarning = lambda message, *_: said.append(str(message))
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
loader = make(sys.argv[1])
len(loader)
if sys.argv[2] != "loader":
    DataLoaderDispatcher.set_epoch = lambda self, epoch: None  # which fails; not in a later one
    loader = DataLoader(loader.iterable_dataset(), batch_size=None)
else:
    loader = loader.accelerate()
model = torch.nn.Linear(16 * 16 * 3, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
read, syncs, seen = [], [], []
for index, batch in enumerate(loader):
    with accelerator.accumulate(model):
        accelerator.backward(model(batch["image"].flatten(1)).square().mean())
        optimizer.step()
        optimizer.zero_grad()
    read += keys(batch)
    if accelerator.sync_gradients:
        syncs.append(index)
    labels, valid = accelerator.gather_for_metrics((batch["label"], batch["valid"].int()))
    seen.append(int(valid.sum()))
skipped = [len(batch["valid"]) for batch in accelerator.skip_first_batches(loader, 2)]
told = [read, syncs, sum(seen), len(skipped), loader.epoch, said]
tell(sys.argv[3], accelerator.process_index, told)
"""

ACCELERATE_ALONE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
loader = accelerator.prepare(make(sys.argv[1]).accelerate())
print([len(accelerator.gather_for_metrics(batch["label"])) for batch in loader])
"""


def test_accelerate_ranks_share_an_epoch_and_apply_its_last_step(
    shards: str, tmp_path: Path
) -> None:
    need("torch", "accelerate")
    ranks = run_ranks(tmp_path, ACCELERATE, shards, "loader", launcher=torchrun(tmp_path, 2))
    assert_each_once([rank[0] for rank in ranks])
    # 7 steps of a rank, 4 to an update: the last update has 3.
    assert [rank[1:5] for rank in ranks] == 2 * [[[3, 6], 200, 5, 2]]
    for rank in ranks:  # 224 slots
        assert any("24 slots of the last step are masked" in line for line in rank[5])


def test_accelerate_alone_leaves_masked_slots_out_of_a_metric(shards: str) -> None:
    need("torch", "accelerate")
    done = run_python(COMMON + ACCELERATE_ALONE, shards)
    assert json.loads(done.stdout) == 12 * [16] + [8]


def test_accelerate_may_not_divide_a_ranks_part_again(shards: str, tmp_path: Path) -> None:
    need("torch", "accelerate")
    says = "divide among the ranks what this rank's loader reads"
    run_ranks(tmp_path, ACCELERATE, shards, "dataset", launcher=torchrun(tmp_path, 2), fails=says)


def test_a_rank_that_appears_in_mid_pass_is_refused(
    shards: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pipeline(shards).dlpack() as loader:
        passing = iter(loader)
        next(passing)
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        with pytest.raises(RuntimeError, match="begun as rank 0 of 1, .* rank 1 of 2 now"):
            next(passing)
        second = [key for batch in loader for key in batch["keys"] if key]
    with pipeline(shards, rank=0, world=2).dlpack() as other:
        first = [key for batch in other for key in batch["keys"] if key]
    assert_each_once([first, second])


def test_a_pass_begun_before_the_rank_was_known_takes_it_with_its_first_batch(
    shards: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pipeline(shards).dlpack() as loader:
        passing = iter(loader)
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setenv("WORLD_SIZE", "2")
        assert len(list(passing)) == 7
        monkeypatch.delenv("RANK")  # as a process group that has ended
        monkeypatch.delenv("WORLD_SIZE")
        assert len(list(loader)) == 13 and loader.epoch == 2


def test_a_length_that_was_said_too_early_is_called_wrong(
    shards: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pipeline(shards).dlpack() as loader:
        assert len(loader) == 13
        monkeypatch.setenv("RANK", "0")
        monkeypatch.setenv("WORLD_SIZE", "2")
        with pytest.warns(UserWarning, match=r"len\(loader\) was 13 .* rank 0 of 2 now"):
            assert len(list(loader)) == 7
        assert len(loader) == 7
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert len(list(loader)) == 7


@pytest.mark.parametrize(
    ("variables", "rank", "world"),
    [
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "1", "NODE_RANK": "0"}, 1, 2),  # Lightning's
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, 1, 2),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, 1, 2),
        ({"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}, 1, 2),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, 0, 1),  # of sbatch, which starts one
        ({"WORLD_SIZE": "1"}, 0, 1),
    ],
)
def test_ranks_of_launchers(
    shards: str, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], rank: int, world: int
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pipeline(shards).dlpack() as loader:
        batches = [batch["keys"] for batch in loader]
    with pipeline(shards, rank=rank, world=world).dlpack() as given:
        assert [batch["keys"] for batch in given] == batches


def test_a_rank_that_nothing_names_is_refused(
    shards: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("NODE_RANK", "1")
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pipeline(shards).dlpack() as loader:
        assert len(loader) == 4
        with pytest.raises(RuntimeError, match="WORLD_SIZE is 4, and neither RANK nor a process"):
            next(iter(loader))
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(ValueError, match="RANK=1 is set and WORLD_SIZE is not"):
        next(iter(pipeline(shards).dlpack()))


def test_ranks_of_one_machine_divide_its_cores(
    shards: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def decode_threads(**more: Any) -> int:
        fields = {"label": FIELDS["label"]}
        with pipeline(shards, fields=fields, threads=None, autotune=False, **more).dlpack() as one:
            next(iter(one))
            stages = {stage.name: stage.threads for stage in one.statistics().stages}
        return stages["decode"]

    cores = decode_threads()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert decode_threads(rank=0, world=2) == max(1, cores // 2)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(2 * cores))
    assert decode_threads(rank=0, world=2) == 1
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    assert decode_threads(rank=0, world=2) == cores
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")  # Lightning's, of one machine
    assert decode_threads(rank=0, world=2) == max(1, cores // 2)


JAX = """
import jax

rank = int(sys.argv[3])
made = mr.Pipeline(sys.argv[1], fields={"label": mr.Label()}, batch_size=16,
                   shuffle=mr.Shuffle(40, seed=7), threads=1).jax()
len(made), made.epoch
jax.distributed.initialize(sys.argv[2], num_processes=2, process_id=rank)
tell(sys.argv[4], rank, [key for batch in made for key in keys(batch)])
jax.distributed.shutdown()
"""


def test_jax_processes_share_an_epoch(shards: str, tmp_path: Path) -> None:
    need("jax")
    program = tmp_path / "program.py"
    program.write_text(COMMON + JAX)
    words = (sys.executable, str(program), shards, f"localhost:{free_port()}")
    both = [
        subprocess.Popen([*words, str(rank), str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for one in both:
        assert "len(loader) was 13" in one.communicate(timeout=200)[1]
        assert one.returncode == 0
    ranks = [json.loads((tmp_path / f"rank-{rank}.json").read_text()) for rank in range(2)]
    assert_each_once(ranks)
