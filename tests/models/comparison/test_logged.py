"""Log-probs as vLLM, TRL and transformers write them, and files that are broken."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite.models import read_log_probs
from lite.models.comparison import logged

PROMPT, RESPONSE, VALUES = [5, 9, 4], [7, 2], [-0.5, -1.25]
PLAIN = {"prompt_ids": PROMPT, "response_ids": RESPONSE, "logprobs": VALUES}


def entry(token: int, value: float, rank: int = 1) -> dict[str, Any]:
    """vLLM's Logprob objects by id; the sampled token is not always the first."""
    other = {"logprob": -9.0, "rank": 2, "decoded_token": "x"}
    return {"3": other, str(token): {"logprob": value, "rank": rank, "decoded_token": "y"}}


ENTRIES = [entry(token, value) for token, value in zip(RESPONSE, VALUES, strict=True)]
TOKENS = [f"token_id:{token}" for token in RESPONSE]
COMPLETION = {"tokens": ["a", "b"], "token_logprobs": VALUES, "top_logprobs": [{}, {}], "text_offset": [0, 1]}
CHAT = [
    {"token": t, "logprob": v, "bytes": None, "top_logprobs": []} for t, v in zip(TOKENS, VALUES, strict=True)
]
FORMS: dict[str, dict[str, Any]] = {
    "own": PLAIN,
    "vllm completion": {
        "id": "cmpl-1",
        "object": "text_completion",
        "choices": [
            {
                "index": 0, "text": "ab", "logprobs": COMPLETION, "finish_reason": "stop",
                "prompt_logprobs": None, "token_ids": RESPONSE, "prompt_token_ids": PROMPT,
            }
        ],
    },
    "vllm completion, ids as tokens": {
        "prompt_token_ids": PROMPT,
        "choices": [{"text": "ab", "token_ids": None, "logprobs": {**COMPLETION, "tokens": TOKENS}}],
    },
    "vllm completion, echo": {
        "choices": [
            {
                "prompt_token_ids": PROMPT,
                "token_ids": RESPONSE,
                "logprobs": {**COMPLETION, "token_logprobs": [None, -1.0, -2.0, *VALUES]},
            }
        ]
    },
    "vllm chat": {
        "object": "chat.completion",
        "prompt_token_ids": PROMPT,
        "prompt_logprobs": None,
        "choices": [{"message": {"role": "assistant"}, "logprobs": {"content": CHAT}, "token_ids": RESPONSE}],
    },
    "vllm chat, ids as tokens": {"prompt_token_ids": PROMPT, "choices": [{"logprobs": {"content": CHAT}}]},
    "vllm RequestOutput": {
        "request_id": "0",
        "prompt_token_ids": PROMPT,
        "prompt_logprobs": None,
        "outputs": [{"index": 0, "token_ids": RESPONSE, "logprobs": ENTRIES, "cumulative_logprob": -1.75}],
    },
    "trl": {
        "prompt_ids": PROMPT,
        "completion_ids": RESPONSE,
        "logprobs": [[v] for v in VALUES],
        "reward": 1.0,
    },
    "trl, several alternatives": {
        "prompt_ids": PROMPT,
        "completion_ids": RESPONSE,
        "logprobs": [[-0.1, -0.5], [-1.25, -3.0]],
        "logprob_token_ids": [[11, 7], [2, 11]],
    },
    "trl, a padded batch of the trainer": {
        "prompt_ids": [[0, *PROMPT]],
        "prompt_mask": [[0, 1, 1, 1]],
        "completion_ids": [[*RESPONSE, 0]],
        "completion_mask": [[1, 1, 0]],
        "sampling_per_token_logps": [[*VALUES, 0.0]],
        "advantages": [0.3],
    },
    "trl, old log-probs": {"prompt_ids": PROMPT, "completion_ids": RESPONSE, "old_per_token_logps": VALUES},
    "transformers": {"sequences": PROMPT + RESPONSE, "transition_scores": VALUES},
    "transformers, padded": {
        "sequences": [0, *PROMPT, *RESPONSE, 0],
        "attention_mask": [0, 1, 1, 1],
        "transition_scores": [*VALUES, -3.0],
        "completion_mask": [1, 1, 0],
    },
    "transformers, the prompt apart": {
        "prompt_ids": PROMPT, "sequences": PROMPT + RESPONSE, "logprobs": {"token_logprobs": VALUES},
    },
    "transformers, a batch": {"sequences": [PROMPT + RESPONSE], "transition_scores": [VALUES]},
}  # fmt: skip


