"""The oracle of nn_parity_test.cc: the same model, weights and batch in PyTorch.

usage: torch_models.py MODEL[-VALUE] FOLDER STEPS LR, where VALUE is the stem or width. Reads shape,
tables, weights.bin, state.bin, images.bin (N, H, W, C) and the targets, labels.bin or
OUTPUT.target.bin. Takes one step's forward and backward in float64 and writes OUTPUT.bin,
evaluated.OUTPUT.bin, gradients.bin, state_after.bin and loss.bin, float32 and laid out by the same
tables; then half_*, the same step under bf16 autocast: they say how far rounding alone leads; then,
from the start again, it takes STEPS steps of SGD with momentum 0.9 in float32, and writes
losses.bin, trained.bin and trained_state.bin.
"""
import os
import sys
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


def product(layer, x, weight, bias):
    if isinstance(layer, nn.Linear):
        return F.linear(x, weight, bias)
    return layer._conv_forward(x, weight, bias)


def rounded(values):
    return None if values is None else values.bfloat16().float()


def forward(layer, x):
    """Under autocast: rounded factors, sums in float32, a rounded result. So do processors that have
    bf16 products; without them PyTorch takes ten times as long and rounds the sums too."""
    if not torch.is_autocast_cpu_enabled():
        return product(layer, x, layer.weight, layer.bias)
    with torch.autocast("cpu", enabled=False):
        factors = [rounded(values) for values in (x, layer.weight, layer.bias)]
        return product(layer, *factors).bfloat16()


nn.Conv2d.forward = nn.Linear.forward = forward


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


class Group(nn.Module):
    """Two 3x3 convolutions, the first one pooled, with batch norms and GELU."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs, eps=1e-12, momentum=0.4)

    def forward(self, x):
        x = F.gelu(self.norm1(F.max_pool2d(self.conv1(x), 2)))
        return F.gelu(self.norm2(self.conv2(x)))


class Airbench94(nn.Module):
    def __init__(self, channels, classes):
        super().__init__()
        self.whiten = nn.Conv2d(channels, 8 * channels, 2)
        self.group1, self.group2, self.group3 = Group(8 * channels, 64), Group(64, 256), Group(256, 256)
        self.head = nn.Linear(256, classes, bias=False)

    def forward(self, x):
        x = self.group3(self.group2(self.group1(F.gelu(self.whiten(x)))))
        return self.head(torch.flatten(F.max_pool2d(x, 3), 1))


class Unit(nn.Module):
    """A 3x3 convolution, batch norm, ReLU."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class Expand(nn.Module):
    """Fewer channels, twice the size, plus the encoder's features of that size."""

    def __init__(self, inputs, outputs):
        super().__init__()
        self.reduce = Unit(inputs, outputs)
        self.blend1 = Unit(outputs, outputs)
        self.blend2 = Unit(outputs, outputs)

    def forward(self, x, skip=None):
        x = F.interpolate(self.reduce(x), scale_factor=2, mode="bilinear", align_corners=False)
        return self.blend2(self.blend1(x if skip is None else x + skip))


class Head(nn.Module):
    def __init__(self, inputs):
        super().__init__()
        self.unit = Unit(inputs, inputs)
        self.out = nn.Conv2d(inputs, 1, 1)

    def forward(self, x):
        return self.out(self.unit(x))


def stage(inputs, outputs, blocks):
    """Of torchvision's ResNet, which has these of one width only."""
    from torchvision.models.resnet import BasicBlock
    first = BasicBlock(inputs, outputs)
    if inputs != outputs:
        shortcut = nn.Conv2d(inputs, outputs, 1, 2, bias=False)
        first = BasicBlock(inputs, outputs, 2, nn.Sequential(shortcut, nn.BatchNorm2d(outputs)))
    return nn.Sequential(first, *(BasicBlock(outputs, outputs) for _ in range(blocks - 1)))


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        w = width
        self.conv1, self.bn1 = nn.Conv2d(3, w, 7, 2, 3, bias=False), nn.BatchNorm2d(w)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1, self.layer2 = stage(w, w, 3), stage(w, 2 * w, 4)
        self.layer3, self.layer4 = stage(2 * w, 4 * w, 6), stage(4 * w, 8 * w, 3)
        self.centre1, self.centre2 = Unit(8 * w, 8 * w), Unit(8 * w, 8 * w)
        self.up4, self.up3 = Expand(8 * w, 4 * w), Expand(4 * w, 2 * w)
        self.up2, self.up1, self.up0 = Expand(2 * w, w), Expand(w, w), Expand(w, w // 2)
        self.mask, self.depth = Head(w // 2), Head(w // 2)

    def forward(self, x):
        entry = F.relu(self.bn1(self.conv1(x)))
        skips = [self.layer1(self.maxpool(entry))]
        for layer in (self.layer2, self.layer3, self.layer4):
            skips.append(layer(skips[-1]))
        x = self.centre2(self.centre1(skips[3]))
        x = self.up4(x, skips[2])
        x = self.up3(x, skips[1])
        x = self.up2(x, skips[0])
        x = self.up0(self.up1(x, entry))
        return self.mask(x), self.depth(x)


def make(model, channels, classes):
    name, _, value = model.partition("-")
    if name == "lenet":
        return LeNet(channels, classes)
    if name == "airbench94":
        return Airbench94(channels, classes)
    if name == "unet":
        return UNet(int(value or 64))
    import torchvision
    if name == "vit_s_16":
        return torchvision.models.VisionTransformer(32, 8, 2, 2, 32, 128, num_classes=classes)
    model = getattr(torchvision.models, name)(num_classes=classes)
    if value == "3x3":
        model.conv1 = nn.Conv2d(channels, 64, 3, 1, 1, bias=False)
        model.maxpool = nn.Identity()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, torchvision.ops.StochasticDepth):
            module.p = 0.0
        # Dilation is nothing to a 1x1 kernel, but without it one thread takes PyTorch's slow way.
        if isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1):
            module.dilation = (2, 2)
    return model


