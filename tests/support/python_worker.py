"""Runs scripts, each in a fork of a process that has imported what they import.

    python_worker.py MODULE,MODULE...

A line of standard input is the file for a script's standard output, the script and its arguments, between tabs; a line
of standard output is its exit status.
"""

import importlib
import os
import runpy
import sys
import traceback


def run(out, words):
    """In the fork: becomes the script."""
    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), 1)
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    sys.argv = words
    sys.path[0] = os.path.dirname(words[0])
    try:
        runpy.run_path(words[0], run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
for module in sys.argv[1].split(","):
    importlib.import_module(module)
for line in sys.stdin:
    out, *words = line.rstrip("\n").split("\t")
    child = os.fork()
    if child == 0:
        run(out, words)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
