"""Byte-level BPE in Python beside the tokenizers package: the same ids, offsets and texts."""

import json
import random
import sys
from typing import Any

import pytest
import tokenizers
from helpers.cases import raises
from helpers.letters import LETTERS
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models import Tokenizer, embedded_model_path
from lite.models.text import byte_level_bpe

SOURCE = (embedded_model_path() / "tokenizer.json").read_text(encoding="utf-8")
# What the rules tell apart: letters, numbers and white space of several scripts, apostrophes, special tokens.
PARTS = ["aZ", "é", "ß", "日", "Ω", "3", "½", "²", "Ⅷ", "٣", "_", "-", "'", "😀", "\u0301", "ǅ", "⑨"]
PARTS += [" ", "  ", "\u00a0", "\u2003", "\x85", "\x1c", "\t", "\n", "\r"]
PARTS += ["'s", "'ll", "'Re", "What is", "12", "<|im_start|>", "<|im_end|>", "<|im_", "|>"]
TEXTS = st.lists(st.sampled_from(PARTS) | st.text(LETTERS, max_size=3), max_size=20).map("".join)


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    return byte_level_bpe.Tokenizer.from_str(SOURCE), tokenizers.Tokenizer.from_str(SOURCE)


@settings(max_examples=50)
@given(TEXTS, st.booleans())
def test_ids_and_offsets(pair: tuple[Any, Any], text: str, spell: bool) -> None:
    for each in pair:
        each.encode_special_tokens = spell
    here, there = (each.encode(text, add_special_tokens=False) for each in pair)
    assert (here.ids, here.offsets) == (there.ids, there.offsets)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 700), max_size=20), st.booleans())
def test_texts_of_ids(pair: tuple[Any, Any], ids: list[int], skip: bool) -> None:
    here, there = (each.decode(ids, skip_special_tokens=skip) for each in pair)
    assert here == there
    here, there = ([each.id_to_token(index) for index in ids] for each in pair)
    assert here == there


@pytest.mark.parametrize("seed", range(2))
def test_any_merges_and_digits(seed: int) -> None:
    """Merges in any order, also of what later ones make; digits one by one, together, or not apart."""
    choose = random.Random(seed)
    rules = json.loads(SOURCE)
    vocab = {char: i for i, char in enumerate(byte_level_bpe._CHARS.values())}
    merges: dict[str, list[str]] = {}
    pieces = list("abc1")
    while len(merges) < 30:
        left, right = choose.choice(pieces), choose.choice(pieces)
        if len(left + right) < 7 and left + right not in vocab:
            vocab[left + right] = len(vocab)
            merges[left + right] = [left, right]
            pieces.append(left + right)
    shuffled = list(merges.values())
    choose.shuffle(shuffled)
    rules["model"] |= {"vocab": vocab, "merges": shuffled}
    words = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True, "trim_offsets": True}
    digits: Any = choose.choice([[], [{"type": "Digits", "individual_digits": seed % 2 == 0}]])
    rules["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*digits, words]} if digits else words
    rules["added_tokens"] = []
    source = json.dumps(rules)
    here, there = byte_level_bpe.Tokenizer.from_str(source), tokenizers.Tokenizer.from_str(source)
    for _ in range(30):
        text = "".join(choose.choices("abc1 ", k=choose.randint(0, 40)))
        assert here.encode(text).ids == there.encode(text).ids, text


def test_what_is_added_becomes_a_token(pair: tuple[Any, Any]) -> None:
    here, there = (type(each).from_str(each.to_str()) for each in pair)
    tokens = {"content": "<think>", "normalized": False}, {"content": "<|im", "special": True}
    here.add_tokens([byte_level_bpe.AddedToken(**token) for token in tokens])
    there.add_tokens([sys.modules["tokenizers"].AddedToken(**token) for token in tokens])
    for text in ("a<think>b<|im c<|im_end|>", "<think"):
        assert here.encode(text).ids == there.encode(text).ids
    assert here.get_vocab() == there.get_vocab()
    assert here.get_vocab_size() == there.get_vocab_size(with_added_tokens=True)
    assert [here.get_added_tokens_decoder()[i].content for i in (0, 677)] == ["<|pad|>", "<think>"]
    assert type(here).from_str(here.to_str()).get_vocab() == here.get_vocab()


def test_the_tokenizer_of_a_folder_is_the_same_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Tokenizer.from_pretrained(embedded_model_path())
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    here = Tokenizer.from_pretrained(embedded_model_path())
    assert type(here.backend) is byte_level_bpe.Tokenizer
    assert repr(here) == repr(there)
    texts = ["What is 17 + 25?", "<|im_start|>user\nHi<|im_end|>\n"]
    for options in ({}, {"split_special_tokens": True}, {"return_offsets_mapping": True}):
        assert here(texts, padding=True, **options) == there(texts, padding=True, **options)
    ids = there(texts)["input_ids"]
    assert here.batch_decode(ids) == there.batch_decode(ids) == texts
    chat = [{"role": "user", "content": "Hi"}]
    assert here.apply_chat_template(chat) == there.apply_chat_template(chat)


OTHER_RULES_ARE_REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"normalizer": {"type": "NFC"}}, ImportError, "its normalizer NFC needs the tokenizers package"),
    ({"post_processor": {"type": "ByteLevel"}}, ImportError, "its post_processor ByteLevel"),
    ({"decoder": None}, ImportError, "its decoder None"),
    ({"pre_tokenizer": {"type": "Whitespace"}}, ImportError, "its pre_tokenizer Whitespace"),
    ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, ImportError, "ByteLevel"),
    ({"pre_tokenizer": None}, ImportError, "its pre_tokenizer None"),
    ({"model": {"type": "Unigram"}}, ImportError, "its model Unigram"),
    ({"model": {"type": "BPE", "ignore_merges": True}}, ImportError, "its model BPE"),
    ({"model": None}, ValueError, "no model"),
    ({"model": {"type": "BPE", "vocab": {"a": 0}}}, ValueError, "lacks 255 of the 256 bytes"),
    ({"model": {"type": "BPE", "vocab": {"a": "0"}}}, ValueError, "must be integers"),
    ({"added_tokens": [{"id": 1}]}, ValueError, "content"),
    ({"added_tokens": [{"id": 1, "content": "x", "lstrip": True}]}, ImportError, "added token 'x'"),
    ({"added_tokens": 3}, ValueError, "of another type"),
    ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": None}}, ValueError, "of another type"),
]


def test_other_rules_are_refused() -> None:
    for changes, error, match in OTHER_RULES_ARE_REFUSED:
        raises(error, match, byte_level_bpe.Tokenizer.from_str, json.dumps({**json.loads(SOURCE), **changes}))


def test_a_merge_of_what_is_no_token_is_refused() -> None:
    rules = json.loads(SOURCE)
    rules["model"]["merges"][3] = ["a", "\u4e00"]
    raises(ValueError, "merge 3 must be two texts", byte_level_bpe.Tokenizer.from_str, json.dumps(rules))
