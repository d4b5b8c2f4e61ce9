"""Prompts by number."""

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data.collectors import prompts as module
from lite.data.collectors.prompts import Prompts

LINES = ['{"prompt": "a", "answer": 1}', "", '{"messages": [{"role": "user", "content": "b"}]}', '"c"']


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prompts.jsonl"
    path.write_text("\ufeff" + "\n".join(LINES), encoding="utf-8")
    return path


def values(prompts: Prompts, count: int) -> list[Any]:
    return [prompt.value for prompt in prompts.take(count)]


def test_lists_and_files_begin_anew(file: Path) -> None:
    chat = [{"role": "user", "content": "b"}]
    for given in (file, str(file), ["a", chat, "c"], ("a", chat, "c")):
        prompts = Prompts(given)
        assert values(prompts, 7) == ["a", chat, "c", "a", chat, "c", "a"]
        assert prompts.position == 7
    assert Prompts(file).take(1)[0].fields == {"answer": 1}


class Again:
    def __iter__(self) -> Iterator[str]:
        return iter("ab")


def test_iterables_begin_anew_and_iterators_end() -> None:
    assert values(Prompts(Again()), 5) == list("ababa")
    once = Prompts(iter("abc"))
    assert (values(once, 2), values(once, 2), values(once, 2)) == (["a", "b"], ["c"], [])
    assert once.position == 3


def test_mappings_have_a_prompt_and_fields() -> None:
    td = TensorDict({"x": np.zeros(3)})
    given = [
        {"prompt_ids": [1, 2], "prompt": "a", "n": 1}, td, np.array([3]), {"prompt": td, "messages": None},
    ]  # fmt: skip
    prompts = Prompts(given).take(4)
    assert [prompt.value for prompt in prompts[:2]] == [[1, 2], td]
    assert [prompt.fields for prompt in prompts] == [{"n": 1}, {}, {}, {}]
    assert prompts[3].value is td


def test_seeking(file: Path) -> None:
    for given in (file, list("abc"), Again()):
        there, here = Prompts(given), Prompts(given)
        values(there, 5)
        here.take(2)
        here.seek(5)
        assert values(here, 4) == values(there, 4)
        assert values(pickle.loads(pickle.dumps(here)), 4) == values(here, 4)
        here.seek(0)
        assert values(here, 1) == ["a"]


def test_seeking_in_an_iterator() -> None:
    prompts = Prompts(iter("abcd"))
    prompts.seek(2)
    assert values(prompts, 1) == ["c"]
    raises(ValueError, "an iterator that has given 3 already, and cannot go back to 1", prompts.seek, 1)
    raises(ValueError, "prompts end after 4, and 9 were taken before", lambda: prompts.seek(9))


def test_what_is_given_back_comes_again() -> None:
    for given in (list("abc"), iter("abc")):
        prompts = Prompts(given)
        prompts.give_back(prompts.take(2))
        assert prompts.position == 0
        assert values(pickle.loads(pickle.dumps(prompts)), 3) == list("abc")
        assert values(prompts, 1) == ["a"]
        prompts.seek(1)
        assert values(prompts, 2) == ["b", "c"]


def test_a_bad_item_takes_nothing() -> None:
    prompts = Prompts(["a", {"question": "b"}])
    for _ in range(2):
        raises(ValueError, r"prompt 1 must have 'prompt', 'messages' or 'prompt_ids', got", prompts.take, 2)
    assert (prompts.position, values(prompts, 1)) == (0, ["a"])


def test_what_holds_no_prompts(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n")
    raises(FileNotFoundError, "prompts: there is no file", lambda: Prompts(tmp_path / "missing"))
    raises(ValueError, "prompts must hold at least one prompt", lambda: Prompts([]))
    raises(ValueError, "prompts: there is none in", lambda: Prompts(tmp_path / "empty").take(1))
    with pytest.raises(TypeError, match="prompts must be a path or an iterable, got int"):
        Prompts(3)  # type: ignore[arg-type]


def test_bad_lines(tmp_path: Path) -> None:
    for line, message in (
        ("{", "line 2: not JSON"),
        ("3", "line 2: expected an object or a text, got int"),
        ('{"prompt": 3}', "line 2: 'prompt' must be a list of integers or messages .* or a text, got 3"),
        ('{"prompt_ids": [1, "a"]}', r"line 2: 'prompt_ids' must be a list of integers, got \[1, 'a'\]"),
        ('{"messages": [{"role": "user"}]}', r"line 2: 'messages' must be messages \(role and content"),
        ('{"messages": "a"}', "line 2: 'messages' must be messages"),
    ):
        path = tmp_path / "bad.jsonl"
        path.write_text(f"{json.dumps('a')}\n{line}\n")
        prompts = Prompts(path)
        assert values(prompts, 1) == ["a"]
        raises(ValueError, message, prompts.take, 1)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "wide.jsonl"
    path.write_text('{"prompt": "a"}', encoding="utf-16")
    raises(ValueError, r"wide.jsonl is not text in UTF-8", lambda: Prompts(path).take(1))


def test_lines_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LINE", 100)
    path = tmp_path / "long.jsonl"
    path.write_text('"' + "x" * 1000)
    raises(ValueError, "line 1: longer than 100 characters", lambda: Prompts(path).take(1))
