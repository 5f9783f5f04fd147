"""A loader's numbers as Prometheus reads them: its text exposition format 0.0.4."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from millrace import _core

# Names and meanings are those of ``millrace train --metrics-listen``.
_STAGES: Mapping[str, tuple[str, str, Callable[[_core.StageStatistics], float]]] = {
    "millrace_input_samples_total": (
        "counter",
        "Samples that a stage of the input has done",
        lambda stage: stage.items,
    ),
    "millrace_input_bytes_total": (
        "counter",
        "Encoded bytes that a stage has done; of deliver, bytes of batches",
        lambda stage: stage.bytes,
    ),
    "millrace_input_busy_seconds_total": (
        "counter",
        "Time that a stage's threads worked, summed",
        lambda stage: stage.busy.total_seconds(),
    ),
    "millrace_input_waiting_seconds_total": (
        "counter",
        "Time that a stage's threads had nothing to do or were blocked, summed",
        lambda stage: stage.waiting.total_seconds(),
    ),
    "millrace_input_threads": ("gauge", "Threads of a stage", lambda stage: stage.threads),
}
_INPUT: Mapping[str, tuple[str, str, Callable[[_core.Statistics], float]]] = {
    "millrace_input_held_bytes": (
        "gauge",
        "Encoded samples and batches that the input holds",
        lambda counts: counts.held_bytes,
    ),
    "millrace_input_batches_total": (
        "counter",
        "Batches handed out",
        lambda counts: counts.batches,
    ),
    "millrace_input_consumer_wait_seconds_total": (
        "counter",
        "Time for which the input let its consumer wait",
        lambda counts: counts.consumer_wait.total_seconds(),
    ),
    "millrace_samples_total": (
        "counter",
        "Samples handed out",
        lambda counts: counts.samples,
    ),
    "millrace_samples_per_second": (
        "gauge",
        "Samples handed out per second, since the first batch was asked for",
        lambda counts: counts.samples / (counts.elapsed.total_seconds() or 1),
    ),
    "millrace_skipped_samples_total": (
        "counter",
        "Samples that the fault policy has skipped",
        lambda counts: counts.skipped,
    ),
    "millrace_refetched_total": (
        "counter",
        "Samples and indexes that arrived damaged, and intact when fetched again",
        lambda counts: counts.refetched,
    ),
}


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items())


def _family(
    name: str, kind: str, meaning: str, values: Iterable[tuple[Mapping[str, str], float]]
) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for labels, value in values:
        yield f"{name}{{{_labels(labels)}}} {float(value)!r}"


def _faults(ledger: _core.Ledger) -> Mapping[str, int]:
    samples: collections.Counter[str] = collections.Counter()
    for entry in ledger.entries:
        samples[entry.code] += entry.samples
    return samples


def _families(loader: Any, of: Mapping[str, str]) -> Iterator[str]:
    statistics = loader.statistics()
    epoch = loader.epoch if loader._handed is None else loader._handed
    yield from _family("millrace_epoch", "gauge", "Epoch, from 1", [(of, epoch + 1)])
    for name, (kind, meaning, value) in _INPUT.items():
        yield from _family(name, kind, meaning, [(of, value(statistics))])
    for name, (kind, meaning, number) in _STAGES.items():
        stages = [({**of, "stage": one.name}, number(one)) for one in statistics.stages]
        yield from _family(name, kind, meaning, stages)
    faults = _faults(loader.ledger()).items()
    yield from _family(
        "millrace_epoch_faults",
        "gauge",
        "Samples that faults have cost, of the epoch of the last batch",
        [({**of, "fault": fault}, samples) for fault, samples in faults],
    )


def page(loader: Any, name: str) -> str:
    """All of it, each value with ``set=name``."""
    return "\n".join(_families(loader, {"set": name})) + "\n"
