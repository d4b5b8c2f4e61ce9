"""What a wrapper writes of the tokens it draws, options of rows, beams and grammars."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import HELLO, HI, Make, prompts, text_td

from lite import TensorDict
from lite.models import OnnxWrapper, Sampling, Text, generate

EVERYTHING = {"sampled_log_probs": True, "kept_ids": True, "entropy": True, "logprobs": 3}
DRAWN = {"temperature": 0.7, "top_p": 0.8}


def test_nothing_is_told_unless_asked(wrap: Make) -> None:
    policy = wrap(generate_kwargs=DRAWN, seed=0)
    assert "sampling" not in policy.out_keys
    assert "sampling" not in policy(text_td("Hi"))
    assert policy(text_td("Hi").set("sampling", np.ones(1)))["sampling"].tolist() == [1.0]


@pytest.mark.parametrize("padded", [True, False])
def test_what_is_told(wrap: Make, scripted_model: Make, padded: bool) -> None:
    policy = wrap(generate_kwargs={**DRAWN, **EVERYTHING}, pad_output=padded)
    assert policy.out_keys[-1] == "sampling"
    seeds = np.arange(3, dtype=np.uint64)
    td = policy(text_td("Hi", "Hello", "x"), seeds=seeds)
    assert isinstance(td["sampling"], Sampling)
    expected = generate(scripted_model(), [HI, HELLO, [87]], policy.generation, seeds=seeds)
    for name in Sampling._fields:
        if name in ("score", "padded"):
            continue
        for got, response in zip(td.get(("sampling", name), as_list=not padded), expected, strict=True):
            want, rest = getattr(response.details, name), got[len(getattr(response.details, name)) :]
            assert got.dtype == (want.dtype if want.dtype.kind == "i" else np.float32)
            np.testing.assert_allclose(got[: len(want)], want, atol=1e-6)
            assert padded or not len(rest)
            filler = {"kept_offsets": want[-1], "kept_ids": -1, "top_ids": -1, "sampled_log_probs": 0}
            assert (rest == filler.get(name, rest)).all(), name


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


def test_empty_batches(wrap: Make) -> None:
    for padded in (True, False):
        policy = wrap(generate_kwargs=EVERYTHING, pad_output=padded)
        assert policy(text_td())["sampling"].batch_size == (0,)
        search = wrap(generate_kwargs={"num_beams": 2}, pad_output=padded)
        assert search(text_td())["sampling", "score"].shape == (0,)
    for mode in ("history", "text", "tokens"):
        some = prompts(mode)
        out, none = wrap(mode)(some), wrap(mode)(some[:0])
        assert set(none.keys(True)) == set(out.keys(True)), mode


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
    raises(ValueError, r"row_options must be one per row, got 1 for 2 rows", policy, td, row_options=[{}])
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
    policy = wrap(generate_kwargs={"grammar": {"regex": "(yes|no)!"}, "max_new_tokens": 9})
    td = policy(text_td("Hi", "Hello", "x"))
    assert set(td["text", "response"]) <= {"yes!<eos>", "no!<eos>"}
    td = policy(text_td("Hi", "x"), row_options=[{"grammar": {"regex": "[0-9]{3}"}}, {}])
    assert td["text", "response"][0][:3].isdecimal()
    assert td["text", "response"][1] in ("yes!<eos>", "no!<eos>")
    raises(ValueError, "grammar: ", wrap, generate_kwargs={"grammar": {"regex": "("}})
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
