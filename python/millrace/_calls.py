"""Calls by name, ``sgd(0.1, momentum=0.9)``, as objects and as the program's words."""

from __future__ import annotations

import inspect
import json
import numbers
import os
from typing import Any, ClassVar

from millrace._signatures import check_names
from millrace.transforms import Transform


class Component:
    """What training takes by name, with its parameters. Equal and pickled by value."""

    _word: ClassVar[str] = ""
    _signature: ClassVar[inspect.Signature] = inspect.Signature()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        check_names(type(self).__name__, kwargs, self._signature)
        try:
            given = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}{self._signature}: {error}") from None
        self._given: dict[str, Any] = given.arguments

    def __getattr__(self, name: str) -> Any:
        parameter = None if name.startswith("_") else self._signature.parameters.get(name)
        if parameter is None:
            raise AttributeError(f"{type(self).__name__} has no {name!r}")
        return self._given.get(name, parameter.default)

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._given.items())
        return f"{type(self).__name__}({arguments})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    __hash__ = None  # type: ignore[assignment]


def is_call(value: object) -> bool:
    return isinstance(value, Component | Transform)


def text_of(value: object) -> str:
    """A value as it is written inside a call."""
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    if isinstance(value, Component):
        return value._word + _enclosed("()", value._given)
    if isinstance(value, Transform):
        return str(value._call)  # type: ignore[attr-defined]
    if isinstance(value, dict):
        return _enclosed("{}", value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text_of, value))}]"
    if isinstance(value, str | os.PathLike):
        return json.dumps(os.fspath(value), ensure_ascii=False)
    if isinstance(value, numbers.Integral):  # NumPy's, too
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    return repr(value)


def _enclosed(brackets: str, values: dict[str, Any]) -> str:
    inside = ", ".join(f"{name}={text_of(value)}" for name, value in values.items())
    return brackets[0] + inside + brackets[1]
