"""What a class or function takes: for help, and for the error that a misspelt name is."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from millrace import _core

F = TypeVar("F", bound=Callable[..., Any])
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_names(of: str, given: dict[str, Any], signature: inspect.Signature) -> None:
    """Raises TypeError, with the nearest name, for one that the signature does not have."""
    parameters = signature.parameters.values()
    _core._check_names(of, given, [one.name for one in parameters if one.kind in _BY_NAME])  # type: ignore[attr-defined]


def named(init: F) -> F:
    """An ``__init__`` whose unknown keywords are answered by the nearest one."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        check_names(type(self).__name__, kwargs, signature)
        init(self, *args, **kwargs)

    return cast(F, checked)


def _default(node: ast.expr | None) -> Any:
    """Of what has parameters itself, ``...``: the program knows it."""
    if node is None:
        return inspect.Parameter.empty
    return ... if isinstance(node, ast.Call) else ast.literal_eval(node)


def signature_of(arguments: str) -> inspect.Signature:
    """Of ``self, lr: float | None = None, *, groups: Sequence[ParameterGroup] = ()``."""
    function = ast.parse(f"def made({arguments}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    own = function.args
    usual: list[ast.expr | None] = [None] * (len(own.args) - len(own.defaults)) + [*own.defaults]
    found = [
        *(("POSITIONAL_OR_KEYWORD", *one) for one in zip(own.args, usual, strict=True)),
        *(("VAR_POSITIONAL", one, None) for one in [own.vararg] if one),
        *(("KEYWORD_ONLY", *one) for one in zip(own.kwonlyargs, own.kw_defaults, strict=True)),
        *(("VAR_KEYWORD", one, None) for one in [own.kwarg] if one),
    ]
    parameters = [
        inspect.Parameter(
            argument.arg,
            getattr(inspect.Parameter, kind),
            default=_default(default),
            annotation=ast.unparse(argument.annotation) if argument.annotation else Any,
        )
        for kind, argument, default in found[1:]
    ]
    return inspect.Signature(parameters)


class _OfInit:
    """The signature of a class of the C++ part, whose ``__init__`` has it as text."""

    def __get__(self, instance: object, owner: type) -> inspect.Signature:
        text = str(owner.__init__.__doc__).removeprefix("__init__(")  # type: ignore[misc]
        return signature_of(text[: text.rindex(") ->")])


def show_signatures() -> None:
    """So that ``help()`` and ``inspect`` show what the classes of the C++ part take."""
    for one in [*vars(_core).values(), *_core._transforms.values()]:  # type: ignore[attr-defined]
        if isinstance(one, type) and str(one.__init__.__doc__).startswith("__init__(self"):  # type: ignore[misc]
            one.__signature__ = _OfInit()  # type: ignore[attr-defined]
