"""Batch, a dict that a notebook shows; what pipelines and loaders show of themselves."""

from __future__ import annotations

import base64
import copy
import html.parser
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as mr
from conftest import FIELDS, make_shards, pipeline
from test_program import decoded

KINDS = ("torch", "numpy", "jax", "dlpack")


class Page(html.parser.HTMLParser):
    """Cells by row, pictures and their texts; anything that fetches or runs is refused."""

    ALLOWED = {"div", "style", "b", "table", "thead", "tbody", "tr", "th", "td", "br", "img",
               "figure", "figcaption"}  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.pictures: list[bytes] = []
        self.alts: list[str | None] = []
        self.text = ""
        self.depth = 0
        self.feed(text)
        self.close()
        assert self.depth == 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in self.ALLOWED, tag
        self.depth += tag not in ("br", "img")
        if tag == "tr":
            self.rows.append([])
        for name, value in attrs:
            assert name in ("class", "scope", "alt", "src"), name
            if name == "src":
                head, _, data = str(value).partition(",")
                assert head == "data:image/png;base64"
                self.pictures.append(base64.b64decode(data, validate=True))
            if name == "alt":
                self.alts.append(value)

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag not in ("br", "img")

    def handle_data(self, data: str) -> None:
        if self.lasttag in ("td", "th"):
            self.rows[-1].append(data)
        self.text += data if self.lasttag != "style" else ""
        assert "url(" not in data and "@import" not in data


def first(loader: mr.Loader[Any]) -> Any:
    with loader:
        return next(iter(loader))


