"""The lines that `lite learn` reads."""

import argparse
import json
from pathlib import Path
from typing import Any

from helpers.cases import raises

from lite.cli.learning.rows import Shuffled, pair_of, read_rows

ONLY = ("completion_only_loss", "assistant_only_loss")


def read(path: Path, *rows: Any, **options: Any) -> Any:
    file = path / "rows.jsonl"
    file.write_text(
        "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows), encoding="utf-8"
    )
    given = {"method": "grpo", "reward": "exact", "raw": False, **dict.fromkeys(ONLY), **options}
    return read_rows(str(file), argparse.Namespace(**given))


TURN = {"role": "user", "content": "hi"}
SAID = {"role": "assistant", "content": "ho"}


def test_rows_keep_all_fields(tmp_path: Path) -> None:
    rows = [{"prompt": "a", "answer": 3, "other": [1]}, {"messages": [TURN], "answer": "b"}]
    assert read(tmp_path, rows[0], "", rows[1]) == rows
    given = [
        {"prompt": "a", "response": "b"},
        {"messages": [TURN, SAID]},
        {"messages": [TURN], "response": "b"},
    ]
    assert read(tmp_path, *given, method="sft") == given
    of_trl = [
        {"prompt": "a", "completion": "b"},
        {"messages": [TURN, SAID]},
        {"prompt": [TURN], "completion": [SAID]},
    ]
    given[2]["response"] = [SAID]
    assert read(tmp_path, *of_trl, method="sft") == given
    of_trl = [{"prompt": [TURN], "answer": "b"}]
    assert read(tmp_path, *of_trl) == of_trl
    others = [{"text": "a"}, {"messages": [TURN]}, {"messages": [TURN], "response": [SAID, TURN, SAID]}]
    assert read(tmp_path, *others, method="sft") == others
    pairs = [{"prompt": "a", "chosen": "b", "rejected": "c"}]
    assert read(tmp_path, *pairs, method="dpo") == pairs
    assert read(tmp_path, {"prompt": "a"}, reward="mine:score") == [{"prompt": "a"}]


SFT, DPO = {"method": "sft"}, {"method": "dpo"}


def test_a_wrong_line_is_named(tmp_path: Path) -> None:
    cases: list[tuple[Any, dict[str, Any], str]] = [
        ("{", {}, "not JSON"),
        ("[" * 100_000, {}, "not JSON"),
        ("3", {}, "expected an object with 'prompt'"),
        ({"prompt": " ", "answer": 1}, {}, "expected an object with 'prompt'"),
        ({"prompt": "a"}, {}, "--reward exact needs an 'answer'"),
        ({"prompt": "a", "answer": ""}, {"reward": "contains"}, "needs an 'answer'"),
        ({"prompt": "a", "answer": ["b"]}, {}, "needs an 'answer'"),
        ({"messages": [TURN], "answer": "b"}, {"raw": True}, "'messages' are not text"),
        ({"messages": [TURN, SAID]}, {"raw": True, "method": "sft"}, "'messages' are not text"),
        ({"prompt": "a", "answer": "b"}, {"method": "sft"}, "'prompt' and 'response'"),
        ({"messages": [TURN]}, {**SFT, ONLY[0]: True}, "must end with an assistant's turn"),
        ({"messages": [TURN, SAID], "response": "hi"}, SFT, "'response' is another one"),
        ({"messages": [TURN], "response": 3}, SFT, "'prompt' and 'response'"),
        ({"prompt": "a", "response": [SAID]}, SFT, "'prompt' and 'response'"),
        ({"text": "a"}, {**SFT, ONLY[0]: True}, "--completion-only-loss: in a 'text'"),
        ({"text": "a"}, {**SFT, ONLY[1]: True}, "--assistant-only-loss: in a 'text'"),
        ({"prompt": "a", "chosen": "b"}, DPO, "expected an object with 'prompt', 'chosen' and 'rejected'"),
        (
            {"prompt": "a", "chosen": "b", "rejected": [SAID]},
            DPO,
            "expected an object with 'prompt', 'chosen'",
        ),
        ({"chosen": [TURN, SAID], "rejected": [TURN, SAID]}, DPO, "are equal, or one is the beginning"),
        ({"chosen": [TURN], "rejected": [SAID]}, DPO, "begin otherwise, and there is no 'prompt'"),
        ({"chosen": "a b", "rejected": "a c"}, DPO, "--raw takes their common start"),
        ({"chosen": [TURN, SAID], "rejected": [TURN, TURN]}, {**DPO, "raw": True}, "'messages' are not text"),
        ({"prompt": ["hi"], "answer": "b"}, {}, "expected an object with 'prompt'"),
    ]
    for row, options, message in cases:
        good = {"prompt": "a", "answer": "b", "response": "b", "chosen": "c", "rejected": "d"}
        raises(ValueError, f"line 2: .*{message}", read, tmp_path, good, row, **options)


def test_a_prompt_that_is_the_start_of_both_responses() -> None:
    """As TRL's `extract_prompt` takes it; a prompt of another kind is not looked at."""
    other = {"role": "assistant", "content": "he"}
    wanted = [TURN], [SAID], [other]
    for prompt in ({}, {"prompt": "hi"}, {"prompt": None}):
        assert pair_of({**prompt, "chosen": [TURN, SAID], "rejected": [TURN, other]}) == wanted
    for name in ("prompt", "messages"):
        assert pair_of({name: [TURN], "chosen": [SAID], "rejected": "he"}) == ([TURN], [SAID], "he")
    assert pair_of({"chosen": "it is blue", "rejected": "it is green"}) == ("it is", " blue", " green")
    assert pair_of({"chosen": "abc", "rejected": "abd"}) == ("ab", "c", "d")


def test_an_empty_file_has_nothing(tmp_path: Path) -> None:
    raises(ValueError, "no line to learn from", read, tmp_path, "", " ")


def test_each_pass_has_all_rows_in_another_order() -> None:
    rows = Shuffled("abcdefgh", seed=1)
    passes = [rows[at : at + 8] for at in (0, 8, 16)]
    for one in passes:
        assert sorted(one) == list("abcdefgh")
    assert len({"".join(one) for one in passes}) == 3
    again = Shuffled("abcdefgh", seed=1)
    assert again[19] == passes[2][3]  # without those before
    assert [Shuffled("abcdefgh", seed=2)[i] for i in range(8)] != passes[0]
