"""Rewards of `lite learn`."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises

from lite.cli.learning.rewards import check_reward, reward_of


def test_built_in_rewards() -> None:
    cases: list[tuple[str, str, object, float]] = [
        ("exact", " 42\n", "42", 1),
        ("exact", "42", 42, 1),
        ("exact", "It is 42", "42", 0),
        ("number", "12 + 30 is 42.", "42", 1),
        ("number", "1,042.50 apples", 1042.5, 1),
        ("number", "42, or rather -42", 42, 0),
        ("number", "none", "none", 0),  # no number is no right one
        ("contains", "It is yes!", "yes", 1),
        ("contains", "yesterday", "yes", 0),
        ("contains", "costs $4 (", "$4 (", 1),  # no pattern
    ]
    for name, response, answer, expected in cases:
        np.testing.assert_equal(reward_of(name)(response, {"answer": answer}), expected, err_msg=str(name))


def test_a_name_that_is_none_is_told_first() -> None:
    cases = [
        "exakt", "os.system", "a:b:c", "a/b:c", "../mine:score", ":score", "mine:", "mine:a.b", "m:f()", "",
    ]  # fmt: skip
    for name in cases:
        raises(argparse.ArgumentError, "module:function", check_reward, name)


def written(folder: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> None:
    """The user's module `mine`, in the current folder."""
    (folder / "mine.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)


def test_a_function_of_ones_own_gets_response_and_row(tmp_path, monkeypatch):
    written(tmp_path, monkeypatch, "def score(response, row):\n    return len(response) == row['length']\n")
    row = {"prompt": "p", "length": 3}
    reward = reward_of("mine:score")
    np.testing.assert_equal([reward("abc", row), reward("ab", row)], [1.0, 0.0])


def test_a_file_here_takes_the_place_of_no_installed_module(tmp_path, monkeypatch):
    written(tmp_path, monkeypatch, "")
    (tmp_path / "colorsys.py").write_text("def hls_to_rgb(response, row): return 1.0\n")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    raises(RuntimeError, "raised TypeError", lambda: reward_of("colorsys:hls_to_rgb")("a", {}))


def test_what_is_wrong_with_a_function_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases: list[tuple[str, type[Exception], str]] = [
        ("", ImportError, "mine has no 'score'"),
        ("score = 3", TypeError, "must be a function, got int"),
        ("def score(response, row): return 1 / 0", RuntimeError, "raised ZeroDivisionError"),
        ("def score(response, row): return 'high'", ValueError, "finite number, got 'high'"),
        ("def score(response, row): return float('nan')", ValueError, "finite number, got nan"),
    ]
    for source, error, message in cases:
        written(tmp_path, monkeypatch, source)
        raises(error, message, lambda: reward_of("mine:score")("a", {}))


def test_a_missing_module_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, "")
    raises(ImportError, "--reward nowhere:score: No module named 'nowhere'", reward_of, "nowhere:score")
