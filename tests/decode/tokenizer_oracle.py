"""Trains tokenizers by Hugging Face's library, and writes what it makes of texts.

tokenizer_oracle.py FOLDER: of each kind KIND.json, a tokenizer.json, and KIND.expected, a JSON
object of "texts" and of "ids" and "cut", the numbers of each text's tokens, all and 8 at most.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"

CAPTIONS = [
    "a photo of a truck", "A photo of a TRUCK.",
    "a blurry photo of the small cat's bed, isn't it?",
    "They've seen what I'd do; we'll go, you're right, I'm not!",
    "two dogs  and   three\tcats\n\nplay",
    "Ein Bäume-Bild: Straße, ÜBER, œuvre, naïve cafe\u0301", "一只猫 和 两只狗", "ねこがいます。", "고양이 사진",
    "кошка и СОБАКА", "γάτα ΣΑΣ ΌΔΟΣ", "قطة على السرير", "बिल्ली और कुत्ता",
    "👩‍👩‍👧‍👦 family 🚚💨 ❤️", "price: $1,234.56 (50% off)", "x²+y³=½, №7 ⅷ",
    "İstanbul ǅ ﬁne ﬀ Å Ω K", "", " ", "   ", "\n", " leading", "trailing ",
    "a\u00a0b\u2003c\u3000d\u0085e", "'s 't're '' ''s d'", "<|endoftext|>",
    "a <|endoftext|> b<|endoftext|>", "<mask>", "a <mask> b  <mask>\n c",
    "<|ENDOFTEXT|> <|StartOfText|> x", "\x00\x01\x7f",
    "a\u0300\u0323 \u1e69 \u0073\u0323\u0307", "zero\u200bwidth\u200djoin\ufeff",
    "http://example.org/a?b=c&d=e#f", "snake_case camelCase __init__", "1234567890",
    "e=mc^2 -> <html></html>", "\U0001d4d0\U0001d4d1 \u216b \U00010400", "word " * 40,
    "x" * 300, "ab" * 200 + "!" * 50,
]


def random_texts(count):
    rng = random.Random(7)
    alphabet = [*"abcABC  '\n\t.,19sdtlvem<|>éß猫🚚\u0301\u00a0İ²", "'s", "'ll"]
    texts = ["".join(rng.choices(alphabet, k=rng.randrange(40))) for _ in range(count)]
    ranges = ((0x20, 0x250), (0x300, 0x600), (0x900, 0xA00), (0x1E00, 0x2200), (0x3040, 0x3100),
              (0x4E00, 0x4F00), (0xAC00, 0xAC80), (0xF900, 0xFA00), (0xFB00, 0xFB10),
              (0x1F600, 0x1F640))
    for _ in range(count):
        codes = (rng.randrange(*rng.choice(ranges)) for _ in range(rng.randrange(30)))
        texts.append("".join(map(chr, codes)))
    return texts


def byte_level(adds_space):
    one = Tokenizer(models.BPE())
    one.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=adds_space)
    return one


def train(one, special, **options):
    one.train_from_iterator(CAPTIONS * 3, trainers.BpeTrainer(
        vocab_size=600, min_frequency=2, show_progress=False, special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **options))
    return one


def gpt2():
    return train(byte_level(False), [AddedToken("<|endoftext|>", normalized=True)])


def roberta():
    marks = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True)]
    one = train(byte_level(True), marks)
    one.add_special_tokens([AddedToken("->", rstrip=True)])
    one.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0))
    return one


def clip():
    one = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix="</w>"))
    one.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    one.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(CLIP), "removed", invert=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False)])
    marks = [AddedToken("<|startoftext|>", normalized=True), AddedToken("<|endoftext|>")]
    train(one, marks, end_of_word_suffix="</w>")
    start, end = ((mark.content, one.token_to_id(mark.content)) for mark in marks)
    one.post_processor = processors.RobertaProcessing(end, start, False, False)
    return one


def compatible():
    """What no other kind here has: NFKD, gaps that are pieces, unknown characters, a template."""
    one = Tokenizer(models.BPE(unk_token="[UNK]", fuse_unk=True))
    one.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.Replace("'", "@")])
    one.pre_tokenizer = pre_tokenizers.Split(Regex(CLIP), "isolated")
    one.train_from_iterator(CAPTIONS[:4] * 3, trainers.BpeTrainer(
        vocab_size=120, show_progress=False, special_tokens=["[UNK]", "[S]", "[E]"]))
    one.post_processor = processors.TemplateProcessing(
        single="[S] $A [E] [E]", special_tokens=[("[S]", 1), ("[E]", 2)])
    return one


def main():
    folder = Path(sys.argv[1])
    texts = CAPTIONS + random_texts(300)
    for kind in (gpt2, roberta, clip, compatible):
        one = kind()
        one.save(str(folder / f"{kind.__name__}.json"))
        ids = [made.ids for made in one.encode_batch(texts)]
        one.enable_truncation(8)
        cut = [made.ids for made in one.encode_batch(texts)]
        expected = json.dumps({"texts": texts, "ids": ids, "cut": cut})
        (folder / f"{kind.__name__}.expected").write_text(expected)


main()
