"""Prompts from arguments, files and standard input."""

import io
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.real_models import MODELS

from lite.cli.main import build_parser
from lite.cli.model import load
from lite.cli.prompts import Prompt, read_prompts

TURNS = [
    {"role": "user", "content": "a"},
    {"role": "assistant", "content": "b"},
    {"role": "user", "content": "c"},
]


def read(*prompt: str, file: Any = None) -> list[Prompt]:
    return read_prompts(Namespace(prompt=list(prompt), file=file, raw=False))


def test_arguments_and_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines"))
    assert read("one", "-") == [Prompt("one"), Prompt("two\nlines")]
    monkeypatch.setattr("sys.stdin", io.StringIO("two\n\nlines\r\n"))
    assert read("one", file=["-"]) == [Prompt("one"), Prompt("two"), Prompt("lines")]


def test_a_file_has_a_prompt_in_each_line(tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_bytes('\ufeffwhat is "x"?\r\n\n {"a": 1}\u2028b\n'.encode())
    assert read(file=[str(file)]) == [Prompt('what is "x"?'), Prompt(' {"a": 1}\u2028b')]


def test_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    lines = [{"prompt": "a", "answer": 3, "sample": 7, "tokens": 2}, {"messages": TURNS, "id": 1}]
    file.write_text("\n".join(map(json.dumps, lines)))
    assert read(file=[str(file)]) == [Prompt("a", columns={"answer": 3}), Prompt("c", TURNS, 1)]
    told = [prompt.record for prompt in read(file=[str(file)])]
    file.write_text(json.dumps({"prompt": TURNS, "completion": "d"}))  # as TRL has it
    assert read(file=[str(file)]) == [Prompt("c", TURNS, columns={"completion": "d"})]
    assert told == [{"prompt": "a", "answer": 3}, {"id": 1, "messages": TURNS}]
    parts = [{"type": "text", "text": "a"}, {"type": "image", "text": None}, {"type": "text", "text": "b"}]
    file.write_text(json.dumps({"messages": [{"role": "user", "content": parts}]}))
    assert read(file=[str(file)]) == [Prompt("ab", [{"role": "user", "content": parts}])]


def test_a_line_of_another_kind_is_named(tmp_path: Path) -> None:
    cases = [
        "{", "[1]", '{"prompt": 3}', '{"messages": []}', '{"messages": [{"role": "user"}]}', "[" * 100_000,
        "a",
    ]  # fmt: skip
    for line in cases:
        file = tmp_path / "prompts.jsonl"
        file.write_text('{"prompt": "a"}\n\n' + line)
        with pytest.raises(ValueError, match=r"prompts.jsonl, line 3: expected a JSON object with 'prompt'"):
            read(file=[str(file)])
        file.write_text(line)
        if len(line) > 1 and line[0] == "{":  # an object is no text, also in the first line
            with pytest.raises(
                ValueError, match=r"prompts.jsonl, line 1: expected a JSON object with 'prompt'"
            ):
                read(file=[str(file)])
        else:
            assert read(file=[str(file)]) == [Prompt(line)], line


def test_an_empty_prompt_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", " \n"):
        raises(ValueError, "prompt 2 is empty: there is nothing to respond to", read, "a", text)
    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    raises(ValueError, "prompt 1 is empty", lambda: read("-"))
    file = tmp_path / "prompts.jsonl"
    file.write_text('{"prompt": "a"}\n{"prompt": ""}')
    raises(ValueError, r"prompts.jsonl, line 2: the prompt is empty", lambda: read(file=[str(file)]))
    assert read_prompts(Namespace(prompt=[""], file=None, raw=True)) == [Prompt("")]  # the model decides


def test_no_prompt_and_no_text(tmp_path: Path) -> None:
    file = tmp_path / "prompts"
    file.write_text("\n \n")
    raises(ValueError, "has no prompt in it", lambda: read(file=[str(file)]))
    file.write_bytes(b"\xff\xfe")
    raises(ValueError, "prompts is not text in UTF-8", lambda: read(file=[str(file)]))
    raises(FileNotFoundError, "", lambda: read(file=[str(tmp_path / "none")]))


def test_ids_of_conversations_and_texts() -> None:
    model = load(build_parser().parse_args(["info", "--model", str(MODELS / "optimum-llama")]))
    args = Namespace(raw=False, system="Be brief.")
    system = [{"role": "system", "content": "Be brief."}]

    def expected(turns: list[dict[str, str]]) -> list[int]:
        ids: list[int] = model.tokenizer.apply_chat_template(turns, add_generation_prompt=True)["input_ids"]
        return ids

    np.testing.assert_array_equal(Prompt("c", TURNS).ids(model, args), expected(system + TURNS))
    np.testing.assert_array_equal(Prompt("a").ids(model, args), expected(system + TURNS[:1]))
    args = Namespace(raw=True, system=None)
    np.testing.assert_array_equal(Prompt("a").ids(model, args), model.tokenizer.encode("a"))
    raises(ValueError, "--raw takes prompts as they are", lambda: Prompt("c", TURNS).ids(model, args))
