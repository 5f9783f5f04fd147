"""What needs Hugging Face's Accelerate to be defined: a loader as Accelerate has its own."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

from accelerate.data_loader import DataLoaderShard
from accelerate.state import PartialState
from accelerate.utils import send_to_device

from millrace.loader import Loader, State


class AcceleratedLoader(DataLoaderShard):
    """A loader that ``Accelerator.prepare()`` takes as it is, and that tells it its last batch.

    Gradients that are accumulated are so applied at the end of an epoch. Nothing is read ahead of
    the loop, so that ``state_dict()`` stays exact.
    """

    #: Accelerator.prepare() would divide it by ranks, which the loader has done.
    _is_accelerate_prepared = True

    def __init__(self, loader: Loader[Any], put_on_device: bool) -> None:
        super().__init__(loader.iterable_dataset(), batch_size=None)
        self.loader = loader
        self.put_on_device = put_on_device
        self.masked = 0  # slots of the epoch's last step, over all ranks; -1: not known

    def __iter__(self) -> Iterator[Any]:
        len(self.loader)  # raises where it is not known: neither is the last batch then
        device = PartialState().device if self.put_on_device else None
        self.begin()
        self._remainder = -1
        try:
            for batch in self.loader:
                if self.loader._is_over():
                    self.end_of_dataloader = True
                    self._remainder = self._samples_of_last(batch)
                yield batch if device is None else send_to_device(batch, device)
        finally:
            self.end()

    def __len__(self) -> int:
        return len(self.loader)

    def _samples_of_last(self, batch: Any) -> int:
        """What gather_for_metrics() may keep of the last step: 0: all; -1: no part of it alone."""
        self.masked = self.loader._masked_slots()
        if self.masked == 0:
            return 0
        valid = batch.get("valid") if isinstance(batch, dict) else None
        if PartialState().num_processes > 1 or valid is None:
            return -1
        count = int(valid.sum())
        return count if bool(valid[:count].all()) else -1

    @property
    def total_batch_size(self) -> int:
        batch_size: int = self.loader._pipeline._arguments["batch_size"]
        return batch_size * int(PartialState().num_processes)

    @property
    def epoch(self) -> int:
        return self.loader.epoch

    def set_epoch(self, epoch: int) -> None:
        self.loader.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        return self.loader.state_dict()

    def load_state_dict(self, state: State) -> None:
        self.loader.load_state_dict(state)


def _remainder(self: AcceleratedLoader) -> int:
    """Accelerate reads it at the end, to leave what is not of the data out of a metric."""
    if self.end_of_dataloader and self._remainder < 0:
        slots = "Slots" if self.masked < 0 else f"{self.masked} slots"
        warnings.warn(
            f"{slots} of the last step are masked, in more places than gather_for_metrics() can "
            'leave out: it returns them too. Gather batch["valid"] with the predictions, and '
            "take those where it is True",
            stacklevel=4,
        )
    return self._remainder


def _set_remainder(self: AcceleratedLoader, value: int) -> None:
    self._remainder = value


# Accelerate sets it to -1 in each subclass, after the class's body.
AcceleratedLoader.remainder = property(_remainder, _set_remainder)
