"""Where pictures come from: (A) single files, (B) local shards, (C) shards on a web server.

    python bench/peers/sources.py MILLRACE [--seconds S] [--rounds R]

A is PyTorch's ImageFolder and DataLoader, which opens a file a sample in random order; B, C and D are `millrace bench`
on the same pictures in shards, C from nginx on loopback, D the same with --cache: with an empty cache, and with one that has all. All run
in turn; the figures are medians of images/s, and of the ratios to B in the same round. "loader" decodes to batches, "training" is a LeNet of the same
layers in float32: PyTorch's for A, millrace's for the others. Needs torch, torchvision and nginx.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tarfile
import tempfile
import time

SETS = {"32 px PNG": (32, "png", 4000), "256 px JPEG": (256, "jpg", 1000)}
BATCH = 64


def make(program, folder, side, kind, count):
    """The shards' spec; beside them the same pictures as single files by class."""
    words = [program, "create", f"{folder}/s-%06d.tar", "--synthetic", "classes", "--count", str(count), "--size", str(side),
             "--format", kind, "--maxcount", str(count // 4)]
    subprocess.run(words, check=True, capture_output=True)
    for shard in sorted(folder.glob("s-*.tar")):
        with tarfile.open(shard) as tar:
            data = {member.name: tar.extractfile(member).read() for member in tar}
        for name, content in data.items():
            if name.endswith("." + kind):
                label = data[name[: -len(kind)] + "cls"].decode().strip()
                place = folder / "files" / label
                place.mkdir(parents=True, exist_ok=True)
                (place / pathlib.Path(name).name).write_bytes(content)
    return "s-{000000..000003}.tar"


def lenet(side):
    from torch import nn
    layers = [nn.Conv2d(3, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()]
    last = (side // 2 - 4) // 2
    return nn.Sequential(*layers, nn.Linear(16 * last * last, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def training_step(side):
    import torch
    model = lenet(side)
    optimizer = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)

    def step(images, labels):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


def files_rate(folder, seconds, step=lambda images, labels: None):
    import torch
    from torchvision import datasets, transforms
    images = datasets.ImageFolder(folder / "files", transforms.ToTensor())
    loader = torch.utils.data.DataLoader(images, BATCH, shuffle=True, num_workers=os.cpu_count(), persistent_workers=True)
    next(iter(loader))  # the workers are up
    count, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        for batch, labels in loader:
            step(batch, labels)
            count += len(batch)
            if time.monotonic() - start >= seconds:
                break
    return count / (time.monotonic() - start)


def shards_rate(program, spec, side, stage, seconds, cache=None):
    words = [program, "bench", spec, "--stage", stage, "--size", str(side), "--batch-size", str(BATCH), "--seconds", str(seconds), "--json"]
    if stage == "train":
        words += ["--model", "lenet", "--classes", "10", "--channels", "3", "--precision", "fp32"]
    if cache:
        words += ["--cache", str(cache)]
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])["samples_per_s"]


def empty_cache_rate(program, spec, side, folder, seconds):
    with tempfile.TemporaryDirectory(dir=folder) as parent:
        return shards_rate(program, spec, side, "decode", seconds, pathlib.Path(parent) / "cache")


def serve(folder, port):
    folder.chmod(0o755)  # its workers are another user
    config = folder / "nginx.conf"
    temporary = "".join(f"{what}_temp_path {folder}/{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    config.write_text(f"daemon off; pid {folder}/pid; error_log {folder}/error; events {{}} http {{ access_log off; sendfile on; "
                      f"{temporary} server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n")
    server = subprocess.Popen(["nginx", "-c", str(config)], stderr=subprocess.DEVNULL)
    time.sleep(1)
    return server


def compare(program, folder, name, seconds, rounds, port):
    side, kind, count = SETS[name]
    spec = make(program, folder, side, kind, count)
    local, remote = f"{folder}/{spec}", f"http://127.0.0.1:{port}/{spec}"
    runs = {"A files, loader": lambda: files_rate(folder, seconds),
            "B local shards, loader": lambda: shards_rate(program, local, side, "decode", seconds),
            "C remote shards, loader": lambda: shards_rate(program, remote, side, "decode", seconds),
            "D cached, empty, loader": lambda: empty_cache_rate(program, remote, side, folder, seconds),
            "D cached, full, loader": lambda: shards_rate(program, remote, side, "decode", seconds, folder / "cache"),
            "A files, training": lambda: files_rate(folder, seconds, training_step(side)),
            "B local shards, training": lambda: shards_rate(program, local, side, "train", seconds),
            "C remote shards, training": lambda: shards_rate(program, remote, side, "train", seconds)}
    server = serve(folder, port)
    try:
        runs["D cached, full, loader"]()
        rates = {what: [] for what in runs}
        for _ in range(rounds):
            for what, run in runs.items():
                rates[what].append(run())
    finally:
        server.terminate()
        server.wait()
    for what, values in rates.items():
        base = rates["B local shards, " + what.split(", ")[-1]]
        ratio = statistics.median(a / b for a, b in zip(values, base))
        print(f"{name:12} {what:26} {statistics.median(values):9.0f} images/s  {ratio:5.2f} of B", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--port", type=int, default=18790)
    options = parser.parse_args()
    for name in SETS:
        with tempfile.TemporaryDirectory() as folder:
            compare(options.program, pathlib.Path(folder), name, options.seconds, options.rounds, options.port)


if __name__ == "__main__":
    main()
