"""The program as a child, its components as classes, and the types that the package tells."""

from __future__ import annotations

import ast
import inspect
import json
import os
import pickle
import pydoc
import re
import shutil
import subprocess
import sys
import tarfile
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import millrace as mr
from conftest import make_shards
from millrace import _core, components
from millrace._calls import text_of
from millrace.program import words_of


def test_training_yields_its_events(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 60, 30)
    options = {"model": components.LeNet(), "epochs": 1, "batch_size": 20,
               "optimizer": components.SGD(0.02, groups=[{"parameters": "fc", "rate": 2}]),
               "augment": [mr.RandomErasing(area=(0.1, 0.2)), mr.RandomHorizontalFlip()],
               "run_dir": tmp_path / "run"}  # fmt: skip
    events = list(mr.train(spec, val=[spec], **options))
    assert events[-1]["event"] == "end"
    (epoch,) = (event for event in events if event["event"] == "epoch")
    assert epoch["train_samples"] == epoch["val_samples"] == 60
    said = json.loads((tmp_path / "run" / "config.json").read_text())["options"]
    assert said["model"] == "lenet" and said["optimizer"].startswith("sgd(lr=0.02, momentum=0.9,")
    assert "groups=[group(parameters=fc, rate=2, " in said["optimizer"]
    assert said["augment"].startswith("erase(p=0.5, area=0.1..0.2,")
    assert ", hflip(p=0.5, " in said["augment"]


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_a_loop_that_is_left_ends_the_training(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 60, 30)
    before = children()
    training = mr.train(spec, model="lenet", epochs=100_000, batch_size=20, run_dir="none")
    next(training)
    assert len(children() - before) == 1
    training.close()
    assert children() == before


def test_a_view_is_a_picture_in_a_notebook(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 60, 30)
    picture = mr.view(spec, size=16, count=4, columns=4, augment="crop-flip")
    png = picture._repr_png_()
    assert png.startswith(b"\x89PNG")
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert width >= 4 * 16 and 16 <= height < width / 2
    picture.save(tmp_path / "seen.png")
    assert (tmp_path / "seen.png").read_bytes() == png
    with pytest.raises(mr.ProgramError):
        mr.view(spec, count=-1)


def test_a_failure_has_its_status(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(mr.ProgramError) as caught:
        list(mr.train(tmp_path / "nowhere.tar", model="lenet"))
    assert caught.value.returncode in (1, 2)
    assert "nowhere.tar" in capfd.readouterr().err


def test_options_are_the_commands_words() -> None:
    options = {"batch_size": 8, "drop_last": True, "partial": False, "seed": None, "val": ["a", 1]}
    assert words_of(options) == ["--batch-size=8", "--drop-last", "--val=a", "--val=1"]


def test_false_leaves_out_what_a_recipe_says(tmp_path: Path) -> None:
    assert words_of({"config": "a.toml", "fill": False, "ema": None}) == [
        "--config=a.toml",
        "--no-fill",
    ]
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        'model = "lenet"\nepochs = 1\nbatch-size = 20\non-fault = "skip"\nfill = true\n'
    )
    run = tmp_path / "run"
    spec = make_shards(tmp_path, 60, 30)
    assert list(mr.train(spec, config=recipe, fill=False, run_dir=run))
    assert not json.loads((run / "config.json").read_text())["options"]["fill"]


def test_a_list_of_numbers_is_one_value() -> None:
    assert words_of({"devices": [3]}) == ["--devices=[3]"]
    assert words_of({"betas": (0.9, np.float32(0.5))}) == ["--betas=[0.9,0.5]"]


def test_a_list_of_devices_names_them(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 60, 30)
    run = tmp_path / "run"
    options = {"model": "lenet", "epochs": 1, "batch_size": 20, "optimizer": "adamw"}
    assert list(mr.train(spec, devices=[1, 2], betas=[0.8, 0.9], run_dir=run, **options))
    config = json.loads((run / "config.json").read_text())["options"]
    assert config["devices"] == "[1,2]"
    assert "betas=[0.8, 0.9]" in config["optimizer"]


