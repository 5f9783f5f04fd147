"""Functions of samples in processes: the same values on any number, and nothing left behind."""

from __future__ import annotations

import hashlib
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import pipeline

import millrace as mr


def digest(sample: dict[str, Any]) -> Any:
    """Of the sample's key and bytes, and two random numbers."""
    made = hashlib.sha256(sample["__key__"].encode() + sample["png"] + sample["cls"]).digest()
    random = np.random.default_rng(sample["__seed__"]).integers(0, 256, 2)
    return np.concatenate([np.frombuffer(made, np.uint8), random.astype(np.uint8)])


def own_class(sample: dict[str, Any]) -> int:
    return int(sample["cls"])


def suffixes(sample: dict[str, Any]) -> int:
    return len(",".join(name for name in sorted(sample) if not name.startswith("__")))


def fails_at(sample: dict[str, Any], key: str) -> int:
    if sample["__key__"] == key:
        raise ValueError("no such mel")
    return 1


class SilentError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


def fails_oddly(sample: dict[str, Any]) -> int:
    if sample["__key__"].endswith("2"):
        raise SilentError
    if sample["__key__"].endswith("3"):
        raise ValueError("€" * 100_000)
    return 1


def dies_at(sample: dict[str, Any], key: str) -> int:
    if sample["__key__"] == key:
        os.kill(os.getpid(), signal.SIGKILL)
    return 1


def sleeps_at(sample: dict[str, Any], key: str) -> int:
    if sample["__key__"] == key:
        time.sleep(3600)
    return 1


def pid_of(sample: dict[str, Any]) -> int:
    return os.getpid()


def slow(sample: dict[str, Any]) -> int:
    time.sleep(0.005)
    return 1


def wrong_shape(sample: dict[str, Any]) -> Any:
    return np.zeros(3)


def wrong_type(sample: dict[str, Any]) -> Any:
    return 0.5


def with_function(function: mr.Function, spec: str, **more: Any) -> mr.Pipeline:
    fields = {"label": mr.Label(), "made": function}
    return pipeline(spec, fields=fields, **{"processes": 1, **more})


