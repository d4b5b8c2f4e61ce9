"""Scores of batches of rows."""

import functools
import pickle
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest
from helpers.cases import each_case, raises
from helpers.models.prompts import HELLO, HI, Make

from lite.models import OnnxDecoder, ScoreBatches, Tokenizer, embedded_model_path, score
from lite.models.batches.rows import row_of


@functools.cache
def embedded() -> ScoreBatches:
    return ScoreBatches(embedded_model_path(), threads=1, raw=True)


def read_only(values: Any, dtype: Any = object) -> Any:
    column = np.empty(len(values), dtype)
    column[:] = values
    column.setflags(write=False)
    return column


@pytest.fixture
def judge(scripted_model: Make, byte_tokenizer: Make) -> Make:
    def make(**options: Any) -> ScoreBatches:
        return ScoreBatches(scripted_model(), tokenizer=byte_tokenizer(), **options)

    return make


def batch(count: int = 9) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    ids = [rng.integers(0, 256, rng.integers(1, 6)).tolist() for _ in range(2 * count)]
    columns = {"id": read_only(range(count), np.int64), "note": read_only([f"n{i}" for i in range(count)])}
    prompts, responses = np.empty(count, object), np.empty(count, object)
    for i in range(count):  # as Arrow's lists come: arrays in an array of objects
        prompts[i], responses[i] = np.array(ids[i]), np.array(ids[count + i])
        prompts[i].setflags(write=False)
    prompts.setflags(write=False)
    return {**columns, "prompt_ids": prompts, "response_ids": responses}


def test_rows_of_ids_score_what_the_model_says(judge: Make, scripted_model: Make) -> None:
    given = batch()
    out = judge()(given)
    rows = [np.concatenate(pair) for pair in zip(given["prompt_ids"], given["response_ids"], strict=True)]
    for i, log_probs in enumerate(score(scripted_model(), rows)):
        expected = log_probs[len(given["prompt_ids"][i]) :]
        assert isinstance(out["logprobs"][i], list)
        np.testing.assert_allclose(out["logprobs"][i], expected, rtol=1e-6)
        np.testing.assert_allclose(out["log_prob"][i], expected.sum(), rtol=1e-5)
        np.testing.assert_allclose(out["mean_log_prob"][i], expected.mean(), rtol=1e-5)
        assert out["tokens"][i] == len(expected)
    assert (out["log_prob"].dtype, out["tokens"].dtype) == (np.float64, np.int64)
    for name in ("id", "note"):
        assert out[name] is given[name]
    assert out["prompt_ids"].tolist() == [ids.tolist() for ids in given["prompt_ids"]]


def test_a_row_is_what_it_is_in_any_batch(judge: Make) -> None:
    given, whole = batch(), judge(max_rows=4)(batch())
    for size in (1, 2, 5):
        parts = [judge(max_rows=3)({n: c[i : i + size] for n, c in given.items()}) for i in range(0, 9, size)]
        np.testing.assert_array_equal(np.concatenate([p["tokens"] for p in parts]), whole["tokens"])
        np.testing.assert_allclose(
            np.concatenate([p["log_prob"] for p in parts]), whole["log_prob"], rtol=1e-6
        )
        assert [x for p in parts for x in p["note"]] == list(given["note"])


def test_texts_are_a_turn_of_the_template_unless_raw() -> None:
    path = embedded_model_path()
    judge = ScoreBatches(path, threads=1)
    turns = [{"role": "user", "content": "What is 12 + 30?"}, {"role": "assistant", "content": "42"}]
    out = judge(
        {
            "prompt": read_only([turns[0]["content"], None]),
            "response": ["42", None],
            "messages": [None, turns],
        }
    )
    np.testing.assert_allclose(out["log_prob"][0], out["log_prob"][1], rtol=1e-5)
    ids, start = row_of(judge.model, {"prompt": turns[0]["content"], "response": "42"}, raw=False)
    by_ids = judge(
        {"prompt_ids": [ids[:start]], "response_ids": [ids[start:]], "prompt": ["x"], "response": ["y"]}
    )
    np.testing.assert_allclose(by_ids["log_prob"][0], out["log_prob"][0], rtol=1e-5)
    raw = ScoreBatches(path, raw=True, threads=1)({"prompt": ["Copy: sun"], "response": [" sun"]})
    assert raw["tokens"][0] == len(Tokenizer.from_pretrained(path).encode(" sun", add_special_tokens=False))


