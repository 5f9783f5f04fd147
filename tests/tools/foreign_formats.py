"""Data written by its original library, made into shards by `create`, and every sample compared.

    foreign_formats.py PROGRAM FORMAT       in an empty folder
"""

import glob
import io
import json
import os
import subprocess
import sys
import tarfile
import warnings

import numpy as np
from PIL import Image

warnings.filterwarnings("ignore")
PROGRAM = sys.argv[1]
SAMPLES = 23


def picture(i, mode="RGB"):
    y, x = np.mgrid[: 9 + i % 5, : 11 + i % 3]
    levels = np.stack([x * 9 + i, y * 7 + i, x * y + 3 * i], -1).astype(np.uint8)
    return Image.fromarray(levels).convert(mode)


def encoded(i, kind="JPEG"):
    data = io.BytesIO()
    picture(i).save(data, format=kind)
    return data.getvalue()


def create(*words):
    made = subprocess.run([PROGRAM, "create", "out/s-%d.tar", "--maxcount", "7", "--force", *words],
                          capture_output=True, text=True)
    assert made.returncode == 0, (words, made.stderr)
    return made.stderr


def refused(*words):
    made = subprocess.run([PROGRAM, "create", "no/s-%d.tar", *words], capture_output=True, text=True)
    assert made.returncode in (1, 2) and made.stderr.count("\n") == 1, (words, made.stderr)
    return made.stderr


