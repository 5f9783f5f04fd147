"""Reads the metrics of a command that works through a set, as Prometheus does.

    job_metrics_client.py PROGRAM WORD...     starts it with --metrics-listen, asks until it has done something, ends it

Prints JSON: each metric without labels but its set's and stage's, summed over them; /healthz; the exit status.
"""

import json
import re
import signal
import subprocess
import sys

from metrics_client import families, get, wait_until

DONE = ("millrace_job_shards", "millrace_input_samples")


def has_begun(base):
    found = families(base)
    return any(sample.value > 0 for name in DONE if name in found for sample in found[name].samples)


def main(words):
    job = subprocess.Popen([*words, "--metrics-listen", "127.0.0.1:0"], stderr=subprocess.PIPE,
                           stdout=subprocess.DEVNULL, text=True)
    try:
        match = None
        while match is None:
            line = job.stderr.readline()
            assert line, "the job has ended"
            match = re.search(r"(http://127.0.0.1:\d+)/metrics", line)
        base = match[1]
        wait_until(lambda: has_begun(base), "sample")
        found = {}
        for family in families(base).values():
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, 0) + sample.value
        found["health"] = json.loads(get(base + "/healthz?within=3600")[2])
    finally:
        job.send_signal(signal.SIGTERM)
    found["status"] = job.wait(timeout=60)
    print(json.dumps(found))


main(sys.argv[1:])
