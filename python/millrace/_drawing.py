"""A pipeline's pictures as a PNG, without the program: what a model of it would see."""

from __future__ import annotations

import itertools
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from millrace import _core
from millrace.errors import InvalidArgumentError
from millrace.transforms import Normalize

if TYPE_CHECKING:
    from millrace.pipeline import Field, Pipeline

    Fields = Mapping[tuple[str, ...], Field]

_GAP = 2
#: Of class numbers: neighbouring ones differ.
_COLOURS = (67, 149, 211)


def png_of(pipeline: Pipeline, count: int, columns: int | None) -> bytes:
    """A tile for each of the first samples: its pictures side by side."""
    if not list(images_of(pipeline._fields)):
        raise InvalidArgumentError("a pipeline without an Image has nothing to draw")
    if count < 1 or (columns is not None and columns < 1):
        raise InvalidArgumentError("count and columns are numbers from 1 on")
    tiles = list(itertools.islice(_tiles(pipeline), count))
    if not tiles:
        raise InvalidArgumentError("the pipeline has no sample to draw")
    return png(_grid(tiles, columns or math.ceil(math.sqrt(len(tiles)))))


def images_of(fields: Fields) -> Iterator[tuple[str, _core.Image]]:
    for names, field in fields.items():
        if isinstance(field, _core.Image):
            yield names[0], field
        elif isinstance(field, _core.PairedImages):
            yield from zip(names, field.members, strict=True)


def _tiles(pipeline: Pipeline) -> Iterator[Any]:
    import numpy as np

    with pipeline.numpy() as loader:
        for batch in loader:
            for slot in np.flatnonzero(batch["valid"]):
                yield tile_of(batch, int(slot), pipeline._fields)


def tile_of(batch: Mapping[str, Any], slot: int, fields: Fields) -> Any:
    """(H, W, 3) of uint8: those of a sample's pictures that the batch has, side by side.

    ``batch``: NumPy's arrays. Boxes that are in it are drawn, too.
    """
    import numpy as np

    drawn = {k: _pixels(batch[k][slot], image) for k, image in images_of(fields) if k in batch}
    for names, field in fields.items():
        if isinstance(field, _core.Boxes) and {names[0], field.image} <= batch.keys():
            _outline(drawn[field.image], _corners(batch, names[0], slot, field.form))
    height = max(map(len, drawn.values()))
    return np.hstack(
        [np.pad(part, ((0, height - len(part)), (0, 0), (0, 0))) for part in drawn.values()]
    )


def reduced(pixels: Any, width: int, height: int) -> Any:
    """The means of whole blocks of pixels, so large that the picture fits."""
    block = max(math.ceil(pixels.shape[1] / width), math.ceil(pixels.shape[0] / height), 1)
    rows, columns = (max(1, side // block) for side in pixels.shape[:2])
    kept = pixels[: rows * block, : columns * block]
    parts = kept.reshape(rows, len(kept) // rows, columns, kept.shape[1] // columns, 3)
    return parts.mean(axis=(1, 3)).round().astype(pixels.dtype)


def _pixels(picture: Any, image: _core.Image) -> Any:
    """(H, W, 3) of uint8, as the picture was before it was normalised."""
    import numpy as np

    if image.layout == "CHW":
        picture = picture.transpose(1, 2, 0)
    if picture.dtype == np.int64:  # classes
        return (picture * np.array(_COLOURS) % 256).astype(np.uint8)
    if picture.dtype == np.uint16:
        picture = picture / 257
    elif picture.dtype != np.uint8:
        picture = 255 * _as_before(picture.astype(np.float32), image)
    picture = np.clip(np.round(picture), 0, 255).astype(np.uint8)
    return np.repeat(picture, 3, axis=2) if picture.shape[2] == 1 else picture[:, :, :3]


def _corners(batch: Any, name: str, slot: int, form: str) -> Iterator[tuple[Any, int]]:
    """Left, top, right and bottom, and the label, of each of a sample's boxes."""
    count = batch[name + ".count"][slot]
    labels = batch[name + ".label"][slot].tolist()
    for (x, y, a, b), label in zip(batch[name][slot][:count].tolist(), labels, strict=False):
        if form == "xywh":
            a, b = x + a, y + b
        elif form == "cxcywh":
            x, y, a, b = x - a / 2, y - b / 2, x + a / 2, y + b / 2
        yield (x, y, a, b), label


def _outline(pixels: Any, boxes: Iterator[tuple[Any, int]]) -> None:
    """Frames one pixel wide, in the colours of their classes."""
    import numpy as np

    for (left, top, right, bottom), label in boxes:
        y, x = (min(int(at), side - 1) for at, side in zip((top, left), pixels.shape, strict=False))
        end_y, end_x = max(math.ceil(bottom), y + 1), max(math.ceil(right), x + 1)
        colour = (np.array(_COLOURS) * (label + 2) % 256).astype(np.uint8)
        pixels[y:end_y, [x, end_x - 1]] = colour
        pixels[[y, end_y - 1], x:end_x] = colour


def _as_before(picture: Any, image: _core.Image) -> Any:
    import numpy as np

    for transform in image.transforms:
        if isinstance(transform, Normalize):
            std, mean = (np.array(values, np.float32) for values in (transform.std, transform.mean))
            picture = picture * std + mean
    return picture


def _grid(tiles: list[Any], columns: int) -> Any:
    import numpy as np

    columns = min(columns, len(tiles))
    rows = math.ceil(len(tiles) / columns)
    height, width = (side + _GAP for side in tiles[0].shape[:2])
    grid = np.full((rows * height - _GAP, columns * width - _GAP, 3), 255, np.uint8)
    for number, tile in enumerate(tiles):
        y, x = number // columns * height, number % columns * width
        grid[y : y + len(tile), x : x + tile.shape[1]] = tile
    return grid


def png(pixels: Any) -> bytes:
    height, width = pixels.shape[:2]
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        [
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
            _chunk(b"IDAT", zlib.compress(rows)),
            _chunk(b"IEND", b""),
        ]
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
