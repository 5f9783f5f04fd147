"""The program millrace as a child process: training, and all of its commands.

Training runs in a process of its own, so that its threads and its OpenMP stay out of this one.
"""

from __future__ import annotations

import html
import json
import numbers
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from millrace._calls import is_call, text_of
from millrace._drawing import png_of
from millrace._overloads import overload
from millrace.errors import NotFoundError
from millrace.pipeline import Pipeline, Spec, _specs


class ProgramError(subprocess.CalledProcessError, RuntimeError):
    """The program failed. ``returncode`` is its status; standard error has said why."""


def program() -> str:
    """The program's path: MILLRACE_PROGRAM, else the one in the package, else the one on PATH."""
    given = os.environ.get("MILLRACE_PROGRAM")
    if given:
        return given
    bundled = Path(__file__).parent / "bin" / "millrace"
    found = str(bundled) if bundled.exists() else shutil.which("millrace")
    if found is None:
        raise NotFoundError(
            "the program millrace is neither in the package nor on PATH: build it "
            "(cmake --preset release), and set MILLRACE_PROGRAM to its path"
        )
    return found


def _words_of_list(option: str, values: Sequence[Any]) -> list[str]:
    """Numbers are one list, as the program's list of devices is; each text is a value."""
    if values and all(isinstance(value, numbers.Real) for value in values):
        return [f"{option}=[{','.join(map(str, values))}]"]
    return [f"{option}={value}" for value in values]


def words_of(options: dict[str, Any]) -> list[str]:
    """``batch_size=64, drop_last=True, val=["a", "b"], devices=[3]``:
    --batch-size=64 --drop-last --val=a --val=b --devices=[3].

    False is the default, and where a recipe (``config=``) may say otherwise, --no-NAME."""
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or (value is False and options.get("config") is None):
            continue
        if value is False:
            words.append("--no-" + option[2:])
        elif value is True:
            words.append(option)
        elif is_call(value):
            words.append(f"{option}={text_of(value)}")
        elif isinstance(value, list | tuple) and any(map(is_call, value)):
            calls = (text_of(one) if is_call(one) else str(one) for one in value)
            words.append(f"{option}={', '.join(calls)}")
        elif isinstance(value, list | tuple):
            words += _words_of_list(option, value)
        else:
            words.append(f"{option}={value}")
    return words


def train(spec: Spec, **options: Any) -> Iterator[dict[str, Any]]:
    """Trains a model with ``millrace train``, and yields its events as they come.

    >>> for event in mr.train("train-{000000..000019}.tar", model="resnet18", epochs=10):
    ...     if event["event"] == "epoch":
    ...         print(event["epoch"], event["train_loss"])

    ``options`` are the command's, with underscores (``millrace train --help``): ``True`` gives an
    option without a value, ``False`` leaves out what a recipe says of one (``config=``), a list is
    several values: ``val=["a.tar", "b.tar"]``, ``mean=[0.5, 0.4, 0.4]``. ``devices=[3]`` is device 3, ``devices=3`` three of them. What has a name and parameters
    is text or an object of ``millrace.components``: ``optimizer="sgd(0.1)"`` or ``SGD(0.1)``. What
    the program says to people goes to standard error. A loop that is left early ends the training
    as SIGTERM does: it saves a checkpoint if there is a run folder. Raises ProgramError if the
    program fails.
    """
    return events(["train", *_specs(spec), *words_of(options), "--json"])


class Picture:
    """A PNG, which a notebook shows."""

    def __init__(self, png: bytes) -> None:
        self.png = png

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_bytes(self.png)

    def _repr_png_(self) -> bytes:
        return self.png


def _viewed(spec: Spec, options: dict[str, Any], output: str) -> bytes:
    """The file that ``millrace view`` writes to the option ``output``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "drawn"
        words = [program(), "view", *_specs(spec), *words_of(options), f"--{output}={path}"]
        done = subprocess.run(words, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise ProgramError(done.returncode, words)
        return path.read_bytes()


@overload
def view(spec: Pipeline, *, count: int = 16, columns: int | None = None) -> Picture: ...
@overload
def view(spec: Spec, **options: Any) -> Picture: ...
def view(spec: Any, **options: Any) -> Picture:
    """Draws samples as a model would see them.

    >>> mr.view("train-{000000..000019}.tar", size=224, augment="rrc, hflip", count=16)
    >>> mr.view(mr.Pipeline(...), count=16, columns=4)

    Of shards, with ``millrace view``: ``options`` are the command's, with underscores
    (``millrace view --help``), and ProgramError is raised if the program fails, which has said why
    on standard error. Of a ``Pipeline``, its own first samples, all pictures of each side by side;
    that needs NumPy, and not the program.
    """
    if isinstance(spec, Pipeline):
        return Picture(png_of(spec, **{"count": 16, "columns": None, **options}))
    return Picture(_viewed(spec, options, "output"))


class Page:
    """An HTML page that fetches nothing, which a notebook shows in a frame."""

    def __init__(self, text: str) -> None:
        self.text = text

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(self.text, encoding="utf-8")

    def _repr_html_(self) -> str:
        return (
            f'<iframe sandbox="" srcdoc="{html.escape(self.text)}" title="A page of millrace" '
            'style="width:100%;height:720px;border:0"></iframe>'
        )


def view_html(spec: Spec, **options: Any) -> Page:
    """Draws a page of a whole set of shards, as ``millrace view --html`` does.

    >>> mr.view_html("train-{000000..000019}.tar", against="val-000000.tar").save("train.html")

    Pictures, histograms of classes, sizes and bytes, duplicates, outliers, broken samples, and what
    is also in the set ``against``. ``options`` are the command's, with underscores. Raises
    ProgramError if the program fails, which has said why on standard error.
    """
    return Page(_viewed(spec, options, "html").decode())


def report(*runs: Spec, out: str | os.PathLike[str] | None = None, **options: Any) -> Page:
    """Draws a run as a page, or compares several, as ``millrace report`` does.

    >>> mr.report("runs/one")                            # in a notebook
    >>> mr.report("runs/one", "runs/two", out="both.html")
    >>> mr.report(["runs/one", "runs/two"])

    Of one: curves, time, input, samples, what the best evaluation found, options. Of several: a row
    each, their curves in the same axes, and the options that differ. ``runs`` are folders that
    ``train`` wrote, or their urls; ``out`` is a file to keep the page in, which is replaced if it
    exists. ``options`` are the command's, with underscores. Raises ProgramError if the program
    fails, which has said why on standard error.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.html"
        paths = [path for run in runs for path in _specs(run)]
        words = [program(), "report", *paths, *words_of(options), f"--output={path}"]
        done = subprocess.run(words, stdout=subprocess.DEVNULL)
        if done.returncode != 0:
            raise ProgramError(done.returncode, words)
        page = Page(path.read_text(encoding="utf-8"))
    if out is not None:
        page.save(out)
    return page


def events(words: list[str]) -> Iterator[dict[str, Any]]:
    """The lines that the program prints with --json, each as a dict."""
    child = subprocess.Popen([program(), *words], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        for line in child.stdout:
            yield json.loads(line)
        if child.wait() != 0:
            raise ProgramError(child.returncode, [program(), *words])
    finally:
        child.terminate()
        child.stdout.close()
        child.wait()
