"""Images per second of WebDataset + torchvision + DataLoader: a peer of `millrace bench`.

Usage: webdataset_loader.py SPEC {rrc224|crop32} [--workers N] [--batch N] [--seconds S] [--suffix jpg]
Prints one JSON line. Decodes with PIL, transforms with torchvision, batches with DataLoader.
"""
import argparse
import json
import time

import torch
import torchvision.transforms as T
import webdataset as wds

TRANSFORMS = {
    "rrc224": [T.RandomResizedCrop(224), T.RandomHorizontalFlip()],
    "crop32": [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip()],
}


def make_loader(spec, transform, workers, batch, suffix="jpg"):
    """Batches of (images, labels), without end, in float32."""
    torch.set_num_threads(1)
    steps = T.Compose(TRANSFORMS[transform] + [
        T.ToTensor(), T.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])])
    dataset = (wds.WebDataset(spec, resampled=True, shardshuffle=False)
               .shuffle(1000).decode("pil").to_tuple(suffix, "cls")
               .map_tuple(steps, int).batched(batch))
    return torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=workers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("spec")
    parser.add_argument("transform", choices=TRANSFORMS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--suffix", default="jpg")
    options = parser.parse_args()

    loader = make_loader(options.spec, options.transform, options.workers, options.batch, options.suffix)

    images, start, end = 0, None, None
    for pixels, _ in loader:
        now = time.perf_counter()
        if start is None:  # the first batch pays for starting the workers
            start = now
            continue
        images += len(pixels)
        end = now
        if end - start > options.seconds:
            break
    print(json.dumps({"images": images, "seconds": end - start, "images_per_s": images / (end - start)}))


if __name__ == "__main__":
    main()
