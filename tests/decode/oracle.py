"""Answers of PIL and torchvision for tests/decode/oracle_test.cc.

usage: oracle.py FOLDER: reads FOLDER/cases.json, a list of {"file", "op", ...}, and writes beside
each case `i` the answer as raw bytes, FOLDER/i.raw.
"""

import json
import pathlib
import sys

import numpy as np
from PIL import Image


def answer(folder, case):
    mode = "L" if case.get("channels", 3) == 1 else "RGB"
    image = Image.open(folder / case["file"])
    if case["op"] == "decode":
        return np.asarray(image.convert(mode))
    image = image.convert(mode)
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


def main():
    folder = pathlib.Path(sys.argv[1])
    for i, case in enumerate(json.loads((folder / "cases.json").read_text())):
        (folder / f"{i}.raw").write_bytes(answer(folder, case).tobytes())


if __name__ == "__main__":
    main()
