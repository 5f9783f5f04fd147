"""The process in which functions of samples run: its side of python/worker_channel.h."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import signal
import struct
import threading
import traceback
from multiprocessing.connection import Connection, wait
from typing import Any

_CALL = struct.Struct("=QQQQ")  # the call's number, function, members, bytes of the memory
_ANSWER = struct.Struct("=QQQ")  # the call's number, whether it raised, bytes
_LENGTH = struct.Struct("=Q")
_MOST_TEXT = 48 * 1024
_MOST_LINE = 500


def serve(connection: Connection, memory: Any, pickled: bytes, outputs: list[Any]) -> None:
    """Answers calls until the other side ends; ``outputs``: shape and dtype of each function's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the loader's process decides
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        functions = pickle.loads(pickled)
        makers = [
            _Maker(one, *output) for one, output in zip(functions, outputs, strict=True)
        ]
    except BaseException as error:
        connection.send_bytes(f"{type(error).__name__}: {error}".encode())
        return
    connection.send_bytes(b"")
    shared = _Shared(memory.descriptor)
    while message := _received(connection.fileno(), _CALL.size):
        number, function, members, size = _CALL.unpack(message)
        shared.resize(size)
        answer = _ANSWER.pack(number, *_answer(makers[function], shared, members))
        try:
            os.write(connection.fileno(), answer)
        except BrokenPipeError:
            return


class _Shared:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.memory = mmap.mmap(-1, mmap.PAGESIZE)

    def resize(self, size: int) -> None:
        if len(self.memory) != size:
            self.memory.close()
            self.memory = mmap.mmap(self._descriptor, size)

    def sample(self, members: int) -> dict[str, Any]:
        (seed,) = _LENGTH.unpack_from(self.memory, 0)
        at = _LENGTH.size

        def part() -> bytes:
            nonlocal at
            (length,) = _LENGTH.unpack_from(self.memory, at)
            at += _LENGTH.size + length
            return self.memory[at - length : at]

        sample: dict[str, Any] = {"__key__": part().decode(errors="replace")}
        sample["__url__"] = part().decode(errors="replace")
        sample["__seed__"] = seed
        for _ in range(members):
            suffix = part().decode(errors="replace")
            sample[suffix] = part()
        return sample


class _Maker:
    """A function, and the array that it must return."""

    def __init__(self, function: Any, shape: tuple[int, ...], dtype: str) -> None:
        import numpy as np

        if dtype == "bfloat16":
            import ml_dtypes

            self._dtype = np.dtype(ml_dtypes.bfloat16)
        else:
            self._dtype = np.dtype(dtype)
        self._function = function
        self._shape = shape

    def make(self, shared: _Shared, members: int) -> int:
        """Writes the array; its bytes."""
        import numpy as np

        made = np.asarray(self._function(shared.sample(members)))
        if made.shape != self._shape:
            raise ValueError(f"returned an array of shape {made.shape}, not {self._shape}")
        if not np.can_cast(made.dtype, self._dtype, "same_kind"):
            raise TypeError(f"returned an array of {made.dtype}, not {self._dtype}")
        out: Any = np.ndarray(self._shape, self._dtype, buffer=shared.memory)
        with np.errstate(over="ignore"):
            out[...] = made
        if not np.can_cast(made.dtype, self._dtype, "safe"):
            self._check_held(made, out)
        return int(np.prod(self._shape, dtype=np.int64)) * self._dtype.itemsize

    def _check_held(self, made: Any, out: Any) -> None:
        """A narrower type rounds fractions, and has no other numbers than were made."""
        import numpy as np

        whole = made.dtype.kind in "iu" and out.dtype.kind in "iu"
        lost = out != made if whole else np.isinf(out) & np.isfinite(made)
        if np.any(lost):
            first = made[lost].flat[0]
            raise OverflowError(f"returned {first}, which {self._dtype} cannot hold")


def _answer(maker: _Maker, shared: _Shared, members: int) -> tuple[int, int]:
    try:
        return 0, maker.make(shared, members)
    except Exception as error:
        text = _text_of(error)
        shared.memory[: len(text)] = text
        return 1, len(text)


def _text_of(error: Exception) -> bytes:
    """A line with the innermost place, and behind a zero byte the traceback."""
    try:
        line = f"{type(error).__name__}: {error}"
    except Exception:
        line = f"{type(error).__name__}, whose own text cannot be made"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename != __file__]
    if own:
        line += f" ({os.path.basename(own[-1].filename)}:{own[-1].lineno} in {own[-1].name})"
    whole = "".join(traceback.format_exception(error))
    text = line.replace("\0", " ")[:_MOST_LINE] + "\0" + whole.replace("\0", " ")
    cut = text.encode(errors="replace")[:_MOST_TEXT]
    return cut.decode(errors="ignore").encode()


def _received(descriptor: int, size: int) -> bytes:
    """So many bytes; none at the end of the other side."""
    got = b""
    while len(got) < size:
        try:
            more = os.read(descriptor, size - len(got))
        except ConnectionResetError:
            return b""
        if not more:
            return b""
        got += more
    return got


def _end_with_parent() -> None:
    """Whatever a function does when the loader's process is killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
