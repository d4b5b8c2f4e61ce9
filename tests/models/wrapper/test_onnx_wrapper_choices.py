"""OnnxWrapper: likelihoods of given continuations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.models.prompts import HELLO, HI, MODES, Make, prompts, text_td, token_td

from lite.models import OnnxWrapper, embedded_model_path

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")


def expected(model: Any, prompt: list[int], choice: list[int]) -> list[float]:
    row = prompt + choice
    return [model.log_prob(row[:i], row[i]) for i in range(len(prompt), len(row))]


@pytest.mark.parametrize("batching", [None, True])
@pytest.mark.parametrize("mode", ["text", "tokens"])
def test_choices_follow_the_prompt(wrap: Make, scripted_model: Make, mode: str, batching: Any) -> None:
    wrapper, model = wrap(mode, batching=batching), scripted_model()
    got = wrapper.score_choices(prompts(mode), ["a", "abc", [64, 256]])
    assert got.log_probs.shape == got.probabilities.shape == (2, 3)
    for i, prompt in enumerate((HI, HELLO)):
        for j, choice in enumerate(([64], [64, 65, 66], [64, 256])):
            want = expected(model, prompt, choice)
            np.testing.assert_allclose(got.token_log_probs[i][j], want, rtol=1e-5)
            np.testing.assert_allclose(got.log_probs[i, j], sum(want), rtol=1e-5)
    np.testing.assert_allclose(got.probabilities.sum(1), 1)


@pytest.mark.parametrize("batching", [None, True])
def test_relative_scores(wrap: Make, batching: Any) -> None:
    wrapper, choices = wrap("text", batching=batching), ["a", "abc", "b"]
    whole = wrapper.score_choices(prompts("text"), choices)
    got = wrapper.score_choices(prompts("text"), choices, relative=True)
    np.testing.assert_allclose(got.probabilities, whole.probabilities, rtol=1e-5)
    differences = whole.log_probs - got.log_probs
    np.testing.assert_allclose(differences, np.broadcast_to(differences[:, :1], (2, 3)), rtol=1e-4)
    np.testing.assert_allclose(np.exp(got.log_probs[:, [0, 2]]).sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_each_row_may_have_choices_of_its_own(wrap: Make, mode: str) -> None:
    wrapper = wrap(mode)
    got = wrapper.score_choices(prompts(mode), [["a"], ["b", "cd"]])
    assert got.log_probs.shape == (2, 2)
    assert got.log_probs[0, 1] == -np.inf
    alone = wrapper.score_choices(prompts(mode)[1:], ["b", "cd"])
    np.testing.assert_allclose(got.log_probs[1], alone.log_probs[0], rtol=1e-6)


def test_batches_of_any_shape(wrap: Make) -> None:
    wrapper = wrap("text")
    td = text_td("Hi", "Hello", "Hi", "Hello").reshape(2, 2)
    got = wrapper.score_choices(td, ["a", "bc"])
    assert got.log_probs.shape == (2, 2, 2)
    assert [part.shape for part in got.token_log_probs[1][0]] == [(1,), (2,)]
    np.testing.assert_array_equal(got.log_probs[0], got.log_probs[1])
    one = wrapper.score_choices(td[0, 0], ["a", "bc"])
    np.testing.assert_allclose(one.log_probs, got.log_probs[0, 0], rtol=1e-6)
    assert wrapper.score_choices(td[:0], ["a"]).log_probs.shape == (0, 2, 0)


def test_nothing_else_changes(wrap: Make) -> None:
    wrapper, td = wrap("text"), text_td("Hi", "Hello")
    keys = set(td.keys(True))
    wrapper.score_choices(td, ["a"])
    assert set(td.keys(True)) == keys


def test_the_answer_of_a_real_model() -> None:
    pytest.importorskip("onnxruntime")
    from lite import TensorDict
    from lite.models import ChatHistory, History

    policy = OnnxWrapper(embedded_model_path())
    chats = History.from_chats([[{"role": "user", "content": f"What is 12 + {n}?"}] for n in (30, 4)])
    td = TensorDict({"history": ChatHistory(prompt=chats, batch_size=[2])}, batch_size=[2])
    got = policy.score_choices(td, ["42<|im_end|>", "16<|im_end|>", "7<|im_end|>"])
    assert got.log_probs.argmax(1).tolist() == [0, 1]
    assert (got.probabilities.max(1) > 0.9).all()


@pytest.mark.parametrize(
    ("choices", "words"),
    [
        ([], "choices must be a list of at least one choice"),
        ("yes", "choices must be a list of at least one choice, got 'yes'"),
        ({"yes": 1}, "choices must be a list of at least one choice, got {'yes': 1}"),
        (5, "choices must be a list of at least one choice, got 5"),
        (["yes", ""], r"choices\[1\] of prompt 0 must be at least one token id"),
        ([["yes"]], "choices must be one list of texts or of ids, or 2 such lists"),
        ([["yes"], []], r"choices\[1\] must hold at least one choice"),
    ],
)
@pytest.mark.parametrize("batching", [None, True])
def test_errors(wrap: Make, choices: Any, words: str, batching: Any) -> None:
    with pytest.raises(ValueError, match=words):
        wrap("text", batching=batching).score_choices(text_td("Hi", "Hello"), choices)


def test_other_errors(wrap: Make, scripted_model: Make) -> None:
    with pytest.raises(ValueError, match="choices follow a prompt: use a wrapper with generate=True"):
        wrap("text", generate=False).score_choices(text_td("Hi", field="full"), ["a"])
    with pytest.raises(ValueError, match="choices must be ids without a tokenizer, got 'a'"):
        OnnxWrapper(scripted_model(), input_mode="tokens").score_choices(token_td(HI), ["a"])
    with pytest.raises(TypeError, match="Expected a TensorDict"):
        wrap("tokens").score_choices([HI], ["a"])
    with pytest.raises(ValueError, match="at least one token"):
        wrap("text").score_choices(text_td(""), ["a"])
