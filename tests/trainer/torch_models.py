"""The oracle of nn_parity_test.cc: the same model, weights and batch in PyTorch.

usage: nn_parity.py MODEL FOLDER. Reads tables, weights.bin, state.bin, images.bin (N, H, W, C) and
labels.bin; writes logits.bin, evaluated.bin, gradients.bin, state_after.bin and loss.bin, float32
and laid out by the same tables, computed in float64; and single_logits.bin ..., half_logits.bin
..., the same in float32 and under bf16 autocast, which say how far rounding alone leads.
"""
import os
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class LeNet(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.LazyLinear(120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return self.fc3(F.relu(self.fc2(x)))


def make(name, channels, classes):
    if name == "lenet":
        return LeNet(channels, classes)
    import torchvision
    model = getattr(torchvision.models, name.split("-")[0])(num_classes=classes)
    if name.endswith("-3x3"):
        model.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
        model.maxpool = nn.Identity()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return model


def read_table(path):
    rows = []
    for line in open(path):
        name, offset, size, *dims = line.split()
        rows.append((name, int(offset), int(size), [int(d) for d in dims]))
    return rows


def load(target, table, flat):
    for name, offset, size, dims in table:
        value = torch.from_numpy(flat[offset:offset + size].copy()).reshape(dims)
        target[name].copy_(value)


def save(path, source, table, size):
    flat = np.zeros(size, np.float32)
    for name, offset, count, _ in table:
        flat[offset:offset + count] = source[name].detach().float().reshape(-1).numpy()
    flat.tofile(path)


def main(name, folder):
    warnings.simplefilter("ignore")  # lazy modules announce themselves
    torch.manual_seed(0)
    torch.set_num_threads(2)
    at = lambda file: os.path.join(folder, file)
    n, height, width, channels, classes, smoothing = open(at("shape")).read().split()
    shape = [int(n), int(height), int(width), int(channels)]
    images = torch.from_numpy(np.fromfile(at("images.bin"), np.float32)).reshape(shape)
    images = images.permute(0, 3, 1, 2).contiguous()
    labels = torch.from_numpy(np.fromfile(at("labels.bin"), np.int64))
    model = make(name, int(channels), int(classes))
    model(images)  # lazy layers find their sizes
    weights = np.fromfile(at("weights.bin"), np.float32)
    state = np.fromfile(at("state.bin"), np.float32)
    parameters, buffers = read_table(at("parameters")), read_table(at("state"))
    named = dict(model.named_parameters())
    assert sorted(named) == sorted(row[0] for row in parameters), "other parameters"
    held = dict(model.named_buffers())
    assert sorted(held) == sorted(row[0] for row in buffers), "other state"
    for prefix, dtype in (("", torch.float64), ("single_", torch.float32), ("half_", torch.bfloat16)):
        put = lambda file: at(prefix + file)
        half = dtype == torch.bfloat16
        model = model.to(torch.float32 if half else dtype)
        images = images.to(torch.float32 if half else dtype)
        named, held = dict(model.named_parameters()), dict(model.named_buffers())
        with torch.no_grad():
            load(named, parameters, weights)
            load(held, buffers, state)
        model.zero_grad()
        model.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            logits = model(images)
        logits = logits.float() if half else logits
        loss = F.cross_entropy(logits, labels, label_smoothing=float(smoothing))
        loss.backward()
        logits.detach().float().numpy().tofile(put("logits.bin"))
        np.array([loss.item()], np.float32).tofile(put("loss.bin"))
        save(put("gradients.bin"), {k: v.grad for k, v in named.items()}, parameters, len(weights))
        save(put("state_after.bin"), held, buffers, len(state))
        model.eval()
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=half):
            model(images).float().numpy().tofile(put("evaluated.bin"))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
