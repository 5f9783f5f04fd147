"""What wheel_elsewhere.sh runs in the minimal Debian: batches over https://, and a training run."""

import importlib.metadata
import platform
import re
import shutil  # noqa: F401
import subprocess  # noqa: F401
import sys
from pathlib import Path


def loaded_libraries() -> set[str]:
    return set(re.findall(r"/\S+\.so[.\d]*$", Path("/proc/self/maps").read_text(), re.MULTILINE))


pythons_own = loaded_libraries()  # with what the modules above load
import millrace as mr  # noqa: E402


def batches(where: str) -> list[tuple[list[str], bytes]]:
    data = mr.Pipeline(
        where + "/set-{000000..000003}.tar",
        fields={"image": mr.Image(mr.RandomCrop(28, padding=2)), "label": mr.Label(classes=10)},
        batch_size=50,
        shuffle=mr.Shuffle(100, seed=7),
    )
    with data.dlpack() as loader:
        return [(batch["keys"], bytes(memoryview(batch["image"]))) for batch in loader]


url = sys.argv[1]
over_https = batches(url)
assert len(over_https) == 8
assert over_https == batches("/try/shards")
print("https:", len(over_https), "batches, as from the files")

installed = ("/try/venv/", "/usr/lib/python3")
foreign = {path for path in loaded_libraries() - pythons_own if not path.startswith(installed)}
system = r"/(lib(c|m|z|gcc_s|stdc\+\+)\.so|ld-linux)[^/]*$"
assert not [path for path in foreign if not re.search(system, path)], foreign
print("libraries of the system:", *sorted(Path(path).name for path in foreign))

files = importlib.metadata.files("millrace-loader") or []
vendored = {re.sub("-[0-9a-f]{8}", "", one.name) for one in files if one.parts[0].endswith(".libs")}
licensed = {one.name for one in files if one.parts[-3:-1] == ("licenses", "libraries")}
assert vendored and vendored == licensed, vendored ^ licensed
listed = importlib.metadata.metadata("millrace-loader").get_all("License-File") or []
licences = Path(mr.__file__).parents[1] / next(one for one in files if one.name == "METADATA").parent / "licenses"
assert listed[0] == "LICENSE" and all((licences / one).stat().st_size > 500 for one in listed)
print("licences:", len(listed))
print("Python", platform.python_version(), *platform.libc_ver())

spec = url + "/set-{000000..000003}.tar"
epochs = [event for event in mr.train(spec, model="lenet", epochs=2, batch_size=20, val=[spec])
          if event["event"] == "epoch"]
assert [event["val_samples"] for event in epochs] == [400, 400]
assert epochs[1]["train_loss"] < epochs[0]["train_loss"]
print("train: LeNet's loss", epochs[0]["train_loss"], "and", epochs[1]["train_loss"])