def processes_of(parent: int) -> list[int]:
    """Processes of functions that it started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            words = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == parent and fields[0] != "Z" and b"multiprocessing-fork" in words:
            found.append(int(status.parent.name))
    return found


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def awaited(condition: Any) -> bool:
    """Whether it came true, however slow the machine is."""
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(autouse=True)
def leaves_no_process() -> Iterator[None]:
    yield
    assert processes_of(os.getpid()) == []


def epochs(loader: mr.Loader[Any], count: int) -> list[Any]:
    return [
        (batch["keys"], batch["valid"].tolist(), batch["made"].tolist())
        for _ in range(count)
        for batch in loader
    ]


def test_values_are_the_same_on_any_number_of_processes(shards: str) -> None:
    function = mr.Function(digest, (34,), "uint8")
    with with_function(function, shards, processes=1).numpy() as loader:
        one = epochs(loader, 2)
    with with_function(function, shards, processes=2, threads=3).numpy() as loader:
        assert epochs(loader, 2) == one
    first, second = (
        {key: made for batch in half for key, valid, made in zip(*batch, strict=True) if valid}
        for half in (one[:13], one[13:])
    )
    assert len(first) == len(second) == 200
    assert all(first[key][:32] == second[key][:32] for key in first)
    assert any(first[key][32:] != second[key][32:] for key in first), "another seed each epoch"


def test_goes_on_where_it_stopped(shards: str) -> None:
    data = with_function(mr.Function(digest, (34,), "uint8"), shards)
    with data.numpy() as loader:
        whole = epochs(loader, 1)
    with data.numpy() as loader:
        batches = iter(loader)
        for _ in range(5):
            next(batches)
        state = loader.state_dict()
    with data.numpy() as loader:
        loader.load_state_dict(state)
        assert epochs(loader, 1) == whole[5:]


def test_a_scalar_takes_the_members_it_asks_for(shards: str) -> None:
    fields = {
        "label": mr.Label(),
        "own": mr.Function(own_class, dtype="int64", members="cls"),
        "has": mr.Function(suffixes, dtype="int64", members=("jpg;png", "cls")),
    }
    with pipeline(shards, fields=fields, processes=1).torch() as loader:
        for batch in loader:
            assert batch["own"][batch["valid"]].tolist() == batch["label"][batch["valid"]].tolist()
            assert set(batch["has"].tolist()) == {len("cls,png")}
        stages = {stage.name: stage for stage in loader.statistics().stages}
        assert stages["functions"].items >= 400  # of the next epoch, too
        assert stages["functions"].threads == 1
    absent = with_function(mr.Function(own_class, members="wav"), shards)
    with absent.numpy() as loader, pytest.raises(mr.NotFoundError, match="members wav of field"):
        list(loader)


def test_what_a_function_raises_names_it_and_the_sample(shards: str) -> None:
    failing = mr.Function(partial(fails_at, key="00000007"))
    with with_function(failing, shards).numpy() as loader:
        with pytest.raises(mr.CorruptError) as raised:
            list(loader)
    error = raised.value
    assert error.key == "00000007"
    assert error.url is not None and error.url.endswith("set-000000.tar")
    assert "function made (test_functions.fails_at): ValueError: no such mel" in str(error)
    assert "(test_functions.py:" in str(error)
    assert 'raise ValueError("no such mel")' in str(error.__cause__)


def test_what_is_raised_may_have_any_text(shards: str) -> None:
    data = with_function(mr.Function(fails_oddly), shards, faults=mr.Faults("skip"))
    with data.numpy() as loader:
        assert sum(batch["made"][batch["valid"]].sum() for batch in loader) == 160
        assert loader.ledger().skipped == 40
    with with_function(mr.Function(fails_oddly), shards).numpy() as loader:
        with pytest.raises(mr.CorruptError, match="(ValueError: €€|SilentError, whose own text)"):
            list(loader)


def test_a_fault_of_a_function_may_be_skipped(shards: str) -> None:
    failing = mr.Function(partial(fails_at, key="00000007"))
    data = with_function(failing, shards, faults=mr.Faults("skip"))
    with data.numpy() as loader:
        kept = sum(int(batch["valid"].sum()) for batch in loader)
        ledger = loader.ledger()
    assert kept == 199
    assert [fault.key for fault in ledger.entries] == ["00000007"]


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (wrong_shape, r"ValueError: returned an array of shape \(3,\), not \(\)"),
        (wrong_type, "TypeError: returned an array of float64, not int64"),
    ],
)
def test_another_array_is_refused(shards: str, function: Any, problem: str) -> None:
    data = with_function(mr.Function(function, dtype="int64"), shards)
    with data.numpy() as loader, pytest.raises(mr.CorruptError, match=problem):
        list(loader)


def too_large(sample: dict[str, Any]) -> Any:
    return np.uint32(300 if sample["__key__"] == "00000007" else 5)


def out_of_range(sample: dict[str, Any]) -> Any:
    return np.float64(1e300)


@pytest.mark.parametrize(
    ("function", "dtype", "problem"),
    [
        (too_large, "uint8", "OverflowError: returned 300, which uint8 cannot hold"),
        (out_of_range, "float32", "OverflowError: returned 1e.300, which float32 cannot hold"),
    ],
)
def test_numbers_that_the_type_cannot_hold_are_refused(
    shards: str, function: Any, dtype: Any, problem: str
) -> None:
    data = with_function(mr.Function(function, dtype=dtype), shards)
    with data.numpy() as loader, pytest.raises(mr.CorruptError, match=problem):
        list(loader)


def test_a_process_that_dies_ends_the_loop_whatever_the_policy(shards: str) -> None:
    dying = mr.Function(partial(dies_at, key="00000150"))
    data = with_function(dying, shards, faults=mr.Faults("skip"))
    with data.numpy() as loader:
        problem = r"function made \(test_functions.dies_at\): its process ended by signal 9"
        with pytest.raises(mr.IoError, match=problem) as raised:
            list(loader)
        assert raised.value.key == "00000150"
        with pytest.raises(mr.IoError, match=problem):
            list(loader)  # by new processes


def test_a_function_that_hangs_is_said_and_ends_the_loop(
    shards: str, caplog: pytest.LogCaptureFixture
) -> None:
    hanging = mr.Function(partial(sleeps_at, key="00000031"))
    data = with_function(hanging, shards, function_timeout=2.2)
    with caplog.at_level(logging.WARNING, "millrace"), data.numpy() as loader:
        with pytest.raises(mr.IoError, match=r"has not returned within 2.2 s") as raised:
            list(loader)
    assert raised.value.key == "00000031"
    assert "has run for 2 s" in caplog.text and "sample 00000031" in caplog.text


def test_processes_stay_from_loop_to_loop_and_end_with_the_loader(shards: str) -> None:
    data = with_function(mr.Function(pid_of, dtype="int64"), shards)
    loader = data.numpy()
    assert processes_of(os.getpid()) == []
    first, second = ({int(pid) for b in loader for pid in b["made"]} for _ in range(2))
    assert first == second == set(processes_of(os.getpid()))
    loader.close()
    assert processes_of(os.getpid()) == []
    next(iter(loader))
    assert len(processes_of(os.getpid())) == 1
    del loader
    assert awaited(lambda: processes_of(os.getpid()) == [])


def test_the_stall_report_names_functions_that_limit(shards: str) -> None:
    with with_function(mr.Function(slow), shards).numpy() as loader:
        list(loader)
        statistics = loader.statistics()
    assert statistics.verdict.stage == "functions"
    decode = next(stage for stage in statistics.stages if stage.name == "decode")
    assert decode.utilisation < 0.5, "waiting for a process is no work of decoding"


def test_what_cannot_run_in_a_process_is_refused(shards: str) -> None:
    with pytest.raises(mr.InvalidArgumentError, match="does not pickle"):
        mr.Function(lambda sample: 1)
    with pytest.raises(TypeError, match="not a function"):
        mr.Function(3)  # type: ignore[arg-type]
    with pytest.raises(mr.InvalidArgumentError, match="sides"):
        mr.Function(own_class, (0,))
    with pytest.raises(ValueError, match="dtype"):
        with_function(mr.Function(own_class, dtype="float65"), shards)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="processes=0"):
        with_function(mr.Function(own_class), shards, processes=0)
    with pytest.raises(ValueError, match="function_timeout"):
        with_function(mr.Function(own_class), shards, function_timeout=0)


SCRIPT = """
import sys, time
import millrace as mr

