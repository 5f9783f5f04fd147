"""Boxes of objects: where they are after crops, resizes, turns and flips."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import millrace as mr

np = pytest.importorskip("numpy")

HEIGHT, WIDTH = 90, 120
COLOURS = np.eye(3, dtype=np.uint8) * 255


def ppm(pixels: Any) -> bytes:
    height, width, _ = pixels.shape
    return b"P6\n%d %d\n255\n" % (width, height) + pixels.tobytes()


def write_set(path: Path, samples: list[dict[str, bytes]]) -> str:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for number, members in enumerate(samples):
            for suffix, data in members.items():
                info = tarfile.TarInfo(f"{number:03d}.{suffix}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return str(path)


def drawn(boxes: list[list[int]]) -> Any:
    """A red, a green and a blue rectangle on black."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for (x, y, width, height), colour in zip(boxes, COLOURS, strict=True):
        pixels[y : y + height, x : x + width] = colour
    return pixels


def rectangles(count: int) -> list[dict[str, bytes]]:
    rng = np.random.default_rng(5)
    samples = []
    for _ in range(count):
        # Each in a third of the picture, so that none hides another.
        boxes = [
            [
                int(40 * place + rng.integers(0, 15)),
                int(rng.integers(0, 50)),
                int(rng.integers(8, 25)),
                int(rng.integers(8, 40)),
            ]
            for place in range(3)
        ]
        text = json.dumps({"boxes": boxes, "labels": [0, 1, 2], "crowd": [0, 0, 0]})
        samples.append({"json": text.encode(), "ppm": ppm(drawn(boxes))})
    return samples


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_set(tmp_path_factory.mktemp("shapes") / "x.tar", rectangles(24))


def batch_of(spec: str, transforms: list[Any], **arguments: Any) -> dict[str, Any]:
    fields: dict[Any, Any] = {
        "boxes": mr.Boxes(**arguments),
        "other": mr.Image(mr.RandomCrop(16), dtype="uint8"),
        "image": mr.Image(*transforms, dtype="uint8"),
    }
    data = mr.Pipeline(
        spec, fields=fields, batch_size=24, shuffle=mr.Shuffle(9, seed=3), threads=2
    )
    with data.numpy() as loader:
        return next(iter(loader))


def extent_of(picture: Any, label: int) -> tuple[int, int, int, int] | None:
    """Where a rectangle's colour is, by the pixels."""
    rest = np.delete(picture, label, axis=2).max(axis=2)
    ys, xs = np.nonzero((picture[:, :, label] > 127) & (rest < 128))
    if len(ys) == 0:
        return None
    return xs.min(), ys.min(), xs.max() + 1, ys.max() + 1


UPRIGHT: list[list[Any]] = [
    [mr.RandomCrop(64)],
    [mr.RandomResizedCrop((48, 72)), mr.RandomHorizontalFlip()],
    [mr.RandomCrop((70, 110), padding=12), mr.RandomVerticalFlip(), mr.Resize((140, 99))],
    [mr.Letterbox((64, 96)), mr.RandomHorizontalFlip()],
    [mr.RandomHorizontalFlip(1.0), mr.Resize(64), mr.CenterCrop((60, 60)), mr.Resize((90, 120))],
]
TURNED: list[list[Any]] = [
    [mr.CenterCrop((90, 120)), mr.RandomRotation(40.0)],
    [
        mr.Resize((120, 160)),
        mr.RandomAffine(20.0, [0.1, 0.1], (0.7, 1.2), shear_x=(-10.0, 10.0)),
        mr.RandomHorizontalFlip(),
    ],
    [mr.Resize((90, 120)), mr.RandomPerspective(0.4, 1.0), mr.RandomVerticalFlip()],
]


@pytest.mark.parametrize("transforms", UPRIGHT, ids=repr)
def test_boxes_are_where_the_picture_shows_their_objects(
    shapes: str, transforms: list[Any]
) -> None:
    batch = batch_of(shapes, transforms, min_share=0, min_side=0)
    found = 0
    for picture, boxes, labels, count in _samples(batch):
        seen = dict(zip(labels[:count].tolist(), boxes[:count], strict=True))
        for label in range(3):
            extent = extent_of(picture, label)
            if extent is not None:
                assert np.abs(seen[label] - extent).max() <= 1.0, (label, seen[label], extent)
                found += 1
            elif label in seen:  # less than half a pixel
                assert min(seen[label][2:] - seen[label][:2]) < 1
    assert found > 24


@pytest.mark.parametrize("transforms", TURNED, ids=repr)
def test_boxes_of_turned_pictures_are_around_their_corners(
    shapes: str, transforms: list[Any]
) -> None:
    batch = batch_of(shapes, transforms, min_share=0, min_side=0)
    inside = 0
    for picture, boxes, labels, count in _samples(batch):
        height, width, _ = picture.shape
        for box, label in zip(boxes[:count], labels[:count].tolist(), strict=True):
            extent = extent_of(picture, label)
            if extent is None:
                continue
            distance = np.array(extent) - box
            # Nothing is seen outside of it; corners that are sharp may be less than a pixel.
            assert (distance[:2] >= -1.0).all() and (distance[2:] <= 1.0).all()
            if box[0] > 0 and box[1] > 0 and box[2] < width and box[3] < height:
                assert np.abs(distance).max() <= 2.5
                inside += 1
    assert inside > 12


