"""Batches: those of C++, bit for bit; from any state; as arrays that share their memory."""

from __future__ import annotations

import copy
import gc
import io
import itertools
import json
import os
import pickle
import subprocess
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as mr
from conftest import FIELDS, make_shards, pipeline


def as_in_cpp(spec: str, threads: int) -> mr.Pipeline:
    """What batch_hashes.cc builds."""
    image = mr.Image(
        mr.RandomResizedCrop((12, 10)),
        mr.RandomHorizontalFlip(),
        mr.ColorJitter(0.2),
        mr.Normalize.imagenet(),
        dtype="bf16",
        layout="CHW",
    )
    return mr.Pipeline(
        spec,
        fields={"image": image, "label": mr.Label(classes=10), "raw": mr.Raw("cls")},
        batch_size=16,
        shuffle=mr.Shuffle(40, seed=7),
        threads=threads,
        streams=3,
    )


def write_tar(path: Path, members: dict[str, bytes]) -> str:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return str(path)


def hashes(batch: dict[str, Any], epoch: int) -> dict[str, int]:
    arrays = {k: zlib.crc32(batch[k].tobytes()) for k in ("image", "label", "valid")}
    keys = zlib.crc32("".join(key + "\n" for key in batch["keys"]).encode())
    raw = zlib.crc32(b"".join(value + b"\n" for value in batch["raw"]))
    return {"epoch": epoch, **arrays, "keys": keys, "raw": raw}


@pytest.fixture(scope="module")
def of_cpp(shards: str) -> list[dict[str, int]]:
    program = os.environ["MILLRACE_BATCH_HASHES"]
    lines = subprocess.run([program, shards, "2"], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in lines.stdout.splitlines()]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_are_those_of_cpp_at_any_number_of_threads(
    shards: str, of_cpp: list[dict[str, int]], threads: int
) -> None:
    with as_in_cpp(shards, threads).numpy() as loader:
        own = [hashes(batch, epoch) for epoch in range(2) for batch in loader]
    assert len(of_cpp) == 26
    assert own == of_cpp


def test_continue_from_a_state_at_every_batch(shards: str, of_cpp: list[dict[str, int]]) -> None:
    data = as_in_cpp(shards, 2)
    states = [data.numpy().state_dict()]
    with data.numpy() as loader:
        for _ in range(2):
            for _ in loader:
                states.append(loader.state_dict())
                assert loader.state_dict() == states[-1], "a second call says the same"
    for at, state in enumerate(states):
        with data.numpy() as loader:
            loader.load_state_dict(json.loads(json.dumps(state)))
            assert loader.state_dict()["position"] == state["position"]
            rest = [hashes(batch, epoch) for epoch in range(loader.epoch, 2) for batch in loader]
        assert rest == of_cpp[at:], f"after {at} batches"