def test_components_are_the_programs() -> None:
    lines = subprocess.check_output(
        [os.environ["MILLRACE_PROGRAM"], "train", "--help", "components"], text=True
    )
    for line in map(json.loads, lines.splitlines()):
        kind = getattr(mr if line["kind"] == "transform" else components, line["python"])
        assert kind.__doc__.startswith(line["sentence"])
        if line["kind"] != "transform":
            fields = [field["name"] for field in line["fields"]]
            assert list(inspect.signature(kind).parameters) == fields
    assert {"AdamW", "Cosine", "CrossEntropy", "ResNet50", "Classify"} < set(dir(components))


def test_components_are_values() -> None:
    rule = components.SGD(0.1, nesterov=True)
    assert repr(rule) == "SGD(lr=0.1, nesterov=True)" and rule.momentum == 0.9
    assert rule == pickle.loads(pickle.dumps(rule)) and rule != components.SGD(0.1)
    assert text_of(rule) == "sgd(lr=0.1, nesterov=true)"
    assert text_of({"name": 'a "b"', "of": [None, 0.5]}) == '{name="a \\"b\\"", of=[none, 0.5]}'
    with pytest.raises(TypeError, match="SGD.. has no 'momentun'; did you mean momentum"):
        components.SGD(momentun=0.9)
    with pytest.raises(AttributeError, match="SGD has no 'betas'"):
        rule.betas  # noqa: B018
    with pytest.raises(AttributeError, match="there is no SGG; there are SGD"):
        components.SGG  # noqa: B018


def test_a_misspelt_argument_is_answered_by_the_nearest() -> None:
    def refusal(call: Callable[..., object], *args: object, **kwargs: object) -> str:
        with pytest.raises(TypeError) as error:
            call(*args, **kwargs)
        return str(error.value)

    assert refusal(mr.Label, clases=3) == "Label() has no 'clases'; did you mean classes?"
    assert refusal(mr.Image, layot="CHW") == "Image() has no 'layot'; did you mean layout?"
    assert refusal(mr.Limits, pixel=1).endswith("there are max_pixels, max_scans, "
                                                "max_unpacked_bytes, max_ratio")  # fmt: skip
    for made, name, word in ((mr.Pipeline, "shuffle", "shufle"), (mr.Tokens, "length", "lenth"),
                             (mr.Function, "members", "member"),
                             (mr.ShardWriter, "replace", "replac")):  # fmt: skip
        assert refusal(made, "x", **{word: 1}).endswith(f"has no '{word}'; did you mean {name}?")
    assert "Shuffle(buffer_samples: int = 0, " in refusal(mr.Shuffle, "many")
    assert "1. Label(suffixes: str = 'cls', *, " in refusal(mr.Label, "cls", 3)


def test_help_has_what_classes_take() -> None:
    label = inspect.signature(mr.Label)
    assert list(label.parameters) == ["suffixes", "classes", "json_key", "missing"]
    assert label.parameters["suffixes"].default == "cls"
    assert label.parameters["classes"].kind is inspect.Parameter.KEYWORD_ONLY
    assert str(inspect.signature(mr.Image)).startswith("(*transforms: Any, suffixes: 'str' = '', ")
    assert list(inspect.signature(mr.Pipeline).parameters)[:2] == ["spec", "fields"]
    for node in stubs().body:
        made = getattr(_core, node.name) if isinstance(node, ast.ClassDef) else None
        if made and any(isinstance(f, ast.FunctionDef) and f.name == "__init__" for f in node.body):
            assert inspect.signature(made).parameters, node.name
    for name in mr.transforms.__all__[1:]:
        assert f"{name}(" in pydoc.render_doc(getattr(mr, name), renderer=pydoc.plaintext)
        inspect.signature(getattr(mr, name))


def test_the_package_is_the_program_too() -> None:
    def run(*command: str) -> tuple[int, str]:
        done = subprocess.run([*command, "--help"], capture_output=True, text=True)
        return done.returncode, done.stdout

    assert run(sys.executable, "-m", "millrace") == run(os.environ["MILLRACE_PROGRAM"])