def write(tmp_path: Path, *lines: Any) -> Path:
    file = tmp_path / "log.jsonl"
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return file


def test_what_the_tools_write_is_read(tmp_path: Path) -> None:
    for form in FORMS:
        (row,) = read_log_probs(write(tmp_path, FORMS[form]))
        np.testing.assert_array_equal(row.prompt_ids, PROMPT, err_msg=str(form))
        np.testing.assert_array_equal(row.response_ids, RESPONSE, err_msg=str(form))
        np.testing.assert_array_equal(row.ids, PROMPT + RESPONSE, err_msg=str(form))
        np.testing.assert_array_equal(row.log_probs, VALUES, err_msg=str(form))
        assert row.where == "line 1", form


def test_prompt_log_probs_score_the_whole_prompt(tmp_path: Path) -> None:
    values = [-0.25, -3.0]
    line = {
        "prompt_token_ids": PROMPT,
        "prompt_logprobs": [None, entry(9, values[0]), entry(4, values[1])],
        "choices": [{"token_ids": [1], "logprobs": None}],
    }
    (row,) = read_log_probs(write(tmp_path, line))
    np.testing.assert_array_equal(row.prompt_ids, PROMPT[:1])
    np.testing.assert_array_equal(row.response_ids, PROMPT[1:])
    np.testing.assert_array_equal(row.log_probs, values)


def test_a_line_may_hold_several_responses(tmp_path: Path) -> None:
    server = {
        "prompt_ids": [[1], [2]],
        "completion_ids": [[3], [4, 5], [6], [7]],
        "logprobs": [[[-1.0]], [[-2.0], [-3.0]], [[-4.0]], [[-5.0]]],
        "logprob_token_ids": [[[3]], [[4], [5]], [[6]], [[7]]],
    }
    choices = [{"token_ids": [3], "logprobs": {"token_logprobs": [-1.0]}} for _ in range(2)]
    rows = read_log_probs(write(tmp_path, server, "", {"prompt_token_ids": [8], "choices": choices}, PLAIN))
    assert [row.prompt_ids.tolist() for row in rows] == [[1], [1], [2], [2], [8], [8], PROMPT]
    assert [row.response_ids.tolist() for row in rows] == [[3], [4, 5], [6], [7], [3], [3], RESPONSE]
    assert [row.where for row in rows][-3:] == ["line 3", "line 3", "line 4"]


def test_marks_of_the_encoding_and_numbers_that_are_nearly_zero(tmp_path: Path) -> None:
    line = "\ufeff" + json.dumps({"prompt_ids": [0], "response_ids": [2**31 - 1], "logprobs": [1e-9]})
    rows = read_log_probs(write(tmp_path, line, line))
    assert [(row.prompt_ids.tolist(), row.log_probs.tolist()) for row in rows] == [([0], [0.0])] * 2


def test_log_probs_may_be_missing_where_nobody_needs_them(tmp_path: Path) -> None:
    file = write(tmp_path, {"prompt_ids": PROMPT, "response_ids": RESPONSE})
    (row,) = read_log_probs(file, needed=False)
    assert row.log_probs is None
    raises(ValueError, r"log.jsonl, line 1: no log-probs: expected one of logprobs, ", read_log_probs, file)


