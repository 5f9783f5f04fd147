"""ShardWriter: what it writes, and who can read it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import millrace as mr
from conftest import run_program, run_python
from pages import DOCS, blocks

np = pytest.importorskip("numpy")


def samples(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [
        {
            "__key__": f"{i:05d}",
            "__url__": "left out",
            "png": rng.integers(0, 256, (9, 12, 3), np.uint8),
            "mask.png": rng.integers(0, 400, (9, 12)),
            "cls": np.int64(i % 7),
            "json": {"boxes": [[1, 2, 3, i]], "by": "zoë"},
            "npy": rng.standard_normal((2, 3)).astype(np.float32),
            "txt": f"no. {i} für zoë",
            "bin": bytes([i]),
        }
        for i in range(count)
    ]


def write(pattern: Path | str, written: list[dict[str, Any]], **options: Any) -> list[Any]:
    with mr.ShardWriter(pattern, **options) as writer:
        for sample in written:
            writer.write(sample)
    return writer.close()


def test_a_loader_reads_what_was_written(tmp_path: Path) -> None:
    written = samples(20)
    shards = write(tmp_path / "out-%04d.tar", written, max_samples=8)
    assert [(Path(one.url).name, one.samples) for one in shards] == [
        ("out-0000.tar", 8),
        ("out-0001.tar", 8),
        ("out-0002.tar", 4),
    ]
    fields: dict[Any, Any] = {
        "image": mr.Image(mr.CenterCrop((9, 12)), suffixes="png", dtype="uint8"),
        "mask": mr.Image(
            mr.CenterCrop((9, 12)),
            suffixes="mask.png",
            channels=1,
            dtype="int64",
            interpolation="nearest",
            classes=mr.ClassMask(ignore=-1),
        ),
        "label": mr.Label(classes=7),
        "array": mr.Array(shape=[2, 3], dtype="float32"),
        "by": mr.Raw(suffixes="json", json_key="by", text=True),
        "text": mr.Raw(text=True),
        "bytes": mr.Raw(suffixes="bin"),
    }
    data = mr.Pipeline(
        tmp_path / "out-manifest.json",
        fields=fields,
        batch_size=20,
        faults=mr.Faults(require_index=True),
    )
    with data.numpy() as loader:
        batch = next(iter(loader))
    order = {key: i for i, key in enumerate(batch["keys"])}
    assert len(order) == 20
    for sample in written:
        i = order[sample["__key__"]]
        assert (batch["image"][i] == sample["png"]).all()
        assert (batch["mask"][i, :, :, 0] == sample["mask.png"]).all()
        assert batch["label"][i] == sample["cls"]
        assert (batch["array"][i] == sample["npy"]).all()
        assert (batch["by"][i], batch["text"][i]) == ("zoë", sample["txt"])
        assert batch["bytes"][i] == sample["bin"]


def test_indexes_and_manifest_are_as_the_program_makes_them(tmp_path: Path) -> None:
    write(tmp_path / "a-%06d.tar", samples(5), max_samples=3)
    listed = json.loads((tmp_path / "a-manifest.json").read_text())
    assert [one["nsamples"] for one in listed["shardlist"]] == [3, 2]
    run_program("verify", str(tmp_path / "a-manifest.json"))
    made = (tmp_path / "a-000000.tar.index.json").read_bytes()
    (tmp_path / "a-000000.tar.index.json").unlink()
    run_program("index", str(tmp_path / "a-000000.tar"))
    assert (tmp_path / "a-000000.tar.index.json").read_bytes() == made
    write(tmp_path / "bare" / "b-%d.tar", samples(2), index=False)
    assert [one.name for one in (tmp_path / "bare").iterdir()] == ["b-0.tar"]


def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    first = write(tmp_path / "a-%d.tar", samples(4))
    again = write(tmp_path / "b-%d.tar", [dict(reversed(one.items())) for one in samples(4)])
    assert first[0].sha256 == again[0].sha256
    with tarfile.open(tmp_path / "a-0.tar") as tar:
        names = tar.getnames()
    assert names[:7] == sorted(names[:7]) and len(names) == 28


def test_webdataset_reads_it_and_is_written_again(tmp_path: Path) -> None:
    wds = pytest.importorskip("webdataset")
    written = samples(6)
    write(tmp_path / "a-%d.tar", written)
    read = list(wds.WebDataset(str(tmp_path / "a-0.tar"), shardshuffle=False))
    for sample, was in zip(read, written, strict=True):
        assert sample["__key__"] == was["__key__"]
        assert int(sample["cls"]) == was["cls"]
        assert json.loads(sample["json"]) == was["json"]
        assert (np.load(io.BytesIO(sample["npy"])) == was["npy"]).all()
    write(tmp_path / "b-%d.tar", read)
    assert (tmp_path / "a-0.tar").read_bytes() == (tmp_path / "b-0.tar").read_bytes()


def test_shards_end_at_their_size_and_pictures_are_jpegs(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    ramp = np.linspace(0, 255, 64 * 48).reshape(64, 48, 1).repeat(3, axis=2).astype(np.uint8)
    written = [
        {"__key__": "a", "jpg": ramp},
        {"__key__": "b", "jpeg": image.fromarray(ramp[:, :, 0])},
        {"__key__": "c", "ppm": ramp},
    ]
    shards = write(tmp_path / "a-%d.tar", written, max_bytes=1, jpeg_quality=95, start_shard=4)
    assert [Path(one.url).name for one in shards] == ["a-4.tar", "a-5.tar", "a-6.tar"]
    for number, name in enumerate(("a.jpg", "b.jpeg", "c.ppm"), start=4):
        with tarfile.open(tmp_path / f"a-{number}.tar") as tar:
            file = tar.extractfile(name)
            assert file is not None
            opened = image.open(io.BytesIO(file.read()))
        assert opened.mode == ("L" if name.startswith("b") else "RGB")
        assert np.abs(np.asarray(opened.convert("RGB")).astype(int) - ramp).max() <= 8


def test_what_is_left_by_an_exception_is_whole(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyError),
        mr.ShardWriter(tmp_path / "a-%d.tar", max_samples=2) as writer,
    ):
        for sample in samples(5):
            writer.write(sample)
        raise KeyError("stop")
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "a-0.tar",
        "a-0.tar.index.json",
        "a-1.tar",
        "a-1.tar.index.json",
    ]
    with pytest.raises(mr.InvalidArgumentError, match="closed"):
        writer.write(samples(1)[0])
    with pytest.raises(mr.Error, match="exists"):
        write(tmp_path / "a-%d.tar", samples(1))
    assert write(tmp_path / "a-%d.tar", samples(1), replace=True)[0].samples == 1


@pytest.mark.parametrize(
    ("sample", "error", "words"),
    [
        ({"cls": 3}, TypeError, "__key__ must be a str"),
        ({"__key__": "a"}, mr.InvalidArgumentError, "at least one field"),
        ({"__key__": "a", "cls": 0.5}, TypeError, "a.cls: .*float"),
        ({"__key__": "a", "txt": 5}, TypeError, "a.txt: must be bytes or str, not int"),
        ({"__key__": "a", "json": {"x": {1}}}, TypeError, "a.json: .*set"),
        ({"__key__": "a", "json": float("nan")}, mr.InvalidArgumentError, "a.json: "),
        ({"__key__": "a", "npy": [object()]}, mr.InvalidArgumentError, "a.npy: .*pickle"),
        ({"__key__": "a", "jpg": np.zeros((4, 4), np.float32)}, ValueError, "a.jpg: .*float32"),
        ({"__key__": "a", "jpg": np.zeros((4, 4, 2), np.uint8)}, ValueError, "1, 3 or 4 channels"),
        ({"__key__": "a", "png": np.zeros((0, 4), np.uint8)}, ValueError, "1 to 65535"),
        ({"__key__": "a", "png": np.array([[-1]])}, mr.InvalidArgumentError, "a.png: "),
        ({"__key__": "a.b/c.d", "txt": "x"}, mr.InvalidArgumentError, "reader"),
        ({"__key__": "used", "txt": "x"}, mr.InvalidArgumentError, "a key twice"),
        ({"__key__": "a\0b", "txt": "x"}, mr.InvalidArgumentError, "NUL.*key a"),
        ({"__key__": "a" * 5000, "txt": "x"}, mr.InvalidArgumentError, "4096 bytes.*key aaa"),
        ({"__key__": "a\udcff", "txt": "x"}, mr.InvalidArgumentError, "a.*: not UTF-8"),
        ({"__key__": "a", "t\udcff": "x"}, mr.InvalidArgumentError, "a.*: not UTF-8"),
        ({"__key__": "a", "txt": "\udcff"}, mr.InvalidArgumentError, "a.txt: .*surrogates"),
        ({"__key__": "a", "json": "no JSON"}, mr.InvalidArgumentError, "a.json: .*json.dumps"),
        ({"__key__": "a", "txt.gz": "x"}, TypeError, "a.txt.gz: .*packed by who writes it"),
        ({"__key__": "a", 3: "x"}, TypeError, "a: a member's suffix must be a str, not 3"),
    ],
)
def test_samples_that_cannot_be_written_are_refused(
    tmp_path: Path, sample: dict[str, Any], error: type[Exception], words: str
) -> None:
    with mr.ShardWriter(tmp_path / "a-%d.tar") as writer:
        writer.write({"__key__": "used", "txt": "x"})
        with pytest.raises(error, match=words):
            writer.write(sample)
        writer.write({"__key__": "after", "txt": "x"})
    assert writer.close()[0].samples == 2


def test_texts_of_json_and_pictures_of_palettes_are_what_they_say(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    colours = np.zeros((2, 2, 3), np.uint8)
    colours[0], colours[1] = (255, 0, 0), (0, 0, 255)
    image = pil.fromarray(colours).quantize(4)
    with mr.ShardWriter(tmp_path / "a-%d.tar") as writer:
        writer.write({"__key__": "a", "png": image, "ppm": image, "json": '{"label": 3}'})
    (shard,) = writer.close()
    fields: dict[str, Any] = {"label": mr.Label("json", json_key="label")}
    for suffix in ("png", "ppm"):
        fields["image"] = mr.Image(mr.CenterCrop(2), suffixes=suffix, layout="HWC", dtype="uint8")
        with mr.Pipeline(shard.url, fields=fields, batch_size=1).numpy() as loader:
            (batch,) = loader
        assert batch["image"][0].tolist() == colours.tolist()
        assert batch["label"].tolist() == [3]


def test_pictures_of_other_colour_modes_are_converted(tmp_path: Path) -> None:
    pil = pytest.importorskip("PIL.Image")
    red = pil.new("RGB", (8, 8), (200, 30, 30))
    modes = ("YCbCr", "HSV", "CMYK", "RGBX")
    with mr.ShardWriter(tmp_path / "a-%d.tar") as writer:
        for mode in modes:
            writer.write({"__key__": mode, "png": red.convert(mode)})
        clear = red.copy()
        clear.putalpha(128)
        writer.write({"__key__": "RGBa", "png": clear.convert("RGBa")})
        with pytest.raises(mr.Error, match="LA"):
            writer.write({"__key__": "LA", "png": red.convert("LA")})
    (shard,) = writer.close()
    image = mr.Image(mr.CenterCrop(8), suffixes="png", layout="HWC", dtype="uint8")
    with mr.Pipeline(shard.url, fields={"image": image}, batch_size=5).numpy() as loader:
        (batch,) = loader
    for key, pixels in zip(batch["keys"], batch["image"], strict=True):
        assert np.abs(pixels[0, 0].astype(int) - (200, 30, 30)).max() <= 2, key


def test_tensors_with_gradients_are_written_as_their_values(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    with mr.ShardWriter(tmp_path / "a-%d.tar") as writer:
        writer.write({"__key__": "a", "npy": torch.full((2,), 3.0, requires_grad=True)})
    (shard,) = writer.close()
    data = mr.Pipeline(shard.url, fields={"npy": mr.Raw("npy")}, batch_size=1)
    with data.numpy() as loader:
        (batch,) = loader
    assert np.load(io.BytesIO(batch["npy"][0])).tolist() == [3.0, 3.0]


def test_a_forked_child_leaves_the_writer_to_its_parent(tmp_path: Path) -> None:
    script = """
