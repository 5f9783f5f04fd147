"""Which rank a loader is, and that ranks together read every sample once."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from conftest import FIELDS, free_port, pipeline
from ranks import COMMON, assert_each_once, need, run_ranks

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
