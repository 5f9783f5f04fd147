"""The oracle of layer_parity_test.cc: single layers in PyTorch, in float64.

usage: torch_layers.py CASES. Each line of CASES is "fp32 BATCH DESCRIPTION" or "bf16 ...", where a
description is "KIND(OPTIONS) KIND(OPTIONS) of SHAPE SHAPE", with " from the image" and " to the
output" after it. For each, the values that the layer is given and what must come out of it go to
standard output, as torch_oracle.h describes.

In bf16 the values are bf16's wherever a plan keeps them so, and nothing of the answer is rounded:
what the layer is away from it is the layer's own doing. Two choices keep a last bit from deciding
more than a last bit: a max-pool sees no value twice, and no gradient comes in where a ReLU sees
next to nothing.
"""
import math
import re
import sys

import torch
import torch.nn.functional as F

BATCH_NORM_STATE = ("running_mean", "running_var", "num_batches_tracked")
KINK = 1e-3  # of values near 1: far above float32's rounding, and few


def number(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def parse_options(text):
    options = {}
    for word in text.split():
        name, value = word.split("=")
        values = [number(part) for part in value.split(",")]
        options[name] = values if len(values) > 1 else values[0]
    return options


class Case:
    def __init__(self, line):
        self.half = line.startswith("bf16")
        self.batch = int(line.split()[1])
        layers, _, rest = line.partition(" of ")
        self.layers = [(kind, parse_options(options))
                       for kind, options in re.findall(r"(\w+)\((.*?)\)", layers)]
        shapes = re.match(r"[\dx ]+", rest).group().split()
        self.shapes = [[int(size) for size in shape.split("x")] for shape in shapes]
        self.reads_image = " from the image" in rest

    @property
    def kind(self):
        return self.layers[0][0]

    def stored(self, values):
        """As a plan stores activations and the weights of products."""
        return values.bfloat16().double() if self.half else values.double()


def normal(*shape):
    return torch.randn(shape)  # float32, as the values that travel


def distinct(batch, channels, height, width):
    """No value twice in an image's channel, in bf16 neither."""
    positive = torch.arange(0x3C00, 0x4080, dtype=torch.int16).view(torch.bfloat16).float()
    table = torch.cat((positive, -positive))
    order = torch.rand(batch * channels, len(table)).argsort(1)[:, :height * width]
    return table[order].reshape(batch, channels, height, width)


def make_input(case, shape):
    draw = distinct if case.kind == "max_pool2d" else normal
    return case.stored(draw(case.batch, *shape))


def weight_shape(kind, options, shape):
    if kind == "conv2d" and options["flat"]:
        return [options["channels"], shape[0]]
    if kind == "conv2d":
        return [options["channels"], shape[0] // options["groups"], *options["kernel"]]
    if kind == "conv_transpose2d":
        return [shape[0], options["channels"], *options["kernel"]]
    return [options["features"], *shape]


def make_parameters(case):
    kind, options = case.layers[0]
    if kind == "channel_scale":
        return {"": case.stored(normal(case.shapes[0][0], 1, 1))}
    if kind == "tokens":
        channels, height, width = case.shapes[0]
        return {"": normal(1, 1, channels).double(),
                "positions": normal(1, 1 + height * width, channels).double()}
    if kind in ("batch_norm", "layer_norm"):
        channels = case.shapes[0][0]
        return {"weight": (1 + 0.3 * normal(channels)).double(),
                "bias": (0.3 * normal(channels)).double()}
    if kind not in ("conv2d", "conv_transpose2d", "linear"):
        return {}
    shape = weight_shape(kind, options, case.shapes[0])
    inputs = math.prod(shape[1:])
    parameters = {"weight": case.stored(normal(*shape) / inputs ** 0.5)}
    if options["bias"]:
        parameters["bias"] = normal(options.get("channels", options.get("features"))).double()
    return parameters


def make_state(case):
    if case.kind != "batch_norm":
        return {}
    channels = case.shapes[0][0]
    values = (0.3 * normal(channels), 0.5 + normal(channels) ** 2, torch.tensor(3.0))
    return {name: value.double() for name, value in zip(BATCH_NORM_STATE, values)}


def activate(x, o):
    if o["kind"] == "leaky_relu":
        return F.leaky_relu(x, o["slope"])
    kinds = {"sigmoid": torch.sigmoid, "gelu": F.gelu, "silu": F.silu,
             "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid}
    return kinds[o["kind"]](x)


def upsample(x, o):
    corners = None if o["mode"] == "nearest" else False
    return F.interpolate(x, scale_factor=o["factor"], mode=o["mode"], align_corners=corners)


def tokens(x, p, o):
    first = p[""].expand(len(x), -1, -1)
    rows = torch.cat((first, x.flatten(2).transpose(1, 2)), 1) + p["positions"]
    return rows.transpose(1, 2).unsqueeze(3)


def attention(x, p, o):
    batch, channels, tokens, _ = x.shape
    size = channels // 3 // o["heads"]
    query, key, value = x.reshape(batch, 3, o["heads"], size, tokens).transpose(3, 4).unbind(1)
    scores = query @ key.transpose(2, 3) / size ** 0.5
    if o["causal"]:
        scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -math.inf)
    shares = F.softmax(scores, -1)
    return (shares @ value).transpose(2, 3).reshape(batch, channels // 3, tokens, 1)


# By kind: of the inputs x, the parameters p and the options o. Batch norm is apart, for its state.
LAYERS = {
    "conv2d": lambda x, p, o: F.conv2d(
        x[0], p["weight"].reshape(len(p["weight"]), -1, *o["kernel"]), p.get("bias"), o["stride"],
        o["padding"], o["dilation"], o["groups"]),
    "layer_norm": lambda x, p, o: F.layer_norm(
        x[0].movedim(1, -1), p["weight"].shape, p["weight"], p["bias"], o["epsilon"]).movedim(-1, 1),
    "channel_scale": lambda x, p, o: x[0] * p[""],
    "tokens": lambda x, p, o: tokens(x[0], p, o),
    "attention": lambda x, p, o: attention(x[0], p, o),
    "take_token": lambda x, p, o: x[0][:, :, o["index"], 0],
    "conv_transpose2d": lambda x, p, o: F.conv_transpose2d(
        x[0], p["weight"], p.get("bias"), o["stride"], o["padding"], o["output_padding"]),
    "linear": lambda x, p, o: F.linear(x[0], p["weight"], p.get("bias")),
    "relu": lambda x, p, o: F.relu(x[0]),
    "activation": lambda x, p, o: activate(x[0], o),
    "softmax": lambda x, p, o: F.softmax(x[0], 1),
    "add": lambda x, p, o: x[0] + x[1],
    "scale": lambda x, p, o: x[0] * x[1],
    "concat": lambda x, p, o: torch.cat(x, 1),
    "max_pool2d": lambda x, p, o: F.max_pool2d(x[0], o["kernel"], o["stride"], o["padding"]),
    "avg_pool2d": lambda x, p, o: F.avg_pool2d(x[0], o["kernel"], o["stride"], o["padding"]),
    "adaptive_avg_pool2d": lambda x, p, o: F.adaptive_avg_pool2d(x[0], o["size"]),
    "upsample": lambda x, p, o: upsample(x[0], o),
    "flatten": lambda x, p, o: torch.flatten(x[0], 1),
    "reshape": lambda x, p, o: x[0].reshape(len(x[0]), *(
        o["shape"] if isinstance(o["shape"], list) else [o["shape"]])),
}


class Run:
    """A case's layers on their values; batch norm keeps its state here."""

    def __init__(self, case):
        self.case = case
        self.inputs = [make_input(case, shape) for shape in case.shapes]
        self.parameters = make_parameters(case)
        self.state = make_state(case)
        self.kinks = None

    def apply(self, kind, options, inputs, training):
        if kind in ("dropout", "stochastic_depth"):
            return F.dropout(inputs[0], options["probability"], training)
        if kind != "batch_norm":
            return LAYERS[kind](inputs, self.parameters, options)
        if training:
            self.state["num_batches_tracked"] += 1
        mean, variance = self.state["running_mean"], self.state["running_var"]
        return F.batch_norm(inputs[0], mean, variance, self.parameters["weight"],
                            self.parameters["bias"], training, options["momentum"],
                            options["epsilon"])

    def forward(self, training):
        reads = self.inputs
        for kind, options in self.case.layers:
            if kind == "relu":
                self.kinks = reads[0].detach().abs() < KINK
            reads = [self.apply(kind, options, reads, training), self.inputs[-1]]
        return reads[0]

    def differentiate(self, output):
        incoming = self.case.stored(normal(*output.shape))
        if self.kinks is not None:
            incoming[self.kinks] = 0
        output.backward(incoming)
        return incoming


def write(kind, name, values):
    values = values.detach().float().contiguous().reshape(-1).numpy()
    sys.stdout.buffer.write(f"{kind} {name} {values.size}\n".encode())
    sys.stdout.buffer.write(memoryview(values))


def columns(x):
    """An image or features as the weights of the linear layer that hands them out."""
    return x.reshape(len(x), -1).t()


def parameter_name(case, name):
    return name if case.kind == "tokens" and name else ("layer." + name).strip(".")


def write_given(run):
    if run.case.reads_image:
        write("image", "-", run.inputs[0].movedim(1, -1))
    else:
        for i, x in enumerate(run.inputs):
            write("parameter", f"x{i}.weight", columns(x))
    for name, value in run.parameters.items():
        write("parameter", parameter_name(run.case, name), value)
    for name, value in run.state.items():
        write("state", "layer." + name, value)


def write_trained(run):
    """Nothing for dropout: nobody else draws our numbers."""
    if run.case.kind in ("dropout", "stochastic_depth"):
        return
    leaves = [*([] if run.case.reads_image else run.inputs), *run.parameters.values()]
    for leaf in leaves:
        leaf.requires_grad_()
    output = run.forward(True)
    write("incoming", "-", run.differentiate(output))
    write("output", "-", output)
    if not run.case.reads_image:
        for i, x in enumerate(run.inputs):
            write("gradient", f"x{i}.weight", columns(x.grad))
    for name, value in run.parameters.items():
        write("gradient", parameter_name(run.case, name), value.grad)
    for name, value in run.state.items():
        write("state_after", "layer." + name, value)


def answer(line):
    run = Run(Case(line))
    write_given(run)
    write_trained(run)
    with torch.no_grad():
        write("evaluated", "-", run.forward(False))
    write("end", "-", torch.empty(0))
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for index, case_line in enumerate(open(sys.argv[1])):
        torch.manual_seed(index)
        answer(case_line.strip())
