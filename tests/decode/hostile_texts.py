"""Texts of several scripts, ordinary and hostile, for tokenizers."""

import random

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
