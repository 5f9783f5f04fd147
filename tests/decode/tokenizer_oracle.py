"""Trains tokenizers by Hugging Face's library, and writes what it makes of texts.

tokenizer_oracle.py FOLDER: of each kind KIND.json, a tokenizer.json, and KIND.expected, a JSON
object of "texts" and of "ids" and "cut", the numbers of each text's tokens, all and 8 at most.
"""

import json
import sys
from pathlib import Path

from hostile_texts import CAPTIONS, random_texts
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


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
