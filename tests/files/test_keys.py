"""Keys as file names."""

from urllib.parse import unquote

import numpy as np
from helpers.cases import raises
from helpers.letters import LETTERS
from helpers.trees import same_content
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict
from lite._files.keys import encode_key, is_plain


@settings(max_examples=40)
@given(st.text(LETTERS), st.text(LETTERS))
def test_key_codec(a, b):
    assert unquote(encode_key(a)) == (a or "%")
    assert (encode_key(a) == encode_key(b)) == (a == b)
    assert encode_key(a) not in ("", ".", "..")
    assert not set(encode_key(a)) & set('/<>:"|?*\\ \0')


def test_what_is_a_file_name_as_it_is():
    plain = {"a", "ab:", "1:b", ":a", ":", "a.", "..."}
    assert {
        key for key in (*plain, "", ".", "..", "a:", "c:b", "a/b", "a\\b", "a\0") if is_plain(key)
    } == plain


def test_keys_that_cannot_be_files(tmp_path):
    for key in ("x" * 250, "é" * 130, "\ud800"):
        raises(ValueError, r"too long|no form", TensorDict({key: np.zeros(1)}).memmap, tmp_path / "td")
    raises(ValueError, r"'meta\.json'", TensorDict({"meta.json": {"a": 1}}).memmap, tmp_path / "td")
    assert not (tmp_path / "td").exists()


def test_raw_names(tmp_path):
    td = TensorDict({"a b": np.arange(2), "n>": {"c?": np.ones(2)}})
    td.memmap(tmp_path / "td", robust_key=False)
    assert (tmp_path / "td" / "n>" / "c?.memmap").exists()
    same_content(TensorDict.load_memmap(tmp_path / "td"), td)
    same_content(TensorDict.load_memmap(tmp_path / "td", robust_key=False), td)
