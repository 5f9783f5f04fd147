"""Samples per second of DINO's multi-crop, 2 x 224 and 8 x 96: millrace with one decode, with a decode for each view, and webdataset.

    python bench/peers/multi_crop.py SPEC [--workers N] [--batch N] [--seconds S] [--rounds R]

All run in turn, on as many threads or workers; the figures are medians of samples/s, where a sample is a picture with its ten views in
float32, and of the ratios to webdataset + torchvision in the same round. Needs torch, torchvision, webdataset and millrace.
"""

import argparse
import json
import statistics
import time

CROPS = [(224, (0.4, 1.0))] * 2 + [(96, (0.05, 0.4))] * 8
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def peer(options):
    """webdataset + PIL + torchvision + DataLoader, which decodes each picture once."""
    import torch
    import torchvision.transforms as T
    import webdataset as wds

    torch.set_num_threads(1)
    views = [T.Compose([T.RandomResizedCrop(size, scale), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize(MEAN, STD)])
             for size, scale in CROPS]
    dataset = (wds.WebDataset(options.spec, resampled=True, shardshuffle=False).decode("pil").to_tuple("jpg")
               .map(lambda sample: tuple(view(sample[0].convert("RGB")) for view in views)).batched(options.batch))
    return iter(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=options.workers))


def ours(options, numbered):
    import millrace as mr

    fields = {f"crop{n}": mr.Image(mr.RandomResizedCrop(size, area=area), mr.RandomHorizontalFlip(), mr.Normalize(MEAN, STD), suffixes="jpg",
                                   view=n if numbered else None)
              for n, (size, area) in enumerate(CROPS)}
    data = mr.Pipeline(options.spec, fields=fields, batch_size=options.batch, shuffle=mr.Shuffle(0), epochs=mr.Epochs(samples=1 << 40),
                       threads=options.workers)
    return iter(data.numpy())


def rate(batches, options):
    next(batches)  # pays for starting
    count, start = 0, time.perf_counter()
    while time.perf_counter() - start < options.seconds:
        next(batches)
        count += options.batch
    return count / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("spec")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kinds = {"one decode": lambda: ours(options, True), "a decode a view": lambda: ours(options, False),
             "webdataset + torchvision": lambda: peer(options)}
    rates = {kind: [] for kind in kinds}
    for _ in range(options.rounds):
        for kind, make in kinds.items():
            batches = make()
            rates[kind].append(rate(batches, options))
            del batches
    reference = rates["webdataset + torchvision"]
    for kind, values in rates.items():
        ratio = statistics.median(value / other for value, other in zip(values, reference))
        print(json.dumps({"what": kind, "samples_per_s": round(statistics.median(values), 1), "ratio": round(ratio, 2)}))


if __name__ == "__main__":
    main()
