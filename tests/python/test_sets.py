"""Which samples a pipeline has: mixes, joins, parts of a set; and what was skipped."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import millrace as mr
from conftest import make_shards, pipeline, run_program


def keys_of(loader: mr.Loader) -> list[str]:
    with loader:
        return [key for batch in loader for key in batch["keys"] if key]


def test_a_mix_has_its_shares(tmp_path: Path) -> None:
    specs = []
    for name, seed in (("a", "1"), ("b", "2")):
        (tmp_path / name).mkdir()
        specs.append(make_shards(tmp_path / name, 120, 30, "--seed", seed))
    mix = mr.Mix([(3, specs[0]), (1, specs[1])])
    assert mr.Mix(mix.parts) == mix and mix.end == "stop"
    # The first set ends after 120 samples, and with it the epoch.
    assert len(keys_of(pipeline(mix).numpy())) == pytest.approx(160, abs=4)
    both = keys_of(pipeline(mr.Mix(mix.parts, end="drop")).numpy())
    assert len(both) == 240
    with pytest.raises(mr.InvalidArgumentError, match="stop, repeat, drop"):
        mr.Mix(mix.parts, end="never")


def two_sets(folder: Path) -> list[tuple[float, str]]:
    parts = []
    for weight, name, count in ((3.0, "a", 45), (1.0, "b", 7)):
        (folder / name).mkdir()
        parts.append((weight, make_shards(folder / name, count, 30)))
    return parts


def test_each_set_of_a_mix_has_its_passes(tmp_path: Path) -> None:
    drop = mr.Mix(two_sets(tmp_path), end="drop")
    epochs = mr.Epochs(passes=4)
    loader = pipeline(drop, epochs=epochs).numpy()
    assert len(loader) == 4 * 52 // 16
    assert len(keys_of(loader)) == 4 * 52
    # The small set ends after 28 samples, a quarter of the epoch.
    stop = mr.Mix(drop.parts)
    assert len(keys_of(pipeline(stop, epochs=epochs).numpy())) == pytest.approx(112, abs=4)
    # Two ranks have the samples of one, in its order.
    arguments = {"epochs": epochs, "streams": 4}
    whole = keys_of(pipeline(drop, rank=0, world=1, **arguments).numpy())
    halves = [
        keys_of(pipeline(drop, rank=rank, world=2, batch_size=8, **arguments).numpy())
        for rank in (0, 1)
    ]
    assert [key for pair in zip(*halves, strict=True) for key in pair] == whole


def broken_off(loader: Any) -> tuple[dict[str, Any], list[str]]:
    """The state after five batches, and the keys of those behind them."""
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    return loader.state_dict(), [key for batch in batches for key in batch["keys"] if key]


def test_classes_are_balanced_within_each_set_of_a_mix(tmp_path: Path) -> None:
    mix = mr.Mix(two_sets(tmp_path), end="repeat")
    shuffle = mr.Shuffle(order="permutation", balance="classes")
    data = pipeline(mix, shuffle=shuffle, epochs=mr.Epochs(samples=400), streams=4)
    counts = [0] * 10
    with data.numpy() as loader:
        state, rest = broken_off(loader)
    assert len(rest) == 400 - 5 * 16
    with data.numpy() as again:
        for batch in again:
            for label in batch["label"][batch["valid"].astype(bool)]:
                counts[label] += 1
        again.load_state_dict(state)
        assert [key for batch in again for key in batch["keys"] if key] == rest
    # Of the first set each of ten classes, of the second those that its seven samples have.
    assert sum(counts) == 400 and min(counts) >= 30 - 4


def test_resampled_sets_of_a_mix_are_continued(tmp_path: Path) -> None:
    mix = mr.Mix(two_sets(tmp_path))
    data = pipeline(mix, epochs=mr.Epochs(samples=200, resampled=True), streams=4)
    with data.numpy() as loader:
        state, rest = broken_off(loader)
    assert len(rest) == 200 - 5 * 16
    with data.numpy() as again:
        again.load_state_dict(state)
        assert [key for batch in again for key in batch["keys"] if key] == rest
    with pytest.raises(mr.InvalidArgumentError, match="have no end"):
        keys_of(
            pipeline(
                mr.Mix(mix.parts, end="drop"), epochs=mr.Epochs(samples=200, resampled=True)
            ).numpy()
        )


def test_a_part_of_a_set_is_that_of_its_order(shards: str) -> None:
    every = keys_of(pipeline(shards, shuffle=None).numpy())
    part = pipeline(shards, shuffle=None, skip=50, take=70).numpy()
    assert len(part) == 5
    assert sorted(keys_of(part)) == sorted(every)[50:120]
    with pytest.raises(ValueError, match="at least one sample"):
        pipeline(shards, take=0)


def test_joined_shards_complete_the_samples(tmp_path: Path) -> None:
    import io
    import tarfile

    spec = make_shards(tmp_path, 60, 30)
    for number in range(2):
        with tarfile.open(tmp_path / f"set-{number:06d}.tar") as first:
            names = [name for name in first.getnames() if name.endswith(".cls")]
        with tarfile.open(tmp_path / f"more-{number:06d}.tar", "w") as second:
            for name in names:
                member = tarfile.TarInfo(name.replace(".cls", ".txt"))
                member.size = len(name)
                second.addfile(member, io.BytesIO(name.encode()))
    fields = {"label": mr.Label(), "caption": mr.Raw("txt", text=True)}
    data = pipeline(spec, fields=fields, join=str(tmp_path / "more-{000000..000001}.tar"))
    with data.numpy() as loader:
        for batch in loader:
            for key, caption in zip(batch["keys"], batch["caption"], strict=True):
                assert caption == (key and key + ".cls")


def test_the_ledger_lists_what_was_skipped(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 60, 30)
    with open(tmp_path / "set-000001.tar", "r+b") as shard:
        shard.truncate(20_100)
    with pipeline(spec, faults=mr.Faults("skip"), shuffle=None).numpy() as loader:
        assert loader.ledger().read == 0
        count = sum(int(batch["valid"].sum()) for batch in loader)
        ledger = loader.ledger()
    assert ledger.emitted == count and ledger.read == ledger.emitted + ledger.skipped
    (fault,) = ledger.entries
    assert (fault.code, fault.url) == ("Truncated", str(tmp_path / "set-000001.tar"))
    assert fault.offset is not None and fault.samples == ledger.skipped > 0
    # Of the rest of a shard nothing says how many samples it had: it counts as one.
    assert repr(ledger) == str(ledger) == (
        f"<Ledger: at least {ledger.read} read, {count} emitted, "
        "at least 1 sample (1 shard, number of samples unknown) skipped>"
    )
    with pipeline(spec, faults=mr.Faults("skip", max_faults=0)).numpy() as loader:
        with pytest.raises(mr.ExhaustedError):
            list(loader)


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 2**40},
        {"threads": -1},
        {"threads": 10**6},
        {"io_threads": 10**6},
        {"prefetch": 10**6},
        {"streams": 10**7},
        {"shuffle": mr.Shuffle(5, open_shards=10**6)},
        {"prefetch": -1},
        {"memory": 1},
        {"fields": {}},
        {"fields": {"x": mr.Floats()}},
        {"fields": {"x": mr.Array(shape=[2**40, 2**40])}},
        {"fields": {"image": mr.Image(mr.CenterCrop(8), channels=7)}},
        {"fields": {"image": mr.Image()}},
        {"epochs": mr.Epochs(resampled=True)},
        {"streams": 7, "world": 2, "rank": 0},
        {"rank": 2, "world": 2},
        {"shuffle": mr.Shuffle(-5)},
        {"skip": 10**6},
    ],
)
def test_options_that_cannot_work_are_refused(shards: str, arguments: dict[str, object]) -> None:
    with pytest.raises((ValueError, mr.ExhaustedError, mr.NotFoundError)) as caught:
        with pipeline(shards, **arguments).numpy() as loader:
            next(iter(loader))
    assert str(caught.value)


@pytest.mark.parametrize(
    "arguments",
    [
        {"batch_size": 1.5},
        {"batch_size": 2**70},
        {"memory": -1},
        {"fields": {"x": 3}},
        {"shuffle": 5},
        {"faults": "skip"},
        {"uneven": None},
        {"skip": -1},
    ],
)
def test_an_argument_of_another_type_is_named(arguments: dict[str, object]) -> None:
    (name,) = arguments
    with pytest.raises(TypeError, match=rf"Pipeline\({name}="):
        pipeline("x.tar", **arguments)


def test_a_shell_must_be_allowed(shards: str) -> None:
    pipe = f"pipe:cat {shards.replace('{000000..000006}', '000000')}"
    with pytest.raises(mr.InvalidArgumentError, match="allow_pipe=True"):
        next(iter(pipeline(pipe).numpy()))
    assert len(keys_of(pipeline(pipe, allow_pipe=True).numpy())) == 30


def test_ranks_of_the_environment_must_be_numbers(
    shards: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "one")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="RANK"):
        next(iter(pipeline(shards).numpy()))


TAR_TO_PARQUET = """
import sys, tarfile
import pyarrow as pa
import pyarrow.parquet as pq
samples = {}
for member in (tar := tarfile.open(sys.argv[1])):
    key, suffix = member.name.split(".", 1)
    samples.setdefault(key, {})[suffix] = tar.extractfile(member).read()
