"""What millrace raises: one class for each code, with where it happened.

Each class also derives from the built-in exception that people catch for it: a damaged shard is a
``ValueError``, a network that fails an ``OSError``.
"""

from __future__ import annotations


class Error(Exception):
    """A fault. ``str()`` has the code, the message and the place, on one line."""

    #: The code's name: "Truncated".
    code: str = ""
    #: The message without code and place.
    message: str = ""
    #: The shard, the sample's key, the member in it, and the byte in the shard; None: not known.
    url: str | None = None
    key: str | None = None
    member: str | None = None
    offset: int | None = None
    #: The stage of the pipeline.
    stage: str | None = None

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), self.args, dict(self.__dict__)


class NotFoundError(Error, FileNotFoundError):
    """The object does not exist."""


class IoError(Error, OSError):
    """The disk or the network failed; the data may be fine."""


class TruncatedError(Error, EOFError, ValueError):
    """Data ends before it should."""


class CorruptError(Error, ValueError):
    """Data contradicts its format or its checksum."""


class UnsupportedError(Error, NotImplementedError):
    """Valid, but not supported by millrace."""


class InvalidArgumentError(Error, ValueError):
    """An option or argument that can never work."""


class CancelledError(Error, RuntimeError):
    """A stop was requested."""


class ExhaustedError(Error, RuntimeError):
    """A limit or a budget is used up."""


class PermissionDeniedError(Error, PermissionError):
    """Access to the object is denied."""


class NotFiniteError(Error, ArithmeticError):
    """A loss, a gradient or a weight is not a finite number."""


_CLASSES: dict[str, type[Error]] = {
    "NotFound": NotFoundError,
    "Io": IoError,
    "Truncated": TruncatedError,
    "Corrupt": CorruptError,
    "Unsupported": UnsupportedError,
    "InvalidArgument": InvalidArgumentError,
    "Cancelled": CancelledError,
    "Exhausted": ExhaustedError,
    "PermissionDenied": PermissionDeniedError,
    "NotFinite": NotFiniteError,
}


def _from_core(
    code: str,
    text: str,
    message: str,
    url: str,
    key: str,
    member: str,
    offset: int | None,
    stage: str,
) -> Error:
    error = _CLASSES[code](text)
    error.code, error.message, error.offset = code, message, offset
    error.url, error.key = url or None, key or None
    error.member, error.stage = member or None, stage or None
    return error
