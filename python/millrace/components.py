"""What training takes by name: a class for each line of the program's tables.

>>> from millrace.components import SGD, Cosine, ResNet18
>>> training = mr.train(spec, model=ResNet18(stem="3x3"), optimizer=SGD(0.1, momentum=0.9),
...                     schedule=Cosine(warmup="1ep"), augment=[mr.RandomHorizontalFlip()])

Names, arguments and documentation are the program's own (``millrace train --help sgd``), which is
asked at the first of them; so a program with more of them has them here, too. It checks the values
when it starts. The transforms of pictures are in ``millrace`` itself.
"""

from __future__ import annotations

import functools
import json
import subprocess
from typing import Any

from millrace._calls import Component
from millrace._signatures import signature_of
from millrace.program import ProgramError, program
from millrace.transforms import __all__ as _transforms

__all__ = ["Component"]


def _made(line: dict[str, Any]) -> type[Component]:
    fields = "".join(f"\n{field['name']}: {field['sentence']}" for field in line["fields"])
    signature = signature_of(line["arguments"])
    members = {
        "__doc__": line["sentence"] + (f"\n{fields}" if fields else ""),
        "__module__": __name__,
        "__signature__": signature,
        "_signature": signature,
        "_word": line["word"],
    }
    return type(line["python"], (Component,), members)


@functools.cache
def _classes_of(path: str) -> dict[str, type[Component]]:
    command = [path, "train", "--help", "components"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise ProgramError(done.returncode, command)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["python"]: _made(line) for line in lines if line["python"] not in _transforms}


def __getattr__(name: str) -> type[Component]:
    if not name[:1].isupper():  # the program is not asked for what pickle and inspect look for
        raise AttributeError(name)
    try:
        classes = _classes_of(program())
    except (OSError, RuntimeError) as error:
        raise AttributeError(str(error)) from error
    if name not in classes:
        raise AttributeError(f"there is no {name}; there are {', '.join(classes)}")
    return classes[name]


def __dir__() -> list[str]:
    try:
        return [*__all__, *_classes_of(program())]
    except (OSError, RuntimeError):
        return __all__
