"""Prints millrace/components.pyi, what type checkers know of the program's components.

    components_stub.py PROGRAM > python/millrace/components.pyi
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

HEAD = '''# Written by python/components_stub.py. A program that has more components has them at run time.
from collections.abc import Mapping, Sequence
from typing import Literal

from millrace._calls import Component as Component
'''


def typed(arguments: str) -> str:
    """What is a component itself may be its text, and a group is a dict."""
    arguments = re.sub(r": (\w+) = \1\(\)", ": Component | str = ...", arguments)
    return arguments.replace("Sequence[ParameterGroup]", "Sequence[Mapping[str, object]]")


def class_of(line: dict[str, str]) -> str:
    return (
        f"class {line['python']}(Component):\n"
        f'    """{line["sentence"]}"""\n\n'
        f"    def __init__({typed(line['arguments'])}) -> None: ...\n"
    )


def stub_of(program: str) -> str:
    done = subprocess.run(
        [program, "train", "--help", "components"], check=True, capture_output=True, text=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return "\n".join([HEAD, *(class_of(line) for line in lines if line["kind"] != "transform")])


if __name__ == "__main__":
    print(stub_of(sys.argv[1]), end="")
