"""What a notebook shows of batches, pipelines and loaders: small, escaped, and fetching nothing."""

from __future__ import annotations

import base64
import html
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from millrace import _core

if TYPE_CHECKING:
    from millrace.batch import Batch
    from millrace.loader import Loader
    from millrace.pipeline import Pipeline

#: Pictures of a batch, and the longer side of each.
_MOST_PICTURES = 8
_SIDE = 96
_MOST_LETTERS = 48
#: Of a dark notebook as of a light one: everything but lines has the notebook's own colours.
_STYLE = """<style>
.millrace{font-size:13px}
.millrace table{border-collapse:collapse;margin:6px 0}
.millrace th,.millrace td{text-align:left;padding:2px 12px 2px 0;border-bottom:1px solid #8886}
.millrace td.number{text-align:right;font-variant-numeric:tabular-nums}
.millrace .pictures{display:flex;flex-wrap:wrap;gap:8px;margin:6px 0}
.millrace figure{margin:0}
.millrace figure img{display:block;height:96px;max-width:none}
.millrace figure img.small{image-rendering:pixelated}
.millrace figcaption{font-size:11px;overflow-wrap:anywhere;width:0;min-width:100%}
</style>"""


def _text(value: object, most: int = _MOST_LETTERS) -> str:
    """Escaped, in one line, without what does not print; of a long one the begin and the end."""
    text = "".join(one if one.isprintable() else "\ufffd" for one in str(value))
    if len(text) > most:
        text = f"{text[: most // 2]}…{text[-(most // 2) :]}"
    return html.escape(text)


def _bytes(number: int) -> str:
    value, unit = float(number), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} B" if unit == "B" else f"{value:.3g} {unit}"


def _cell(text: str, is_number: bool) -> str:
    return f'<td class="number">{text}</td>' if is_number else f"<td>{text}</td>"


