"""PyTorch's images a second for one of train_step's cases: torch_train_step.py CASE BATCH PRECISION
THREADS SECONDS. channels_last; bf16 by autocast or as a bf16 model, whichever is faster."""
import sys
import time

import torch
import torch.nn.functional as F
import torchvision
from torch import nn


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def make(case):
    name, size = case.split("/")
    if name == "lenet":
        return lenet(), 1, int(size), 10
    classes = 10 if name.startswith("resnet18") else 1000
    model = getattr(torchvision.models, name.split("-")[0])(num_classes=classes)
    if name.endswith("-3x3"):
        model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
        model.maxpool = nn.Identity()
    return model, 3, int(size), classes


def rate(case, batch, autocast, whole, seconds):
    model, channels, size, classes = make(case)
    dtype = torch.bfloat16 if whole else torch.float32
    model = model.to(memory_format=torch.channels_last).to(dtype).train()
    images = torch.randn(batch, channels, size, size, dtype=dtype)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(0, classes, (batch,))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    # As in cpu_clock.h: with one thread, waiting for a core does not count.
    now = time.process_time if torch.get_num_threads() == 1 else time.time
    best, begin, steps = 1e9, now(), 0
    while steps < 3 or now() - begin < seconds:
        start = now()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = model(images)
        F.cross_entropy(logits.float(), labels).backward()
        optimizer.step()
        if steps > 0:
            best = min(best, now() - start)
        steps += 1
    return batch / best


def main():
    case, batch, precision, threads, seconds = sys.argv[1:6]
    torch.set_num_threads(int(threads))
    batch, seconds = int(batch), float(seconds)
    if precision == "fp32":
        print(rate(case, batch, False, False, seconds))
    else:
        print(max(rate(case, batch, True, False, seconds / 2),
                  rate(case, batch, False, True, seconds / 2)))


if __name__ == "__main__":
    main()
