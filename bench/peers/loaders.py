"""Images/s of loaders on the same pictures and cores: millrace's program and its Python package, and their peers.

    python bench/peers/loaders.py MILLRACE [--python-with WHICH=PYTHON ...] [--seconds S] [--rounds R] [--json F] [--svg F]

Each loader runs in a process of its own, in turns: JPEGs of 448 px to batches of 128 random-resized crops of 224 px, flipped at random,
normalised, float32. The figures are medians of images/s, and of the ratios to the C++ program in the same round. WHICH is one of the loaders
below, whose packages may need an interpreter of their own; one that cannot be imported is left out with its reason.
TensorFlow reads no tar: it gets the same pictures as TFRecords.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

BATCH, SIDE, COUNT, SHARDS, BUFFER = 128, 224, 2000, 4, 1000
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
CORES = len(os.sched_getaffinity(0))
TITLES = {"program": "millrace bench (C++)", "numpy": "millrace, NumPy", "torch": "millrace, PyTorch", "webdataset": "webdataset + DataLoader",
          "dali": "DALI on the CPU", "tfdata": "tf.data (TFRecords)"}


def shards(folder):
    return [f"{folder}/s-{i:06d}.tar" for i in range(SHARDS)]


def millrace(folder, kind):
    import millrace as mr
    pipeline = mr.Pipeline(shards(folder), batch_size=BATCH, shuffle=mr.Shuffle(BUFFER, seed=1), threads=CORES, fields={
        "image": mr.Image(mr.RandomResizedCrop(SIDE), mr.RandomHorizontalFlip(), mr.Normalize.imagenet(), layout="CHW", dtype="fp32"),
        "label": mr.Label(classes=10)})
    loader = getattr(pipeline, kind)()
    while True:
        for batch in loader:
            yield int(batch["valid"].sum())


def webdataset(folder):
    from webdataset_loader import make_loader
    for images, _ in make_loader(shards(folder), "rrc224", CORES, BATCH):
        yield len(images)


def dali(folder):
    from nvidia.dali import fn, pipeline_def, types

    @pipeline_def(batch_size=BATCH, num_threads=CORES, device_id=None)
    def pipeline():
        jpegs, labels = fn.readers.webdataset(paths=shards(folder), ext=["jpg", "cls"], random_shuffle=True, initial_fill=BUFFER,
                                              missing_component_behavior="error")
        images = fn.decoders.image_random_crop(jpegs, output_type=types.RGB)
        images = fn.resize(images, size=[SIDE, SIDE])
        return fn.crop_mirror_normalize(images, mirror=fn.random.coin_flip(), mean=[255 * x for x in MEAN], std=[255 * x for x in STD],
                                        dtype=types.FLOAT, output_layout="CHW"), labels

    built = pipeline()
    built.build()
    while True:
        built.run()
        yield BATCH


def write_records(folder):
    """The shards' pictures as TFRecords, once."""
    import tensorflow as tf
    for shard in shards(folder):
        with tarfile.open(shard) as tar, tf.io.TFRecordWriter(shard + ".records") as records:
            for member in tar:
                if member.name.endswith(".jpg"):
                    jpeg = tf.train.BytesList(value=[tar.extractfile(member).read()])
                    features = tf.train.Features(feature={"jpg": tf.train.Feature(bytes_list=jpeg)})
                    records.write(tf.train.Example(features=features).SerializeToString())


def tfdata(folder):
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(CORES)
    tf.config.threading.set_inter_op_parallelism_threads(CORES)
    if not pathlib.Path(shards(folder)[0] + ".records").exists():
        write_records(folder)

    def image(record):
        jpeg = tf.io.parse_single_example(record, {"jpg": tf.io.FixedLenFeature([], tf.string)})["jpg"]
        begin, size, _ = tf.image.sample_distorted_bounding_box(tf.image.extract_jpeg_shape(jpeg), tf.zeros([0, 0, 4]), area_range=(0.08, 1.0),
                                                                aspect_ratio_range=(3 / 4, 4 / 3), use_image_if_no_bounding_boxes=True)
        window = tf.concat([begin[:2], size[:2]], 0)
        pixels = tf.image.resize(tf.image.decode_and_crop_jpeg(jpeg, window, channels=3), [SIDE, SIDE])
        return (tf.image.random_flip_left_right(pixels) / 255 - MEAN) / STD

    records = tf.data.TFRecordDataset([shard + ".records" for shard in shards(folder)], num_parallel_reads=CORES)
    images = records.shuffle(BUFFER).repeat().map(image, num_parallel_calls=tf.data.AUTOTUNE)
    for batch in images.batch(BATCH).prefetch(tf.data.AUTOTUNE):
        yield len(batch)


LOADERS = {"numpy": lambda folder: millrace(folder, "numpy"), "torch": lambda folder: millrace(folder, "torch"), "webdataset": webdataset,
           "dali": dali, "tfdata": tfdata}


