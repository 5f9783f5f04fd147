"""The processes of a loader's functions: started, and ended, on this side."""

from __future__ import annotations

import fcntl
import logging
import multiprocessing
import os
import pickle
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import get_spawning_popen
from typing import Any

from millrace import _core
from millrace._function_worker import serve
from millrace.errors import Error, IoError
from millrace.functions import Function

_log = logging.getLogger("millrace")
_LONG = 2.0
_MOST = 120.0
#: Seconds that a process has to end by itself, and then by SIGTERM.
_GRACE = 1.0


class FunctionTracebackError(Exception):
    """What a function raised in its process, as text: the cause of the loader's error."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


class FunctionProcesses:
    """Started when it is made; ``pool`` gets their calls until ``close()``."""

    def __init__(self, pool: _core.FunctionPool, fields: Sequence[Function], count: int) -> None:
        self._pool = pool
        self._owner = os.getpid()
        self._processes: list[Any] = []
        names = ", ".join(field.name for field in fields)
        pickled = pickle.dumps([field.function for field in fields])
        outputs = [(field.shape, field.dtype) for field in fields]
        started = []
        try:
            with _blocked_interrupts():
                for number in range(count):
                    started.append(self._start(number, pickled, outputs))
            for process, connection, memory in started:
                _await_start(process, connection, names)
                self._add(process, connection, memory)
        except BaseException:
            for _, connection, memory in started[len(self._added()) :]:
                connection.close()
                os.close(memory)
            self.close()
            raise

    def _start(
        self, number: int, pickled: bytes, outputs: list[Any]
    ) -> tuple[Any, Connection, int]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        memory = os.memfd_create("millrace-function", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)  # it is mapped here, too
        process = context.Process(
            target=serve,
            args=(theirs, _Descriptor(memory), pickled, outputs),
            name=f"millrace-function-{number}",
            daemon=True,
        )
        try:
            process.start()
        except BaseException:
            ours.close()
            os.close(memory)
            raise
        finally:
            theirs.close()
        self._processes.append(process)
        return process, ours, memory

    def _add(self, process: Any, connection: Connection, memory: int) -> None:
        socket = os.dup(connection.fileno())
        connection.close()
        self._pool.add(socket, memory, process.pid)

    def _added(self) -> range:
        return range(self._pool.processes)

    @property
    def usable(self) -> bool:
        return bool(self._processes) and not self._pool.failed

    def explain(self, error: Error) -> None:
        """Gives ``error`` the traceback of the function that raised it, as its cause."""
        text = self._pool.traceback(error.key or "")
        if text and error.stage == "functions":
            error.__cause__ = FunctionTracebackError(text)

    def close(self) -> None:
        """Ends the processes, by force those that do not end: nothing of them is left."""
        if os.getpid() != self._owner:
            return  # a forked child: they are its parent's
        self._pool.close()
        processes, self._processes = self._processes, []
        for end in (None, "terminate", "kill"):
            until = time.monotonic() + _GRACE
            for process in processes:
                if end is not None and process.is_alive():
                    getattr(process, end)()
                process.join(None if end == "kill" else max(0.0, until - time.monotonic()))
        for process in processes:
            process.close()


class _Descriptor:
    """A descriptor that a process inherits when it is spawned."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __reduce__(self) -> tuple[object, ...]:
        popen: Any = get_spawning_popen()
        return _Descriptor, (popen.duplicate_for_child(self.descriptor),)


@contextmanager
def _blocked_interrupts() -> Iterator[None]:
    """A process that is started within never gets Ctrl-C, which its terminal sends to all."""
    resource_tracker.ensure_running()  # which would let it through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _await_start(process: Any, connection: Connection, names: str) -> None:
    began, said = time.monotonic(), False
    while not connection.poll(0.1):
        waited = time.monotonic() - began
        if waited > _MOST:
            raise IoError(f"a process for {names} did not start within {_MOST:.0f} s")
        if waited > _LONG and not said:
            said = True
            _log.warning("waiting for process %s to import %s", process.pid, names)
    try:
        problem = connection.recv_bytes().decode(errors="replace")
    except EOFError:
        process.join(_GRACE)
        problem = (
            f"it ended by exit code {process.exitcode}, as it said on standard error; a script "
            'starts loaders below if __name__ == "__main__":'
        )
    if problem:
        raise IoError(f"a process for {names} cannot start: {problem}")
