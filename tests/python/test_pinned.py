"""Batches in memory that PyTorch pins: whose it is, and when it may be used again."""

from __future__ import annotations

import gc
import itertools
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import millrace as mr
from conftest import make_shards, pipeline
from test_batches import as_in_cpp

torch = pytest.importorskip("torch")


def contents(storage: Any) -> bytes:
    """By a tensor: bytes(storage) makes an object of every byte."""
    return torch.tensor([], dtype=torch.uint8).set_(storage).numpy().tobytes()


class PinnedMemory:
    """Stands for PyTorch's allocator of pinned memory, on a machine without CUDA.

    It returns memory of its own for every tensor that lives, or is still copied to a device.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.plain = torch.empty
        self.tensors: list[weakref.ref[Any]] = []
        self.copies: list[tuple[Any, Any]] = []
        self.fail_at = 1 << 30
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch, "empty", self.empty)

    def empty(self, size: int, *, dtype: Any = None, pin_memory: bool = False) -> Any:
        if not pin_memory:
            return self.plain(size, dtype=dtype)
        if len(self.tensors) >= self.fail_at:
            raise RuntimeError("CUDA error: out of memory")
        tensor = self.plain(size, dtype=dtype)
        self.tensors.append(weakref.ref(tensor))
        return tensor

    def copy(self, tensor: Any) -> None:
        """A copy that begins now and reads much later, when the tensor may be gone."""
        self.copies.append((tensor.untyped_storage(), contents(tensor.untyped_storage())))

    def alive(self) -> int:
        gc.collect()
        return sum(tensor() is not None for tensor in self.tensors)


@pytest.fixture()
def pinned(monkeypatch: pytest.MonkeyPatch) -> PinnedMemory:
    if not hasattr(torch.Tensor, "untyped_storage"):
        monkeypatch.setattr(
            torch.Tensor, "untyped_storage", lambda self: self.storage().untyped(), raising=False
        )
    return PinnedMemory(monkeypatch)


def check_batches(data: mr.Pipeline, check: Callable[[str, Any], None]) -> int:
    """The same batches as without, over two epochs, each field a view that ``check`` looks at."""
    batches = 0
    with data.torch() as loader, data.torch(pin_memory=False) as plain:
        for _ in range(2):
            for own, other in zip(loader, plain, strict=True):
                assert own.keys() == other.keys() and own["keys"] == other["keys"]
                for name, value in own.items():
                    if torch.is_tensor(value):
                        assert value.dtype == other[name].dtype and torch.equal(value, other[name])
                        check(name, value)
                batches += 1
    return batches


def test_batches_are_views_of_pinned_tensors(shards: str, pinned: PinnedMemory) -> None:
    def check(name: str, value: Any) -> None:
        owners = [tensor() for tensor in pinned.tensors]
        places = [owner.untyped_storage().data_ptr() for owner in owners if owner is not None]
        assert (value.untyped_storage().data_ptr() in places) == (name != "valid")

    assert check_batches(as_in_cpp(shards, 2), check) == 26


def test_a_buffer_that_was_handed_out_is_never_written_again(
    tmp_path: Path, pinned: PinnedMemory
) -> None:
    """While its copy to the device goes on: also if all of its views are gone, at an epoch's end,
    where masked batches copy it, and when the loader is closed."""
    spec = make_shards(tmp_path, 100, 30)
    data = pipeline(spec, prefetch=1, autotune=False, epochs=mr.Epochs(batches=9))
    with data.torch() as loader:
        for _ in range(3):
            for batch in loader:
                pinned.copy(batch["image"])
    assert len(pinned.copies) == 27
    assert all(contents(storage) == before for storage, before in pinned.copies)
    assert len({storage.data_ptr() for storage, _ in pinned.copies}) == 3 * 9


def test_memory_is_given_back(shards: str, pinned: PinnedMemory) -> None:
    data = pipeline(shards, prefetch=2, autotune=False)
    loader = data.torch()
    at_work = []
    for _ in range(4):
        for _ in loader:
            pass
        at_work.append(pinned.alive())
        for _ in itertools.islice(loader, 5):
            pass
    assert set(at_work) == {at_work[0]}, "no epoch leaves one behind, nor does beginning it again"
    kept = next(iter(loader))
    values = kept["image"].clone()
    loader.close()
    assert pinned.alive() == 0, "only views of one buffer are left"
    assert torch.equal(kept["image"], values)
    assert next(iter(loader))["keys"], "it starts again"
    del loader
    assert pinned.alive() == 0


def test_an_allocation_that_fails_costs_no_batch(shards: str, pinned: PinnedMemory) -> None:
    data = pipeline(shards, prefetch=1, autotune=False)
    with data.torch(pin_memory=False) as plain:
        keys = [batch["keys"] for _ in range(9) for batch in plain]
    pinned.fail_at = 20
    taken: list[list[str]] = []
    with data.torch() as loader:
        with pytest.raises(RuntimeError, match="out of memory"):
            for _ in range(9):
                taken.extend(batch["keys"] for batch in loader)
        pinned.fail_at = 1 << 30
        loader.load_state_dict(loader.state_dict())
        taken.extend(batch["keys"] for batch in loader)
    assert taken == keys[: len(taken)] and len(taken) % len(loader) == 0


def test_are_pinned_in_a_spawned_process_too(shards: str, pinned: PinnedMemory) -> None:
    again = pickle.loads(pickle.dumps(pipeline(shards).torch(pin_memory=True)))
    next(iter(again))
    again.close()
    assert pinned.tensors


def test_without_cuda_nothing_is_pinned_unless_it_must_be(
    shards: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    data = pipeline(shards)
    with data.torch() as loader:
        assert next(iter(loader))["image"].is_pinned() is False
    with data.torch(pin_memory=True) as loader, pytest.raises(RuntimeError, match="no CUDA device"):
        next(iter(loader))
    with pytest.raises(TypeError, match="pin_memory='yes'"):
        data.torch(pin_memory="yes")  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch has no CUDA device")
def test_on_a_gpu(shards: str) -> None:
    """PyTorch's own allocator, as its double above has it: copies are whole although their sources
    are gone when they begin, behind work that keeps the device busy."""
    data = as_in_cpp(shards, 2)
    check_batches(data, lambda name, value: _pinned(name, value))
    with data.torch(pin_memory=False) as plain:
        expected = [batch["image"] for batch in plain]
    work = torch.randn(8192, 8192, device="cuda")
    with data.torch() as loader:
        for _ in range(20):
            work = work @ work / 100
        copies = [batch["image"].to("cuda", non_blocking=True) for batch in loader]
    assert all(torch.equal(copy.cpu(), one) for copy, one in zip(copies, expected, strict=True))


def _pinned(name: str, value: Any) -> None:
    assert value.is_pinned() == (name != "valid")