BROKEN: list[tuple[Any, str]] = [
    (json.dumps(PLAIN)[:-10], "not JSON"),
    ("[" * 100_000, "not JSON"),
    ('{"logprobs": ' + "9" * 5000 + "}", "not JSON"),
    ("[1]", "expected a JSON object, got list"),
    ("{}", "no token ids: expected 'prompt_ids' and 'response_ids'"),
    ({**PLAIN, "logprobs": [-0.5]}, "'logprobs' has 1 entries for 2 tokens of the response"),
    ({**PLAIN, "logprobs": [-0.5, -1, -1]}, "'logprobs' has 3 entries for 2 tokens of the response"),
    ({**PLAIN, "logprobs": [-0.5, float("nan")]}, "'logprobs' must be finite, entry 1 is nan"),
    ({**PLAIN, "logprobs": [-float("inf"), 0]}, "'logprobs' must be finite, entry 0 is -inf"),
    ({**PLAIN, "logprobs": [-(10**400), 0]}, "'logprobs' must be finite, entry 0 is inf"),
    ({**PLAIN, "logprobs": [-0.5, 3.5]}, r"'logprobs' has 3.5 at entry 1: .* normalize_logits=True"),
    ({**PLAIN, "logprobs": [-0.5, None]}, "'logprobs' must hold a number for each token, entry 1 is None"),
    ({**PLAIN, "logprobs": [-0.5, True]}, "entry 1 is True"),
    ({**PLAIN, "logprobs": "-0.5"}, "'logprobs' must be a list of numbers, got str"),
    ({**PLAIN, "logprobs": [[-0.5, -1], [-1]]}, "entry 0 is None"),
    ({**PLAIN, "prompt_ids": []}, "the prompt has no token"),
    ({**PLAIN, "prompt_ids": [1.5]}, "'prompt_ids' must hold integers from 0 to 2147483647, entry 0 is 1.5"),
    ({**PLAIN, "prompt_ids": [2**31]}, "entry 0 is 2147483648"),
    ({**PLAIN, "prompt_ids": [-1]}, "entry 0 is -1"),
    ({**PLAIN, "prompt_ids": ["x" * 1000]}, r"entry 0 is 'x{39}\.\.\.$"),
    ({**PLAIN, "prompt_ids": {"a": 1}}, "'prompt_ids' must be a list of integers, got dict"),
    ({**PLAIN, "prompt_mask": [1]}, "'prompt_mask' has 1 entries for 3 tokens"),
    ({**PLAIN, "completion_mask": [1, 1, 1]}, "'completion_mask' has 3 entries for 2 tokens"),
    ({"choices": []}, "'choices' must be a list of objects, at least one"),
    ({"choices": [{"text": "a", "logprobs": COMPLETION}], "prompt_token_ids": [1]}, "no token ids"),
    ({"sequences": RESPONSE, "transition_scores": VALUES}, "the prompt has no token"),
    ({"sequences": [1], "transition_scores": VALUES}, "'sequences' has 1 tokens and 2 log-probs"),
    ({"prompt_ids": [[1], [2]], "completion_ids": [[3]] * 3}, "'prompt_ids' has 2 entries for 3 responses"),
]


def test_broken_lines_are_named(tmp_path: Path) -> None:
    for line, message in BROKEN:
        raises(ValueError, rf"log.jsonl, line 2: .*{message}", read_log_probs, write(tmp_path, PLAIN, line))


def test_a_line_without_end_and_files_of_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "MAX_LINE_BYTES", 1000)
    with pytest.raises(ValueError, match=r"log.jsonl, line 2: longer than 1000 bytes"):
        read_log_probs(write(tmp_path, PLAIN, {**PLAIN, "text": "x" * 2000}))
    raises(ValueError, "has no response in it", lambda: read_log_probs(write(tmp_path, "", "  ")))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    raises(ValueError, "line 1: not JSON", lambda: read_log_probs(tmp_path / "binary"))
    raises(FileNotFoundError, "", lambda: read_log_probs(tmp_path / "none"))
