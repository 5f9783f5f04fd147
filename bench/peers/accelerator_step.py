#!/usr/bin/env python3
"""Images/s of ResNet-18's training step (3x3 stem, 32 x 32 pictures): millrace on a plugin's device, millrace on the CPU's cores, and plain JAX.

    python bench/peers/accelerator_step.py MILLRACE PLUGIN [--precision fp32|bf16] [--batch N] [--steps N] [--rounds N]

PLUGIN is a PJRT plugin with devices of the CPU. All use the same cores, in turns; JAX runs twice, on its own compiler and on the plugin's, where it
takes the plugin. millrace's figure is of a whole epoch of `train --fake-data`: loader, copies, loop and all; JAX's of its step alone, on a batch
that lies there. Figures are medians of the rounds; `first` is the time from the program's start to the end of the first step.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PEER = pathlib.Path(__file__).with_name("jax_train_step.py")


def millrace(options, devices, cache):
    """One run of two epochs: the second one's images/s, its step's parts, and the first step's end."""
    samples = options.steps * options.batch
    words = [options.millrace, "train", "--fake-data", str(samples), "--model", "resnet18(stem=3x3)", "--size", "32", "--classes", "10",
             "--batch-size", str(options.batch), "--precision", options.precision, "--devices", devices, "--optimizer", "sgd(0.01)", "--epochs", "2",
             "--run-dir", "none", "--log-steps", "1", "--json"]
    if devices.startswith("xla"):
        words += ["--plugin", options.plugin]
    begin = time.time()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={**os.environ, "XDG_CACHE_HOME": cache})
    first, epoch = None, None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "step" and first is None:
            first = time.time() - begin
        if event["event"] == "epoch":
            epoch = event
    if process.wait() != 0 or epoch is None:
        sys.exit(f"failed: {' '.join(words)}")
    return {"images_per_s": epoch["train_samples"] / epoch["train_seconds"], "first_step_s": first, "parts": epoch["step_seconds"]}


def jax(options, environment):
    result = subprocess.run([sys.executable, PEER, options.precision, str(options.batch), str(options.seconds)], capture_output=True, text=True,
                            env={**os.environ, **environment})
    return json.loads(result.stdout) if result.returncode == 0 else None


def runners(options, cache):
    plugin = {"JAX_PLATFORMS": "peer", "PJRT_NAMES_AND_LIBRARY_PATHS": f"peer:{options.plugin}"}
    return {"JAX": lambda: jax(options, {"JAX_PLATFORMS": "cpu"}),
            "JAX on the plugin": lambda: jax(options, plugin),
            "our step on the plugin": lambda: millrace(options, "xla-cpu:1", cache),
            "our step on the cores": lambda: millrace(options, "1", cache)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("millrace")
    parser.add_argument("plugin")
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=10, help="of JAX's steps")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as cache:
        for _ in range(options.rounds):
            for name, run in runners(options, cache).items():
                found.setdefault(name, []).append(run())
    peer = next((name for name in ("JAX on the plugin", "JAX") if all(found[name])), None)
    for name, runs in found.items():
        if not all(runs):
            print(f"{name:24} does not run")
            continue
        rate = statistics.median(run["images_per_s"] for run in runs)
        line = f"{name:24} {rate:8.1f} images/s, first step after {runs[0]['first_step_s']:.1f} s, then {runs[-1]['first_step_s']:.1f} s"
        if peer and name != peer:
            ratios = [ours["images_per_s"] / theirs["images_per_s"] for ours, theirs in zip(runs, found[peer])]
            line += f", {statistics.median(ratios):.2f} of {peer}"
        if "parts" in runs[-1]:
            parts = {name: time for name, time in runs[-1]["parts"].items() if name not in ("free_input", "first")}
            line += f"; of a step land takes {100 * parts['land'] / sum(parts.values()):.1f} %"
        print(line)


main()