def said(*words):
    done = subprocess.run([PROGRAM, *words], capture_output=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def samples():
    """Of all shards, in order: key and {suffix: bytes}."""
    found = {}
    for number in range(1000):
        try:
            tar = tarfile.open(f"out/s-{number}.tar")
        except FileNotFoundError:
            return found
        for member in tar:
            key, suffix = member.name.split(".", 1)
            found.setdefault(key, {})[suffix] = tar.extractfile(member).read()


def equal(found, wanted):
    """Bytes; a picture, by its pixels; an array; or anything else as JSON."""
    if isinstance(wanted, bytes):
        return found == wanted
    if isinstance(wanted, Image.Image):
        image = Image.open(io.BytesIO(found))
        return image.mode == wanted.mode and image.size == wanted.size and image.tobytes() == wanted.tobytes()
    if isinstance(wanted, np.ndarray):
        array = np.load(io.BytesIO(found))
        return array.dtype == wanted.dtype and array.shape == wanted.shape and (array == wanted).all()
    return json.loads(found) == wanted


def expect(wanted):
    found = samples()
    assert list(found) == list(wanted), (list(found)[:3], list(wanted)[:3])
    for key, fields in wanted.items():
        assert set(found[key]) == set(fields), (key, set(found[key]), set(fields))
        for suffix, value in fields.items():
            assert equal(found[key][suffix], value), (key, suffix, found[key][suffix][:200], value)


def numbered(fields):
    return {f"{i:08}": fields(i) for i in range(SAMPLES)}


def tfrecord():
    import gzip
    import tfrecord as library

    def write(path, rows):
        writer = library.TFRecordWriter(path)
        for i in rows:
            writer.write({"image/encoded": (encoded(i), "byte"),
                          "image/class/label": (i % 4, "int"),
                          "image/class/text": (b"class %d" % (i % 4), "byte"),
                          "image/object/bbox/xmin": ([0.25 * k for k in range(i % 3)], "float"),
                          "big": ([-1, 2**40 + i], "int")})
        writer.close()

    write("a-0.tfrecord", range(0, 10))
    write("a-1.tfrecord", range(10, SAMPLES))

    def fields(i):
        xmin = [0.25 * k for k in range(i % 3)]
        return {"jpg": encoded(i), "json": {
            "image/class/label": i % 4, "image/class/text": f"class {i % 4}",
            "image/object/bbox/xmin": None if not xmin else xmin[0] if len(xmin) == 1 else xmin,
            "big": [-1, 2**40 + i]}}

    create("--from-tfrecord", "a-*.tfrecord")
    expect(numbered(fields))
    packed = gzip.compress(open("a-0.tfrecord", "rb").read()), gzip.compress(open("a-1.tfrecord", "rb").read())
    for number, data in enumerate(packed):
        open(f"z-{number}.tfrecord.gz", "wb").write(data)
    create("--from-tfrecord", "z-{0,1}.tfrecord.gz")
    expect(numbered(fields))
    create("--from-tfrecord", "a-0.tfrecord", "a-1.tfrecord", "--images", "image/encoded", "--class", "image/class/text",
           "--columns", "big")
    expect(numbered(lambda i: {"jpg": encoded(i), "cls": str(i % 4).encode(), "json": {"big": [-1, 2**40 + i]}}))
    assert open("out/s-classes.txt").read() == "class 0\nclass 1\nclass 2\nclass 3\n"

    whole = open("a-0.tfrecord", "rb").read()
    open("cut", "wb").write(whole[:-3])
    assert "ends within a record" in refused("--from-tfrecord", "cut")
    open("flipped", "wb").write(whole[:40] + bytes([whole[40] ^ 1]) + whole[41:])
    assert "checksum" in refused("--from-tfrecord", "flipped")
    open("text", "wb").write(b"hello, world, and more")
    assert "not a TFRecord file" in refused("--from-tfrecord", "text")
    message = refused("--from-tfrecord", "a-0.tfrecord", "--images", "img")
    assert "no column 'img'" in message and "image/encoded" in message, message


def mds():
    from streaming import MDSWriter
    columns = {"picture": "jpeg", "raw": "pil", "label": "int", "name": "str", "small": "uint8", "part": "float32",
               "array": "ndarray", "fixed": "ndarray:int16:2,3", "meta": "json", "blob": "bytes", "long": "str_int"}

    def row(i):
        with open("picture.jpg", "wb") as file:
            file.write(encoded(i))
        return {"picture": Image.open("picture.jpg"), "raw": picture(i, ("L", "RGB", "RGBA")[i % 3]),
                "label": i % 4, "name": f"näme {i}", "small": i, "part": i / 8,
                "array": np.arange(i + 1, dtype=np.float64).reshape(1, -1),
                "fixed": np.full((2, 3), -i, np.int16), "meta": {"a": [i, None]}, "blob": bytes([0, i, 255]),
                "long": 10**15 + i}

    def fields(i):
        own = row(i)
        return {"picture.jpg": encoded(i), "raw.png": own["raw"], "array.npy": own["array"], "fixed.npy": own["fixed"],
                "blob.bin": own["blob"],
                "json": {name: own[name] for name in ("label", "name", "small", "part", "meta", "long")}}

    for compression in (None, "zstd", "gz", "bz2"):
        folder = f"mds-{compression}"
        with MDSWriter(out=folder, columns=columns, size_limit=1 << 13, compression=compression) as writer:
            for i in range(SAMPLES):
                writer.write(row(i))
        create("--from-mds", folder)
        expect(numbered(fields))
    create("--from-mds", "mds-zstd", "--images", "raw", "--class", "label", "--format", "ppm")
    found = samples()
    for i in range(SAMPLES):
        own = found[f"{i:08}"]
        assert own["cls"] == str(i % 4).encode()
        suffix = ("pgm", "ppm", "ppm")[i % 3]
        if i % 3 != 2:
            assert equal(own[suffix], picture(i, ("L", "RGB")[i % 3]))

    with MDSWriter(out="pickles", columns={"x": "pkl"}) as writer:
        writer.write({"x": {1}})
    assert "pickles are not read" in refused("--from-mds", "pickles")
    with MDSWriter(out="brotli", columns={"x": "int"}, compression="br") as writer:
        writer.write({"x": 1})
    assert "gz, bz2 and zstd" in refused("--from-mds", "brotli")
    assert "index.json" in refused("--from-mds", "out")
    index = json.load(open("mds-None/index.json"))
    index["shards"][0]["raw_data"]["basename"] = "../mds-gz/index.json"
    json.dump(index, open("mds-None/index.json", "w"))
    assert "not in its folder" in refused("--from-mds", "mds-None")


def litdata():
    import torch
    from litdata.streaming.writer import BinaryWriter

    def row(i):
        return {"image": Image.open(io.BytesIO(encoded(i))), "raw": picture(i), "label": i % 4,
                "meta": {"name": f"näme {i}", "sizes": [i / 4, np.arange(6, dtype=np.int32).reshape(2, 3) + i]},
                "tensor": torch.arange(12, dtype=torch.float32).reshape(3, 4) * i,
                "flat": torch.arange(i + 1, dtype=torch.int64), "line": np.arange(i + 1, dtype=np.float64),
                "blob": bytes([0, i, 255])}

    def write(folder, compression=None):
        writer = BinaryWriter(folder, chunk_size=5, compression=compression)
        for i in range(SAMPLES):
            writer[i] = row(i)
        writer.done()
        writer.merge()

    def fields(i):
        own = row(i)
        found = {"image.jpg": encoded(i), "raw.png": own["raw"], "tensor.npy": own["tensor"].numpy(),
                 "flat.npy": own["flat"].numpy(), "line.npy": own["line"], "blob.bin": own["blob"],
                 "meta_sizes_1.npy": own["meta"]["sizes"][1],
                 "json": {"label": i % 4, "meta.name": f"näme {i}", "meta.sizes.0": i / 4}}
        return found

    def written(i):  # LitData writes a picture from memory once more
        data = io.BytesIO()
        row(i)["image"].save(data, format="JPEG")
        return data.getvalue()

    for compression in (None, "zstd"):
        folder = f"lit-{compression}"
        write(folder, compression)
        create("--from-litdata", folder)
        expect(numbered(lambda i: {**fields(i), "image.jpg": written(i)}))
    create("--from-litdata", "lit-zstd", "--images", "image", "raw", "--class", "label", "--columns", "meta.name")
    expect(numbered(lambda i: {"jpg": written(i), "raw.png": picture(i), "cls": str(i % 4).encode(),
                               "json": {"meta.name": f"näme {i}"}}))
    index = json.load(open("lit-None/index.json"))
    index["chunks"][0]["chunk_size"] = 2**31
    json.dump(index, open("lit-None/index.json", "w"))
    assert "in the index, but 5 in the file" in refused("--from-litdata", "lit-None")


def parquet():
    import pyarrow as pa
    import pyarrow.parquet as pq
    kinds = ("JPEG", "PNG", "JPEG")

    def table(rows):
        return pa.table({
            "image": pa.array([{"bytes": encoded(i, kinds[i % 3]), "path": f"{i}.jpg"} for i in rows],
                              pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            "mask": pa.array([encoded(i, "PNG") for i in rows], pa.large_binary()),
            "label": pa.array([i % 4 for i in rows], pa.int8()),
            "name": pa.array([f"n.{i}" for i in rows]),
            "kind": pa.array([f"kind {i % 3}" for i in rows]).dictionary_encode(),
            "score": pa.array([None if i == 3 else i / 8 for i in rows], pa.float32()),
            "boxes": pa.array([[[i, 1.5], []] for i in rows], pa.list_(pa.list_(pa.float64()))),
            "info": pa.array([{"a": i, "b": "x"} for i in rows]),
            "views": pa.array([[encoded(i + k) for k in range(2)] for i in rows], pa.list_(pa.binary())),
        })

    for codec in ("snappy", "zstd", "none"):
        pq.write_table(table(range(0, 9)), "data-0.parquet", row_group_size=4, compression=codec)
        pq.write_table(table(range(9, SAMPLES)), "data-1.parquet", row_group_size=5, compression=codec)
        create("--from-parquet", "data-*.parquet", "--images", "image", "--label", "label")
        expect(numbered(lambda i: {("jpg", "png")[i % 3 == 1]: encoded(i, kinds[i % 3]), "cls": str(i % 4).encode()}))

    def fields(i):
        return {("jpg", "png")[i % 3 == 1]: encoded(i, kinds[i % 3]), "mask.png": encoded(i, "PNG"),
                "cls": str(i % 3).encode(), "views.0.jpg": encoded(i), "views.1.jpg": encoded(i + 1),
                "json": {"labels": [i, 1.5], "score": None if i == 3 else i / 8, "info": {"a": i, "b": "x"}}}

    create("--from-parquet", "data-{0..1}.parquet", "--images", "image", "mask", "--class", "kind", "--labels", "boxes",
           "--columns", "score", "info", "views")
    expect(numbered(fields))
    assert open("out/s-classes.txt").read() == "kind 0\nkind 1\nkind 2\n"
    create("--from-parquet", "data-0.parquet", "--images", "image", "--key", "{kind}/{name}", "--format", "png")
    assert list(samples())[1] == "kind 1/n_1", list(samples())
    create("--from-parquet", "data-0.parquet", "data-1.parquet", "--images", "image", "--shuffle-seed", "3")
    found = samples()
    assert len(found) == SAMPLES and list(found) != sorted(found)
    assert all(equal(found[f"{i:08}"][("jpg", "png")[i % 3 == 1]], encoded(i, kinds[i % 3])) for i in range(SAMPLES))

    # In place, as shards.
    spec = "data-*.parquet#image=image&label=label"
    keys = [f"data-{i // 9 if i < 9 else 1}/{i if i < 9 else i - 9:08}" for i in range(SAMPLES)]
    listed = [json.loads(line) for line in said("ls", "--json", spec).splitlines()]
    assert [line["key"] for line in listed] == keys, listed[:2]
    assert said("cat", spec, "data-1/00000002.jpg") == encoded(11)
    assert json.loads(said("cat", "data-1.parquet", "data-1/00000002.json"))["info"] == {"a": 11, "b": "x"}
    order = said("order", spec, "--seed", "3").decode()
    assert all(order.count(key) == 1 for key in keys), order
    said("verify", "data-*.parquet")
    said("view", spec, "-o", "sheet.png", "--raw")

    def loss(shards):
        words = ("train", shards, "--model", "lenet", "--classes", "4", "--size", "28", "--streams", "1", "--batch-size", "4")
        told = subprocess.run([PROGRAM, *words], capture_output=True, text=True)
        assert told.returncode == 0, told.stderr
        return (told.stdout + told.stderr).split("Train loss=")[1].split(",")[0]

    said("create", "one/s-%d.tar", "--from-parquet", "data-1.parquet", "--images", "image", "--label", "label")
    assert loss("data-1.parquet") == loss("one/s-0.tar")

    whole = open("data-1.parquet", "rb").read()
    open("cut.parquet", "wb").write(whole[:-9])
    assert "cut.parquet" in refused("--from-parquet", "cut.parquet")
    pq.write_table(table(range(9)), "summed.parquet", compression="none", write_page_checksum=True)
    whole = open("summed.parquet", "rb").read()
    open("flipped.parquet", "wb").write(whole[:800] + bytes([whole[800] ^ 1]) + whole[801:])
    assert "flipped.parquet" in refused("--from-parquet", "flipped.parquet")
    assert "are one file" in refused("--from-parquet", "data-0.parquet", "./data-0.parquet")
    pq.write_table(pa.table({"score": [0.5, float("nan")]}), "nan.parquet")
    for words in (["--labels", "score"], ["--columns", "score"]):
        message = refused("--from-parquet", "nan.parquet", *words)
        assert "nan.parquet row 1: column score: NaN" in message, message
    pq.write_table(pa.table({"label": pa.array(["a"] * 3)}), "texts.parquet")
    pq.write_table(pa.table({"label": pa.array([1, 2])}), "whole.parquet")
    assert "column label: values of another kind" in refused("--from-parquet", "whole.parquet", "texts.parquet")
    pq.write_table(pa.table({"image": [{"bytes": None, "path": "/etc/passwd"}]}), "path.parquet")
    assert "only the path" in refused("--from-parquet", "path.parquet", "--images", "image")
    pq.write_table(pa.table({"label": [1, -1]}), "minus.parquet")
    assert "class -1 is negative" in refused("--from-parquet", "minus.parquet", "--label", "label")
    assert "row 1" in refused("--from-parquet", "minus.parquet", "--label", "label")
    pq.write_table(pa.table({"label": ["01", "1", "2"]}), "padded.parquet")
    assert "column label: '01' and '1' would be one class" in refused("--from-parquet", "padded.parquet", "--label", "label")
    pq.write_table(pa.table({"image": [encoded(0), b""], "mask": [b"", encoded(1)]}), "empty.parquet")
    for column, row in (("image", 1), ("mask", 0)):
        message = refused("--from-parquet", "empty.parquet", "--images", column)
        assert f"row {row}: column {column}: no picture: its bytes are empty" in message, message
    blobs = [b"plain", b"", bytes([0, 200])]
    pq.write_table(pa.table({"score": [1, 2, 3], "blob": pa.array(blobs, pa.binary())}), "blobs.parquet")
    create("--from-parquet", "blobs.parquet", "--columns", "score", "blob")
    expect({f"{i:08}": {"json": {"score": i + 1}, "blob.bin": blob} for i, blob in enumerate(blobs)})
    gaps = pa.array([[None, encoded(1), None, encoded(2)]], pa.list_(pa.binary()))
    pq.write_table(pa.table({"image": gaps, "more": gaps}), "gaps.parquet")
    create("--from-parquet", "gaps.parquet", "--images", "image", "more")
    views = {"1.jpg": encoded(1), "3.jpg": encoded(2), "more.1.jpg": encoded(1), "more.3.jpg": encoded(2)}
    expect({"00000000": views})
    for suffix, data in views.items():
        assert said("cat", "gaps.parquet#image=image,more", f"gaps/00000000.{suffix}") == data
    assert "no picture but 1" in refused("--from-parquet", "minus.parquet", "--images", "label")


def cached(datasets):
    """A folder of datasets' cache: its splits are not one set, and a stream that was cut is refused."""
    import pyarrow as pa
    for name, rows in (("train", 9), ("test", 4)):
        datasets.Dataset.from_dict({"x": list(range(rows))}).to_parquet(f"{name}.parquet")
    both = datasets.load_dataset("parquet", data_files={"train": "train.parquet", "test": "test.parquet"}, cache_dir="c")
    both["train"].map(lambda row: {"y": row["x"] * 2})
    made, = {os.path.dirname(path) for path in glob.glob("c/**/*.arrow", recursive=True)}
    assert len(glob.glob(made + "/cache-*.arrow")) == 1
    message = refused("--from-hf", made)
    assert "several sets (parquet-test, parquet-train)" in message, message
    os.remove(f"{made}/parquet-test.arrow")
    assert "left out: 1 cache-*.arrow" in create("--from-hf", made)
    assert len(samples()) == 9
    os.remove(glob.glob(made + "/cache-*.arrow")[0])

    table = pa.table({"x": list(range(9))})
    with pa.ipc.new_stream(f"{made}/parquet-train.arrow", table.schema) as writer:
        writer.write_table(table, max_chunksize=3)
    whole = open(f"{made}/parquet-train.arrow", "rb").read()
    starts = [at for at in range(0, len(whole), 8) if whole[at : at + 4] == b"\xff" * 4]
    assert len(starts) == 5 and starts[-1] == len(whole) - 8, starts  # the schema, three batches, the end
    for cut in starts[1:] + list(range(len(whole) - 7, len(whole))):
        open(f"{made}/parquet-train.arrow", "wb").write(whole[:cut])
        assert "parquet-train.arrow" in refused("--from-hf", made), cut
    open(f"{made}/parquet-train.arrow", "wb").write(whole + whole)
    assert "behind the end of the stream" in refused("--from-hf", made)
    with pa.ipc.new_stream(f"{made}/parquet-train.arrow", table.schema) as writer:
        writer.write_table(table.slice(0, 6))
    assert "num_examples is 9" in refused("--from-hf", made)
    with pa.ipc.new_stream(f"{made}/parquet-train.arrow", table.schema,
                           options=pa.ipc.IpcWriteOptions(use_legacy_format=True)) as writer:
        writer.write_table(table)
    create("--from-hf", made)
    assert len(samples()) == 9


def hf():
    import datasets
    datasets.disable_progress_bars()
    names = ["ant", "bee", "cat", "dog"]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=names),
                                  "caption": datasets.Value("string"),
                                  "grid": datasets.Array2D((2, 3), "int32")})

    def rows(some):
        return {"image": [{"bytes": encoded(i), "path": None} for i in some], "label": [i % 4 for i in some],
                "caption": [f"näme {i}" for i in some], "grid": [np.full((2, 3), i) for i in some]}

    made = datasets.Dataset.from_dict(rows(range(SAMPLES)), features=features)
    made.save_to_disk("one", num_shards=3)

    def fields(i):
        return {"jpg": encoded(i), "cls": str(i % 4).encode(),
                "json": {"caption": f"näme {i}", "grid": [[i] * 3] * 2}}

    create("--from-hf", "one", "--images", "image", "--label", "label", "--columns", "caption", "grid")
    expect(numbered(fields))
    assert open("out/s-classes.txt").read().split() == names
    create("--from-hf", "one")
    expect(numbered(lambda i: {"jpg": encoded(i), "json": {**fields(i)["json"], "label": i % 4}}))
    os.makedirs("hub/data")
    made.to_parquet("hub/data/train-00000-of-00001.parquet")
    create("--from-hf", "hub", "--images", "image", "--label", "label", "--columns", "caption", "grid")
    expect(numbered(fields))
    made.to_parquet("hub/data/test-00000-of-00001.parquet")
    assert "test-*.parquet" in refused("--from-hf", "hub")
    os.remove("hub/data/test-00000-of-00001.parquet")
    os.rename("hub/data/train-00000-of-00001.parquet", "hub/data/train-00000-of-00003.parquet")
    assert "holds 1 of the 3 files of train" in refused("--from-hf", "hub")
    other = made.cast_column("label", datasets.ClassLabel(names=names[::-1]))
    other.to_parquet("other.parquet")
    message = refused("--from-parquet", "hub/data/train-00000-of-00003.parquet", "other.parquet", "--label", "label")
    assert "other.parquet" in message and "other classes (dog, cat, bee, ant, not ant, bee, cat, dog)" in message, message
    cached(datasets)
    datasets.DatasetDict({"train": made, "test": made.select(range(3))}).save_to_disk("two")
    assert "train, test" in refused("--from-hf", "two")
    create("--from-hf", "two/test", "--images", "image")
    assert len(samples()) == 3
    arrow = sorted(glob.glob("one/*.arrow"))[0]
    whole = open(arrow, "rb").read()
    open(arrow, "wb").write(whole[: len(whole) // 2])
    assert arrow in refused("--from-hf", "one")


def coco():
    from pycocotools import mask as library
    os.makedirs("pictures/val")
    images, annotations = [], []
    triangle = [3.0, 2.0, 40.5, 10.0, 20.0, 45.25]
    for i in range(SAMPLES):
        image = Image.new("RGB", (60 + i, 50), (i, 2 * i, 3 * i))
        image.save(f"pictures/val/{i:012}.jpg")
        images.append({"id": 1000 - i, "file_name": f"val/{i:012}.jpg", "width": 60 + i, "height": 50})
    def rle(i):
        area = np.zeros((50, 60 + i), np.uint8, order="F")
        area[5:30, 10 : 20 + i] = 1
        area[8:9, 12:14] = 0
        return area
    for i in range(SAMPLES):
        text = library.encode(rle(i))
        runs, flat = [], rle(i).flatten(order="F")
        edges = np.flatnonzero(np.diff(np.concatenate([[0], flat, [0]])))
        last = 0
        for edge in edges:
            runs.append(int(edge - last))
            last = edge
        runs.append(int(len(flat) - last))
        annotations.append({"id": 2 * i, "image_id": 1000 - i, "category_id": 90, "bbox": [3, 2, 37.5, 43.25],
                            "area": 500.5, "iscrowd": 0, "segmentation": [[v + i / 4 for v in triangle]]})
        annotations.append({"id": 2 * i + 1, "image_id": 1000 - i, "category_id": (7, 31)[i % 2],
                            "bbox": [10, 5, 10 + i, 25], "area": 250 + i, "iscrowd": int(i % 5 == 0),
                            "segmentation": {"size": [50, 60 + i],
                                             "counts": text["counts"].decode() if i % 2 else runs}})
    names = [{"id": 90, "name": "zebra"}, {"id": 7, "name": "train"}, {"id": 31, "name": "bag"}]
    data = {"images": images, "annotations": annotations, "categories": names}
    json.dump(data, open("instances.json", "w"))
    create("--from-json", "instances.json", "--root", "pictures", "--masks", "classes")
    found = samples()
    assert open("out/s-classes.txt").read() == "background\ntrain\nbag\nzebra\n"
    assert len(found) == SAMPLES
    for i in range(SAMPLES):
        own = found[f"val/{i:012}"]
        assert own["jpg"] == open(f"pictures/val/{i:012}.jpg", "rb").read()
        assert json.loads(own["json"]) == {
            "image_id": 1000 - i, "width": 60 + i, "height": 50, "boxes": [[3, 2, 37.5, 43.25], [10, 5, 10 + i, 25]],
            "labels": [3, 1 + i % 2], "areas": [500.5, 250 + i], "crowd": [0, int(i % 5 == 0)]}
        mask = np.array(Image.open(io.BytesIO(own["mask.png"])))
        runs = rle(i) == 1
        crowd = i % 5 == 0
        polygon = library.decode(library.merge(library.frPyObjects([[v + i / 4 for v in triangle]], 50, 60 + i))) == 1
        if not crowd:  # the smaller one lies above
            assert (mask[runs] == 1 + i % 2).all()
        else:
            assert (mask[runs & ~polygon & ~edge_of(polygon)] == 255).all()
        outside = ~runs if not crowd else np.ones_like(runs)
        # Both take pixel centres, ours at the halves: they differ along the edge alone.
        assert ((mask == 3) == polygon)[outside & ~edge_of(polygon)].all(), i
        differing = ((mask == 3) != polygon)[outside].sum()
        assert differing <= 30, (i, differing)
    create("--from-json", "instances.json", "--root", "pictures", "--masks", "instances")
    for i, own in enumerate(samples().values()):
        mask = np.array(Image.open(io.BytesIO(own["mask.png"])))
        assert set(np.unique(mask)) <= {0, 1, 2} and (i % 5 == 0 or (mask[rle(i) == 1] == 2).all())

    unboxed = json.loads(json.dumps(data))
    for one in unboxed["annotations"]:
        del one["bbox"]
    json.dump(unboxed, open("unboxed.json", "w"))
    create("--from-json", "unboxed.json", "--root", "pictures")
    assert open("out/s-classes.txt").read() == "train\nbag\nzebra\n"
    for i, own in enumerate(samples().values()):
        boxes = json.loads(own["json"])["boxes"]
        assert boxes == [[3 + i / 4, 2 + i / 4, 37.5, 43.25], [10, 5, 10 + i, 25]], boxes
        assert json.loads(own["json"])["labels"] == [2, i % 2]

    def spoilt(change):
        other = json.loads(json.dumps(data))
        change(other)
        json.dump(other, open("bad.json", "w"))
        return refused("--from-json", "bad.json", "--root", "pictures", "--masks", "classes")

    assert "annotation 3: no image has id 5" in spoilt(lambda d: d["annotations"][3].update(image_id=5))
    assert "annotation 1: a second one of id 0" in spoilt(lambda d: d["annotations"][1].update(id=0))
    assert "no category has id 6" in spoilt(lambda d: d["annotations"][0].update(category_id=6))
    assert "bbox" in spoilt(lambda d: d["annotations"][0].update(bbox=[1, 2]))
    assert "negative side" in spoilt(lambda d: d["annotations"][0].update(bbox=[1, 2, -3, 4]))
    assert "outside of its image" in spoilt(lambda d: d["annotations"][0].update(bbox=[400, 2, 3, 4]))
    assert "two categories are named bag" in spoilt(lambda d: d["categories"][0].update(name="bag"))
    assert "neither a bbox nor" in spoilt(lambda d: [d["annotations"][0].pop(n) for n in ("bbox", "segmentation")])
    swapped = spoilt(lambda d: d["images"][2].update(width=50, height=62) or d.update(annotations=[]))
    assert "50 x 62 in the JSON" in swapped and "62 x 50 in the file" in swapped, swapped
    assert "run length" in spoilt(lambda d: d["annotations"][1]["segmentation"].update(counts=[1, 2]))
    assert "polygon" in spoilt(lambda d: d["annotations"][0].update(segmentation=[[1, 2, 3]]))
    assert "is outside the folder" in spoilt(lambda d: d["images"][0].update(file_name="../instances.json"))
    assert "no file is" in spoilt(lambda d: d["images"][0].update(file_name="none.jpg"))
    assert "no list of annotations" in spoilt(lambda d: d.pop("annotations"))


def edge_of(area):
    """Pixels beside another of the other kind."""
    edge = np.zeros_like(area)
    for axis in (0, 1):
        for step in (-1, 1):
            edge |= np.roll(area, step, axis) != area
    return edge


if __name__ == "__main__":
    globals()[sys.argv[2]]()
