"""Tokenizer against transformers' AutoTokenizer, on the folders of the real exports."""

import functools
from pathlib import Path

import numpy as np
import pytest
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models.text.tokenizer import Tokenizer

MODELS = Path(__file__).parents[1] / "models" / "exports"
FOLDERS = sorted(p.parent.name for p in MODELS.glob("*/tokenizer.json"))
SPECIALS = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|pad|>"]
TEXT = st.lists(st.one_of(st.text(max_size=12), st.sampled_from([*SPECIALS, " ", "\n", "Hello", "12"]))).map(
    "".join
)


@functools.cache
def pair(folder):
    path = MODELS / folder
    return Tokenizer.from_pretrained(path), transformers.AutoTokenizer.from_pretrained(path)


def test_there_are_folders():
    assert len(FOLDERS) >= 5


@pytest.mark.parametrize("folder", FOLDERS)
def test_special_tokens(folder):
    ours, theirs = pair(folder)
    for name in (
        "bos_token",
        "eos_token",
        "pad_token",
        "unk_token",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
    ):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.special_tokens_map == theirs.special_tokens_map
    assert ours.chat_template == theirs.chat_template
    assert ours.padding_side == theirs.padding_side
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("folder", FOLDERS)
@settings(max_examples=50)
@given(texts=st.lists(TEXT, min_size=1, max_size=4), special=st.booleans())
def test_encode_and_decode(folder, texts, special):
    ours, theirs = pair(folder)
    for text in texts:
        ids = theirs.encode(text, add_special_tokens=special)
        assert ours.encode(text, add_special_tokens=special) == ids
        split = theirs.encode(text, add_special_tokens=special, split_special_tokens=True)
        assert ours.encode(text, add_special_tokens=special, split_special_tokens=True) == split
        assert ours.decode(ids) == theirs.decode(ids)
        assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)
    split = {"split_special_tokens": True, "add_special_tokens": special}
    assert ours(texts, **split)["input_ids"] == theirs(texts, **split)["input_ids"]
    rows = theirs(texts)["input_ids"]
    assert ours.batch_decode(rows) == theirs.batch_decode(rows)


@pytest.mark.parametrize("folder", FOLDERS)
@settings(max_examples=50)
@given(ids=st.lists(st.integers(0, 511), max_size=20))
def test_decodes_any_ids(folder, ids):
    ours, theirs = pair(folder)
    assert ours.decode(ids) == theirs.decode(ids)
    assert ours.decode(ids, skip_special_tokens=True) == theirs.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize("folder", FOLDERS)
@settings(max_examples=30)
@given(
    texts=st.lists(TEXT, min_size=1, max_size=4),
    side=st.sampled_from(["left", "right"]),
    padding=st.sampled_from([True, "longest", "max_length"]),
)
def test_padding(folder, texts, side, padding):
    ours, theirs = pair(folder)
    options = {"padding": padding, "padding_side": side}
    if padding == "max_length":
        options |= {"max_length": 16, "truncation": True}
    expected = theirs(texts, **options)
    got = ours(texts, **options)
    for key in ("input_ids", "attention_mask"):
        np.testing.assert_array_equal(got[key], expected[key])