def slow(sample):
    time.sleep(float(sys.argv[2]))
    return 1

def main():
    data = mr.Pipeline(sys.argv[1], fields={"made": mr.Function(slow)}, batch_size=1, processes=2)
    for batch in data.numpy():
        print("batch", flush=True)

if __name__ == "__main__":
    main()
"""


def started(folder: Path, shards: str, seconds: str) -> subprocess.Popen[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    run = subprocess.Popen(
        [sys.executable, str(script), shards, seconds],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return run


def test_nothing_is_left_of_a_loader_that_is_killed(shards: str, tmp_path: Path) -> None:
    run = started(tmp_path, shards, "3600")
    assert awaited(lambda: len(processes_of(run.pid)) == 2)
    workers = processes_of(run.pid)
    run.kill()
    run.communicate()
    assert awaited(lambda: not any(map(is_running, workers)))


def test_an_interrupt_is_the_loops(shards: str, tmp_path: Path) -> None:
    run = started(tmp_path, shards, "0.05")
    assert run.stdout is not None
    assert run.stdout.readline() == "batch\n"
    workers = processes_of(run.pid)
    assert len(workers) == 2
    os.killpg(run.pid, signal.SIGINT)  # as Ctrl-C in a terminal
    _, err = run.communicate(timeout=120)
    assert err.count("Traceback") == 1 and "KeyboardInterrupt" in err
    assert awaited(lambda: not any(map(is_running, workers)))


def test_a_script_without_a_guard_says_so(shards: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace('if __name__ == "__main__":\n    main()', "main()"))
    run = subprocess.run([sys.executable, str(script), shards, "0"], capture_output=True, text=True)
    assert run.returncode != 0
    assert 'starts loaders below if __name__ == "__main__":' in run.stderr
