"""Texts of a fixed length, and their tokens."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import millrace as mr
from test_boxes import write_set

np = pytest.importorskip("numpy")

CAPTIONS = ["a cat", "zwei Bäume", "", "a dog and a cat and a dog", "a cat 猫"]


@pytest.fixture
def captions(tmp_path: Path) -> str:
    samples = [
        {"json": json.dumps({"captions": [text]}).encode(), "txt": text.encode()}
        for text in CAPTIONS
    ]
    return write_set(tmp_path / "captions.tar", samples)


def test_texts_are_bytes_of_a_length(captions: str) -> None:
    fields: dict[Any, Any] = {
        "caption": mr.Text(7, padding=32),
        "first": mr.Text(40, suffixes="json", json_key="/captions/0"),
    }
    with mr.Pipeline(captions, fields=fields, batch_size=5).numpy() as loader:
        batch = next(iter(loader))
    assert batch["caption"].dtype == np.uint8 and batch["caption"].shape == (5, 7)
    for row, mask, text in zip(batch["caption"], batch["caption.mask"], CAPTIONS, strict=True):
        kept = text.encode()[:7].decode(errors="ignore").encode()  # no half characters
        assert bytes(row) == kept.ljust(7)
        assert mask.tolist() == [1] * len(kept) + [0] * (7 - len(kept))
    for row, text in zip(batch["first"], CAPTIONS, strict=True):
        assert bytes(row).rstrip(b"\0").decode() == text


def test_texts_that_can_never_work_are_refused(captions: str) -> None:
    def build(field: mr.Field) -> None:
        with mr.Pipeline(captions, fields={"text": field}, batch_size=2).numpy() as loader:
            next(iter(loader))

    for field, words in (
        (mr.Text(0), "length must be from 1"),
        (mr.Text(4, padding=256), "0 to 255"),
        (mr.Text(4, suffixes="abc"), "none of the members abc"),
    ):
        with pytest.raises(mr.Error, match=words):
            build(field)
    build(mr.Text(4, suffixes="abc", missing="none"))


def pairs_file(folder: Path) -> str:
    """A tokenizer.json as RoBERTa's, trained on the captions."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.train_from_iterator(
        CAPTIONS * 3,
        tokenizers.trainers.BpeTrainer(
            vocab_size=300,
            special_tokens=["<s>", "</s>"],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    tokenizer.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    file = str(folder / "pairs.json")
    tokenizer.save(file)
    return file


def test_texts_are_tokens_of_a_file(captions: str, tmp_path: Path) -> None:
    file = pairs_file(tmp_path)
    field = pickle.loads(pickle.dumps(mr.Text(6, tokenizer=file, padding=-100)))
    assert field == mr.Text(6, tokenizer=file, padding=-100) and field.tokenizer == file
    assert field != mr.Text(6, padding=-100) and mr.Text(6).tokenizer is None
    with mr.Pipeline(captions, fields={"caption": field}, batch_size=5).numpy() as loader:
        batch = next(iter(loader))
    assert batch["caption"].dtype == np.int64
    (expected,) = tokens_of(captions, mr.Tokens(file, "caption", length=6, padding=-100))
    assert batch["caption"].tolist() == expected["caption.ids"].tolist()
    assert batch["caption.mask"].tolist() == expected["caption.mask"].tolist()
    assert batch["caption"][3].tolist()[-1] == 1  # a text that is cut ends as the others

    with pytest.raises(mr.Error, match=r"WordLevel is not supported.*tokenizer\.json"):
        mr.Text(6, tokenizer=words_file(tmp_path))
    with pytest.raises(mr.Error, match="nowhere.json"):
        mr.Text(6, tokenizer=str(tmp_path / "nowhere.json"))


def words_file(folder: Path) -> str:
    tokenizers = pytest.importorskip("tokenizers")
    words = ["[PAD]", "[UNK]", "[END]", "a", "cat", "dog", "and"]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single="$A [END]", special_tokens=[("[END]", 2)]
    )
    file = str(folder / "tokenizer.json")
    tokenizer.save(file)
    return file


def tokens_of(
    captions: str, tokens: mr.Tokens, kind: str = "numpy", size: int = 5
) -> list[dict[str, Any]]:
    data = mr.Pipeline(captions, fields={"caption": mr.Raw(text=True)}, batch_size=size)
    with getattr(data, kind)(tokens) as loader:
        return list(loader)


