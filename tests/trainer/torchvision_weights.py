"""The oracle of TorchvisionWeights (nn_parity_test.cc). usage: torchvision_weights.py MODEL FOLDER IMAGE

Reads FOLDER/ours.safetensors into torchvision's MODEL, strictly, and writes its logits for
images.bin (2, 3, IMAGE, IMAGE) to ours.bin; then writes a model of torchvision's own as
theirs.safetensors, and its logits as theirs.bin. vit_s_16 is a small one, and theirs is of pictures
twice as large, whose positions torchvision resizes for the logits, too. The format is read and written here by its
description, so that nothing of ours is trusted.
"""
import json
import os
import sys

import numpy as np
import torch
import torchvision
from torchvision.models.vision_transformer import interpolate_embeddings


def read_safetensors(path):
    data = open(path, "rb").read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    state = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32", (name, entry)
        begin, end = entry["data_offsets"]
        values = np.frombuffer(data[8 + length + begin:8 + length + end], np.float32)
        state[name] = torch.from_numpy(values.copy()).reshape(entry["shape"])
    return state


def write_safetensors(path, state):
    header, parts, at = {}, [], 0
    for name, value in state.items():
        bits = value.numpy().tobytes()
        dtype = {torch.float32: "F32", torch.int64: "I64"}[value.dtype]
        header[name] = {"dtype": dtype, "shape": list(value.shape),
                        "data_offsets": [at, at + len(bits)]}
        parts.append(bits)
        at += len(bits)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in parts:
            file.write(part)


def make(name, seed, size):
    torch.manual_seed(seed)
    if name == "vit_s_16":
        model = torchvision.models.VisionTransformer(size, 16, 2, 2, 32, 128)
        torch.nn.init.normal_(model.heads.head.weight)  # torchvision's are zeros
        return model
    return getattr(torchvision.models, name)()


def logits(model, folder, size):
    images = np.fromfile(os.path.join(folder, "images.bin"), np.float32).reshape(2, size, size, 3)
    with torch.no_grad():
        return model.eval()(torch.from_numpy(images).permute(0, 3, 1, 2).contiguous())


def main(name, folder, size):
    at = lambda file: os.path.join(folder, file)
    ours = make(name, 0, int(size))
    ours.load_state_dict(read_safetensors(at("ours.safetensors")), strict=True)
    logits(ours, folder, int(size)).numpy().tofile(at("ours.bin"))
    theirs = make(name, 1, int(size))
    if name == "vit_s_16":
        large = make(name, 1, 2 * int(size)).state_dict()
        write_safetensors(at("theirs.safetensors"), large)
        theirs.load_state_dict(interpolate_embeddings(int(size), 16, dict(large)))
    else:
        write_safetensors(at("theirs.safetensors"), theirs.state_dict())
    logits(theirs, folder, int(size)).numpy().tofile(at("theirs.bin"))


if __name__ == "__main__":
    main(*sys.argv[1:])
