"""Where pictures come from: (A) single files, (B) local shards, (C) shards on a web server.

    python bench/peers/sources.py MILLRACE [--seconds S] [--rounds R]

A is PyTorch's ImageFolder and DataLoader, which opens a file a sample in random order; B and C are `millrace bench`
on the same pictures in shards, C from nginx on loopback. All run in turn; the figures are medians of images/s. "loader" decodes to
batches, "training" is millrace's LeNet on B and C. A prints its ratio to B. Needs torch, torchvision and nginx.
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


def files_rate(folder, seconds):
    import torch
    from torchvision import datasets, transforms
    images = datasets.ImageFolder(folder / "files", transforms.ToTensor())
    loader = torch.utils.data.DataLoader(images, BATCH, shuffle=True, num_workers=os.cpu_count(), persistent_workers=True)
    next(iter(loader))  # the workers are up
    count, start = 0, time.monotonic()
    while time.monotonic() - start < seconds:
        for batch, _ in loader:
            count += len(batch)
            if time.monotonic() - start >= seconds:
                break
    return count / (time.monotonic() - start)


def shards_rate(program, spec, side, stage, seconds):
    words = [program, "bench", spec, "--stage", stage, "--size", str(side), "--batch-size", str(BATCH), "--seconds", str(seconds), "--json"]
    if stage == "train":
        words += ["--model", "lenet", "--classes", "10", "--channels", "3"]
    result = subprocess.run(words, capture_output=True, text=True)
    if result.returncode != 0:
        raise SystemExit(result.stderr)
    return json.loads(result.stdout.splitlines()[-1])["samples_per_s"]


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
            "B local shards, training": lambda: shards_rate(program, local, side, "train", seconds),
            "C remote shards, training": lambda: shards_rate(program, remote, side, "train", seconds)}
    server = serve(folder, port)
    try:
        rates = {what: [] for what in runs}
        for _ in range(rounds):
            for what, run in runs.items():
                rates[what].append(run())
    finally:
        server.terminate()
        server.wait()
    for what, values in rates.items():
        base = rates["B local shards, " + what.split(", ")[1]]
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
