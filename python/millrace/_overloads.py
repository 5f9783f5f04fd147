"""``typing.overload``, for type checkers alone.

At run time it would keep each function that it is given, and so this package's objects, until after
the interpreter's end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import overload
else:

    def overload(function: Any) -> Any:
        return function


__all__ = ["overload"]
