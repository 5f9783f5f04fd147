"""The loader as a guest in a Python process: threads, signals, forks, logs, errors."""

from __future__ import annotations

import contextlib
import gc
import gzip
import http.server
import importlib.util
import itertools
import json
import logging
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as mr
from conftest import make_shards, pipeline, run_program, run_python
from millrace import _metrics


def entries(folder: str) -> int:
    return len(os.listdir(folder))


def test_imports_no_array_library() -> None:
    run_python("import sys, millrace\nassert not {'torch', 'jax', 'numpy'} & set(sys.modules)")


def test_starts_nothing_before_the_first_batch(shards: str) -> None:
    with pipeline(shards).numpy() as warm:
        next(iter(warm))
    threads = entries("/proc/self/task")
    loader = pipeline("/nowhere/{000..999}.tar").numpy()
    assert loader.epoch == 0 and loader.state_dict()["streams"] == 0
    passing = iter(loader)
    assert entries("/proc/self/task") == threads
    with pytest.raises(FileNotFoundError):
        next(passing)


def test_a_stop_iteration_of_a_transform_is_no_end(shards: str) -> None:
    def transform(batch: Any) -> Any:
        return next(iter([]))

    with pipeline(shards).numpy(transform) as loader, pytest.raises(RuntimeError, match="StopIteration"):
        next(iter(loader))


def test_none_is_no_transform() -> None:
    with pytest.raises(TypeError):
        mr.Image(None)  # type: ignore[arg-type]


def test_a_cache_of_decoded_pictures_changes_no_batch(shards: str, tmp_path: Path) -> None:
    def passes(**arguments: Any) -> tuple[list[Any], mr.Statistics]:
        with pipeline(shards, **arguments).numpy() as loader:
            images = [np.array(batch["image"]) for _ in range(3) for batch in loader]
            return images, loader.statistics()

    expected, plain = passes()
    assert plain.pictures.found == 0 and plain.pictures.set_bytes > 200 * 16 * 16 * 3
    for where in ({}, {"cache_decoded_in": tmp_path}):
        images, statistics = passes(cache_decoded="10MB", **where)
        assert all(np.array_equal(a, b) for a, b in zip(images, expected, strict=True))
        # Threads may decode one of two epochs at the same time, before it is kept: so one thread counts.
        _, statistics = passes(cache_decoded="10MB", threads=1, **where)
        assert statistics.pictures.kept == 200 and statistics.pictures.found >= 2 * 200
        assert "200 kept" in statistics.about_pictures
    assert not list(tmp_path.iterdir())
    for wrong in ({"cache_decoded": 0}, {"cache_decoded_in": tmp_path}):
        with pytest.raises(mr.InvalidArgumentError):
            pipeline(shards, **wrong)


def test_leaves_neither_threads_nor_descriptors(shards: str) -> None:
    def use(batches: int) -> None:
        loader = pipeline(shards).numpy()
        for _ in itertools.islice(loader, batches):
            pass
        if batches % 2:
            loader.close()

    use(1)
    before = entries("/proc/self/task"), entries("/proc/self/fd")
    for batches in range(8):
        use(batches)
    gc.collect()
    assert (entries("/proc/self/task"), entries("/proc/self/fd")) == before


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_flat_over_a_thousand_batches(shards: str) -> None:
    torch = pytest.importorskip("torch")
    image = mr.Image(mr.Resize((64, 64)))
    data = pipeline(shards, fields={"image": image}, epochs=mr.Epochs(batches=1200))
    with data.torch() as loader:
        passing = iter(loader)
        for batch in itertools.islice(passing, 200):
            assert torch.is_tensor(batch["image"])
        first = resident_bytes()
        for _ in itertools.islice(passing, 1000):
            pass
        grown = resident_bytes() - first
    batch_bytes = batch["image"].numel() * 4
    assert grown < 20 * batch_bytes, f"a thousand batches are {1000 * batch_bytes} bytes"