images = [{"bytes": sample["png"], "path": key + ".png"} for key, sample in samples.items()]
labels = [int(sample["cls"]) for sample in samples.values()]
pq.write_table(pa.table({"photo": images, "kind": labels, "junk": labels}), sys.argv[2], row_group_size=9)
"""


def test_parquet_gives_what_its_tar_gives(tmp_path: Path) -> None:
    python = os.environ.get("MILLRACE_ORACLE_PYTHON", "")
    if not python or subprocess.run([python, "-c", "import pyarrow"], check=False).returncode:
        pytest.skip("no Python with pyarrow (MILLRACE_ORACLE_PYTHON)")
    if "Apache Arrow" not in run_program("--version"):
        pytest.skip("a build without Apache Arrow")
    tar = make_shards(tmp_path, 40, 40)
    parquet = str(tmp_path / "set.parquet")
    shard = str(tmp_path / "set-000000.tar")
    subprocess.run([python, "-c", TAR_TO_PARQUET, shard, parquet], check=True)
    with pipeline(tar).numpy() as of_tar:
        wanted = list(of_tar)
    choice = parquet + "#image=photo&label=kind"
    loader = pipeline(choice).numpy()
    found = [next(iter(loader))]
    state = loader.state_dict()
    loader.close()
    with pipeline(choice).numpy() as rest:
        rest.load_state_dict(state)
        found += list(rest)
    assert len(found) == len(wanted) == 3
    for one, other in zip(found, wanted, strict=True):
        assert (one["image"] == other["image"]).all() and (one["label"] == other["label"]).all()
    numbers = [int(key) for key in wanted[0]["keys"]]
    assert found[0]["keys"] == [f"set/{number:08}" for number in numbers]
