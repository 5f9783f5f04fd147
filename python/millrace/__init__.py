"""Batches from WebDataset shards, for PyTorch, JAX and NumPy, by the C++ library millrace.

>>> import millrace as mr
>>> data = mr.Pipeline("train-{000000..000639}.tar", batch_size=256,
...                    fields={"image": mr.Image(mr.RandomResizedCrop(224)), "label": mr.Label()})
>>> for batch in data.torch():
...     step(batch["image"], batch["label"], batch["valid"])
"""

from millrace._core import (
    Array,
    Audio,
    Boxes,
    ClassMask,
    DecodedPictures,
    Epochs,
    Fault,
    Faults,
    Floats,
    GreyValues,
    Image,
    Label,
    Ledger,
    Limits,
    Mix,
    PairedImages,
    Raw,
    Shard,
    Shuffle,
    StageStatistics,
    Statistics,
    Text,
    Tuning,
    Verdict,
    Video,
)
from millrace.batch import Batch
from millrace.errors import (
    CancelledError,
    CorruptError,
    Error,
    ExhaustedError,
    InvalidArgumentError,
    IoError,
    NotFiniteError,
    NotFoundError,
    PermissionDeniedError,
    TruncatedError,
    UnsupportedError,
)
from millrace.functions import Function
from millrace.loader import Loader
from millrace.pipeline import Field, Pipeline
from millrace.program import Page, Picture, ProgramError, report, train, view, view_html
from millrace.shard_writer import ShardWriter
from millrace.tokens import Tokens
from millrace import _signatures, components, transforms
from millrace.transforms import *  # noqa: F403

__version__ = "0.1.0"

__all__ = [
    "Array",
    "Audio",
    "Batch",
    "Boxes",
    "CancelledError",
    "ClassMask",
    "CorruptError",
    "DecodedPictures",
    "Epochs",
    "Error",
    "ExhaustedError",
    "Fault",
    "Faults",
    "Field",
    "Floats",
    "Function",
    "GreyValues",
    "Image",
    "InvalidArgumentError",
    "IoError",
    "Label",
    "Ledger",
    "Limits",
    "Loader",
    "Mix",
    "NotFiniteError",
    "NotFoundError",
    "Page",
    "PairedImages",
    "PermissionDeniedError",
    "Picture",
    "Pipeline",
    "ProgramError",
    "Raw",
    "Shard",
    "ShardWriter",
    "Shuffle",
    "StageStatistics",
    "Statistics",
    "Text",
    "Tokens",
    "TruncatedError",
    "Tuning",
    "UnsupportedError",
    "Verdict",
    "Video",
    "report",
    "train",
    "view",
    "view_html",
]
__all__ += transforms.__all__

_signatures.show_signatures()
