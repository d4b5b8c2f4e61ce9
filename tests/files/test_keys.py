"""Keys as file names."""

import os
from urllib.parse import unquote

import numpy as np
import pytest
from helpers.cases import raises
from helpers.letters import LETTERS
from helpers.trees import same_content
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict
from lite._files import keys
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
    assert {key for key in (*plain, "", ".", "..", "a:", "c:b", "a/b", "a\\b", "a\0") if is_plain(key)} == {
        key for key in plain if os.name == "posix" or ":" not in key
    }


DEVICES = ("aux", "CON", "nul.x", "lpt1")


def test_names_of_devices(tmp_path, monkeypatch):
    """Windows writes them under other names, which every system reads."""
    td = TensorDict({key: np.full(2, n) for n, key in enumerate((*DEVICES, "console", "lpt"))})
    td["n"] = TensorDict({"prn": {"a": np.zeros(1)}})
    monkeypatch.setattr(keys, "WINDOWS", True)
    td.memmap(tmp_path / "td")
    assert {path.stem for path in tmp_path.rglob("*.memmap")} >= {"%61ux", "%43ON", "%6Eul.x", "console"}
    assert (tmp_path / "td" / "n" / "%70rn").is_dir()
    for on_windows in (True, False) if os.name == "posix" else (True,):
        monkeypatch.setattr(keys, "WINDOWS", on_windows)
        same_content(TensorDict.load_memmap(tmp_path / "td"), td)
    for key in (*DEVICES, "a:b"):
        monkeypatch.setattr(keys, "WINDOWS", True)
        raises(
            ValueError, "robust_key", TensorDict({key: np.zeros(1)}).memmap, tmp_path / "x", robust_key=False
        )


def test_keys_that_a_system_does_not_tell_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "normcase", str.lower)
    td = TensorDict({"a": np.zeros(1), "A": np.zeros(1)})
    raises(ValueError, "'a' and 'A' would share", td.memmap, tmp_path / "td")
    assert not (tmp_path / "td").exists()


def test_keys_that_cannot_be_files(tmp_path):
    for key in ("x" * 250, "é" * 130, "\ud800"):
        raises(ValueError, r"too long|no form", TensorDict({key: np.zeros(1)}).memmap, tmp_path / "td")
    raises(ValueError, r"'meta\.json'", TensorDict({"meta.json": {"a": 1}}).memmap, tmp_path / "td")
    assert not (tmp_path / "td").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
def test_raw_names(tmp_path):
    td = TensorDict({"a b": np.arange(2), "n>": {"c?": np.ones(2)}, "aux.d e": np.zeros(1)})
    td.memmap(tmp_path / "td", robust_key=False)
    assert (tmp_path / "td" / "n>" / "c?.memmap").exists()
    same_content(TensorDict.load_memmap(tmp_path / "td"), td)
    same_content(TensorDict.load_memmap(tmp_path / "td", robust_key=False), td)
