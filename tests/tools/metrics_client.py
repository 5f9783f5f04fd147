"""Reads a run's metrics as Prometheus does, and answers with what is in them.

    metrics_client.py PROGRAM SHARDS      trains with --metrics-listen, asks meanwhile, ends the run
"""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


def families(base):
    status, kind, text = get(base + "/metrics")
    assert status == 200 and kind.startswith("text/plain; version=0.0.4"), (status, kind)
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(found, name, **labels):
    for sample in found[name.removesuffix("_total")].samples:
        if sample.name == name and labels.items() <= sample.labels.items():
            return sample.value
    raise KeyError((name, labels))


def wait_until(holds, what, seconds=60):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "no " + what
        time.sleep(0.02)


def bother(port):
    """What a client may do that means harm, all of it at once; the sockets stay open."""
    open_sockets = []
    for _ in range(40):  # more than are served
        one = socket.create_connection(("127.0.0.1", port), timeout=30)
        one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX: ")  # and never ends
        open_sockets.append(one)
    for hostile in (
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
        b"\x00\xff\x16\x03" * 1000,
        b"POST /metrics HTTP/1.1\r\nContent-Length: 9999999999\r\n\r\n" + b"x" * 10_000,
        b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    ):
        one = socket.create_connection(("127.0.0.1", port), timeout=30)
        try:
            one.sendall(hostile)
        except OSError:
            pass  # it was told to go
        open_sockets.append(one)
    return open_sockets


def main(program, shards):
    run = subprocess.Popen(
        [program, "train", shards, "--val", shards, "--model", "lenet", "--batch-size", "8",
         "--devices", "2", "--epochs", "100000", "--log-steps", "0", "--run-dir", sys.argv[3],
         "--metrics-listen", "127.0.0.1:0"],
        stderr=subprocess.PIPE, text=True)
    base = None
    while base is None:
        line = run.stderr.readline()
        assert line, "the run has ended"
        match = re.search(r"(http://127.0.0.1:(\d+))/metrics", line)
        base, port = match.groups() if match else (None, None)
    wait_until(lambda: value(families(base), "millrace_checkpoints_total") > 0, "checkpoint")
    first = families(base)
    held = bother(int(port))
    wait_until(lambda: value(families(base), "millrace_steps_total")
               > value(first, "millrace_steps_total") + 10, "step beside hostile clients")
    status, kind, health = get(base + "/healthz?within=3600")
    try:
        get(base + "/nothing")
        missing = 200
    except urllib.error.HTTPError as error:
        missing = error.code
    last = families(base)
    for one in held:
        one.close()
    run.send_signal(signal.SIGTERM)
    print(json.dumps({
        "families": {name: family.type for name, family in last.items()},
        "helped": all(family.documentation for family in last.values()),
        "phases": sum(sample.value for sample in last["millrace_phase"].samples),
        "rate": value(last, "millrace_samples_per_second"),
        "stages": sorted({s.labels["stage"] for s in last["millrace_input_samples"].samples}),
        "sets": sorted({s.labels["set"] for s in last["millrace_input_samples"].samples}),
        "parts": sum(s.value for s in last["millrace_step_seconds"].samples),
        "top1": value(last, "millrace_measure", set="val", measure="top1"),
        "age": value(last, "millrace_checkpoint_age_seconds"),
        "rises": all(
            s.value >= value(first, s.name, **s.labels)
            for name in ("millrace_steps", "millrace_samples", "millrace_step_seconds")
            for s in last[name].samples),
        "health": json.loads(health) | {"status": status, "type": kind},
        "missing": missing,
        "status": run.wait(timeout=60),
    }))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
