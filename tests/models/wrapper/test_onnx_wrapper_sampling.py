"""What a wrapper writes of the tokens it draws, options of rows, beams and grammars."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.models.prompts import Make, text_td

from lite import TensorDict
from lite.models import (
    OnnxWrapper,
    Sampling,
    Text,
)

EVERYTHING = {"sampled_log_probs": True, "kept_ids": True, "entropy": True, "logprobs": 3}
DRAWN = {"temperature": 0.7, "top_p": 0.8}


def softmax(logits: np.ndarray) -> np.ndarray:
    weights = np.exp(logits - logits.max())
    return weights / weights.sum()


def test_nothing_is_told_unless_asked(wrap: Make) -> None:
    policy = wrap(generate_kwargs=DRAWN, seed=0)
    assert "sampling" not in policy.out_keys
    assert "sampling" not in policy(text_td("Hi"))


@pytest.mark.parametrize("padded", [True, False])
def test_what_is_told(wrap: Make, scripted_model: Make, padded: bool) -> None:
    policy = wrap(generate_kwargs={**DRAWN, **EVERYTHING}, seed=0, pad_output=padded)
    assert policy.out_keys[-1] == "sampling"
    td = policy(text_td("Hi", "Hello", "x"))
    assert isinstance(td["sampling"], Sampling)
    model, own = scripted_model(), {}
    for name in Sampling._fields:
        if name not in ("score", "padded"):
            own[name] = td.get(("sampling", name), as_list=not padded)
    for row in range(3):
        prompt = td.get(("tokens", "prompt"), as_list=True)[row]
        prompt = prompt[td.get(("masks", "all_attention_mask"), as_list=True)[row][: len(prompt)]]
        mask = td.get(("masks", "all_assistant_mask"), as_list=True)[row]
        tokens = td.get(("tokens", "full"), as_list=True)[row][mask]
        ids = prompt.tolist()
        offsets, kept = own["kept_offsets"][row], own["kept_ids"][row]
        assert offsets.dtype == np.int64
        assert kept.dtype == np.int32
        for t, token in enumerate(tokens.tolist()):
            raw = model.logits(ids).astype(np.float64)
            warm = softmax(raw / 0.7)
            order = np.argsort(-warm, kind="stable")
            count = int((np.cumsum(warm[order]) < 0.8).sum()) + 1
            assert set(kept[offsets[t] : offsets[t + 1]].tolist()) == set(order[:count].tolist())
            mass = np.log(warm[order[:count]].sum())
            np.testing.assert_allclose(own["kept_log_mass"][row][t], mass, atol=1e-5)
            np.testing.assert_allclose(
                own["sampled_log_probs"][row][t], np.log(warm[token]) - mass, atol=1e-5
            )
            cold = softmax(raw)
            np.testing.assert_allclose(own["entropy"][row][t], -(cold * np.log(cold)).sum(), atol=1e-5)
            best = np.argsort(-raw, kind="stable")[:3]
            np.testing.assert_array_equal(own["top_ids"][row][t], best)
            np.testing.assert_allclose(own["top_log_probs"][row][t], np.log(cold[best]), atol=1e-5)
            ids.append(token)
        if padded:
            assert (offsets[len(tokens) :] == offsets[len(tokens)]).all()
            assert (kept[offsets[-1] :] == -1).all()
            assert not own["sampled_log_probs"][row][len(tokens) :].any()
            assert (own["top_ids"][row][len(tokens) :] == -1).all()
        else:
            assert len(own["entropy"][row]) == len(tokens)


def test_a_call_may_ask_for_more(wrap: Make) -> None:
    policy = wrap(seed=1, generate_kwargs=DRAWN)
    td = text_td("Hi", "Hello")
    policy(td, logprobs=2, seed=5)
    assert td.get(("sampling", "top_ids"), as_list=True)[0].shape[1] == 2
    assert td.get(("sampling", "entropy"), None) is None
    policy(td, seed=5)
    assert "sampling" not in td  # it was of other tokens
    other = wrap(sampling_key="drawn")(text_td("Hi"), entropy=True)
    assert other["drawn", "entropy"].shape == (1, 3)


def test_own_entries_stay(wrap: Make) -> None:
    td = text_td("Hi").set("sampling", np.ones(1))
    assert wrap()(td)["sampling"].tolist() == [1.0]


def test_empty_batches(wrap: Make) -> None:
    for padded in (True, False):
        policy = wrap(generate_kwargs=EVERYTHING, pad_output=padded)
        assert policy(text_td())["sampling"].batch_size == (0,)
        search = wrap(generate_kwargs={"num_beams": 2}, pad_output=padded)
        assert search(text_td())["sampling", "score"].shape == (0,)


def test_several_samples_and_batch_dims(wrap: Make) -> None:
    policy = wrap(generate_kwargs={**DRAWN, **EVERYTHING}, num_samples=3, seed=0)
    texts = Text(prompt=[["Hi", "Hello"], ["a", "b"]], batch_size=[2, 2])
    td = policy(TensorDict({"text": texts}, batch_size=[2, 2]))
    assert td["sampling"].batch_size == (2, 2, 3)
    tokens = td.get(("tokens", "response"), as_list=True)
    masses = td.get(("sampling", "kept_log_mass"), as_list=True)
    assert all(len(tokens[i][j][k]) == len(masses[i][j][k]) for i, j, k in np.ndindex(2, 2, 3))


# -- options of rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("batching", [False, True])
def test_row_options(wrap: Make, batching: bool) -> None:
    rows = [{}, {"max_new_tokens": 2}, {"temperature": 1.5, "top_k": 9}, {"logit_bias": {66: 50.0}}]
    policy = wrap(batching=batching, batching_timeout=0.01)
    td = policy(text_td("Hello", "Hello", "Hello", "Hello"), row_options=rows, seed=3)
    texts = td["text", "response"]
    assert texts[0] == "abcd"
    assert texts[1] == "ab"
    assert texts[3] == "cccc"
    alone = policy(text_td("Hello", "Hello", "Hello"), seed=3, temperature=1.5, top_k=9)
    assert texts[2] == alone["text", "response"][2]  # its seed is that of its place


def test_row_options_that_are_refused(wrap: Make) -> None:
    policy, td = wrap(), text_td("Hi", "Hello")
    with pytest.raises(ValueError, match=r"row_options must be one per row, got 1 for 2 rows"):
        policy(td, row_options=[{}])
    with pytest.raises(ValueError, match="logit_bias must hold ids below 260"):
        policy(td, row_options=[{}, {"logit_bias": {999: 1.0}}])
    assert set(td.keys()) == {"text"}


# -- beams ---------------------------------------------------------------------------------------


def test_beams(wrap: Make) -> None:
    for padded in (True, False):
        policy = wrap(generate_kwargs={"num_beams": 4, "n": 2}, pad_output=padded)
        assert policy.num_samples == 2, padded
        assert policy.out_keys[-1] == "sampling", padded
        td = policy(text_td("Hi", "Hello"))
        scores = td["sampling", "score"]
        assert scores.shape == (2, 2), padded
        assert scores.dtype == np.float32, padded
        assert (scores[:, 0] >= scores[:, 1]).all(), padded
        assert td["text", "response"][0][0] == "ab<eos>", padded
        tokens = td.get(("log_probs", "response"), as_list=True)
        np.testing.assert_allclose(scores[0, 0], tokens[0][0][:3].sum() / 3, rtol=1e-5)


def test_beams_of_some_rows(wrap: Make) -> None:
    td = wrap()(text_td("Hi", "Hello"), row_options=[{"num_beams": 3}, {}])
    assert np.isnan(td["sampling", "score"]).tolist() == [False, True]


# -- grammars and functions ----------------------------------------------------------------------


def test_grammars(wrap: Make) -> None:
    pytest.importorskip("llguidance", reason="needs the grammar extra")
    policy = wrap(generate_kwargs={"grammar": {"regex": "(yes|no)!"}, "max_new_tokens": 9})
    td = policy(text_td("Hi", "Hello", "x"))
    assert set(td["text", "response"]) <= {"yes!<eos>", "no!<eos>"}
    td = policy(text_td("Hi", "x"), row_options=[{"grammar": {"regex": "[0-9]{3}"}}, {}])
    assert td["text", "response"][0][:3].isdecimal()
    assert td["text", "response"][1] in ("yes!<eos>", "no!<eos>")
    with pytest.raises(ValueError, match="grammar: "):
        wrap(generate_kwargs={"grammar": {"regex": "("}})
    again = copy.deepcopy(policy)
    assert again(text_td("Hi"))["text", "response"] == policy(text_td("Hi"))["text", "response"]


def test_grammars_need_a_tokenizer(scripted_model: Make) -> None:
    options = {"grammar": {"regex": "a"}, "eos_token_id": 256}
    with pytest.raises(ValueError, match="grammar needs a tokenizer"):
        OnnxWrapper(scripted_model(), input_mode="tokens", generate_kwargs=options)


def _banned(ids: Any, scores: Any) -> None:
    scores[64] = -np.inf


def test_functions(wrap: Make) -> None:
    policy = wrap(generate_kwargs={"logits_processor": _banned})
    assert "a" not in policy(text_td("Hi"))["text", "response"][0]
    assert pickle.loads(pickle.dumps(policy.generation)) == policy.generation
