"""Tokens: the texts of whole batches as token numbers, by a tokenizer's own library."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from millrace._signatures import named
from millrace.batch import A, Batch
from millrace.errors import InvalidArgumentError

if TYPE_CHECKING:
    import numpy as np


class Tokens:
    """Makes token numbers of a batch's texts: the ``transform`` of a loader.

    >>> data = mr.Pipeline(shards, fields={"caption": mr.Raw(text=True)}, batch_size=256)
    >>> for batch in data.torch(mr.Tokens("tokenizer.json", "caption", length=77)):
    ...     step(batch["caption.ids"], batch["caption.mask"])

    ``file``: Hugging Face's ``tokenizer.json``, which needs the package ``tokenizers``, or a model
    of SentencePiece (``.model``), which needs ``sentencepiece``. It is read with the first batch.

    ``text``: the key of a ``Raw(text=True)``. Under "caption", a batch gets "caption.ids", int64 (N,
    ``length``), ``padding`` behind the last token, and "caption.mask", uint8 (N, ``length``), 1 where
    a token is. Longer texts are cut. Masked slots have no token.

    ``begin``, ``end``: tokens to put before and behind each text, besides those that
    ``tokenizer.json`` adds itself; they count in ``length``.

    ``pack``: put several texts into a row, each into the first one with enough room, so that fewer
    rows are padding; then rows are not samples'. A batch still has N rows, the last of them empty,
    and "caption.mask" is 1 for a row's first text, 2 for its second, and so on.

    Raises InvalidArgumentError for options that can never work, ImportError without the package.
    Threads: one at a time.
    """

    @named
    def __init__(
        self,
        file: str | os.PathLike[str],
        text: str = "text",
        *,
        length: int,
        padding: int = 0,
        begin: int | None = None,
        end: int | None = None,
        pack: bool = False,
    ) -> None:
        self._file = os.fspath(file)
        self._text, self._length, self._padding, self._pack = text, length, padding, pack
        self._begin = [] if begin is None else [begin]
        self._end = [] if end is None else [end]
        if not self._file.endswith((".json", ".model")):
            raise InvalidArgumentError(f"{self._file}: must be a tokenizer.json or a .model")
        if self._room() < 1:
            raise InvalidArgumentError(f"length {length} has no room for a token of a text")
        self._encoder: Any = None

    def __call__(self, batch: Batch[A]) -> Batch[A]:
        """The batch with the tokens of its texts."""
        import numpy as np

        texts: Any = batch[self._text]
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise InvalidArgumentError(f"field {self._text}: Tokens take a Raw(text=True)")
        valid: Any = batch["valid"]
        valid = np.asarray(valid) if hasattr(valid, "__array__") else np.from_dlpack(valid)
        used = [number for number in range(len(texts)) if valid[number]]
        tokens = self._encoded([texts[number] for number in used])
        ids = np.full((len(texts), self._length), self._padding, np.int64)
        mask = np.zeros(ids.shape, np.uint8)
        for row, at, segment, some in self._places(used, tokens):
            ids[row, at : at + len(some)] = some
            mask[row, at : at + len(some)] = segment
        batch[f"{self._text}.ids"] = _like(batch["valid"], ids)
        batch[f"{self._text}.mask"] = _like(batch["valid"], mask)
        return batch

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoder": None}

    def _room(self) -> int:
        return self._length - len(self._begin) - len(self._end)

    def _encoded(self, texts: list[str]) -> list[list[int]]:
        if self._encoder is None:
            self._encoder = _encoder_of(self._file, self._room())
        room = self._room()
        return [self._begin + ids[:room] + self._end for ids in self._encoder(texts)]

    def _places(
        self, rows: Sequence[int], tokens: list[list[int]]
    ) -> Iterator[tuple[int, int, int, list[int]]]:
        """Row, column, number in the row from 1 on, and the tokens, of each text."""
        if not self._pack:
            yield from ((row, 0, 1, ids) for row, ids in zip(rows, tokens, strict=True))
            return
        filled: list[tuple[int, int]] = []  # columns and texts of each row
        for ids in tokens:
            fits = (k for k, (used, _) in enumerate(filled) if used + len(ids) <= self._length)
            row = next(fits, len(filled))
            if row == len(filled):
                filled.append((0, 0))
            used, segments = filled[row]
            # uint8 tells so many texts of a row apart; a text without tokens takes no number.
            segment = min(segments + bool(ids), 255)
            yield row, used, segment, ids
            filled[row] = (used + len(ids), segment)


def _encoder_of(file: str, most: int) -> Any:
    """A function that makes lists of token numbers of a list of texts."""
    if file.endswith(".model"):
        import sentencepiece

        processor = sentencepiece.SentencePieceProcessor(model_file=file)
        return lambda texts: processor.encode(texts, out_type=int)
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_file(file)
    tokenizer.no_padding()
    tokenizer.enable_truncation(most)  # which leaves room for what the file adds
    return lambda texts: [one.ids for one in tokenizer.encode_batch(texts)]


def _like(valid: Any, values: np.ndarray[Any, Any]) -> Any:
    """``values`` as an array of the library that ``valid`` is of."""
    library = type(valid).__module__.partition(".")[0]
    if library == "torch":
        import torch

        return torch.from_numpy(values)
    if library in ("jax", "jaxlib"):
        import jax.numpy

        return jax.numpy.asarray(values)
    return values