def read_table(path):
    rows = []
    for line in open(path):
        name, offset, size, *dims = line.split()
        rows.append((name, int(offset), int(size), [int(d) for d in dims]))
    return rows


def load(target, table, flat):
    with torch.no_grad():
        for name, offset, size, dims in table:
            value = torch.from_numpy(flat[offset:offset + size].copy()).reshape(dims)
            target[name].copy_(value)


def save(path, source, table, size):
    flat = np.zeros(size, np.float32)
    for name, offset, count, _ in table:
        flat[offset:offset + count] = source[name].detach().float().reshape(-1).numpy()
    flat.tofile(path)


class Oracle:
    def __init__(self, name, folder):
        self.folder = folder
        n, height, width, channels, classes, smoothing = open(self.at("shape")).read().split()
        shape = [int(n), int(height), int(width), int(channels)]
        images = torch.from_numpy(np.fromfile(self.at("images.bin"), np.float32)).reshape(shape)
        self.images = images.permute(0, 3, 1, 2).contiguous()
        self.smoothing = float(smoothing)
        self.model = make(name, int(channels), int(classes))
        self.model(self.images)  # lazy layers find their sizes
        self.outputs = ["mask", "depth"] if name.startswith("unet") else ["logits"]
        self.weights = np.fromfile(self.at("weights.bin"), np.float32)
        self.state = np.fromfile(self.at("state.bin"), np.float32)
        self.parameters = read_table(self.at("parameters"))
        self.buffers = read_table(self.at("state"))
        assert sorted(dict(self.model.named_parameters())) == sorted(
            row[0] for row in self.parameters), "other parameters"
        assert sorted(dict(self.model.named_buffers())) == sorted(
            row[0] for row in self.buffers), "other state"

    def at(self, file):
        return os.path.join(self.folder, file)

    def start(self, dtype):
        self.half = dtype == torch.bfloat16
        self.dtype = torch.float32 if self.half else dtype
        self.model = self.model.to(self.dtype)
        self.named, self.held = dict(self.model.named_parameters()), dict(self.model.named_buffers())
        load(self.named, self.parameters, self.weights)
        load(self.held, self.buffers, self.state)
        self.model.zero_grad()
        self.model.train()

    def forward(self):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
            outputs = self.model(self.images.to(self.dtype))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        return [output.to(self.dtype) for output in outputs]

    def target(self, name, like):
        values = np.fromfile(self.at(name + ".target.bin"), np.float32)
        return torch.from_numpy(values).reshape(like.shape).to(self.dtype)

    def loss(self, outputs):
        if self.outputs == ["logits"]:
            labels = torch.from_numpy(np.fromfile(self.at("labels.bin"), np.int64))
            return F.cross_entropy(outputs[0], labels, label_smoothing=self.smoothing)
        mask, depth = outputs
        return (F.binary_cross_entropy_with_logits(mask, self.target("mask", mask)) +
                F.mse_loss(depth, self.target("depth", depth)))

    def save_outputs(self, prefix, outputs):
        for name, output in zip(self.outputs, outputs):
            output.detach().float().numpy().tofile(self.at(prefix + name + ".bin"))

    def step(self, prefix):
        outputs = self.forward()
        loss = self.loss(outputs)
        loss.backward()
        self.save_outputs(prefix, outputs)
        np.array([loss.item()], np.float32).tofile(self.at(prefix + "loss.bin"))
        gradients = {name: value.grad for name, value in self.named.items()}
        save(self.at(prefix + "gradients.bin"), gradients, self.parameters, len(self.weights))
        save(self.at(prefix + "state_after.bin"), self.held, self.buffers, len(self.state))
        self.model.eval()
        # With gradients: without them attention has a fast path that autocast breaks.
        self.save_outputs(prefix + "evaluated.", self.forward())

    def train(self, steps, lr):
        optimizer = torch.optim.SGD(self.model.parameters(), lr, momentum=0.9)
        losses = []
        for _ in range(steps):
            optimizer.zero_grad()
            loss = self.loss(self.forward())
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        np.array(losses, np.float32).tofile(self.at("losses.bin"))
        save(self.at("trained.bin"), self.named, self.parameters, len(self.weights))
        save(self.at("trained_state.bin"), self.held, self.buffers, len(self.state))


def compare(name, folder, steps, lr):
    oracle = Oracle(name, folder)
    oracle.start(torch.float64)
    oracle.step("")
    oracle.start(torch.bfloat16)
    oracle.step("half_")
    oracle.start(torch.float32)
    oracle.train(int(steps), float(lr))


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # lazy modules announce themselves
    torch.manual_seed(0)
    torch.set_num_threads(1)
    compare(*sys.argv[1:])
