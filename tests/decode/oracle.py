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
    from torchvision.transforms import InterpolationMode, functional as f

    options = case.get("options", {})
    if "interpolation" in options:
        options["interpolation"] = InterpolationMode(options["interpolation"])
    return getattr(f, case["name"])(image, *case["arguments"], **options)


def operated(image, case):
    """The operations of a policy, one after another."""
    from torchvision.transforms import InterpolationMode, autoaugment as a

    for name, magnitude, how in case["operations"]:
        if name == "SolarizeAdd":  # timm's
            image = image.point([min(i + int(magnitude), 255) if i < 128 else i for i in range(256)] * 3)
        else:
            image = a._apply_op(image, name, magnitude, InterpolationMode(how), case["fill"])
    return np.asarray(image)


def spaces(case):
    """The magnitudes of a policy's operations at every strength, one operation after another."""
    from torchvision.transforms import autoaugment as a

    size = (case["height"], case["width"])
    policy = {"randaugment": a.RandAugment, "trivialaugment": a.TrivialAugmentWide,
              "autoaugment": a.AutoAugment, "augmix": a.AugMix}[case["policy"]]()
    arguments = [case["bins"]] if case["policy"] == "trivialaugment" else [case["bins"], size]
    space = policy._augmentation_space(*arguments)
    values = []
    for name in case["names"]:
        magnitudes, has_sign = space.pop(name)
        values.append(float(has_sign))
        values += magnitudes.tolist() if magnitudes.ndim > 0 else [0.0] * case["bins"]
    return np.array(values + [float(len(space))], "<f4")  # none must be left


def pairs(case):
    """AutoAugment's pairs: the operation's place among the names, its probability, its strength."""
    from torchvision.transforms import autoaugment as a

    policies = a.AutoAugment(a.AutoAugmentPolicy(case["policy"])).policies
    return np.array([(case["names"].index(name), probability, -1 if strength is None else strength)
                     for pair in policies for name, probability, strength in pair], "<f4")


def resized(image, case):
    """By PIL; or of a tensor by torchvision, which rounds once."""
    how = case.get("interpolation", "bilinear")
    size = (case["height"], case["width"])
    if not case.get("tensor"):
        return np.asarray(image.resize(size[::-1], getattr(Image, how.upper())))
    from torchvision.transforms import InterpolationMode, functional as f

    done = f.resize(f.pil_to_tensor(image), size, InterpolationMode(how), antialias=True)
    return done.permute(1, 2, 0).contiguous().numpy()


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
    if case["op"] in ("spaces", "pairs"):
        return globals()[case["op"]](case)
    mode = "L" if case.get("channels", 3) == 1 else "RGB"
    image = Image.open(folder / case["file"])
    if case["op"] == "decode":
        return np.asarray(image.convert(mode))
    image = image.convert(mode)
    if case["op"] == "jitter":
        return np.asarray(jittered(image, case))
    if case["op"] == "levels":
        return np.asarray(with_levels(image, case))
    if case["op"] == "operations":
        return operated(image, case)
    if case["op"] == "function":
        return np.asarray(functional(image, case))
    if case["op"] == "erase":
        return erased(image, case)
    if case["op"] == "resize":
        return resized(image, case)
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