@pytest.mark.parametrize("kind", ["dlpack", "numpy", "torch", "jax"])
def test_a_program_ends_quietly_in_mid_epoch(shards: str, kind: str) -> None:
    """With a batch, a loader and options in its variables, and no warning of a leak."""
    if kind != "dlpack" and importlib.util.find_spec(kind) is None:
        pytest.skip(f"no {kind}")
    script = """
import sys, millrace as mr
fields = {"label": mr.Label(), "image": mr.Image(mr.RandomCrop(8))}
data = mr.Pipeline(sys.argv[1], fields=fields, batch_size=4)
loader = getattr(data, sys.argv[2])()
kept = next(iter(loader))
"""
    assert run_python(script, shards, kind).stderr == ""


class SlowServer(http.server.SimpleHTTPRequestHandler):
    """Serves a folder, but makes shards wait until `go` is set."""

    go = threading.Event()
    asked = threading.Event()

    def do_GET(self) -> None:
        type(self).asked.set()
        type(self).go.wait(60)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


class QuietServer(http.server.ThreadingHTTPServer):
    """A reader that leaves in the middle of an answer is no matter for a traceback."""

    def handle_error(self, *_: object) -> None:
        pass


@contextlib.contextmanager
def served(folder: str) -> Iterator[str]:
    """Its url, where shards come as soon as SlowServer.go is set."""
    SlowServer.go.clear()
    SlowServer.asked.clear()
    server = QuietServer(("127.0.0.1", 0), lambda *given: SlowServer(*given, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    SlowServer.go.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture()
def slow_url(shards: str) -> Iterator[str]:
    with served(os.path.dirname(shards)) as url:
        yield f"{url}/set-000000.tar"


def test_other_threads_run_while_it_waits(slow_url: str) -> None:
    # The server that it waits for is a thread of this process.
    loader = pipeline(slow_url).numpy()
    batches: list[Any] = []
    reader = threading.Thread(target=lambda: batches.extend(loader))
    reader.start()
    assert SlowServer.asked.wait(60)
    with pytest.raises(RuntimeError, match="another thread"):
        next(iter(loader))
    SlowServer.go.set()
    reader.join()
    assert len(batches) == 2
    loader.close()


def test_another_thread_may_close_it_while_it_waits(slow_url: str) -> None:
    loader = pipeline(slow_url).numpy()
    said: list[str] = []

    def read() -> None:
        try:
            next(iter(loader))
        except RuntimeError as error:
            said.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    assert SlowServer.asked.wait(60)
    loader.close()
    reader.join()
    assert len(said) == 1 and "the loader was closed" in said[0]
    SlowServer.go.set()
    assert len(list(loader)) == 2, "it begins again"
    loader.close()


def test_a_program_ends_while_a_thread_waits_for_a_batch(slow_url: str) -> None:
    script = """
import sys, threading, millrace as mr
loader = mr.Pipeline(sys.argv[1], fields={"label": mr.Label()}, batch_size=4).numpy()
threading.Thread(target=lambda: next(iter(loader)), daemon=True).start()
sys.stdin.readline()
"""
    program = subprocess.Popen([sys.executable, "-c", script, slow_url], stdin=subprocess.PIPE)
    assert SlowServer.asked.wait(60)
    program.communicate(b"\n", timeout=120)
    assert program.returncode == 0


def test_other_threads_may_ask_where_it_stands(shards: str) -> None:
    """Also in a Python without a GIL, and while its threads start and end."""
    with pipeline(shards, threads=1, shuffle=None).dlpack() as loader:
        done = threading.Event()
        asked = [0, 0, 0]

        def ask(number: int) -> None:
            while not done.is_set():
                assert loader.epoch == 0 and loader.statistics().batches < 2
                assert loader.state_dict()["version"] == 1
                asked[number] += 1

        askers = [threading.Thread(target=ask, args=[number]) for number in range(3)]
        for asker in askers:
            asker.start()
        for _ in range(50):
            next(iter(loader))
            loader.close()
        done.set()
        for asker in askers:
            asker.join()
        assert min(asked) > 0


@pytest.mark.parametrize("scan", [False, True])
def test_is_interrupted_within_a_second(slow_url: str, scan: bool) -> None:
    script = """
import os, signal, sys, threading, time, millrace as mr
data = mr.Pipeline(sys.argv[1], fields={"label": mr.Label()}, batch_size=4,
                   scan=sys.argv[2] == "True", indexed=False)
loader = data.dlpack()
passing = iter(loader)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
began = time.monotonic()
try:
    next(passing)
except KeyboardInterrupt:
    print("after", time.monotonic() - began - 0.5)
began = time.monotonic()
loader.close()
print("closed", time.monotonic() - began)
"""
    out = run_python(script, slow_url, str(scan)).stdout
    after, closed = (float(line.split()[1]) for line in out.splitlines())
    assert after < 10 and closed < 10, "the server would take 60 s; it is 0.1 s on an idle machine"


def test_goes_on_after_an_interrupt(slow_url: str) -> None:
    script = """
import os, signal, sys, threading, urllib.request, millrace as mr
data = mr.Pipeline(sys.argv[1], fields={"label": mr.Label()}, batch_size=4, scan=False)
loader = data.dlpack()
passing = iter(loader)
threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    next(passing)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    print(len(list(passing)))
"""
    program = subprocess.Popen(
        [sys.executable, "-c", script, slow_url], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    said = program.stdout.readline()
    SlowServer.go.set()
    assert (said, program.communicate(timeout=120)[0]) == ("interrupted\n", "8\n")


def test_a_forked_child_is_refused_and_ends(shards: str) -> None:
    script = """
import os, sys, millrace as mr
data = mr.Pipeline(sys.argv[1], fields={"label": mr.Label()}, batch_size=4)
loader = data.dlpack()
passing = iter(loader)
kept = next(passing)
child = os.fork()
if child == 0:
    for use in (lambda: next(passing), lambda: next(iter(data.dlpack()))):
        try:
            use()
        except RuntimeError as error:
            assert "spawn" in str(error), error
        else:
            os._exit(3)
    loader.close()
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(list(passing)))
"""
    assert run_python(script, shards).stdout.split() == ["0", "49"]


def test_a_process_that_forks_first_can_use_it_in_the_child(shards: str) -> None:
    script = """
import os, sys, millrace as mr
loader = mr.Pipeline(sys.argv[1], fields={"label": mr.Label()}, batch_size=4).dlpack()
child = os.fork()
if child == 0:
    sys.exit(len(list(loader)))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert run_python(script, shards).stdout.split() == ["50"]


def rest_of(loader: mr.Loader) -> list[list[str]]:
    with loader:
        return [batch["keys"] for batch in loader]


def test_a_spawned_process_goes_on_where_it_stands(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        passing = iter(loader)
        next(passing)
        sent = pickle.loads(pickle.dumps(loader))
        rest = [batch["keys"] for batch in passing]
        assert rest_of(sent) == rest
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            again = pipeline(shards).numpy()
            assert pool.apply(rest_of, (again,))[1:] == rest


def test_lines_go_to_logging(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    spec = make_shards(tmp_path, 60, 30)
    with open(tmp_path / "set-000001.tar", "r+b") as shard:
        shard.truncate(20_000)
    with caplog.at_level(logging.INFO, "millrace"):
        with pipeline(spec, faults=mr.Faults("skip")).numpy() as loader:
            for _ in loader:
                pass
            assert loader.statistics().skipped > 0
    assert {record.name for record in caplog.records} == {"millrace"}
    assert any("set-000001.tar" in record.getMessage() for record in caplog.records)


def test_a_loop_that_never_ends_its_epoch_is_warned(
    shards: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pipeline(shards).numpy() as loader, caplog.at_level(logging.WARNING, "millrace"):
        for said in (0, 0, 1, 1):
            for _, _ in zip(range(4), loader, strict=False):
                pass
            assert len(caplog.records) == said
    assert "set_epoch(1)" in caplog.records[0].getMessage()


def test_errors_say_where_and_derive_from_what_people_catch(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 60, 30)
    with open(tmp_path / "set-000001.tar", "r+b") as shard:
        shard.truncate(20_100)
    with pipeline(spec, shuffle=None).numpy() as loader:
        with pytest.raises(mr.TruncatedError) as caught:
            list(loader)
    error = caught.value
    assert isinstance(error, ValueError) and isinstance(error, mr.Error)
    assert error.code == "Truncated" and error.url == str(tmp_path / "set-000001.tar")
    assert error.offset is not None and error.message in str(error)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.url, copy.offset) == (str(error), error.url, error.offset)
    assert issubclass(mr.IoError, OSError) and issubclass(mr.NotFoundError, FileNotFoundError)
    assert issubclass(mr.PermissionDeniedError, PermissionError)
    assert issubclass(mr.NotFiniteError, ArithmeticError)


def test_a_later_loop_tries_again_after_an_error(tmp_path: Path) -> None:
    loader = pipeline(str(tmp_path / "set-{000000..000001}.tar"), batch_size=4).numpy()
    with pytest.raises(FileNotFoundError):
        next(iter(loader))
    make_shards(tmp_path, 60, 30)
    assert len(list(loader)) == 15
    loader.close()


def test_statistics_say_what_limits(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        assert loader.statistics().verdict.bound == "unknown"
        for _ in loader:
            pass
        statistics = loader.statistics()
    assert (statistics.batches, statistics.samples, statistics.masked) == (13, 200, 8)
    assert [stage.name for stage in statistics.stages] == ["read", "merge", "decode", "deliver"]
    assert re.fullmatch(r"(input|consumer)-bound.*", str(statistics.verdict))
    assert "<td>decode</td>" in statistics._repr_html_()
    assert statistics.since(statistics).batches == 0


def families(loader: mr.Loader[Any], name: str) -> dict[str, Any]:
    """The page's, as Prometheus' own client reads it."""
    parser = pytest.importorskip("prometheus_client.parser")
    found = list(parser.text_string_to_metric_families(loader.metrics(name)))
    assert all(family.documentation and family.type in ("counter", "gauge") for family in found)
    return {family.name: family for family in found}


def test_metrics_are_a_page_for_prometheus(tmp_path: Path) -> None:
    make_shards(tmp_path, 60, 30)
    with (tmp_path / "set-000001.tar").open("r+b") as shard:
        shard.truncate(20_100)
    faults = mr.Faults("skip")
    spec = str(tmp_path / "set-{000000..000001}.tar")
    with pipeline(spec, batch_size=4, shuffle=None, faults=faults).numpy() as loader:
        name = 'a "set" \\\n'
        assert families(loader, name)["millrace_input_batches"].samples[0].value == 0
        batches = len(list(loader))
        found = families(loader, name)
        statistics, ledger = loader.statistics(), loader.ledger()
    assert all(one.labels["set"] == name for family in found.values() for one in family.samples)
    assert found["millrace_input_batches"].samples[0].value == batches
    assert found["millrace_samples"].samples[0].value == statistics.samples == ledger.emitted
    assert found["millrace_samples_per_second"].samples[0].value > 0
    stages = {one.labels["stage"]: one.value for one in found["millrace_input_bytes"].samples}
    later = {stage.name: stage.bytes for stage in statistics.stages}  # it reads ahead
    assert stages.keys() == later.keys() and all(stages[one] <= later[one] for one in stages)
    assert stages["read"] > 0 and stages["deliver"] > 0
    [fault] = found["millrace_epoch_faults"].samples
    assert (fault.labels["fault"], fault.value) == ("Truncated", ledger.skipped)


def test_metrics_are_of_the_last_batchs_epoch(tmp_path: Path) -> None:
    make_shards(tmp_path, 8, 8)

    def epoch() -> float:
        return float(families(loader, "train")["millrace_epoch"].samples[0].value)

    with pipeline(str(tmp_path / "set-000000.tar"), batch_size=4).numpy() as loader:
        assert epoch() == 1
        list(loader)
        assert (epoch(), loader.epoch) == (1, 1), "the faults of the page are the first one's, too"
        next(iter(loader))
        assert epoch() == 2
        loader.set_epoch(7)
        assert epoch() == 2
        next(iter(loader))
        assert epoch() == 8


def test_metrics_have_the_names_of_a_run() -> None:
    source = Path(__file__).parents[2] / "trainer" / "prometheus_metrics.cc"
    if not source.exists():
        pytest.skip("the program's own list is not beside the tests")
    call = re.compile(r'page\.(gauge|counter)\(\s*"(\w+)",\s*"([^"]*)"\)')
    of_run = {name: (kind, meaning) for kind, name, meaning in call.findall(source.read_text())}
    of_loader = {
        name: (kind, meaning)
        for name, (kind, meaning, _) in {**_metrics._INPUT, **_metrics._STAGES}.items()
    }
    shared = {name for name in of_run if name.startswith("millrace_input_")}
    shared -= {"millrace_input_landed_samples"}  # of a queue to devices, which a loader has not
    assert shared <= of_loader.keys() <= of_run.keys()
    assert {name: of_run[name][0] for name in of_loader} == {
        name: kind for name, (kind, _) in of_loader.items()
    }
    counted = of_loader.keys() - {"millrace_samples_total", "millrace_samples_per_second"}
    assert {name: of_run[name] for name in counted} == {name: of_loader[name] for name in counted}


def count_labels(batch: dict[str, Any]) -> tuple[list[str], Any]:
    return batch["keys"], np.bincount(batch["label"][batch["valid"]], minlength=10)


def test_a_function_of_batches_changes_neither_order_nor_state(shards: str) -> None:
    with pipeline(shards).numpy() as plain, pipeline(shards).numpy(count_labels) as counted:
        for batch, (keys, counts) in zip(plain, counted, strict=True):
            assert keys == batch["keys"] and counts.sum() == batch["valid"].sum()
            assert counted.state_dict() == plain.state_dict()
        sent = pickle.loads(pickle.dumps(counted))
        assert sent.epoch == 1
        keys, _ = next(iter(sent))
        assert keys == next(iter(plain))["keys"]
        sent.close()


def test_a_loader_that_a_function_of_batches_closes_hands_no_batch_out_twice(shards: str) -> None:
    keys = [batch["keys"] for batch in pipeline(shards).numpy()]
    calls = 0

    def transform(batch: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (2, len(keys)):
            loader.close()
        return batch["keys"]

    loader = pipeline(shards).numpy(transform)
    assert list(loader) == keys
    assert loader.epoch == 1
    assert loader.ledger().emitted > 0, "of what was read before it was closed"
    loader.close()


def test_a_pipeline_is_what_its_arguments_were_when_it_was_made(shards: str) -> None:
    fields: dict[Any, Any] = {"label": mr.Label()}
    specs = [shards]
    made = mr.Pipeline(specs, fields=fields, batch_size=4)
    said = repr(made)
    fields["label"] = mr.Label(classes=3)
    specs.append("/nowhere/x.tar")
    assert repr(made) == said
    assert repr(pickle.loads(pickle.dumps(made))) == said


@pytest.mark.parametrize("ranks", [{}, {"rank": 0, "world": 2}])
def test_a_state_behind_filled_batches_ends_where_the_loop_did(
    tmp_path: Path, ranks: dict[str, int]
) -> None:
    with mr.ShardWriter(tmp_path / "s-%d.tar", max_samples=26) as writer:
        for i in range(103):
            writer.write({"__key__": f"{i:03d}", "cls": b"no number" if i % 7 == 3 else b"1"})
    made = mr.Pipeline(
        tmp_path / "s-{0..3}.tar",
        fields={"label": mr.Label()},
        batch_size=2,
        faults=mr.Faults("skip"),
        fill=True,
        uneven="drop",
        streams=4,
        **ranks,
    )
    with made.numpy() as loader:
        states, batches = [], []
        for batch in loader:
            states.append(loader.state_dict())
            batches.append(batch["keys"])
    for number, state in enumerate(states[:-1]):
        with made.numpy() as loader:
            loader.load_state_dict(state)
            assert [batch["keys"] for batch in loader] == batches[number + 1 :]


def test_a_function_that_fails_costs_its_batch_alone(shards: str) -> None:
    def third_fails(batch: dict[str, Any]) -> list[str]:
        calls.append(batch["keys"])
        if len(calls) == 3:
            raise ZeroDivisionError
        return calls[-1]

    calls: list[list[str]] = []
    with pipeline(shards).dlpack(third_fails) as loader, pipeline(shards).dlpack() as plain:
        passing = iter(loader)
        taken = [next(passing), next(passing)]
        with pytest.raises(ZeroDivisionError):
            next(passing)
        taken += passing
        every = [batch["keys"] for batch in plain]
    assert calls == every
    assert taken == every[:2] + every[3:]


def test_a_state_has_no_batch_that_never_reached_the_loop(shards: str) -> None:
    def fails(batch: dict[str, Any]) -> list[str]:
        keys: list[str] = batch["keys"]
        if keys == every[3] and errors:
            raise errors.pop()
        return keys

    with pipeline(shards).dlpack() as plain:
        every = [batch["keys"] for batch in plain]
    for error, next_one in ((ZeroDivisionError(), 4), (KeyboardInterrupt(), 3)):
        errors: list[BaseException] = [error]
        with pipeline(shards).dlpack(fails) as loader, pipeline(shards).dlpack() as resumed:
            passing = iter(loader)
            taken = [next(passing) for _ in range(3)]
            with pytest.raises(type(error)):
                next(passing)
            resumed.load_state_dict(loader.state_dict())
            assert taken + [batch["keys"] for batch in resumed] == every
            assert next(passing) == every[next_one]


def test_signals_lose_no_batch(shards: str) -> None:
    script = """
import os, random, signal, sys, threading, time, millrace as mr
fields = {"image": mr.Image(mr.RandomResizedCrop(160), mr.AugMix())}
data = mr.Pipeline(sys.argv[1], fields=fields, batch_size=4, threads=1, prefetch=1)
loader = data.numpy()
whole = [batch["keys"] for batch in data.numpy()]
done = threading.Event()
def interrupt():
    while not done.wait(random.uniform(0.005, 0.05)):
        os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt, daemon=True).start()
taken = []
interrupts = 0
passing = iter(loader)
while len(taken) < len(whole):
    try:
        batch = next(passing)
        taken.append(batch["keys"])
    except KeyboardInterrupt:
        interrupts += 1
done.set()
print(interrupts > 5, taken == whole)
"""
    assert run_python(script, shards).stdout == "True True\n"


def test_buffers_are_used_again_when_their_last_view_is_gone(shards: str) -> None:
    data = pipeline(shards, epochs=mr.Epochs(batches=120), prefetch=1, autotune=False)
    with data.numpy() as loader:
        passing = iter(loader)
        places = {batch["image"].ctypes.data for batch in itertools.islice(passing, 40)}
        assert len(places) < 20
        label = next(passing)["label"][3:5]  # a view of a view keeps the whole batch
        values = label.copy()
        others = [batch["label"].ctypes.data for batch in itertools.islice(passing, 40)]
    assert label.base is not None and (label == values).all()
    assert all(abs(other - label.ctypes.data) >= label.nbytes for other in others)


def test_is_no_dataloader_but_makes_a_dataset(shards: str) -> None:
    data = pytest.importorskip("torch.utils.data")
    loader = pipeline(shards).torch()
    assert not isinstance(loader, data.DataLoader) and not hasattr(loader, "dataset")
    with pytest.raises(AttributeError, match=r"no attribute 'dataset': loader.accelerate\(\) is"):
        loader.dataset  # type: ignore[attr-defined]
    dataset = loader.iterable_dataset()
    assert isinstance(dataset, data.IterableDataset) and len(dataset) == 13
    batches = list(data.DataLoader(dataset, batch_size=None))
    assert [list(batch["image"].shape) for batch in batches] == 13 * [[16, 16, 16, 3]]
    loader.close()
    with pytest.raises(RuntimeError, match="num_workers=0"):
        next(
            iter(
                data.DataLoader(
                    dataset, batch_size=None, num_workers=1, multiprocessing_context="spawn"
                )
            )
        )


def test_rank_comes_from_the_environment(shards: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    keys: list[str] = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        with pipeline(shards).numpy() as loader:
            assert len(loader) == 7
            batches = list(loader)
        assert len(batches) == 7
        keys += [key for batch in batches for key in batch["keys"] if key]
    assert len(keys) == len(set(keys)) == 200
    with pipeline(shards, scan=False, rank=0, world=2).numpy() as loader:
        with pytest.raises(mr.InvalidArgumentError, match="ranks' epochs may differ"):
            next(iter(loader))


def test_ranks_states_continue_on_another_number_of_ranks(shards: str) -> None:
    def ranks(world: int) -> list[mr.Loader]:
        return [
            pipeline(shards, rank=r, world=world, streams=4, batch_size=16 // world).numpy()
            for r in range(world)
        ]

    def steps(loaders: list[mr.Loader]) -> list[set[str]]:
        together = zip(*loaders, strict=True)
        return [{key for batch in step for key in batch["keys"]} for step in together]

    whole = steps(ranks(1))
    two = ranks(2)
    passing = [iter(loader) for loader in two]
    for _ in range(3):
        for one in passing:
            next(one)
    states = [loader.state_dict() for loader in two]
    for world in (1, 2, 4):
        loaders = ranks(world)
        for loader in loaders:
            loader.load_state_dict(states)
        assert steps(loaders) == whole[3:], f"{world} ranks"


def test_the_end_of_an_epoch_is_no_part_of_the_next_one_on_other_ranks(shards: str) -> None:
    # One rank leaves 8 samples of its 13th batch; two that drop them have the same 6 steps.
    usual: dict[str, Any] = {"streams": 4, "uneven": "drop"}
    with pipeline(shards, **usual).numpy() as loader:
        for _ in zip(range(12), loader, strict=False):
            pass
        state = loader.state_dict()
    for rank in range(2):
        with pipeline(shards, rank=rank, world=2, **usual).numpy() as loader:
            loader.load_state_dict([state])
            seen = [(epoch, loader.epoch, len(list(loader))) for epoch in range(loader.epoch, 2)]
            assert seen in ([(1, 1, 6)], [(0, 0, 0), (1, 1, 6)]), "never an epoch under another's number"
            assert loader.epoch == 2


def test_neither_a_number_below_0_nor_a_text_is_a_place(shards: str) -> None:
    loader = pipeline(shards).numpy()
    for epoch in (-1, 2**33):
        with pytest.raises(ValueError, match="from 0 to 4294967294"):
            loader.set_epoch(epoch)
    with pytest.raises(TypeError, match="what state_dict"):
        loader.load_state_dict(json.dumps(loader.state_dict()))  # type: ignore[arg-type]


def test_states_of_different_steps_are_refused(shards: str) -> None:
    loaders = [pipeline(shards, rank=r, world=2, streams=4).numpy() for r in range(2)]
    passing = [iter(loader) for loader in loaders]
    for one in [*passing, *passing, passing[0]]:
        next(one)
    states = [loader.state_dict() for loader in loaders]
    with pytest.raises(mr.InvalidArgumentError, match="of different steps: process 1 after 32"):
        loaders[0].load_state_dict(states)


def test_a_state_of_shards_with_other_contents_is_refused(tmp_path: Path) -> None:
    spec = make_shards(tmp_path)
    with pipeline(spec).numpy() as loader:
        next(iter(loader))
        state = loader.state_dict()
    with pipeline(spec).numpy() as again:
        again.load_state_dict(state)
        assert len(list(again)) == 12
    make_shards(tmp_path, 200, 30, "--seed", "5", "--force")
    with pipeline(spec).numpy() as other:
        other.load_state_dict(state)
        with pytest.raises(mr.InvalidArgumentError, match="other contents"):
            next(iter(other))
        del state["position"]["contents"]  # as earlier versions saved it
        other.load_state_dict(state)
        assert len(list(other)) == 12


def test_shards_from_afar_are_known_by_their_indexes(tmp_path: Path) -> None:
    make_shards(tmp_path)
    run_program("index", str(tmp_path))
    with served(str(tmp_path)) as url:
        SlowServer.go.set()
        with pipeline(url + "/set-{000000..000006}.tar").numpy() as loader:
            next(iter(loader))
            state = loader.state_dict()
        with pipeline(url + "/set-{000000..000006}.tar").numpy() as again:
            again.load_state_dict(state)
            assert len(list(again)) == 12
        make_shards(tmp_path, 200, 30, "--seed", "5", "--force")
        run_program("index", str(tmp_path))
        with pipeline(url + "/set-{000000..000006}.tar").numpy() as other:
            other.load_state_dict(state)
            with pytest.raises(mr.InvalidArgumentError, match="other contents"):
                next(iter(other))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"threads": -1}, "threads -1: from 0"),
        ({"streams": -1}, "streams must be at least 0"),
        ({"prefetch": 0}, "prefetch 0: from 1"),
        ({"fields": {}}, "at least one field"),
        ({"take": 0}, "at least one sample"),
        ({"batch_size": 0}, "batch size 0: from 1"),
        ({"epochs": mr.Epochs(batches=-1)}, "batches must not be negative"),
        ({"epochs": mr.Epochs(resampled=True)}, "resampled shards have no end"),
        ({"shuffle": mr.Shuffle(-1)}, "shuffle buffer of -1 samples"),
        ({"rank": 3, "world": 2}, "rank=3, world=2: a rank is from 0 to world - 1"),
        ({"rank": -1, "world": 2}, "rank=-1, world=2: a rank is from 0 to world - 1"),
        ({"memory": True}, r"Pipeline\(memory=True\)"),
        ({"batch_size": True}, r"Pipeline\(batch_size=True\)"),
    ],
)
def test_what_no_pipeline_takes_is_refused_at_once(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        pipeline("nowhere.tar", **arguments)


def test_weights_of_a_mix_are_checked_at_once() -> None:
    fields = {"label": mr.Label()}
    for weight in (float("nan"), 0.0, -1.0):
        with pytest.raises(mr.InvalidArgumentError, match="weight"):
            mr.Pipeline(mr.Mix([(weight, "a.tar"), (1.0, "b.tar")]), fields=fields, batch_size=4)


def test_a_trace_has_spans_of_its_threads_and_changes_no_batch(shards: str, tmp_path: Path) -> None:
    plain = [batch["keys"] for batch in pipeline(shards).numpy()]
    loader = pipeline(shards).numpy()
    batches = iter(loader)
    seen = [next(batches)["keys"]]
    with loader.trace(tmp_path / "t.json.gz"):
        seen += [batch["keys"] for batch in itertools.islice(batches, 5)]
        with pytest.raises(RuntimeError), loader.trace(tmp_path / "other.json"):
            pass
    seen += [batch["keys"] for batch in batches]
    assert seen == plain
    with gzip.open(tmp_path / "t.json.gz") as file:
        events = json.load(file)["traceEvents"]
    spans = [event for event in events if event["ph"] == "X"]
    assert {"read", "merge", "decode", "deliver"} <= {span["name"] for span in spans}
    read = [span["args"].get("shard", "") for span in spans if span["name"] == "read"]
    assert any(shard.endswith(".tar") for shard in read)
    with pytest.raises(mr.NotFoundError), loader.trace(tmp_path / "none" / "t.json"):
        next(iter(loader))
    next(iter(loader))
