"""ShardWriter: samples of Python to shards, as ``millrace create`` writes them."""

from __future__ import annotations

import io
import json
import operator
import os
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from millrace import _core
from millrace._signatures import named
from millrace.errors import InvalidArgumentError

_PICTURES = ("jpg", "jpeg", "png", "ppm", "pgm")
_NUMBERS = ("cls", "cls2", "class", "count", "index", "inx", "id")
_JSON = ("json", "jsn")
_PACKED = ("gz", "bz2", "xz", "zst", "lz4")


class ShardWriter:
    """Writes samples to numbered shards, each of which appears complete or not at all.

    >>> with mr.ShardWriter("out/train-%06d.tar", max_samples=10_000) as writer:
    ...     writer.write({"__key__": "000000", "jpg": picture, "cls": 3, "json": {"by": "n. n."}})

    ``pattern``: a path, or an ``s3://``, ``gs://`` or ``https://`` URL, with one ``%d`` or ``%06d``
    for the shard's number, from ``start_shard`` on. A folder that is not there is made.

    ``max_samples``, ``max_bytes`` (of members, without the tar's headers): a shard that holds as
    many is full.

    ``index``: write each shard's index beside it, and at the end the set's manifest
    (``out/train-manifest.json``), as ``create`` does. So a loader knows how many samples there are,
    and checks each.

    ``replace``: whether shards that are there may be replaced; else that is an error. Shards with
    higher numbers stay, and the manifest does not name them. Without it the manifest goes on naming
    what it named: a set may be written by several writers, one behind the other, each with its
    ``start_shard``.

    ``mtime``: what every member says of its time, in seconds since 1970. The same samples give the
    same bytes.

    ``jpeg_quality``: 1 to 100, of arrays that are written as JPEG.

    Leaving the ``with`` block completes the last shard; leaving it by an exception leaves nothing of
    it, but the shards before. Threads: any, one at a time. A process that was forked can
    write nothing by its parent's writer, and takes nothing from it.
    """

    @named
    def __init__(
        self,
        pattern: str | os.PathLike[str],
        *,
        max_samples: int = 100_000,
        max_bytes: int = 3_000_000_000,
        start_shard: int = 0,
        index: bool = True,
        replace: bool = False,
        mtime: int = 0,
        jpeg_quality: int = 90,
    ) -> None:
        self._quality = jpeg_quality
        self._lock = threading.Lock()
        self._shards: list[_core.Shard] | None = None
        pattern = os.fspath(pattern)
        for name, number, least in (
            ("max_samples", max_samples, 1),
            ("max_bytes", max_bytes, 1),
            ("start_shard", start_shard, 0),
        ):
            if not least <= number < 1 << 63:
                raise InvalidArgumentError(f"{name}={number}: from {least} to 2^63 - 1")
        if "://" not in pattern:
            os.makedirs(os.path.dirname(pattern) or ".", exist_ok=True)
        self._core = _core.Writer(
            pattern, max_samples, max_bytes, start_shard, mtime, index, replace
        )

    def write(self, sample: Mapping[str, object]) -> None:
        """Writes one sample: ``__key__`` is its key, all others are its members by suffix.

        A value is bytes, as they are; a str, as UTF-8 (of ``json`` the JSON's text); or what its
        suffix, or the last part of it, takes: a whole number (``cls``, ``index``, ``id``, ...), anything that JSON can say
        (``json``), an array (``npy``), a picture (``jpg``, ``png``, ``ppm``: an array of uint8 (H, W)
        or (H, W, C), or a PIL image; ``png`` also a mask of other whole numbers, (H, W)). A PIL image of
        a palette is a PNG of that palette, and of its colours in other formats. Names that
        begin with two underscores, as those of webdataset's samples, are left out.

        Raises: TypeError for a value that its suffix does not take, InvalidArgumentError for a key
        that the shard already has, that a reader would split differently or that a tar cannot hold
        (a NUL, over 4096 bytes, not UTF-8), each with the key; IoError.
        """
        key = sample.get("__key__")
        if not isinstance(key, str):
            raise TypeError(f"a sample's __key__ must be a str, not {key!r}")
        for name in sample:
            if not isinstance(name, str):
                raise TypeError(f"{key}: a member's suffix must be a str, not {name!r}")
            if not _is_utf8(key + name):
                raise InvalidArgumentError(f"{key!r}.{name!r}: not UTF-8")
        members = [
            (suffix, self._encoded(key, suffix, value))
            for suffix, value in sample.items()
            if not suffix.startswith("__")
        ]
        with self._lock:
            self._core.write(key, members)

    def close(self) -> list[_core.Shard]:
        """Completes the last shard and the manifest; returns all shards that were written."""
        with self._lock:
            if self._shards is None:
                self._shards = self._core.finish()
            return self._shards

    def __enter__(self) -> ShardWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            with self._lock:
                self._core.abandon()

    def _encoded(self, key: str, suffix: str, value: object) -> bytes:
        try:
            return self._bytes_of(suffix.rpartition(".")[2].lower(), value)
        except (TypeError, RuntimeError) as error:  # torch's own, of what it cannot convert
            raise TypeError(f"{key}.{suffix}: {error}") from error
        except ValueError as error:
            raise InvalidArgumentError(f"{key}.{suffix}: {error}") from error

    def _bytes_of(self, kind: str, value: object) -> bytes:
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        if isinstance(value, str):
            if kind in _JSON:
                _check_json(value)
            if kind in _PACKED:
                raise TypeError(f"a .{kind} is packed by who writes it: bytes, not a str")
            return value.encode()
        if kind in _JSON:
            return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        if kind in _NUMBERS:
            return str(operator.index(value)).encode()  # type: ignore[arg-type]
        if kind == "npy":
            return _npy(value)
        if kind in _PICTURES:
            return _picture(kind, value, self._quality)
        raise TypeError(f"must be bytes or str, not {type(value).__name__}")