def test_tokens_are_hugging_faces(captions: str, tmp_path: Path) -> None:
    tokens = mr.Tokens(words_file(tmp_path), "caption", length=6)
    (batch,) = tokens_of(captions, pickle.loads(pickle.dumps(tokens)))
    expected = [[3, 4, 2], [1, 1, 2], [2], [3, 5, 6, 3, 4, 2], [3, 4, 1, 2]]
    assert batch["caption.ids"].dtype == np.int64
    assert batch["caption.ids"].tolist() == [ids + [0] * (6 - len(ids)) for ids in expected]
    assert batch["caption.mask"].sum(axis=1).tolist() == [len(ids) for ids in expected]
    assert batch["caption"] == CAPTIONS

    more = mr.Tokens(words_file(tmp_path), "caption", length=4, begin=9, padding=-100)
    first, second = tokens_of(captions, more, size=3)
    assert first["caption.ids"].tolist() == [[9, 3, 4, 2], [9, 1, 1, 2], [9, 2, -100, -100]]
    assert second["valid"].tolist() == [1, 1, 0]
    assert second["caption.ids"].tolist()[1:] == [[9, 3, 4, 2], [-100] * 4]
    assert second["caption.mask"].tolist()[2] == [0] * 4


def test_packed_tokens_fill_rows(captions: str, tmp_path: Path) -> None:
    tokens = mr.Tokens(words_file(tmp_path), "caption", length=7, pack=True)
    (batch,) = tokens_of(captions, tokens)
    assert batch["caption.ids"].tolist() == [
        [3, 4, 2, 1, 1, 2, 2],
        [3, 5, 6, 3, 4, 6, 2],
        [3, 4, 1, 2, 0, 0, 0],
        [0] * 7,
        [0] * 7,
    ]
    assert batch["caption.mask"].tolist()[:3] == [
        [1, 1, 1, 2, 2, 2, 3],
        [1] * 7,
        [1, 1, 1, 1, 0, 0, 0],
    ]


def test_tokens_are_of_the_loaders_library(captions: str, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tokens = mr.Tokens(words_file(tmp_path), "caption", length=6)
    (batch,) = tokens_of(captions, tokens, "torch")
    assert isinstance(batch["caption.ids"], torch.Tensor)
    assert batch["caption.ids"].dtype == torch.int64
    (other,) = tokens_of(captions, tokens, "dlpack")
    assert other["caption.ids"].tolist() == batch["caption.ids"].tolist()


def pieces_file(folder: Path) -> str:
    pieces = pytest.importorskip("sentencepiece")
    text = folder / "corpus.txt"
    text.write_text("\n".join(CAPTIONS * 20))
    pieces.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(folder / "spm"),
        vocab_size=40,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return str(folder / "spm.model")


def test_tokens_are_sentencepieces(captions: str, tmp_path: Path) -> None:
    pieces = pytest.importorskip("sentencepiece")
    file = pieces_file(tmp_path)
    processor = pieces.SentencePieceProcessor(model_file=file)
    tokens = mr.Tokens(file, "caption", length=50, end=processor.eos_id())
    (batch,) = tokens_of(captions, tokens)
    for row, mask, caption in zip(
        batch["caption.ids"], batch["caption.mask"], CAPTIONS, strict=True
    ):
        ids = [*processor.encode(caption), processor.eos_id()]
        assert row[: mask.sum()].tolist() == ids


def test_texts_are_sentencepieces(captions: str, tmp_path: Path) -> None:
    pieces = pytest.importorskip("sentencepiece")
    file = pieces_file(tmp_path)
    processor = pieces.SentencePieceProcessor(model_file=file)
    field = pickle.loads(pickle.dumps(mr.Text(6, tokenizer=file, end=processor.eos_id())))
    assert field.end == processor.eos_id() and field.begin is None
    with mr.Pipeline(captions, fields={"caption": field}, batch_size=5).numpy() as loader:
        batch = next(iter(loader))
    (expected,) = tokens_of(captions, mr.Tokens(file, "caption", length=6, end=processor.eos_id()))
    assert batch["caption"].tolist() == expected["caption.ids"].tolist()
    assert batch["caption.mask"].tolist() == expected["caption.mask"].tolist()
    damaged = tmp_path / "damaged.model"
    damaged.write_bytes(Path(file).read_bytes()[:-9000])
    with pytest.raises(mr.Error, match=r"not a SentencePiece model.*damaged\.model"):
        mr.Text(6, tokenizer=str(damaged))
    with pytest.raises(mr.InvalidArgumentError, match="are for a tokenizer"):
        mr.Pipeline(captions, fields={"caption": mr.Text(6, end=1)}, batch_size=5).numpy()


def test_tokens_that_can_never_work_are_refused(captions: str, tmp_path: Path) -> None:
    with pytest.raises(mr.InvalidArgumentError, match=r"tokenizer.json or a .model"):
        mr.Tokens("vocab.txt", length=5)
    with pytest.raises(mr.InvalidArgumentError, match="no room"):
        mr.Tokens("tokenizer.json", length=2, begin=1, end=2)
    data = mr.Pipeline(captions, fields={"caption": mr.Raw()}, batch_size=5)
    with (
        pytest.raises(mr.InvalidArgumentError, match="field caption: Tokens take a Raw"),
        data.numpy(mr.Tokens(words_file(tmp_path), "caption", length=5)) as loader,
    ):
        next(iter(loader))