def _samples(batch: dict[str, Any]) -> Any:
    assert batch["boxes.label"].dtype == batch["boxes.count"].dtype == np.int64
    return zip(
        batch["image"], batch["boxes"], batch["boxes.label"], batch["boxes.count"], strict=True
    )


def test_view_draws_them(shapes: str) -> None:
    image = pytest.importorskip("PIL.Image")
    picture = mr.Image(mr.Resize((90, 120)), dtype="uint8")
    for form in ("xyxy", "xywh", "cxcywh"):
        field = mr.Boxes(form=form)  # type: ignore[arg-type]
        data = mr.Pipeline(shapes, fields={"image": picture, "boxes": field}, batch_size=2)
        png = np.asarray(image.open(io.BytesIO(mr.view(data, count=1).png)))
        with data.numpy() as loader:
            first = next(iter(loader))
        for (left, top, right, bottom), label in zip(
            _upright(first["boxes"][0], form)[:3], range(3), strict=True
        ):
            frame = png[top, left:right].astype(int)
            assert (frame == frame[0]).all() and (frame[0] != COLOURS[label]).any()
            assert (png[top + 1, left + 1] == COLOURS[label]).all()
            assert (png[bottom - 1, left:right] == frame[0]).all()


def _upright(boxes: Any, form: str) -> Any:
    """As xyxy, of boxes in whole pixels."""
    first, second = boxes[:, :2], boxes[:, 2:]
    if form == "xywh":
        second = first + second
    elif form == "cxcywh":
        first, second = first - second / 2, first + second / 2
    return np.hstack([first, second]).round().astype(int).tolist()


def test_boxes_follow_a_picture_and_its_mask_alike(tmp_path: Path) -> None:
    samples = rectangles(24)
    for sample in samples:
        sample["mask.ppm"] = sample["ppm"]
    spec = write_set(tmp_path / "pairs.tar", samples)
    image = mr.Image(suffixes="ppm", dtype="uint8", interpolation="nearest")
    mask = mr.Image(suffixes="mask.ppm", dtype="uint8", interpolation="nearest")
    pair = mr.PairedImages(
        image, mask, geometry=[mr.RandomResizedCrop(64), mr.RandomHorizontalFlip()]
    )
    fields: dict[Any, Any] = {("image", "mask"): pair, "boxes": mr.Boxes("mask", most=3)}
    with mr.Pipeline(spec, fields=fields, batch_size=24).numpy() as loader:
        batch = next(iter(loader))
    assert (batch["image"] == batch["mask"]).all()
    for picture, boxes, labels, count in _samples(batch):
        for box, label in zip(boxes[:count], labels[:count].tolist(), strict=True):
            extent = extent_of(picture, label)
            assert extent is not None and np.abs(box - extent).max() <= 1.0


def one_set(path: Path, image: tuple[int, int] = (100, 200), **members: Any) -> str:
    picture = ppm(np.zeros((*image, 3), np.uint8))
    return write_set(path / "one.tar", [{"json": json.dumps(members).encode(), "ppm": picture}])


def rows(batch: dict[str, Any]) -> list[list[float]]:
    return batch["boxes"][0][: batch["boxes.count"][0]].round(4).tolist()  # type: ignore[no-any-return]


def one_batch(spec: str, transforms: list[Any], **arguments: Any) -> dict[str, Any]:
    fields: dict[Any, Any] = {"image": mr.Image(*transforms), "boxes": mr.Boxes(**arguments)}
    with mr.Pipeline(spec, fields=fields, batch_size=1).numpy() as loader:
        return next(iter(loader))


def test_boxes_by_numpy(tmp_path: Path) -> None:
    """Resizes, crops and their shares, worked out with the geometry."""
    rng = np.random.default_rng(0)
    sides = rng.uniform(4, 60, (40, 2))
    corners = rng.uniform(0, [140, 40], (40, 2))
    boxes = np.hstack([corners, sides])
    spec = one_set(tmp_path, boxes=boxes.tolist(), labels=list(range(40)))
    transforms = [mr.Resize((150, 250)), mr.CenterCrop((80, 120)), mr.Resize((40, 30))]
    batch = one_batch(spec, transforms, min_share=0.3, min_side=3)

    expected, labels = [], []
    for label, (x, y, width, height) in enumerate(boxes):
        whole = np.array([x, y, x + width, y + height]) * [1.25, 1.5, 1.25, 1.5]
        moved = whole - [65, 35, 65, 35]
        cut = np.clip(moved, 0, [120, 80, 120, 80]) * [0.25, 0.5, 0.25, 0.5]
        share = np.prod((cut[2:] - cut[:2]) * [4, 2]) / np.prod(whole[2:] - whole[:2])
        if share >= 0.3 and min(cut[2:] - cut[:2]) >= 3:
            expected.append(cut)
            labels.append(label)
    assert 5 < len(expected) < 40
    count = batch["boxes.count"][0]
    assert count == len(expected)
    assert np.abs(batch["boxes"][0][:count] - expected).max() < 1e-4
    assert batch["boxes.label"][0].tolist() == labels + [-1] * (100 - count)
    assert (batch["boxes"][0][count:] == 0).all()