def _check_json(text: str) -> None:
    try:
        json.loads(text)
    except ValueError as error:
        raise ValueError(f"a str is JSON's text, and this is none ({error}): json.dumps()") from None


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _array(value: Any) -> Any:
    """A tensor that gradients are kept for is written as its values."""
    import numpy as np

    return np.asarray(value.detach() if hasattr(value, "detach") else value)


def _npy(value: object) -> bytes:
    import numpy as np

    file = io.BytesIO()
    np.save(file, _array(value), allow_pickle=False)
    return file.getvalue()


def _palette_png(image: Any) -> bytes:
    """Its colours for who decodes a picture, and its numbers for who decodes a mask."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


# Modes of PIL whose bytes are no shares of red, green and blue; a CMYK JPEG is opened as one.
_OTHER_COLOURS = ("P", "CMYK", "HSV", "LAB", "RGBa", "RGBX", "YCbCr")


def _picture(kind: str, value: Any, quality: int) -> bytes:
    import numpy as np

    mode = getattr(value, "mode", None)  # a PIL image's
    if mode == "P" and kind == "png":
        return _palette_png(value)
    if mode in _OTHER_COLOURS:
        value = value.convert("RGBA" if mode == "RGBa" else "RGB")
    pixels = _array(value)
    if kind == "png" and pixels.dtype.kind in "iu" and pixels.dtype != np.uint8:
        if pixels.ndim != 2:
            raise ValueError(f"a mask must be (H, W), not {pixels.shape}")
        # A level's share of all levels must not depend on the largest one that a picture has.
        least_bits = 16 if pixels.dtype == np.uint16 else 8
        return _core.encode_mask(np.ascontiguousarray(pixels, np.int64), least_bits)
    if pixels.dtype != np.uint8 or pixels.ndim not in (2, 3):
        raise ValueError(
            f"a picture must be uint8, (H, W) or (H, W, C), not {pixels.dtype} {pixels.shape}"
        )
    if pixels.ndim == 2:
        pixels = pixels[:, :, np.newaxis]
    return _core.encode_picture(np.ascontiguousarray(pixels), kind, quality)