def measure(batches, seconds):
    """Images/s after the first two batches, which pay for the start."""
    for _ in range(2):
        next(batches)
    images, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        images += next(batches)
    print(json.dumps({"samples_per_s": images / (time.perf_counter() - start)}), flush=True)
    os._exit(0)  # workers that are still busy are nobody's concern


def one_loader(script, loader, options, folder, seconds):
    """The command that measures it in a process of its own."""
    return [options.python.get(loader, sys.executable), script, "--one", loader, folder, "--seconds", str(seconds)]


def words_of(loader, options, folder, seconds):
    if loader != "program":
        return one_loader(__file__, loader, options, folder, seconds)
    return [options.program, "bench", *shards(folder), "--stage", "decode", "--size", str(SIDE), "--augment", "rrc, hflip", "--precision",
            "fp32", "--batch-size", str(BATCH), "--shuffle", str(BUFFER), "--threads", str(CORES), "--seconds", str(seconds), "--json"]


def run(words):
    """Images/s, and else the reason why there are none."""
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode != 0:
        return None, (result.stderr.strip().splitlines() or ["no reason"])[-1]
    return json.loads(result.stdout.splitlines()[-1])["samples_per_s"], None


def compare(titles, words_of, options, folder, told=lambda loader, rate: None):
    """The rates of each of the loaders that run, a round after the other."""
    words = [options.program, "create", f"{folder}/s-%06d.tar", "--synthetic", "classes", "--count", str(COUNT), "--size", "448", "--format", "jpg",
             "--maxcount", str(COUNT // SHARDS)]
    subprocess.run(words, check=True, capture_output=True)
    rates = {}
    for loader in titles:  # not counted: caches, TFRecords, and what is missing
        rate, reason = run(words_of(loader, options, folder, 1))
        if rate is None:
            print(f"{titles[loader]}: left out: {reason}", flush=True)
        else:
            rates[loader] = []
    for _ in range(options.rounds):
        for loader, values in rates.items():
            rate, reason = run(words_of(loader, options, folder, options.seconds))
            if rate is None:
                raise SystemExit(f"{titles[loader]}: {reason}")
            values.append(rate)
            told(loader, rate)
    return rates


def arguments(seconds):
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--one", action="store_true", help="run the loader PROGRAM on the shards in FOLDER")
    parser.add_argument("--python-with", action="append", default=[], metavar="WHICH=PYTHON")
    parser.add_argument("--seconds", type=float, default=seconds)
    parser.add_argument("--rounds", type=int, default=3)
    return parser


def parsed(parser, loaders):
    """The options of a comparison; in the process of one loader, its measurement."""
    options = parser.parse_args()
    if options.one:
        measure(loaders[options.program](options.folder), options.seconds)
    options.python = dict(pair.split("=", 1) for pair in options.python_with)
    return options


def table(rates):
    rows = []
    for loader, values in rates.items():
        ratio = statistics.median(value / base for value, base in zip(values, rates["program"]))
        rows.append({"loader": TITLES[loader], "images_per_s": round(statistics.median(values), 1), "of_program": round(ratio, 3),
                     "runs": [round(value, 1) for value in values]})
    return rows


def plot(rows):
    """Bars as an SVG that reads on a light and on a dark page."""
    line, left, width = 30, 190, 380
    most = max(row["images_per_s"] for row in rows)
    height = line * len(rows) + 34
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 130}" height="{height}" font-family="sans-serif" font-size="13">']
    for i, row in enumerate(rows):
        y, length = line * i + 6, width * row["images_per_s"] / most
        colour = "#2f7ebc" if row["loader"].startswith("millrace") else "#8c8c8c"
        parts.append(f'<text x="{left - 8}" y="{y + 15}" text-anchor="end" fill="#777">{row["loader"]}</text>'
                     f'<rect x="{left}" y="{y}" width="{length:.1f}" height="21" fill="{colour}"/>'
                     f'<text x="{left + length + 6:.1f}" y="{y + 15}" fill="#777">{row["images_per_s"]:,.0f} ({row["of_program"]:.2f})</text>')
    parts.append(f'<text x="{left}" y="{height - 8}" fill="#777">images/s: JPEG 448 px to crops of 224 px, {CORES} cores (of the C++ program)</text></svg>')
    return "\n".join(parts) + "\n"


def main():
    parser = arguments(seconds=5)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    options = parsed(parser, LOADERS)
    with tempfile.TemporaryDirectory() as folder:
        rows = table(compare(TITLES, words_of, options, folder))
    for row in rows:
        print(f'{row["loader"]:26} {row["images_per_s"]:8.0f} images/s  {row["of_program"]:5.2f} of the program')
    if options.json:
        options.json.write_text(json.dumps({"cores": CORES, "seconds": options.seconds, "rows": rows}, indent=1) + "\n")
    if options.svg:
        options.svg.write_text(plot(rows))


if __name__ == "__main__":
    main()
