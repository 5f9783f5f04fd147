"""Images/s of a recipe's augmentation: random crops of 224 px, flips, RandAugment(2, 9), erasing (0.25) and MixUp (0.2), normalised, float32.

    python bench/peers/augmentations.py MILLRACE [--python-with WHICH=PYTHON ...] [--seconds S] [--rounds R]

millrace, webdataset + torchvision and DALI on the CPU, each in a process of its own, in turns, from the same JPEGs of 448 px on as many threads
or workers as there are cores. The figures are medians of images/s, and of the ratios to millrace in the same round. WHICH is one of the loaders
below, whose packages may need an interpreter of their own; one that cannot be imported is left out with its reason.
DALI has no MixUp: its batches are mixed by NumPy, as webdataset's are by PyTorch in the workers.
"""

import json
import statistics
import tempfile

from loaders import BATCH, BUFFER, CORES, MEAN, SIDE, STD, arguments, compare, one_loader, parsed, shards

TITLES = {"millrace": "millrace, NumPy", "webdataset": "webdataset + torchvision", "dali": "DALI on the CPU + NumPy"}
MIXUP, ERASED = 0.2, 0.25


def millrace(folder):
    import millrace as mr

    data = mr.Pipeline(shards(folder), batch_size=BATCH, shuffle=mr.Shuffle(BUFFER, seed=1), threads=CORES, mixup=MIXUP, fields={
        "image": mr.Image(mr.RandomResizedCrop(SIDE), mr.RandomHorizontalFlip(), mr.RandAugment(2, 9), mr.RandomErasing(ERASED),
                          mr.Normalize.imagenet(), layout="CHW", dtype="float32"),
        "label": mr.Label(classes=10)})
    loader = data.numpy()
    while True:
        for batch in loader:
            yield int(batch["valid"].sum())


def webdataset(folder):
    import numpy as np
    import torch
    import torchvision.transforms as T
    import webdataset as wds

    torch.set_num_threads(1)
    steps = T.Compose([T.RandomResizedCrop(SIDE), T.RandomHorizontalFlip(), T.RandAugment(2, 9), T.ToTensor(), T.Normalize(MEAN, STD),
                       T.RandomErasing(ERASED)])

    def mixed(batch):
        images, labels = batch
        share = np.random.beta(MIXUP, MIXUP)
        order = torch.randperm(len(images))
        return images.mul(share).add_(images[order], alpha=1 - share), labels, labels[order], share

    dataset = (wds.WebDataset(shards(folder), resampled=True, shardshuffle=False).shuffle(BUFFER).decode("pil").to_tuple("jpg", "cls")
               .map_tuple(steps, int).batched(BATCH).map(mixed))
    for images, *_ in torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=CORES):
        yield len(images)


def dali(folder):
    import numpy as np
    from nvidia.dali import fn, pipeline_def, types
    from nvidia.dali.auto_aug import rand_augment

    @pipeline_def(batch_size=BATCH, num_threads=CORES, device_id=None, enable_conditionals=True)
    def pipeline():
        jpegs, labels = fn.readers.webdataset(paths=shards(folder), ext=["jpg", "cls"], random_shuffle=True, initial_fill=BUFFER,
                                              missing_component_behavior="error")
        images = fn.resize(fn.decoders.image_random_crop(jpegs, output_type=types.RGB), size=[SIDE, SIDE])
        images = fn.flip(images, horizontal=fn.random.coin_flip())
        images = rand_augment.rand_augment(images, n=2, m=9, shape=[SIDE, SIDE], fill_value=0)
        images = fn.crop_mirror_normalize(images, mean=[255 * x for x in MEAN], std=[255 * x for x in STD], dtype=types.FLOAT, output_layout="CHW")
        if fn.random.coin_flip(probability=ERASED, dtype=types.BOOL):
            images = fn.erase(images, axis_names="HW", normalized=True, anchor=fn.random.uniform(range=(0, 0.7), shape=2),
                              shape=fn.random.uniform(range=(0.14, 0.57), shape=2))
        return images, labels

    built = pipeline()
    built.build()
    while True:
        images, _ = built.run()
        batch = images.as_array()
        share = np.float32(np.random.beta(MIXUP, MIXUP))
        yield len(share * batch + (1 - share) * batch[np.random.permutation(len(batch))])


LOADERS = {"millrace": millrace, "webdataset": webdataset, "dali": dali}


def words_of(loader, options, folder, seconds):
    return one_loader(__file__, loader, options, folder, seconds)


def told(loader, rate):
    print(json.dumps({"what": TITLES[loader], "images_per_s": round(rate, 1)}), flush=True)


def main():
    options = parsed(arguments(seconds=8), LOADERS)
    with tempfile.TemporaryDirectory() as folder:
        rates = compare(TITLES, words_of, options, folder, told)
    for loader, values in rates.items():
        ratio = statistics.median(ours / value for ours, value in zip(rates["millrace"], values))
        print(f"{TITLES[loader]:26} {statistics.median(values):8.0f} images/s  millrace is {ratio:5.2f} times as fast")


if __name__ == "__main__":
    main()
