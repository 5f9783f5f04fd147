"""Answers of PIL and torchvision for tests/decode/oracle_test.cc.

usage: oracle.py FOLDER: reads FOLDER/cases.json, a list of {"file", "op", ...}, and writes beside
each case `i` the answer as raw bytes, FOLDER/i.raw.
"""

import json
import pathlib
import sys

import numpy as np
from PIL import Image


def jittered(image, case):
    from PIL import ImageEnhance as e

    kind = {"brightness": e.Brightness, "contrast": e.Contrast, "saturation": e.Color}
    return kind[case["kind"]](image).enhance(case["factor"])


def with_levels(image, case):
    from PIL import ImageOps

    if case["kind"] == "grayscale":
        return image.convert("L").convert("RGB")
    change = getattr(ImageOps, case["kind"])
    return change(image, case["value"]) if "value" in case else change(image)


def functional(image, case):
    """What torchvision's function of that name makes of a PIL picture."""
    from torchvision.transforms import functional as f

    return getattr(f, case["name"])(image, *case["arguments"])


def erasing(**options):
    from torchvision import transforms as t

    try:
        from torchvision.transforms import v2 as t
    except ImportError:
        pass  # the same arithmetic
    return t.RandomErasing(**options)


def erased(image, case):
    """With the random numbers that our generator's words stand for."""
    import torch

    words = iter(case["words"])
    uniform = lambda: (next(words) >> 8) * 2.0**-24
    below = lambda bound: ((next(words) << 32) | next(words)) % bound
    torch.rand = lambda count: torch.tensor([uniform()])
    torch.randint = lambda low, high, size: torch.tensor([low + below(high - low)])
    torch.Tensor.uniform_ = lambda self, low, high: self.fill_(low + (high - low) * uniform())
    picture = torch.from_numpy(np.array(image)).permute(2, 0, 1)
    done = erasing(p=0.8, scale=(0.02, 0.9), value=[9, 50, 200])(picture)
    return done.permute(1, 2, 0).contiguous().numpy().astype(np.uint8)


def erased_boxes(case):
    import torch

    torch.manual_seed(1)
    erase, areas, shapes = erasing(value=1), [], []
    for _ in range(case["draws"]):
        erased = erase(torch.zeros(1, 64, 48))[0] > 0
        if area := int(erased.sum()):
            areas.append(area / erased.numel())
            shapes.append(np.log(int(erased.any(1).sum()) ** 2 / area))
    quarters = [sorted(values)[len(values) * q // 4] for values in (areas, shapes) for q in (1, 2, 3)]
    return np.array([len(areas) / case["draws"], *quarters], "<f4")


def answer(folder, case):
    if case["op"] == "write":
        return write_arrays(folder, case)
    if case["op"] == "erased boxes":
        return erased_boxes(case)
    mode = "L" if case.get("channels", 3) == 1 else "RGB"
    image = Image.open(folder / case["file"])
    if case["op"] == "decode":
        return np.asarray(image.convert(mode))
    image = image.convert(mode)
    if case["op"] == "jitter":
        return np.asarray(jittered(image, case))
    if case["op"] == "levels":
        return np.asarray(with_levels(image, case))
    if case["op"] == "function":
        return np.asarray(functional(image, case))
    if case["op"] == "erase":
        return erased(image, case)
    if case["op"] == "resize":
        return np.asarray(image.resize((case["width"], case["height"]), Image.BILINEAR))
    from torchvision import transforms as t

    steps = [t.Resize(case["short"]), t.CenterCrop((case["height"], case["width"]))]
    image = t.Compose(steps)(image)
    if case["op"] == "centre":
        return np.asarray(image)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    tensor = t.Compose([t.ToTensor(), t.Normalize(mean, std)])(image)
    return tensor.numpy().astype("<f4")


def write_arrays(folder, case):
    """Writes an array as npy, in an npz and in a packed npz; answers its float32 values."""
    array = (np.arange(-7, 17).reshape(2, 3, 4) * 5).astype(case["dtype"])
    if case["fortran"]:
        array = np.asfortranarray(array)
    np.save(folder / f"{case['file']}.npy", array)
    np.savez(folder / f"{case['file']}.npz", first=np.zeros(3), second=array)
    np.savez_compressed(folder / f"{case['file']}.packed.npz", first=np.zeros(999), second=array)
    return array.astype("<f4", order="C")


def main():
    folder = pathlib.Path(sys.argv[1])
    for i, case in enumerate(json.loads((folder / "cases.json").read_text())):
        (folder / f"{i}.raw").write_bytes(answer(folder, case).tobytes())


if __name__ == "__main__":
    main()