def test_a_text_is_scored_behind_its_first_token() -> None:
    """Which begins a text, where the tokenizer writes one. A prompt and its response come before it."""
    out = ScoreBatches(embedded_model_path(), threads=1, token_ids=True)(
        {"text": ["Copy: sun sea", "a"], "prompt": [None, "Copy: sun"], "response": [None, "sun"]}
    )
    ids = Tokenizer.from_pretrained(embedded_model_path()).encode("Copy: sun sea")
    assert [*out["prompt_ids"][0], *out["response_ids"][0]] == ids
    assert out["tokens"].tolist() == [len(ids) - 1, 2]
    (wanted,) = score(OnnxDecoder(embedded_model_path()), [np.array(ids)])
    np.testing.assert_allclose(out["log_prob"][0], wanted.sum(), rtol=1e-5)
    with pytest.raises(ValueError, match="the text has no token to score behind its first"):
        embedded()({"text": ["C"]})


@each_case("kind", ["pandas", "table", "record batch"])
def test_a_table_of_pandas_or_pyarrow_is_a_batch(judge: Make, kind: str) -> None:
    columns = {"id": [4, 5], "prompt": ["Hi", "Yo"], "response": ["ab", "c"]}
    given = pandas.DataFrame(columns)[1:] if kind == "pandas" else pyarrow.table(columns)[1:]
    out, same = (
        judge(raw=True)(given.to_batches()[0] if kind == "record batch" else given),
        judge(raw=True)({key: [column[1]] for key, column in columns.items()}),
    )
    assert out.keys() == same.keys()
    assert [out[key][0] for key in ("id", "response", "tokens", "log_prob")] == [
        5, "c", 1, same["log_prob"][0],
    ]  # fmt: skip
    assert pandas.DataFrame(out).log_prob.tolist() == same["log_prob"].tolist()


def test_done_rows_are_left_out(judge: Make) -> None:
    given = batch(4)
    out = judge(done=[1, 3])(given)
    assert out["id"].tolist() == [0, 2]
    np.testing.assert_allclose(out["log_prob"], judge()(given)["log_prob"][[0, 2]], rtol=1e-6)
    everything = judge(done=range(4))(given)
    assert {name: len(column) for name, column in everything.items()} == dict.fromkeys(everything, 0)
    named = {**given, "id": ["a", "b", "c", "d"]}
    assert judge(done={"a"})(named)["id"] == ["b", "c", "d"]
    with pytest.raises(ValueError, match="done rows are told by their ids: the batch has no column 'key'"):
        judge(done=[1], id_key="key")(given)


def test_no_rows(judge: Make) -> None:
    out = judge()({name: column[:0] for name, column in batch().items()})
    assert {name: len(column) for name, column in out.items()} == dict.fromkeys(out, 0)
    assert out["log_prob"].dtype == np.float64


def test_alternatives_are_told_on_request(judge: Make) -> None:
    given = batch(3)
    out = judge(logprobs=2, prefix="ref_")(given)
    np.testing.assert_allclose(out["ref_log_prob"], judge()(given)["log_prob"], rtol=1e-6)
    for i, tokens in enumerate(out["ref_tokens"]):
        assert np.shape(out["ref_top_ids"][i]) == np.shape(out["ref_top_log_probs"][i]) == (tokens, 2)
        best = [place[0] for place in out["ref_top_log_probs"][i]]
        assert (np.array(best) >= np.array(out["ref_logprobs"][i]) - 1e-6).all()
    raises(ValueError, "logprobs must be at least 0, got -1", judge, logprobs=-1)


