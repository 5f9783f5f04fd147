"""Trains models by Python's sentencepiece, and writes what it makes of texts.

sentence_piece_oracle.py FOLDER: of each kind KIND.model, and KIND.expected, a JSON object of
"texts" and of "ids", the numbers of each text's tokens.
"""

import json
import sys
from pathlib import Path

import sentencepiece
from hostile_texts import CAPTIONS, random_texts

SYMBOLS = ["<mask>", "<|endoftext|>", "->"]
KINDS = {
    "unigram": {"model_type": "unigram", "vocab_size": 300},
    "t5": {"model_type": "unigram", "vocab_size": 300, "pad_id": 0, "eos_id": 1, "unk_id": 2,
           "bos_id": -1, "user_defined_symbols": SYMBOLS},
    "llama": {"model_type": "bpe", "vocab_size": 700, "byte_fallback": True, "split_digits": True,
              "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "bpe": {"model_type": "bpe", "vocab_size": 300, "user_defined_symbols": SYMBOLS},
    "folded": {"model_type": "unigram", "vocab_size": 300, "normalization_rule_name": "nfkc_cf",
               "treat_whitespace_as_suffix": True},
    "char": {"model_type": "char", "vocab_size": 200},
    "word": {"model_type": "word", "vocab_size": 60},
}


def main():
    folder = Path(sys.argv[1])
    corpus = folder / "corpus.txt"
    lines = [" ".join(text.split()) for text in CAPTIONS] * 5
    corpus.write_text("\n".join(line for line in lines if line and "\0" not in line))
    texts = CAPTIONS + random_texts(300)
    for kind, options in KINDS.items():
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=str(folder / kind), hard_vocab_limit=False,
            character_coverage=0.99, num_threads=1, minloglevel=2, **options)
        one = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{kind}.model"))
        expected = {"texts": texts, "ids": one.encode(texts), "pieces": one.get_piece_size()}
        (folder / f"{kind}.expected").write_text(json.dumps(expected))


main()