def _table(names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    body = "".join(
        "<tr>" + "".join(_cell(_text(one), isinstance(one, _Bytes)) for one in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class _Bytes(int):
    def __str__(self) -> str:
        return _bytes(self)


def _page(title: str, *parts: str) -> str:
    return f'<div class="millrace">{_STYLE}<div><b>{title}</b></div>{"".join(parts)}</div>'


# Batches


def of_batch(batch: Batch[Any]) -> str:
    tiles = "".join(_figures(batch))
    pictures = f'<div class="pictures">{tiles}</div>' if tiles else ""
    rows = [_row(name, value) for name, value in batch.items()]
    return _page(_title(batch), pictures, _table(("field", "type", "shape", "bytes"), rows))


def _title(batch: Batch[Any]) -> str:
    if "valid" not in batch:
        return "Batch"
    valid = _as_numpy(batch["valid"])
    if valid is None:
        return "Batch"
    return f"Batch of {len(valid)} slots, {int((valid != 0).sum())} of them with a sample"


def _row(name: str, value: Any) -> tuple[object, ...]:
    if isinstance(value, list):
        kinds = sorted({type(one).__name__ for one in value}) or ["empty"]
        return name, "list of " + " and ".join(kinds), f"({len(value)})", _Bytes(_size_of(value))
    array = value if hasattr(value, "dtype") else _as_numpy(value)
    if array is None:  # of DLPack alone, and a type that NumPy does not have
        return name, type(value).__name__, "", ""
    dtype = str(array.dtype).removeprefix("torch.")
    shape = ", ".join(map(str, array.shape))
    return name, dtype, f"({shape})", _Bytes(_num_bytes(array))


def _size_of(values: list[Any]) -> int:
    return sum(len(one) if isinstance(one, (str, bytes)) else 0 for one in values)


def _num_bytes(array: Any) -> int:
    if hasattr(array, "element_size"):  # PyTorch before 2.0 has no nbytes
        return int(array.numel()) * int(array.element_size())
    return int(array.nbytes)


def _as_numpy(value: Any) -> Any:
    """None without NumPy, or where it does not know the type."""
    try:
        import numpy as np
    except ImportError:
        return None
    if "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
        value = value.detach().cpu()
        return (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    if hasattr(value, "dtype"):
        return np.asarray(value)
    try:
        return np.from_dlpack(value)
    except (TypeError, RuntimeError, BufferError, AttributeError):
        return None


def _figures(batch: Batch[Any]) -> Iterator[str]:
    """The first samples' pictures, all of each side by side."""
    from millrace import _drawing

    names = [name for name, _ in _drawing.images_of(batch._fields)]
    arrays = {name: _as_numpy(batch[name]) for name in _used(batch, names)}
    if not arrays or any(array is None or array.ndim != 4 for array in arrays.values()):
        return
    labels = [k[0] for k, field in batch._fields.items() if isinstance(field, _core.Label)]
    for slot in _slots(batch, min(map(len, arrays.values())))[:_MOST_PICTURES]:
        tile = _drawing.tile_of(arrays, slot, batch._fields)
        told = [str(batch["keys"][slot])] if slot < len(batch.get("keys", ())) else []
        told += [f"{name} {_as_numpy(batch[name])[slot]}" for name in _used(batch, labels)]
        yield _figure(_drawing.reduced(tile, _SIDE * len(arrays), _SIDE), ", ".join(told))


def _used(batch: Batch[Any], names: list[str]) -> list[str]:
    return [name for name in names if name in batch and not isinstance(batch[name], list)]


def _slots(batch: Batch[Any], size: int) -> list[int]:
    valid = _as_numpy(batch["valid"]) if "valid" in batch else None
    return [slot for slot in range(size) if valid is None or (slot < len(valid) and valid[slot])]


def _figure(pixels: Any, caption: str) -> str:
    from millrace import _drawing

    data = base64.b64encode(_drawing.png(pixels)).decode()
    kind = ' class="small"' if len(pixels) < _SIDE else ""
    text = _text(caption)
    return (
        f'<figure><img{kind} alt="{text}" src="data:image/png;base64,{data}"/>'
        f"<figcaption>{text}</figcaption></figure>"
    )


# Pipelines and loaders


def of_pipeline(pipeline: Pipeline) -> str:
    size = pipeline._arguments["batch_size"]
    return _page(f"Pipeline, batches of {size}", _inside(pipeline))


def of_loader(loader: Loader[Any]) -> str:
    handed = loader.statistics().batches if loader._made is not None else 0
    title = f"Loader, {loader._kind}, epoch {loader.epoch}, {handed} batches handed out"
    verdict = f"<div>{_text(loader.statistics().verdict, 400)}</div>" if handed else ""
    return _page(title, verdict, _inside(loader._pipeline))


def _inside(pipeline: Pipeline) -> str:
    kinds = {name: type(field).__name__ for k, field in pipeline._fields.items() for name in k}
    rows: list[tuple[object, ...]] = [
        (name, kinds.get(name, ""), dtype, "(" + ", ".join(map(str, shape)) + ")", _Bytes(size))
        for name, dtype, shape, size in pipeline._options.arrays
    ]
    for k, field in pipeline._fields.items():
        if isinstance(field, _core.Raw):
            kind = "list of str" if field.text else "list of bytes"
            rows.append((k[0], "Raw", kind, f"({pipeline._arguments['batch_size']})", ""))
    fields = _table(("field", "of", "type", "shape", "bytes"), rows)
    shards = "<br/>".join(_text(url, 200) for url in _shards(pipeline._arguments["spec"]))
    return f"<div>{shards}</div>{fields}<div>{_options(pipeline)}</div>"


def _shards(spec: Any) -> list[str]:
    from millrace.pipeline import _specs, without_secrets

    shown = without_secrets(spec)
    if isinstance(shown, _core.Mix):
        return [f"{weight:g} of {one}" for weight, one in shown.parts]
    return _specs(shown)


def _options(pipeline: Pipeline) -> str:
    """Those that were given."""
    shown = ("spec", "fields", "batch_size", "join")
    usual = type(pipeline).__init__.__kwdefaults__ or {}
    given = {
        name: value
        for name, value in pipeline._arguments.items()
        if name not in shown and value is not None and value != usual.get(name)
    }
    return _text(", ".join(f"{name}={value!r}" for name, value in given.items()), 800)