import os, sys, millrace as mr
writer = mr.ShardWriter(sys.argv[1] + "/w-%d.tar", max_samples=2)
for i in range(3):  # one shard is handed to the writer's threads, one is open
    writer.write({"__key__": str(i), "bin": bytes(700_000)})
child = os.fork()
if child == 0:
    for use in (lambda: writer.write({"__key__": "c", "bin": b""}), writer.close):
        try:
            use()
        except mr.Error as error:
            assert "forked" in str(error), error
        else:
            os._exit(3)
    del writer, use
    sys.exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
writer.write({"__key__": "3", "bin": b"end"})
print(*(shard.samples for shard in writer.close()))
"""
    assert run_python(script, str(tmp_path)).stdout.split() == ["0", "2", "2"]
    assert sorted(path.name for path in tmp_path.glob("*.tar*")) == [
        "w-0.tar",
        "w-0.tar.index.json",
        "w-1.tar",
        "w-1.tar.index.json",
    ]


def test_what_is_replaced_leaves_no_index_of_what_was_there(tmp_path: Path) -> None:
    pattern = tmp_path / "a-%06d.tar"
    write(pattern, samples(5))
    write(pattern, samples(8), replace=True, index=False)
    assert [one.name for one in tmp_path.iterdir()] == ["a-000000.tar"]
    fields: dict[Any, Any] = {"label": mr.Label()}
    shuffle = mr.Shuffle(order="permutation")
    with mr.Pipeline(tmp_path / "a-000000.tar", fields=fields, batch_size=1, shuffle=shuffle).numpy() as loader:
        assert len(list(loader)) == 8


def test_writers_one_behind_the_other_make_one_set(tmp_path: Path) -> None:
    pattern = tmp_path / "a-%06d.tar"
    write(pattern, samples(6), max_samples=3)
    write(pattern, samples(4), start_shard=2)
    write(pattern, [], start_shard=3)
    manifest = json.loads((tmp_path / "a-manifest.json").read_text())
    assert [one["url"] for one in manifest["shardlist"]] == [f"a-{i:06d}.tar" for i in range(3)]
    fields: dict[Any, Any] = {"label": mr.Label()}
    with mr.Pipeline(tmp_path / "a-manifest.json", fields=fields, batch_size=1).numpy() as loader:
        assert len(list(loader)) == 10


def test_levels_of_16_bits_stay_that_whatever_a_picture_holds(tmp_path: Path) -> None:
    depths = [np.full((4, 4), value, np.uint16) for value in (200, 60000)]
    write(tmp_path / "d-%d.tar", [{"__key__": str(i), "png": one} for i, one in enumerate(depths)])
    field = mr.Image(mr.CenterCrop((4, 4)), channels=1, dtype="float32", values=mr.GreyValues(), suffixes="png")
    with mr.Pipeline(tmp_path / "d-0.tar", fields={"d": field}, batch_size=2, streams=1).numpy() as loader:
        (batch,) = loader
    assert np.allclose(batch["d"].reshape(2, -1)[:, 0], [200 / 65535, 60000 / 65535])


def test_writers_that_can_never_work_are_refused(tmp_path: Path) -> None:
    for arguments, words in (
        ({"pattern": "a.tar"}, "%d"),
        ({"pattern": "a-%d.tar", "max_samples": 0}, "max_samples=0: from 1"),
        ({"pattern": "a-%d.tar", "max_bytes": -1}, "max_bytes=-1: from 1"),
        ({"pattern": "a-%d.tar", "start_shard": 1 << 63}, "start_shard=.*: from 0"),
    ):
        values: dict[str, Any] = dict(arguments)
        with pytest.raises(mr.Error, match=words):
            mr.ShardWriter(tmp_path / values.pop("pattern"), **values)


def test_the_pages_program_prints_what_it_says(tmp_path: Path) -> None:
    (program,) = blocks("making-shards.md", "python")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() in (DOCS / "making-shards.md").read_text()
    run_program("verify", str(tmp_path / "out/train-manifest.json"))


class Store(BaseHTTPRequestHandler):
    """Objects that are put, in ``server.objects``."""

    protocol_version = "HTTP/1.1"  # which has an answer to Expect: 100-continue

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        is_new = self.headers.get("If-None-Match") != "*" or self.path not in self.objects
        if is_new:
            self.objects[self.path] = data
        self._answer(201 if is_new else 412)

    def do_GET(self) -> None:
        data = self.objects.get(self.path, b"")
        self._answer(200 if self.path in self.objects else 404, data)

    def do_HEAD(self) -> None:
        self._answer(200 if self.path in self.objects else 404)

    def do_DELETE(self) -> None:
        self._answer(204 if self.objects.pop(self.path, None) is not None else 404)

    def log_message(self, *_: Any) -> None:
        pass

    @property
    def objects(self) -> dict[str, bytes]:
        return self.server.objects  # type: ignore[attr-defined, no-any-return]

    def _answer(self, status: int, data: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def test_a_store_gets_the_files_of_a_disk(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Store) as server:
        objects: dict[str, bytes] = {}
        server.objects = objects  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        place = f"http://127.0.0.1:{server.server_address[1]}/set"
        shards = write(f"{place}/a-%d.tar", samples(5), max_samples=3)
        server.shutdown()
    assert shards[1].url == f"{place}/a-1.tar"
    write(tmp_path / "a-%d.tar", samples(5), max_samples=3)
    assert objects == {f"/set/{one.name}": one.read_bytes() for one in tmp_path.iterdir()}
