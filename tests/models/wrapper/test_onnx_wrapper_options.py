"""OnnxWrapper: options of a call and of the constructor, and likelihoods of given continuations."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.prompts import HELLO, HI, MODES, Make, prompts, rows, text_td, token_td
from helpers.models.real_models import open_model
from helpers.models.sentencepiece import sentencepiece

from lite import LazyStackedTensorDict, TensorDict
from lite.models import ChatHistory, History, OnnxWrapper, Tokens


def test_call_options(wrap: Make) -> None:
    wrapper = wrap("text")
    for td in (text_td("Hello"), text_td("Hello")[0], text_td("Hello").unsqueeze(0)):
        out = wrapper(td, max_new_tokens=2)
        assert np.asarray(out["tokens", "response"]).shape[-1] == 2
    assert np.asarray(wrapper(text_td("Hello"))["tokens", "response"]).shape[-1] == 4
    raises(ValueError, "Temperature must be non-negative", lambda: wrapper(text_td("Hello"), temperature=-1))
    raises(ValueError, "num_samples differs", lambda: wrapper(text_td("Hello"), n=3))


def test_seeds(wrap: Make) -> None:
    def draw(wrapper: Any, **kwargs: Any) -> list[Any]:
        return rows(wrapper(text_td("Hi", "Hello"), **kwargs), "tokens", "response")

    hot = {"temperature": 5.0}
    wrapper = wrap("text", generate_kwargs=hot, seed=1)
    first, second = draw(wrapper), draw(wrapper)
    assert first != second
    assert draw(wrap("text", generate_kwargs=hot, seed=1)) == first
    fixed = wrap("text", generate_kwargs={**hot, "seed": 7})
    assert draw(fixed) == draw(fixed) == draw(wrapper, seed=7)
    assert draw(wrapper, generator=np.random.default_rng(7)) == draw(fixed)


def test_wrong_arguments_are_named(wrap: Make, scripted_model: Make) -> None:
    for seed in (-1, "x", 1.5):
        with pytest.raises(ValueError, match=f"seed must be an integer of at least 0 or .*, got {seed!r}"):
            wrap("text", seed=seed)
        with pytest.raises(ValueError, match=f"seed must be an integer of at least 0 or .*, got {seed!r}"):
            wrap("text")(text_td("Hi"), do_sample=True, seed=seed)
    for name in ("generate_kwargs", "tokenizer_kwargs", "chat_template_kwargs", "score_kwargs", "adapters"):
        with pytest.raises(TypeError, match=f"{name} must be a mapping, got 5"):
            OnnxWrapper(scripted_model(), input_mode="tokens", **{name: 5})
    for name in ("input_key", "attention_mask_key", "tokens_key", "sampling_key"):
        raises(RuntimeError, f"{name}: key must be a NestedKey .*, got 5", wrap, "text", **{name: 5})
    for name in ("generate", "pad_output"):
        raises(ValueError, f"{name} must be a bool, got 'no'", wrap, "text", **{name: "no"})
    for name in ("chat_template", "chat_template_name"):
        raises(TypeError, f"{name} must be a str or None, got 5", wrap, "history", **{name: 5})
    with pytest.raises(TypeError, match="tensordict_out must be a TensorDict, got 5"):
        wrap("text")(text_td("Hi"), tensordict_out=5)
    with pytest.raises(FileNotFoundError, match="assistant_model: model: there is no file or directory"):
        wrap("text", assistant_model="nowhere")
    raises(ValueError, "prompt 1: ids must hold at least one token", lambda: wrap("text")(text_td("Hi", "")))
    with pytest.raises(ValueError, match="prompt 0: ids must hold at least one token"):
        wrap("tokens")(
            TensorDict(tokens=Tokens(prompt=np.zeros((2, 0), int), batch_size=[2]), batch_size=[2])
        )


def test_stop_sequences_and_special_tokens(wrap: Make) -> None:
    out = wrap("text", generate_kwargs={"stop_sequences": ["bc"]})(text_td("Hi", "Hello"))
    assert list(out["text", "response"]) == ["ab<eos>", "abc"]
    out = wrap("text", generate_kwargs={"skip_special_tokens": True})(text_td("Hi"))
    assert list(out["text", "response"]) == ["ab"]


def test_logits_only(wrap: Make, scripted_model: Make) -> None:
    for padded in (True, False):
        model = scripted_model()
        wrapper = wrap("tokens", generate=False, pad_output=padded, inplace=False)
        out = wrapper(token_td(HI, HELLO, field="full"), logits_only=True)
        assert "log_probs" not in out, padded
        got = out.get("logits", as_list=True)
        expected = np.stack([np.zeros(260), *(model.logits(HELLO[:i]) for i in range(1, 5))])
        np.testing.assert_allclose(got[1], expected, atol=1e-6, err_msg=str(padded))
        assert got[0].shape == ((5, 260) if padded else (2, 260)), padded
        np.testing.assert_allclose(got[0][-1], model.logits(HI[:1]), atol=1e-6, err_msg=str(padded))
        if not padded:
            assert isinstance(out, LazyStackedTensorDict), padded
            with pytest.raises(ValueError, match="logits_only"):
                wrap("tokens", generate=False)(token_td(HI, HELLO, field="full"), logits_only=True)
        same = wrapper(token_td(HI, HI, field="full"), logits_only=True)
        assert same["logits"].shape == (2, 2, 260), padded


def test_empty_texts(wrap: Make) -> None:
    score = wrap("text", generate=False)
    assert rows(score(text_td("", "Hi", field="full")), "log_probs", "full")[0] == []
    raises(ValueError, "Input contains empty sequences", lambda: score(text_td("", "", field="full")))
    raises(ValueError, "at least one token", lambda: wrap("text")(text_td("Hi", "")))


@pytest.mark.parametrize(("mode", "padded"), list(zip(MODES, (True, False, False), strict=True)))
def test_pad_model_input_changes_no_score(wrap: Make, scripted_model: Make, mode: str, padded: bool) -> None:
    texts = ["Hi", "Hello", "Hello", "x", "Hi"]
    if mode == "history":
        chats = [[{"role": "user", "content": t}, {"role": "assistant", "content": t[::-1]}] for t in texts]
        history = ChatHistory(full=History.from_chats(chats), batch_size=[5])
        td = TensorDict({"history": history}, batch_size=[5])
    else:
        td = (
            text_td(*texts, field="full")
            if mode == "text"
            else token_td(HI, HELLO, HELLO, [87], HI, field="full")
        )
    runs: list[set[int]] = []
    outs = []
    for pad_model_input in (False, True, None):
        model = scripted_model()
        extend = model.extend
        runs.clear()
        model.extend = lambda rows, ids, extend=extend: (
            runs.append({len(row) for row in ids}) or extend(rows, ids)
        )
        wrapper = wrap(
            mode, model=model, generate=False, inplace=False, pad_output=padded,
            pad_model_input=pad_model_input,
        )  # fmt: skip
        outs.append(wrapper(td).get(("log_probs", "full"), as_list=True))
        if pad_model_input is False:
            assert runs
            assert all(len(lengths) == 1 for lengths in runs)
        else:
            assert any(len(lengths) > 1 for lengths in runs)
    for i in range(5):
        np.testing.assert_array_equal(outs[0][i], outs[1][i])
        np.testing.assert_array_equal(outs[0][i], outs[2][i])
    assert np.count_nonzero(np.asarray(outs[0][1])) > 0


def test_the_first_log_prob_can_be_zero(wrap: Make) -> None:
    for mode, padded in list(zip(MODES, (True, False, True), strict=True)):
        expected = wrap(mode, pad_output=padded)(prompts(mode))
        got = wrap(mode, pad_output=padded, zero_first_log_prob=True)(prompts(mode))
        for row, value in zip(
            rows(got, "log_probs", "response"), rows(expected, "log_probs", "response"), strict=True
        ):
            assert value[0] < 0, mode
            assert row == [0, *value[1:]], mode
        td = text_td("Hi", field="full")
        scored = wrap("text", generate=False, inplace=False, zero_first_log_prob=True)(td)
        plain = wrap("text", generate=False, inplace=False)(td)
        assert rows(scored, "log_probs", "full") == rows(plain, "log_probs", "full"), mode


def expected(model: Any, prompt: list[int], choice: list[int]) -> list[float]:
    row = prompt + choice
    return [model.log_prob(row[:i], row[i]) for i in range(len(prompt), len(row))]


@pytest.mark.parametrize(("mode", "batching"), [("text", None), ("tokens", True)])
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


def test_a_choice_follows_without_the_space_of_a_beginning() -> None:
    tokenizer = sentencepiece()
    wrapper = OnnxWrapper(open_model("optimum-llama"), tokenizer=tokenizer, input_mode="text")
    ids = [tokenizer.convert_tokens_to_ids(pieces) for pieces in (["▁und"], ["no", "no"], ["<0x0A>"])]
    got, wanted = (wrapper.score_choices(prompts("text"), each) for each in ([" und", "nono", "\n"], ids))
    np.testing.assert_array_equal(got.log_probs, wanted.log_probs)


def test_relative_scores(wrap: Make) -> None:
    cases: list[Any] = [None, True]
    for batching in cases:
        wrapper, choices = wrap("text", batching=batching), ["a", "abc", "b"]
        whole = wrapper.score_choices(prompts("text"), choices)
        got = wrapper.score_choices(prompts("text"), choices, relative=True)
        np.testing.assert_allclose(got.probabilities, whole.probabilities, rtol=1e-5)
        differences = whole.log_probs - got.log_probs
        np.testing.assert_allclose(differences, np.broadcast_to(differences[:, :1], (2, 3)), rtol=1e-4)
        np.testing.assert_allclose(np.exp(got.log_probs[:, [0, 2]]).sum(1), 1, rtol=1e-5)


def test_each_row_may_have_choices_of_its_own(wrap: Make) -> None:
    for mode in MODES:
        wrapper = wrap(mode)
        got = wrapper.score_choices(prompts(mode), [["a"], ["b", "cd"]])
        assert got.log_probs.shape == (2, 2), mode
        assert got.log_probs[0, 1] == -np.inf, mode
        alone = wrapper.score_choices(prompts(mode)[1:], ["b", "cd"])
        np.testing.assert_allclose(got.log_probs[1], alone.log_probs[0], rtol=1e-6, err_msg=str(mode))


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


def test_errors(wrap: Make) -> None:
    cases: list[tuple[Any, str]] = [
        ([], "choices must be a list of at least one choice"),
        ("yes", "choices must be a list of at least one choice, got 'yes'"),
        ({"yes": 1}, "choices must be a list of at least one choice, got {'yes': 1}"),
        (5, "choices must be a list of at least one choice, got 5"),
        (["yes", ""], r"choices\[1\] of prompt 0 must be at least one token id"),
        ([["yes"]], "choices must be one list of texts or of ids, or 2 such lists"),
        ([["yes"], []], r"choices\[1\] must hold at least one choice"),
    ]
    others: list[Any] = [None, True]
    for choices, words in cases:
        for batching in others:
            with pytest.raises(ValueError, match=words):
                wrap("text", batching=batching).score_choices(text_td("Hi", "Hello"), choices)


def test_other_errors(wrap: Make, scripted_model: Make) -> None:
    with pytest.raises(ValueError, match="choices follow a prompt: use a wrapper with generate=True"):
        wrap("text", generate=False).score_choices(text_td("Hi", field="full"), ["a"])
    with pytest.raises(ValueError, match="choices must be ids without a tokenizer, got 'a'"):
        OnnxWrapper(scripted_model(), input_mode="tokens").score_choices(token_td(HI), ["a"])
    raises(TypeError, "Expected a TensorDict", lambda: wrap("tokens").score_choices([HI], ["a"]))
    raises(ValueError, "at least one token", lambda: wrap("text").score_choices(text_td(""), ["a"]))
