"""Runs a program, and writes each batch's keys to batches-RANK.jsonl as the program takes it.

python recorded.py PROGRAM ARGUMENT...
"""

from __future__ import annotations

import json
import os
import runpy
import sys
from collections.abc import Iterator
from typing import Any

import millrace as mr


def record() -> None:
    log = open(f"batches-{os.environ.get('RANK', '0')}.jsonl", "w")
    begin = mr.Loader.__iter__

    def recorded(self: mr.Loader) -> Iterator[dict[str, Any]]:
        for batch in begin(self):
            print(json.dumps([key for key in batch["keys"] if key]), file=log, flush=True)
            yield batch

    mr.Loader.__iter__ = recorded  # type: ignore[method-assign]


def without_shards_of_tensors() -> None:
    """Lightning imports them, and PyTorch 1.13's cannot be imported by Python 3.11."""
    import torch

    if torch.__version__.startswith("1."):
        torch.distributed.is_available = lambda: False


def with_devices_of_the_cpu() -> None:
    """Accelerate asks for them, and PyTorch 1.13 has no such function."""
    import torch

    if not hasattr(torch.cpu, "device_count"):
        torch.cpu.device_count, torch.cpu.set_device = lambda: 1, lambda device: None


if __name__ == "__main__":
    record()
    sys.argv = sys.argv[1:]
    sys.path[0] = os.getcwd()
    if "lightning" in sys.argv[0]:
        without_shards_of_tensors()
    if "accelerate" in sys.argv[0]:
        with_devices_of_the_cpu()
    runpy.run_path(sys.argv[0], run_name="__main__")