def test_begin_the_next_epoch_after_the_end(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        for _ in loader:
            pass
        assert loader.epoch == 1
        state = loader.state_dict()
        second = [batch["keys"] for batch in loader]
    with pipeline(shards).numpy() as loader:
        loader.load_state_dict(state)
        assert loader.epoch == 1
        assert [batch["keys"] for batch in loader] == second


def test_an_epoch_is_over_with_its_last_batch(shards: str) -> None:
    """Frameworks that know the length take so many batches, and not the end behind them."""
    with pipeline(shards, threads=1).numpy() as loader:
        epochs = [[batch["keys"] for batch in loader] for _ in range(3)]
    with pipeline(shards).numpy() as loader:
        for epoch in range(2):
            loader.set_epoch(epoch)
            taken = [batch["keys"] for batch in itertools.islice(loader, len(loader))]
            assert taken == epochs[epoch]
            assert loader.epoch == epoch + 1
        state = loader.state_dict()
        loader.close()
        assert loader.epoch == 2
        assert [batch["keys"] for batch in loader] == epochs[2]
    with pipeline(shards).numpy() as loader:
        loader.load_state_dict(state)
        assert loader.epoch == 2
        assert [batch["keys"] for batch in loader] == epochs[2]


@pytest.mark.parametrize("arguments", [{"uneven": "partial"}, {"uneven": "drop"}])
def test_an_epoch_of_other_batches_is_over_too(shards: str, arguments: dict[str, Any]) -> None:
    with pipeline(shards, **arguments).numpy() as loader:
        for epoch in range(1, 3):
            assert len(list(itertools.islice(loader, len(loader)))) == len(loader)
            assert loader.epoch == epoch


def test_an_empty_state_changes_nothing(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        first = next(iter(loader))["keys"]
        before = loader.state_dict()
        loader.load_state_dict({})
        assert loader.state_dict() == before
        assert next(iter(loader))["keys"] == first, "the epoch was left, and begins again"


def test_a_state_of_other_data_is_refused(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        next(iter(loader))
        state = loader.state_dict()
    with pipeline(shards, shuffle=mr.Shuffle(40, seed=8)).numpy() as other:
        other.load_state_dict(state)
        with pytest.raises(mr.InvalidArgumentError):
            next(iter(other))
    for broken in ({"a": 1}, {**state, "version": 2}, {**state, "streams": -1}):
        with pytest.raises(mr.CorruptError):
            pipeline(shards).numpy().load_state_dict(broken)


def test_have_the_length_that_is_said(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        assert len(loader) == 13
        assert len(list(loader)) == 13
    with pipeline(shards, uneven="drop").numpy() as loader:
        assert len(loader) == len(list(loader)) == 12
    with pipeline(shards, epochs=mr.Epochs(batches=20)).numpy() as loader:
        assert len(loader) == len(list(loader)) == 20


@pytest.mark.parametrize("arguments", [{"scan": False}, {"faults": mr.Faults("skip")}])
def test_have_no_length_that_is_not_exact(shards: str, arguments: dict[str, Any]) -> None:
    with pipeline(shards, **arguments).numpy() as loader:
        with pytest.raises(TypeError, match=r"Epochs\(batches="):
            len(loader)
        assert loader, "what has no length is still true"
        assert len(list(loader)) == 13


def test_each_loop_is_an_epoch_in_another_order(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        epochs = [[key for batch in loader for key in batch["keys"]] for _ in range(2)]
        assert loader.epoch == 2
        assert sorted(epochs[0]) == sorted(epochs[1])
        assert epochs[0] != epochs[1]
        loader.set_epoch(0)
        assert [key for batch in loader for key in batch["keys"]] == epochs[0]


def test_set_epoch_leaves_a_loaded_state_of_that_epoch(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        passing = iter(loader)
        next(passing)
        state, second = loader.state_dict(), next(passing)["keys"]
    with pipeline(shards).numpy() as loader:
        loader.load_state_dict(state)
        loader.set_epoch(0)
        assert next(iter(loader))["keys"] == second


def test_an_older_pass_is_over_when_another_begins(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        older = iter(loader)
        next(older)
        newer = iter(loader)
        with pytest.raises(RuntimeError, match="another one was begun"):
            next(older)
        assert len(list(newer)) == 13
        assert next(newer, None) is None


def test_epochs_that_no_run_has_are_refused(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        loader.set_epoch(2**32 - 2)
        assert len(list(loader)) == 13
        with pytest.raises(mr.InvalidArgumentError, match="epoch 4294967295: the last one"):
            loader.set_epoch(2**32 - 1)


def test_a_fully_masked_batch_is_no_view_of_the_one_before(shards: str) -> None:
    pytest.importorskip("torch")
    with pipeline(shards, epochs=mr.Epochs(batches=14), uneven="pad").torch() as loader:
        *_, last, masked = loader
        before = last["image"].clone()
        assert not masked["valid"].any()
        masked["image"].fill_(7)
        assert (last["image"] == before).all()


def test_masked_slots_are_not_valid(shards: str) -> None:
    with pipeline(shards, fields={**FIELDS, "raw": mr.Raw("cls", text=True)}).numpy() as loader:
        last = list(loader)[-1]
    assert last["valid"].dtype == np.bool_
    assert last["valid"].sum() == 200 % 16
    assert all(bool(key) == valid for key, valid in zip(last["keys"], last["valid"], strict=True))
    assert all(
        isinstance(text, str) and bool(text) == bool(key)
        for text, key in zip(last["raw"], last["keys"], strict=True)
    )


def test_paired_images_are_named_by_their_key(tmp_path: Any) -> None:
    from conftest import run_program

    run_program(
        "create",
        str(tmp_path / "scene-%06d.tar"),
        "--synthetic",
        "scenes",
        "--count",
        "20",
        "--size",
        "24",
        "--maxcount",
        "20",
    )
    pair = mr.PairedImages(
        mr.Image(mr.Normalize.imagenet(), suffixes="png;jpg;ppm"),
        mr.Image(channels=1, dtype="int64", interpolation="nearest", suffixes="mask.png"),
        geometry=[mr.RandomCrop(16)],
    )
    data = mr.Pipeline(tmp_path, fields={("picture", "mask"): pair}, batch_size=4)
    with data.numpy() as loader:
        batch = next(iter(loader))
    assert batch["picture"].shape == (4, 16, 16, 3)
    assert batch["mask"].shape == (4, 16, 16, 1)
    with pytest.raises(mr.InvalidArgumentError, match="2 names"):
        mr.Pipeline(tmp_path, fields={"pair": pair}, batch_size=4)


def test_options_are_those_of_cpp() -> None:
    assert mr.Shuffle(5) == pickle.loads(pickle.dumps(mr.Shuffle(5))) != mr.Shuffle(6)
    image = mr.Image(mr.RandomCrop(8), dtype="bf16", classes=mr.ClassMask(classes=3))
    assert pickle.loads(pickle.dumps(image)) == image
    assert repr(mr.RandomCrop((8, 9))) == "RandomCrop((8, 9))"
    assert repr(mr.RandomCrop(8, padding=2)) == "RandomCrop(8, padding=2)"
    assert repr(mr.Normalize([0.5], std=[0.25])) == "Normalize([0.5], [0.25])"
    assert image.transforms == [mr.RandomCrop(8)]
    assert type(image.transforms[0]) is mr.RandomCrop
    assert mr.RandomResizedCrop((3, 4)).size == (3, 4) and mr.RandomResizedCrop().size == 224
    with pytest.raises(TypeError):
        mr.Image(8)
    with pytest.raises(TypeError):
        mr.RandomCrop(8, 8)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"batch_size": 0}, "batch size 0"),
        ({"uneven": "all"}, "pad, partial, drop, error"),
        ({"memory": "4 elephants"}, "memory '4 elephants'"),
        ({"streams": -1}, "streams"),
        ({"fields": {"valid": mr.Label()}}, "'valid'"),
        ({"cache": "s3://b/c"}, "folder of this machine"),
        ({"cache_size": "1GB"}, "cache_size needs cache"),
        ({"rank": 1}, "rank and world"),
        ({"fields": {"a": mr.Label(), ("a",): mr.Label("id")}}, "two are named a"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        pipeline("x.tar", **arguments)


def test_arrays_share_the_batch_between_libraries(shards: str) -> None:
    torch = pytest.importorskip("torch")
    with pipeline(shards).dlpack() as loader:
        batch = next(iter(loader))
    tensor, array = torch.from_dlpack(batch["image"]), np.from_dlpack(batch["image"])
    assert tensor.data_ptr() == array.ctypes.data
    assert tensor.data_ptr() % 64 == 0
    assert tensor.shape == array.shape == (16, 16, 16, 3)


def test_arrays_share_the_batch_with_jax(shards: str) -> None:
    jax = pytest.importorskip("jax")
    with pipeline(shards).dlpack() as loader:
        batch = next(iter(loader))
    array = jax.numpy.from_dlpack(batch["image"])
    assert array.unsafe_buffer_pointer() == np.from_dlpack(batch["image"]).ctypes.data
    with pipeline(shards).jax() as loader:
        assert next(iter(loader))["valid"].all()


def test_bfloat16_has_the_same_bits_in_torch_and_numpy(shards: str) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    data = as_in_cpp(shards, 2)
    with data.torch() as tensors, data.numpy() as arrays:
        for left, right in zip(tensors, arrays, strict=True):
            assert left["image"].dtype is torch.bfloat16 and left["valid"].dtype is torch.bool
            assert right["image"].dtype.name == "bfloat16"
            assert (left["image"].float().numpy() == right["image"].astype(np.float32)).all()


@pytest.mark.parametrize("layout", ["HWC", "CHW"])
def test_float16_is_what_numpy_rounds_to(shards: str, layout: Any) -> None:
    torch = pytest.importorskip("torch")

    def data(dtype: Any) -> mr.Pipeline:
        image = mr.Image(mr.CenterCrop(7), mr.Normalize.imagenet(), dtype=dtype, layout=layout)
        return mr.Pipeline(shards, fields={"image": image}, batch_size=4)

    with data("float32").numpy() as floats, data("fp16").numpy() as halves:
        with data("float16").torch() as tensors, data("float16").dlpack() as packs:
            for whole, half, tensor, pack in zip(floats, halves, tensors, packs, strict=True):
                assert half["image"].dtype == np.float16
                assert (half["image"] == whole["image"].astype(np.float16)).all()
                assert tensor["image"].dtype is torch.float16
                assert (tensor["image"].numpy() == half["image"]).all()
                assert (np.from_dlpack(pack["image"]) == half["image"]).all()
    assert mr.Image(dtype="fp16") == mr.Image(dtype="float16")


def test_arrays_outlive_the_loader(shards: str) -> None:
    loader = pipeline(shards).numpy()
    kept = [batch["image"] for batch in itertools.islice(loader, 5)]
    copies = [image.copy() for image in kept]
    loader.close()
    del loader
    gc.collect()
    assert all((image == copy).all() for image, copy in zip(kept, copies, strict=True))
    assert len({image.ctypes.data for image in kept}) == 5


@pytest.mark.parametrize("order", ["millrace", "permutation"])
def test_a_state_is_as_large_as_its_shuffle_buffers(shards: str, order: Any) -> None:
    buffered = 4 * 40 if order == "millrace" else 0
    shuffle = mr.Shuffle(40, seed=7, order=order)
    with pipeline(shards, shuffle=shuffle, streams=4, batch_size=4).dlpack() as loader:
        for _ in itertools.islice(loader, 4):
            pass
        assert len(json.dumps(loader.state_dict(), separators=(",", ":"))) < 1300 + 10 * buffered


def test_views_of_one_member_are_independent(shards: str) -> None:
    """As contrastive learning and DINO need them; what is cropped alike is asked for."""
    crop = mr.RandomResizedCrop(8)
    fields: dict[Any, Any] = {
        "one": mr.Image(crop),
        "two": mr.Image(crop),
        ("picture", "mask"): mr.PairedImages(mr.Image(), mr.Image(), geometry=[crop]),
    }
    one = pipeline(shards, fields={"alone": mr.Image(crop)}).numpy()
    with pipeline(shards, fields=fields).numpy() as loader, one:
        for batch, alone in zip(loader, one, strict=True):
            slots = np.flatnonzero(batch["valid"])
            np.testing.assert_array_equal(batch["one"], alone["alone"])
            np.testing.assert_array_equal(batch["picture"], batch["mask"])
            for name in ("two", "picture"):
                same = sum(np.array_equal(batch["one"][i], batch[name][i]) for i in slots)
                assert same < len(slots) / 3, name  # some crops may show the same


def test_numpy_batches_are_read_only(shards: str) -> None:
    with pipeline(shards).numpy() as loader:
        batch = next(iter(loader))
    for name in ("image", "label", "valid"):
        with pytest.raises(ValueError, match="read-only"):
            batch[name][0] = 0


def test_jax_refuses_labels_that_it_would_cut_off(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    spec = write_tar(tmp_path / "labels.tar", {"a.cls": b"5000000000", "b.cls": b"7"})
    data = mr.Pipeline(spec, fields={"label": mr.Label()}, batch_size=1)
    with data.jax() as loader:
        passing = iter(loader)
        with pytest.raises(OverflowError, match="field label: 5000000000 does not fit .*_x64"):
            next(passing)
        assert int(next(passing)["label"][0]) == 7
    jax.config.update("jax_enable_x64", True)
    try:
        with data.jax() as loader:
            assert [int(batch["label"][0]) for batch in loader] == [5_000_000_000, 7]
    finally:
        jax.config.update("jax_enable_x64", False)


def test_transforms_are_the_table() -> None:
    """One class for each line of the C++ table, with its arguments, words and faults."""
    assert {"CenterCrop", "RandomResizedCrop", "Normalize"} < set(mr.transforms.__all__)
    for name in set(mr.transforms.__all__) - {"Transform"}:
        made = getattr(mr, name)
        assert issubclass(made, mr.Transform) and made.__module__ == "millrace.transforms"
        assert made.__doc__ and name in mr.__all__
        needed = {
            "size": 8,
            "kernel_size": 3,
            "degrees": 15,
            "padding": 2,
            "transforms": [mr.RandomInvert(), mr.GaussianBlur(3, (0.5, 1))],
        }
        named = {line.split(":")[0] for line in made.__doc__.splitlines()}
        sizes: dict[str, Any] = {k: v for k, v in needed.items() if k in named}
        one = made(**sizes)
        assert pickle.loads(pickle.dumps(one)) == one == copy.copy(one) != object()
        assert eval(repr(one), vars(mr)) == one
        with pytest.raises(TypeError, match=f"{name}.* has no 'colour'"):
            made(colour=1, **sizes)
    with pytest.raises(ValueError, match="RandomHorizontalFlip: p must be 0 to 1"):
        mr.RandomHorizontalFlip(2)
    with pytest.raises(TypeError, match="did you mean padding"):
        mr.RandomCrop(8, pading=1)
    with pytest.raises(TypeError, match="takes 1 without a name"):
        mr.RandomResizedCrop(8, (0.1, 1))
    crop = mr.RandomResizedCrop(8, area=(0.5, 1))
    assert crop.area == (0.5, 1.0) and crop.ratio == (0.75, 4 / 3)
    assert "mirrors" in (mr.RandomHorizontalFlip.__doc__ or "").lower()
    with pytest.raises(AttributeError):
        crop.size = 9


def test_transforms_hold_others_and_policies_refuse_what_they_have_not() -> None:
    held = mr.RandomApply([mr.GaussianBlur(23, (0.5, 2)), mr.RandomGrayscale(1)], 0.8)
    assert held.transforms[1] == mr.RandomGrayscale(1) and held.p == 0.8
    assert mr.RandAugment(2, 9, space="timm", increasing=True).std == 0.0
    assert mr.Pad((1, 2, 3, 4)).padding == (1, 2, 3, 4) and mr.Pad(4).padding == 4
    assert mr.Resize(24).interpolation is None
    with pytest.raises(ValueError, match="did you mean cifar10"):
        mr.AutoAugment("cifar")
    with pytest.raises(ValueError, match="magnitude must be below"):
        mr.RandAugment(2, 40)
    with pytest.raises(ValueError, match="size depends on what is drawn"):
        mr.RandomApply([mr.Pad(3)])


def test_mixed_batches_say_with_what(shards: str) -> None:
    fields = {
        "image": mr.Image(mr.Resize((6, 5)), mr.Normalize((0,), (1 / 255,))),
        "label": mr.Label(classes=10),
    }
    with mr.Pipeline(shards, fields=fields, batch_size=8).numpy() as loader:
        plain = {key: image for batch in loader for key, image in zip(batch["keys"], batch["image"])}
    mixed = mr.Pipeline(shards, fields=fields, batch_size=8, mixup=0.4, cutmix=1)
    changed = 0
    with mixed.numpy() as loader:
        for batch in loader:
            share = batch["label.share"]
            assert share.dtype == np.float32 and ((0 <= share) & (share <= 1)).all()
            assert batch["label.other"].tolist()[1:] == batch["label"].tolist()[:-1]
            changed += sum(
                not np.array_equal(plain[key], image)
                for key, image in zip(batch["keys"], batch["image"])
                if key
            )
    assert changed > 50
    with pytest.raises(ValueError, match="mixup and cutmix must be at least 0"):
        next(iter(mr.Pipeline(shards, fields=fields, batch_size=8, mixup=-1).numpy()))
    with pytest.raises(ValueError, match="there is no field label"):
        other = {"image": fields["image"], "kind": mr.Label(suffixes="cls")}
        next(iter(mr.Pipeline(shards, fields=other, batch_size=8, mixup=1).numpy()))


def test_padding_may_have_no_value(tmp_path: Path) -> None:
    spec = write_tar(tmp_path / "a.tar", {"a.pgm": b"P5 4 4 255\n" + b"\xff" * 16})
    box = mr.Letterbox((8, 12))
    fields = {"image": mr.Image(box), "target": mr.Image(box, channels=1, padding=float("nan"))}
    with mr.Pipeline(spec, fields=fields, batch_size=1).numpy() as loader:
        batch = next(iter(loader))
    missing = np.isnan(batch["target"][0, :, :, 0])
    assert missing[:, :2].all() and missing[:, 10:].all() and not missing[:, 2:10].any()
    assert (batch["image"][0][missing] == 0).all() and (batch["image"][0][~missing] == 1).all()


def test_sizes_mean_what_they_mean_in_torchvision(tmp_path: Path) -> None:
    assert mr.CenterCrop(24) == mr.CenterCrop((24, 24)) == mr.CenterCrop(size=24)
    assert mr.RandomCrop(32, padding=4) == mr.RandomCrop((32, 32), padding=4)
    assert mr.RandomCrop((8, 6)).size == (8, 6) and mr.ResizeCover(7).size == 7
    assert repr(mr.Resize(256)) == "Resize(256)"
    assert pickle.loads(pickle.dumps(mr.Resize(256))) == mr.Resize(256) != mr.Resize((256, 256))
    for kind in (mr.CenterCrop, mr.Resize, mr.RandomCrop, mr.ResizeCover):
        wrong: list[Any] = [(), (0,), (-1,), ((8, -8),), ((8, 0),), ((8, 8, 8),), ("wide",), (2.5,)]
        for sizes in wrong:
            with pytest.raises(ValueError, match=kind.__name__):
                kind(*sizes)
        with pytest.raises(TypeError, match=kind.__name__):
            kind(8, 8)
    picture = b"P6 12 8 255\n" + bytes(range(96)) * 3
    spec = write_tar(tmp_path / "wide.tar", {"a.ppm": picture})

    def drawn(*transforms: Any) -> Any:
        fields = {"image": mr.Image(*transforms)}
        with mr.Pipeline(spec, fields=fields, batch_size=1).numpy() as loader:
            return next(iter(loader))["image"]

    np.testing.assert_array_equal(
        drawn(mr.Resize(4), mr.CenterCrop(4)), drawn(mr.ResizeShort(4), mr.CenterCrop(4))
    )
    assert drawn(mr.Resize(4), mr.CenterCrop(4)).shape == (1, 4, 4, 3)
    with pytest.raises(ValueError, match="leave the image's size open"):
        drawn(mr.Resize(4))


def test_raw_may_be_missing_as_bytes(tmp_path: Path) -> None:
    spec = write_tar(tmp_path / "raw.tar", {"a.cls": b"1", "b.cls": b"2", "b.bin": b"\xff\0"})
    fields = {
        "raw": mr.Raw("bin", missing=b"\xfe\0"),
        "text": mr.Raw("txt", text=True, missing="none"),
        "label": mr.Label(),
    }
    with mr.Pipeline(spec, fields=fields, batch_size=2).dlpack() as loader:
        batch = next(iter(loader))
    assert batch["raw"] == [b"\xfe\0", b"\xff\0"] and batch["text"] == ["none", "none"]
    assert fields["raw"].missing == b"\xfe\0" and fields["text"].missing == "none"
    assert mr.Raw().missing is None and mr.Raw("bin", missing="x").missing == b"x"
    assert pickle.loads(pickle.dumps(fields["raw"])) == fields["raw"]
    with pytest.raises(TypeError):
        mr.Raw("bin", missing=3)  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["image", "label"])
def test_a_length_is_known_where_skipped_samples_are_replaced(tmp_path: Path, how: str) -> None:
    spec = make_shards(tmp_path, 90, 30)
    with open(tmp_path / "set-000001.tar", "r+b") as shard:
        if how == "image":  # bytes of a picture
            shard.seek(2048 + 700)
            shard.write(b"damage")
        else:
            shard.truncate(20_000)
    data = pipeline(spec, epochs=mr.Epochs(samples=200), faults=mr.Faults("skip"), streams=2)
    with data.dlpack() as loader:
        assert len(loader) == 13
        assert [len(list(loader)) for _ in range(2)] == [13, 13]
    with pipeline(spec, faults=mr.Faults("skip")).dlpack() as loader:
        with pytest.raises(TypeError, match="number of batches is not known"):
            len(loader)