def test_a_program_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MILLRACE_PROGRAM")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="MILLRACE_PROGRAM"):
        list(mr.train("x.tar"))
    done = subprocess.run([sys.executable, "-m", "millrace"], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1


def stubs() -> ast.Module:
    assert _core.__file__ is not None
    return ast.parse(next(Path(_core.__file__).parent.glob("_core.pyi")).read_text())


def test_stubs_have_every_class_and_member() -> None:
    told = {
        node.name: {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
        | {part.target.id for part in node.body
           if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)}
        for node in stubs().body if isinstance(node, ast.ClassDef)
    }  # fmt: skip
    real = dict(inspect.getmembers(_core, inspect.isclass))
    assert told.keys() == real.keys()
    for name, kind in real.items():
        members = {k for k in vars(kind) if not k.startswith("_")}
        assert members <= told[name], name


def test_everything_that_is_exported_is_there_and_documented() -> None:
    for name in mr.__all__:
        exported = getattr(mr, name)
        if not isinstance(exported, types.UnionType):
            assert exported.__doc__, name


def test_every_option_says_what_it_means() -> None:
    for name in mr.__all__:
        exported = getattr(mr, name)
        if getattr(exported, "__module__", "") != "millrace._core":
            continue
        for member, value in vars(exported).items():
            assert member.startswith("_") or value.__doc__, f"{name}.{member}"


def test_a_page_of_a_set_is_a_frame_in_a_notebook(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 60, 30)
    page = mr.view_html(spec, count=5)
    assert page.text.count("<img ") >= 5
    frame = page._repr_html_()
    assert frame.startswith('<iframe sandbox=""') and "<img" not in frame
    page.save(tmp_path / "set.html")
    assert (tmp_path / "set.html").read_text() == page.text
    with pytest.raises(mr.ProgramError):
        mr.view_html(spec, raw=True)


def test_a_view_of_a_pipeline_needs_no_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = make_shards(tmp_path, 8, 8)
    monkeypatch.setenv("MILLRACE_PROGRAM", "/nowhere")
    fields: dict[Any, Any] = {
        "image": mr.Image(mr.CenterCrop(16), mr.Normalize.imagenet(), layout="CHW", dtype="bf16"),
        "plain": mr.Image(mr.CenterCrop(16), dtype="uint8"),
        "label": mr.Label(),
    }
    data = mr.Pipeline(spec, fields=fields, batch_size=3)
    picture = mr.view(data, count=6, columns=3)
    picture.save(tmp_path / "view.png")
    # 3 x 2 tiles of two pictures, side by side, 2 pixels between the tiles.
    seen = decoded(tmp_path / "view.png", 34, 100)
    assert np.abs(seen[:16, :16] - seen[:16, 16:32]).max() <= 2  # bfloat16 has 8 bits
    assert seen[:16, :16].std() > 0 and (seen[16:18] == 255).all()
    with pytest.raises(ValueError, match="nothing to draw"):
        mr.view(mr.Pipeline(spec, fields={"label": mr.Label()}, batch_size=3))


def decoded(png: Path, height: int, width: int) -> Any:
    with tarfile.open(png.with_suffix(".tar"), "w") as tar:
        tar.add(png, "a.png")
    fields = {"image": mr.Image(mr.CenterCrop((height, width)), dtype="uint8")}
    with mr.Pipeline(png.with_suffix(".tar"), fields=fields, batch_size=1).numpy() as loader:
        return next(iter(loader))["image"][0].astype(int)


def test_what_is_printed_says_what_it_is(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 8, 8)
    data = mr.Pipeline(spec, fields={"label": mr.Label()}, batch_size=4)
    with data.dlpack() as loader:
        assert repr(loader).startswith("<Loader: dlpack, epoch 0, of Pipeline(spec=")
        next(iter(loader))
        assert "epoch 0, 1 batches handed out" in repr(loader)
        assert repr(loader.statistics()).startswith("<Statistics: 1 batches, 4 samples, 0 masked")
        assert re.fullmatch(r"<Ledger: \d+ read, \d+ emitted, 0 samples skipped>", repr(loader.ledger()))
        assert repr(loader.statistics().stages[0]).startswith("<StageStatistics: read, ")


def test_a_report_is_a_page_in_a_notebook(tmp_path: Path) -> None:
    spec = make_shards(tmp_path, 30, 30)
    run = tmp_path / "run"
    for _ in mr.train(spec, val=[spec], model="lenet", batch_size=15, run_dir=run):
        pass
    page = mr.report(run, out=tmp_path / "kept.html")
    assert (tmp_path / "kept.html").read_text() == page.text == (run / "report.html").read_text()
    assert "<iframe" in page._repr_html_()
    with pytest.raises(mr.ProgramError):
        mr.report(tmp_path / "none")
    other = tmp_path / "other"
    shutil.copytree(run, other)
    assert mr.report([run, other]).text == mr.report(run, other).text != page.text