@pytest.fixture(scope="module")
def batch(shards: str) -> Any:
    return first(pipeline(shards).numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_is_a_dict(shards: str, kind: str) -> None:
    if kind != "dlpack":
        pytest.importorskip(kind)
    batch = first(getattr(pipeline(shards), kind)())
    assert isinstance(batch, mr.Batch) and isinstance(batch, dict)
    assert list(batch) == ["image", "label", "valid", "keys"]
    plain = dict(batch)
    assert type(plain) is dict and plain.keys() == batch.keys()
    assert {**batch, "more": 1}["keys"] is batch["keys"]
    assert (batch | {"more": 1}).keys() == batch.keys() | {"more"}
    assert batch.raw("keys") is batch["keys"]
    with pytest.raises(TypeError, match="'image' is an array"):
        batch.raw("image")


def test_a_batch_pickles_and_copies_with_what_it_shows(batch: Any) -> None:
    for other in (pickle.loads(pickle.dumps(batch)), copy.copy(batch)):
        assert type(other) is mr.Batch and other._repr_html_() == batch._repr_html_()
        assert (other["image"] == batch["image"]).all() and other["keys"] == batch["keys"]
    # As Lightning, Accelerate and PyTorch make another one of the same type.
    assert type(batch)({k: v for k, v in batch.items()}).keys() == batch.keys()


def test_a_batch_is_a_tree_to_jax(shards: str) -> None:
    jax = pytest.importorskip("jax")
    batch = first(pipeline(shards).jax())
    del batch["keys"]
    doubled = jax.jit(lambda tree: jax.tree_util.tree_map(lambda one: one + one, tree))(batch)
    assert isinstance(doubled, mr.Batch) and list(doubled) == ["image", "label", "valid"]
    assert (doubled["image"] == 2 * batch["image"]).all()


def test_a_batch_is_a_tree_to_pytorch(shards: str) -> None:
    pytest.importorskip("torch")
    from torch.utils import _pytree

    batch = first(pipeline(shards).torch())
    keys = batch.pop("keys")
    doubled = _pytree.tree_map(lambda one: one + one, batch)
    assert isinstance(doubled, mr.Batch) and list(doubled) == list(batch) and keys
    assert (doubled["image"] == 2 * batch["image"]).all()


@pytest.mark.parametrize("kind", ("torch", "numpy", "jax"))
def test_a_batch_shows_its_pictures_and_fields(tmp_path: Path, kind: str) -> None:
    pytest.importorskip(kind)
    spec = make_shards(tmp_path, 12, 12)
    seen = mr.Image(mr.CenterCrop(16), dtype="uint8")
    image = mr.Image(mr.CenterCrop(16), mr.Normalize.imagenet(), dtype="bf16", layout="CHW")
    fields = {"image": image, "label": mr.Label(), "text": mr.Raw("cls", text=True)}
    data = mr.Pipeline(spec, fields=fields, batch_size=10)
    page = Page(first(getattr(data, kind)())._repr_html_())
    assert page.text.startswith("Batch of 10 slots, 10 of them with a sample")
    rows = {row[0]: row[1:] for row in page.rows}
    assert rows["image"] == ["bfloat16", "(10, 3, 16, 16)", "15.4 kB"]
    assert rows["keys"] == ["list of str", "(10)", "80 B"]
    assert len(page.pictures) == 8
    fields = {"image": seen, "label": mr.Label()}
    plain = first(mr.Pipeline(spec, fields=fields, batch_size=10).numpy())
    assert page.alts[3] == f"{plain['keys'][3]}, label {plain['label'][3]}"
    (tmp_path / "3.png").write_bytes(page.pictures[3])
    # The picture as it was before it was normalised; bfloat16 has 8 bits.
    assert np.abs(decoded(tmp_path / "3.png", 16, 16) - plain["image"][3].astype(int)).max() <= 2


def test_large_pictures_are_shown_small_side_by_side(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 4, 4)
    pair = mr.PairedImages(
        mr.Image(dtype="uint8"), mr.Image(dtype="uint8"), geometry=[mr.Resize((200, 300))]
    )
    data = mr.Pipeline(spec, fields={("one", "two"): pair}, batch_size=4)
    text = first(data.numpy())._repr_html_()
    assert len(text) < 400_000
    (tmp_path / "a.png").write_bytes(Page(text).pictures[0])
    height, width = 50, 150  # of 200 x 600, by means of 4 x 4 pixels
    assert decoded(tmp_path / "a.png", height, width).std() > 0
    size = (tmp_path / "a.png").read_bytes()[16:24]
    assert [int.from_bytes(size[i : i + 4], "big") for i in (0, 4)] == [width, height]


def test_what_comes_from_outside_is_escaped_and_short() -> None:
    key = '<script>alert("&")</script>\x00\udcff'
    batch: mr.Batch[Any] = mr.Batch({"<b>": [key, "x" * 10_000], "keys": [key]})
    batch["odd"] = np.zeros((2, 3), np.complex64)
    text = batch._repr_html_()
    assert "<script" not in text and "x" * 100 not in text
    text.encode()  # no half of a pair
    rows = {row[0]: row[1:] for row in Page(text).rows}
    assert rows["<b>"][:2] == ["list of str", "(2)"]
    assert rows["odd"] == ["complex64", "(2, 3)", "48 B"]


def test_a_batch_that_was_changed_shows_what_is_left(batch: Any) -> None:
    changed = copy.copy(batch)
    changed["image"] = changed["image"].reshape(16, -1)
    assert not Page(changed._repr_html_()).pictures
    del changed["image"], changed["valid"]
    assert [row[0] for row in Page(changed._repr_html_()).rows] == ["field", "label", "keys"]


def test_a_pipeline_shows_what_its_batches_hold_and_no_secret() -> None:
    url = "https://me:secret@host/a-{000000..000001}.tar?signature=secret"
    data = mr.Pipeline(
        f"{url}::{url}", fields=FIELDS, batch_size=16, mixup=0.2, shuffle=mr.Shuffle(40, seed=7)
    )
    text = data._repr_html_()
    assert "secret" not in text
    page = Page(text)
    assert "https://host/a-{000000..000001}.tar::https://host/" in page.text
    assert "mixup=0.2" in page.text and "buffer_samples=40" in page.text
    rows = {row[0]: row[1:] for row in page.rows}
    assert rows["image"] == ["Image", "float32", "(16, 16, 16, 3)", "49.2 kB"]
    assert rows["label.share"] == ["float32", "(16)", "64 B"]
    mix = mr.Pipeline(mr.Mix([(2, url), (1, "b.tar")]), fields=FIELDS, batch_size=4)
    assert "2 of https://host/" in mix._repr_html_() and "secret" not in mix._repr_html_()
    assert "https://host/a-" in repr(data) and "secret" not in repr(data) + repr(mix)


def test_a_pipeline_shows_what_functions_make(shards: str) -> None:
    fields = {"mel": mr.Function(len, (2, 3), "uint8"), "text": mr.Raw("cls", text=True)}
    page = Page(mr.Pipeline(shards, fields=fields, batch_size=4)._repr_html_())
    rows = {row[0]: row[1:] for row in page.rows}
    assert rows["mel"] == ["Function", "uint8", "(4, 2, 3)", "24 B"]
    assert rows["text"][:2] == ["Raw", "list of str"]


def test_a_loader_shows_where_it_stands(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        assert "0 batches handed out" in Page(loader._repr_html_()).text
        next(iter(loader))
        page = Page(loader._repr_html_())
    assert page.text.startswith("Loader, numpy, epoch 0, 1 batches handed out")
    assert re.search("bound|balanced|wait", page.text)


def test_a_pipeline_refuses_at_once_what_no_batch_can_hold() -> None:
    """Shards that are not there are found when a loop begins; options are wrong before."""
    crop = mr.RandomCrop(8)
    wrong: list[tuple[dict[Any, Any], dict[str, Any], str]] = [
        ({"image": mr.Image()}, {}, "size"),
        ({"image": mr.Image(crop, suffixes=";")}, {}, "suffix"),
        ({"a": mr.Array(shape=[1 << 40, 1 << 40])}, {}, "large"),
        ({"image": mr.Image(crop), "boxes": mr.Boxes("picture")}, {}, "picture"),
        ({"label": mr.Label()}, {"mixup": 0.2}, "image"),
    ]
    for fields, more, said in wrong:
        with pytest.raises(mr.InvalidArgumentError, match=said):
            mr.Pipeline("nowhere.tar", fields=fields, batch_size=4, **more)


def test_options_compare_with_anything() -> None:
    for one in (mr.Shuffle(3), mr.CenterCrop(3), mr.Label()):
        assert one != None and one != 3 and one == copy.copy(one)  # noqa: E711
