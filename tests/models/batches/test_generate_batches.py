"""Responses to batches of rows."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import HELLO, HI, Make
from helpers.models.real_models import MODELS

from lite.data import row_seeds
from lite.models import (
    GenerateBatches,
    GenerationConfig,
    OnnxDecoder,
    ScoreBatches,
    embedded_model_path,
    generate,
)

LLAMA = MODELS / "optimum-llama"
SAMPLED = {"max_new_tokens": 6, "temperature": 1.0, "do_sample": True}


def batch(count: int = 5) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    prompts = np.empty(count, object)
    for i in range(count):
        prompts[i] = rng.integers(3, 500, rng.integers(2, 9))
        prompts[i].setflags(write=False)
    prompts.setflags(write=False)
    ids = np.arange(100, 100 + count)
    ids.setflags(write=False)
    return {"id": ids, "prompt_ids": prompts}


def test_responses_are_those_of_the_seeds_of_rows() -> None:
    given = batch(4)
    write = GenerateBatches(LLAMA, generate_kwargs=SAMPLED, num_samples=3, seed=5, threads=1)
    out = write(given)
    decoder = OnnxDecoder(LLAMA, num_threads=1)
    config = GenerationConfig.from_kwargs({**SAMPLED, "n": 3}, decoder.config)
    seeds = row_seeds(5, given["id"], 3).reshape(-1)
    expected = generate(decoder, list(given["prompt_ids"]), config, seeds=seeds, num_samples=3)
    assert out["response_ids"].tolist() == [one.tokens.tolist() for one in expected]
    for ours, theirs in zip(out["logprobs"], expected, strict=True):
        np.testing.assert_allclose(ours, theirs.log_probs, atol=1e-5)
    np.testing.assert_array_equal(out["id"], np.repeat(given["id"], 3))
    np.testing.assert_array_equal(out["sample"], np.tile(np.arange(3), 4))
    assert out["finish_reason"].tolist() == [one.finish_reason for one in expected]
    assert [list(map(int, row)) for row in given["prompt_ids"]] == out["prompt_ids"][::3].tolist()
    np.testing.assert_array_equal(out["tokens"], [len(one.tokens) for one in expected])


def test_a_row_is_what_it_is_in_any_batch() -> None:
    given, options = batch(), {"generate_kwargs": SAMPLED, "num_samples": 2, "threads": 1}
    whole = GenerateBatches(LLAMA, max_rows=3, **options)(given)
    for size in (1, 2):
        write = GenerateBatches(LLAMA, max_rows=5, **options)
        parts = [write({n: c[i : i + size] for n, c in given.items()}) for i in range(0, 5, size)]
        assert [row for part in parts for row in part["response_ids"]] == whole["response_ids"].tolist()
    other = GenerateBatches(LLAMA, seed=1, **options)(given)
    assert other["response_ids"].tolist() != whole["response_ids"].tolist()


def test_texts_and_conversations() -> None:
    write = GenerateBatches(embedded_model_path(), generate_kwargs={"max_new_tokens": 8}, threads=1)
    turn = {"role": "user", "content": "What is 12 + 30?"}
    out = write({"prompt": [turn["content"], None], "messages": [None, np.array([turn], object)]})
    assert out["response"].tolist() == ["42", "42"]
    assert out["finish_reason"].tolist() == ["eos", "eos"]
    assert out["prompt_ids"][0] == out["prompt_ids"][1]
    with_system = GenerateBatches(embedded_model_path(), system="Be brief.", threads=1)
    assert len(with_system({"prompt": ["a"]})["prompt_ids"][0]) > len(
        write({"prompt": ["a"]})["prompt_ids"][0]
    )


def test_scores_of_what_was_written() -> None:
    written = GenerateBatches(LLAMA, generate_kwargs=SAMPLED, threads=1)(batch())
    scored = ScoreBatches(LLAMA, prefix="ref_", threads=1)(written)
    np.testing.assert_allclose(scored["ref_log_prob"], written["log_prob"], atol=1e-4)


def test_details_are_columns() -> None:
    options = {
        **SAMPLED, "logprobs": 2, "sampled_log_probs": True, "kept_ids": True, "top_p": 0.9,
        "entropy": True,
    }  # fmt: skip
    out = GenerateBatches(LLAMA, generate_kwargs=options, threads=1)(batch(2))
    for i, tokens in enumerate(out["response_ids"]):
        assert len(out["sampled_log_probs"][i]) == len(out["entropy"][i]) == len(tokens)
        assert len(out["kept_offsets"][i]) == len(tokens) + 1
        assert [len(row) for row in out["top_ids"][i]] == [2] * len(tokens)
    beams = GenerateBatches(
        LLAMA,
        generate_kwargs={"num_beams": 2, "max_new_tokens": 3, "do_sample": False},
        num_samples=2,
        threads=1,
    )
    scores = beams(batch(2))["score"].reshape(2, 2)
    assert bool((scores[:, 0] >= scores[:, 1]).all())


def test_done_rows_and_no_rows() -> None:
    given = batch(3)
    write = GenerateBatches(LLAMA, generate_kwargs=SAMPLED, num_samples=2, done=[101], threads=1)
    out = write(given)
    assert out["id"].tolist() == [100, 100, 102, 102]
    everything = GenerateBatches(LLAMA, generate_kwargs=SAMPLED, threads=1)(given)["response_ids"]
    assert out["response_ids"][::2].tolist() == [everything[0], everything[2]]
    none = write({name: column[:0] for name, column in given.items()})
    assert {name: len(column) for name, column in none.items()} == dict.fromkeys(none, 0)


def test_draws_need_ids() -> None:
    given = {"prompt_ids": [HI, HELLO]}
    greedy = GenerateBatches(LLAMA, generate_kwargs={"max_new_tokens": 2, "do_sample": False}, threads=1)
    assert len(greedy(given)["tokens"]) == 2
    with pytest.raises(ValueError, match="the batch has no column 'id' \\(see id_key\\)"):
        GenerateBatches(LLAMA, generate_kwargs=SAMPLED, threads=1)(given)
    with pytest.raises(TypeError, match=r"ids of rows must be integers or texts, got 1\.0"):
        GenerateBatches(LLAMA, generate_kwargs=SAMPLED, threads=1)({**given, "id": np.array([1.0, 2.0])})


def test_bad_rows_are_named() -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"prompt": [3]}, {}, "id 7: a row needs 'prompt_ids', 'messages' or the text 'prompt'"),
        ({"messages": [[]]}, {}, "id 7: messages must be turns"),
        ({"messages": [[{"role": "user", "content": "a"}]]}, {"raw": True},
            "id 7: raw takes prompts as they are"),
        ({"prompt_ids": [[]]}, {}, "id 7: "),
    ]  # fmt: skip
    for columns, options, message in cases:
        raises(ValueError, message, GenerateBatches(LLAMA, threads=1, **options), {"id": [7], **columns})


def test_a_grammar_ends_where_the_tokenizer_says() -> None:
    options = {"grammar": {"regex": "(yes|no)"}, "max_new_tokens": 8}
    write = GenerateBatches(embedded_model_path(), generate_kwargs=options, threads=1)
    out = write({"prompt": ["Is 2 + 2 = 4?", "Copy: sun"]})
    assert set(out["response"]) <= {"yes", "no"}
    assert set(out["finish_reason"]) == {"eos"}


def test_arguments(scripted_model: Make) -> None:
    for name in ("num_samples", "max_rows"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            GenerateBatches(scripted_model(), **{name: 0})
    with pytest.raises(ValueError, match="num_samples differs from generate_kwargs"):
        GenerateBatches(scripted_model(), num_samples=2, generate_kwargs={"n": 3})
    raises(ValueError, "top_p", GenerateBatches, scripted_model(), generate_kwargs={"top_p": 2.0})


def test_long_prompts_leave_room_for_the_new_tokens() -> None:
    decoder = OnnxDecoder(embedded_model_path(), num_threads=1)
    most = decoder.context_length
    ids = np.arange(most + 40) % 300 + 3
    options = {"generate_kwargs": {"max_new_tokens": 6, "do_sample": False, "eos_token_id": []}}
    given = {"prompt_ids": [ids, ids[:4]]}
    raises(ValueError, "longer than the model's context", GenerateBatches(decoder, **options), given)
    out = GenerateBatches(decoder, truncate_prompt_tokens=-1, **options)(given)
    assert [len(row) for row in out["prompt_ids"]] == [most - 6, 4]
    assert out["prompt_ids"][0] == ids[-(most - 6) :].tolist()
    assert out["tokens"].tolist() == [6, 6]
    options["generate_kwargs"]["max_new_tokens"] = most
    none = GenerateBatches(decoder, truncate_prompt_tokens=-1, **options)
    raises(ValueError, f"max_new_tokens={most} leaves no room for a prompt", none, given)
    options["generate_kwargs"]["max_new_tokens"] = 6
    out = GenerateBatches(decoder, truncate_prompt_tokens=3, **options)(given)
    assert out["prompt_ids"].tolist() == [ids[-3:].tolist(), ids[1:4].tolist()]