def test_the_largest_are_kept_and_crowds_are_not(tmp_path: Path) -> None:
    boxes = [[0, 0, 9, 9], [50, 50, 30, 30], [10, 10, 10, 10], [0, 0, 0, 5], [5, 5, 90, 90]]
    spec = one_set(tmp_path, boxes=boxes, labels=[4, 3, 2, 1, 0], crowd=[0, False, 0, 0, 1])
    batch = one_batch(spec, [mr.CenterCrop((100, 200))], most=2)
    assert batch["boxes"].shape == (1, 2, 4)
    assert rows(batch) == [[50, 50, 80, 80], [10, 10, 20, 20]]
    assert batch["boxes.label"].tolist() == [[3, 2]]
    batch = one_batch(spec, [mr.CenterCrop((100, 200))], most=9, crowds_key="")
    assert batch["boxes.count"].tolist() == [4]


def test_forms_keys_and_sizes(tmp_path: Path) -> None:
    spec = one_set(
        tmp_path,
        objects={"at": [[40, 20, 80, 60]]},
        width=400,
        height=200,
    )
    keys: dict[str, Any] = {"boxes_key": "/objects/at", "labels_key": "", "stored": "xyxy"}
    whole = [mr.CenterCrop((100, 200))]
    assert rows(one_batch(spec, whole, **keys)) == [[20, 10, 40, 30]]
    assert rows(one_batch(spec, whole, form="cxcywh", **keys)) == [[30, 20, 20, 20]]
    assert rows(one_batch(spec, whole, form="xywh", scaled=False, **keys)) == [[40, 20, 40, 40]]
    keys["stored"] = "cxcywh"
    assert rows(one_batch(spec, whole, **keys)) == [[0, 0, 40, 25]]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"boxes": [[1, 2, 3]], "labels": [1]}, "box 0 is not four numbers"),
        ({"boxes": [[1, 2, 3, "4"]], "labels": [1]}, "box 0 is not four numbers"),
        ({"boxes": [[1, 2, -3, 4]], "labels": [1]}, "box 0 has a negative side"),
        ({"boxes": [[1, 2, 1e300, 4]], "labels": [1]}, "box 0 is nowhere near"),
        ({"boxes": [[1, 2, 3, 4]], "labels": [1, 2]}, "2 values for 1 boxes"),
        ({"boxes": [[1, 2, 3, 4]], "labels": [0.5]}, "label 0 is not a whole number"),
        ({"boxes": [[1, 2, 3, 4]], "labels": [9]}, "label 9 is not one of the 9 classes"),
        ({"boxes": {}, "labels": []}, '"boxes" is not a list'),
        ({"labels": []}, 'without a value at "boxes"'),
        ({"boxes": [], "labels": [], "width": 9, "height": 300}, "9 x 300 pixels beside one of"),
        ({"boxes": [], "labels": [], "width": 9}, 'without a value at "height"'),
    ],
)
def test_damaged_boxes_are_faults_with_their_place(
    tmp_path: Path, members: dict[str, Any], words: str
) -> None:
    spec = one_set(tmp_path, **members)
    with pytest.raises(mr.Error, match=words) as raised:
        one_batch(spec, [mr.CenterCrop((100, 200))], classes=9)
    assert raised.value.url == spec
    assert raised.value.member == "000.json"


def test_boxes_without_their_json_or_picture(tmp_path: Path) -> None:
    picture = ppm(np.zeros((8, 8, 3), np.uint8))
    spec = write_set(tmp_path / "bare.tar", [{"ppm": picture}])
    assert one_batch(spec, [mr.CenterCrop(8)], may_lack=True)["boxes.count"].tolist() == [0]
    with pytest.raises(mr.Error, match="none of the members json"):
        one_batch(spec, [mr.CenterCrop(8)])
    with pytest.raises(mr.InvalidArgumentError, match="no field picture of pictures"):
        one_batch(spec, [mr.CenterCrop(8)], image="picture")
    with pytest.raises(mr.InvalidArgumentError, match="cannot follow randaugment"):
        one_batch(spec, [mr.CenterCrop(8), mr.RandAugment()])
    with pytest.raises(mr.InvalidArgumentError, match="min_share must be from 0 to 1"):
        one_batch(spec, [mr.CenterCrop(8)], min_share=1.5)
