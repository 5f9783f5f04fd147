#!/usr/bin/env python3
"""Images per second of ResNet-18's training step in plain JAX: the peer of pjrt_step.py.

    jax_train_step.py PRECISION BATCH SECONDS

Basic blocks on 32 x 32 pictures with a 3x3 stem, NHWC; cross-entropy, SGD with momentum, running
statistics; weights donated. In bf16 convolutions and the products are bf16, all else float32.
JAX_PLATFORMS and PJRT_NAMES_AND_LIBRARY_PATHS say on what. Prints a JSON object: images/s, and
seconds from the program's start to the end of the first step.
"""

import json
import sys
import time

START = time.time()

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
CLASSES = 10
MOMENTUM = 0.9


def conv_weights(rng, size, inputs, outputs):
    deviation = np.sqrt(2.0 / (size * size * outputs))
    return (rng.standard_normal((size, size, inputs, outputs)) * deviation).astype(np.float32)


def norm_weights(channels):
    return {"scale": np.ones(channels, np.float32), "bias": np.zeros(channels, np.float32)}


def norm_statistics(channels):
    return {"mean": np.zeros(channels, np.float32), "var": np.ones(channels, np.float32)}


def make_model(rng):
    weights = {"stem": conv_weights(rng, 3, 3, 64), "stem_norm": norm_weights(64)}
    statistics = {"stem_norm": norm_statistics(64)}
    inputs = 64
    for stage, (channels, _) in enumerate(STAGES):
        for block in range(2):
            name = f"layer{stage}.{block}"
            first = inputs if block == 0 else channels
            weights[name + ".conv1"] = conv_weights(rng, 3, first, channels)
            weights[name + ".conv2"] = conv_weights(rng, 3, channels, channels)
            norms = ["norm1", "norm2"]
            if first != channels:
                weights[name + ".down"] = conv_weights(rng, 1, first, channels)
                norms.append("down_norm")
            for norm in norms:
                weights[f"{name}.{norm}"] = norm_weights(channels)
                statistics[f"{name}.{norm}"] = norm_statistics(channels)
        inputs = channels
    weights["fc"] = (rng.standard_normal((512, CLASSES)) * 0.04).astype(np.float32)
    weights["fc_bias"] = np.zeros(CLASSES, np.float32)
    return weights, statistics


def make_step(half):
    compute = jnp.bfloat16 if half else jnp.float32

    def conv(x, w, stride):
        pad = w.shape[0] // 2
        return lax.conv_general_dilated(
            x.astype(compute), w.astype(compute), (stride, stride), ((pad, pad), (pad, pad)),
            dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def forward(weights, statistics, images):
        new = {}

        def norm(x, name):
            x = x.astype(jnp.float32)
            mean = x.mean((0, 1, 2))
            var = jnp.square(x).mean((0, 1, 2)) - jnp.square(mean)
            old = statistics[name]
            new[name] = {"mean": 0.9 * old["mean"] + 0.1 * mean, "var": 0.9 * old["var"] + 0.1 * var}
            by = weights[name]
            return ((x - mean) * lax.rsqrt(var + 1e-5) * by["scale"] + by["bias"]).astype(compute)

        x = jax.nn.relu(norm(conv(images, weights["stem"], 1), "stem_norm"))
        for stage, (_, stride) in enumerate(STAGES):
            for block in range(2):
                name = f"layer{stage}.{block}"
                step = stride if block == 0 else 1
                y = jax.nn.relu(norm(conv(x, weights[name + ".conv1"], step), name + ".norm1"))
                y = norm(conv(y, weights[name + ".conv2"], 1), name + ".norm2")
                if name + ".down" in weights:
                    x = norm(conv(x, weights[name + ".down"], step), name + ".down_norm")
                x = jax.nn.relu(x + y)
        x = x.astype(jnp.float32).mean((1, 2)).astype(compute)
        logits = jnp.dot(x, weights["fc"].astype(compute)).astype(jnp.float32)
        return logits + weights["fc_bias"], new

    def loss(weights, statistics, images, labels):
        logits, new = forward(weights, statistics, images)
        shares = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(shares, labels[:, None], 1).mean(), new

    def step(weights, momentum, statistics, images, labels, lr):
        (value, statistics), gradients = jax.value_and_grad(loss, has_aux=True)(
            weights, statistics, images, labels)
        momentum = jax.tree.map(lambda m, g: MOMENTUM * m + g, momentum, gradients)
        weights = jax.tree.map(lambda w, m: w - lr * m, weights, momentum)
        return weights, momentum, statistics, value

    return jax.jit(step, donate_argnums=(0, 1, 2))


def main():
    precision, batch, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    rng = np.random.default_rng(1)
    weights, statistics = jax.device_put(make_model(rng))
    momentum = jax.tree.map(jnp.zeros_like, weights)
    images = jax.device_put(rng.standard_normal((batch, 32, 32, 3)).astype(np.float32))
    labels = jax.device_put(rng.integers(0, CLASSES, batch).astype(np.int32))
    step = make_step(precision == "bf16")
    state = (weights, momentum, statistics)
    *state, value = step(*state, images, labels, 0.01)
    value.block_until_ready()
    first = time.time() - START
    steps, begin = 0, time.time()
    while time.time() - begin < seconds:
        *state, value = step(*state, images, labels, 0.01)
        value.block_until_ready()
        steps += 1
    rate = steps * batch / (time.time() - begin)
    print(json.dumps({"images_per_s": rate, "first_step_s": first, "jax": jax.__version__,
                      "platform": jax.devices()[0].platform}))


main()