def test_pickles_go_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(ScoreBatches)) is ScoreBatches


BAD_ROWS_ARE_NAMED: list[tuple[dict[str, Any], str]] = [
    ({"prompt_ids": [[]], "response_ids": [HI]}, "id 7: prompt_ids must have a token"),
    ({"prompt_ids": [[0.5]], "response_ids": [HI]}, "id 7: token ids must be integers in a row, got float64"),
    ({"prompt_ids": [HELLO], "response_ids": [[999]]}, "id 7: "),
    ({"prompt": ["a"]}, "id 7: a row needs 'prompt_ids'.*; got \\['prompt'\\]"),
    (
        {"messages": [[{"role": "user", "content": "a"}]]},
        "id 7: messages must end with an assistant's turn, or have a 'response' beside them",
    ),
    ({"messages": ["text"]}, "id 7: messages must be turns"),
    ({"prompt": [""], "response": ["a"]}, "id 7: the prompt has no token"),
    ({"other": [1]}, "id 7: a row needs .*; got none of them"),
]


def test_bad_rows_are_named(byte_tokenizer: Make) -> None:
    for columns, message in BAD_ROWS_ARE_NAMED:
        judge = embedded()
        raises(ValueError, message, judge, {"id": [7], **columns})
        raises(ValueError, "row 0 of the batch: ", judge, columns)


def test_what_is_no_batch(judge: Make) -> None:
    cases: list[tuple[Any, type[Exception], str]] = [
        ([1], TypeError, "a batch must be a dict of columns by name, got list"),
        ({1: [2]}, TypeError, "a batch must be a dict"),
        ({"a": [1], "b": [1, 2]}, ValueError, "must have one length, got {'a': 1, 'b': 2}"),
    ]
    for given, error, message in cases:
        raises(error, message, judge(), given)


def test_arguments(scripted_model: Make) -> None:
    raises(ValueError, "max_rows must be at least 1, got 0", ScoreBatches, scripted_model(), max_rows=0)
    raises(TypeError, "model must be a path or have the interface of", ScoreBatches, object())
    with pytest.raises(ValueError, match="row 0 of the batch: texts need a tokenizer"):
        ScoreBatches(scripted_model())({"prompt": ["a"], "response": ["b"]})


@pytest.mark.parametrize("keep", [1, 3, 9, -1])
def test_long_prompts_lose_their_first_tokens(scripted_model: Make, keep: int) -> None:
    model = scripted_model(context_length=8)
    ids = [[5, 6, 7, 8, 9, 10, 11], [4]]
    given = {"id": [0, 1], "prompt_ids": ids, "response_ids": [[20, 21, 22], [23]]}
    raises(
        ValueError,
        "id 0: .* tokens, the model's context is 8",
        ScoreBatches(model, tokenizer=None),
        given,
    )
    judge = ScoreBatches(model, truncate_prompt_tokens=keep, token_ids=True)
    if keep == 9:  # seven tokens stay, and ten are two more than the context
        raises(ValueError, "id 0: .* tokens, the model's context is 8", judge, given)
        return
    out = judge(given)
    kept = ids[0][-(6 if keep == -1 else keep) :]  # the last token is not read: nine fit
    assert out["prompt_ids"].tolist() == [kept, [4]]
    np.testing.assert_allclose(
        out["logprobs"][0], score(model, [[*kept, 20, 21, 22]])[0][len(kept) :], rtol=1e-6
    )


def test_a_response_longer_than_the_context_keeps_one_token_of_its_prompt(scripted_model: Make) -> None:
    judge = ScoreBatches(scripted_model(context_length=4), truncate_prompt_tokens=-1)
    row = {"prompt_ids": [[5, 6, 7]], "response_ids": [list(range(6))]}
    raises(ValueError, "7 tokens, the model's context is 4", judge, row)
    raises(
        ValueError,
        "truncate_prompt_tokens must be at least 1, got 0",
        ScoreBatches,
        scripted_model(),
        truncate_prompt_tokens=0,
    )
