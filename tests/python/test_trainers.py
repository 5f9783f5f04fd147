"""Real ranks of Lightning and Accelerate: together they read every sample once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import run_python, torchrun
from ranks import COMMON, assert_each_once, need, run_ranks

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
