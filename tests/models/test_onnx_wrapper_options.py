"""OnnxWrapper: masks, options of a call, and errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from prompts import HELLO, HI, MODES, Make, P, chat_td, rows, text_td, token_td

from lite import LazyStackedTensorDict, TensorDict, lazy_stack
from lite.models import OnnxWrapper, Tokens

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")

# -- masks -------------------------------------------------------------------------------------


def test_masks_in_tokens_mode(wrap: Make, scripted_model: Make) -> None:
    model = scripted_model()
    ids = np.array([[39, 1, 72]])
    td = TensorDict(
        {"tokens": Tokens(prompt=ids, batch_size=[1]), "attention_mask": np.array([[1, 0, 1]])},
        batch_size=[1],
    )
    out = wrap("tokens", model=model, pad_output=True)(td)
    assert model.prefilled == [HI]
    np.testing.assert_array_equal(out["masks", "all_attention_mask"], np.array([[1, 0, 1, 1, 1, 1]], bool))
    np.testing.assert_array_equal(out["tokens", "full"], [[39, 1, 72, 64, 65, 256]])
    scored = wrap("tokens", generate=False, pad_output=True, inplace=False)(out)
    lp = scored["log_probs", "full"][0]
    assert (lp[0], lp[1]) == (0, 0)
    assert lp[2] == pytest.approx(model.log_prob([39], 72), abs=1e-5)


def test_a_stale_mask_is_not_the_prompts(wrap: Make) -> None:
    td = token_td(HI, HELLO)
    wrapper = wrap("tokens")
    first = rows(wrapper(td), "tokens", "response")
    assert rows(wrapper(td), "tokens", "response") == first


def test_prefer_tokens(wrap: Make, scripted_model: Make) -> None:
    for tokens in (
        lazy_stack([Tokens(prompt=np.array(HI)), Tokens(prompt=np.array(HELLO))]),
        Tokens(prompt=np.array([[P, P, P, *HI], HELLO]), batch_size=[2]),
    ):
        model = scripted_model()
        td = chat_td("Hi", "Hello").set("tokens", tokens)
        out = wrap("history", model=model, prefer_tokens=True)(td)
        assert model.prefilled == [HI, HELLO]
        assert list(out["text", "full"]) == ["Hiab<eos>", "Helloabcd"]
        assert out["history"].full.batch_size == (2, 2)
    model = scripted_model()
    wrap("history", model=model, prefer_tokens=True)(chat_td("Hi"))
    assert model.prefilled[0] != HI


# -- options -----------------------------------------------------------------------------------


def test_call_options(wrap: Make) -> None:
    wrapper = wrap("text")
    for td in (text_td("Hello"), text_td("Hello")[0], text_td("Hello").unsqueeze(0)):
        out = wrapper(td, max_new_tokens=2)
        assert np.asarray(out["tokens", "response"]).shape[-1] == 2
    assert np.asarray(wrapper(text_td("Hello"))["tokens", "response"]).shape[-1] == 4
    with pytest.raises(ValueError, match="Temperature must be non-negative"):
        wrapper(text_td("Hello"), temperature=-1)
    with pytest.raises(ValueError, match="num_samples differs"):
        wrapper(text_td("Hello"), n=3)


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


def test_stop_sequences_and_special_tokens(wrap: Make) -> None:
    out = wrap("text", generate_kwargs={"stop_sequences": ["bc"]})(text_td("Hi", "Hello"))
    assert list(out["text", "response"]) == ["ab<eos>", "abc"]
    out = wrap("text", generate_kwargs={"skip_special_tokens": True})(text_td("Hi"))
    assert list(out["text", "response"]) == ["ab"]


def test_tokenizer_options(wrap: Make) -> None:
    options = {"truncation": True, "max_length": 2, "padding": "max_length"}
    out = wrap("text", tokenizer_kwargs={**options, "max_length": 3}, pad_output=True)(text_td("Hi"))
    np.testing.assert_array_equal(out["tokens", "prompt"], [[P, *HI]])
    out = wrap("text", tokenizer_kwargs=options, pad_output=True)(text_td("Hixyz"))
    np.testing.assert_array_equal(out["tokens", "prompt"], [HI])


@pytest.mark.parametrize("padded", [True, False])
def test_logits_only(wrap: Make, scripted_model: Make, padded: bool) -> None:
    model = scripted_model()
    wrapper = wrap("tokens", generate=False, pad_output=padded, inplace=False)
    out = wrapper(token_td(HI, HELLO, field="full"), logits_only=True)
    assert "log_probs" not in out
    got = out.get("logits", as_list=True)
    expected = np.stack([np.zeros(260), *(model.logits(HELLO[:i]) for i in range(1, 5))])
    np.testing.assert_allclose(got[1], expected, atol=1e-6)
    assert got[0].shape == ((5, 260) if padded else (2, 260))
    np.testing.assert_allclose(got[0][-1], model.logits(HI[:1]), atol=1e-6)
    if not padded:
        assert isinstance(out, LazyStackedTensorDict)
        with pytest.raises(ValueError, match="logits_only"):
            wrap("tokens", generate=False)(token_td(HI, HELLO, field="full"), logits_only=True)
    same = wrapper(token_td(HI, HI, field="full"), logits_only=True)
    assert same["logits"].shape == (2, 2, 260)


def test_empty_texts(wrap: Make) -> None:
    score = wrap("text", generate=False)
    assert rows(score(text_td("", "Hi", field="full")), "log_probs", "full")[0] == []
    with pytest.raises(ValueError, match="Input contains empty sequences"):
        score(text_td("", "", field="full"))
    with pytest.raises(ValueError, match="at least one token"):
        wrap("text")(text_td("Hi", ""))


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"input_mode": "words"}, "input_mode must be one of"),
        ({"pad_output": 1}, "pad_output must be a bool, got 1"),
        ({"pad_model_input": True}, "pad_model_input"),
        ({"inplace": "yes"}, "inplace must be True, False, 'empty' or None, got 'yes'"),
        (
            {"generate": False, "return_log_probs": False},
            "return_log_probs must be True when generate=False.",
        ),
        ({"generate": False, "num_samples": 2}, "num_samples can only be given with generate=True"),
        ({"num_samples": 0}, "num_samples must be an integer of at least 1, got 0"),
        ({"num_samples": 2, "inplace": True}, r"inplace must be False \(or None\)"),
        ({"num_samples": 2, "inplace": "empty"}, r"inplace must be False \(or None\)"),
        ({"num_samples": 2, "generate_kwargs": {"n": 3}}, r"num_samples differs from generate_kwargs\['n'\]"),
        ({"generate_kwargs": {"num_beams": 2}}, "num_beams must be 1"),
        ({"generate_kwargs": {"top_p": 2}}, "top_p must be between 0 and 1"),
        ({"device": "cuda"}, "device='cuda' differs from the model's"),
    ],
)
def test_constructor_errors(wrap: Make, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrap(**options)


@pytest.mark.parametrize(
    "given", [{"return_tensors": "pt"}, {"return_attention_mask": False}, {"padding_side": "right"}]
)
def test_tokenizer_kwargs_that_are_decided(wrap: Make, given: dict[str, Any]) -> None:
    with pytest.raises(RuntimeError, match=f"tokenizer_kwargs: {next(iter(given))} must be"):
        wrap("text", tokenizer_kwargs=given)


def test_unknown_generation_options_warn(wrap: Make) -> None:
    with pytest.warns(UserWarning, match="min_new_tokens"):
        wrap(generate_kwargs={"min_new_tokens": 3})


def test_needs_a_tokenizer(scripted_model: Make, byte_tokenizer: Make) -> None:
    with pytest.raises(ValueError, match="input_mode='text' needs a tokenizer"):
        OnnxWrapper(scripted_model(), input_mode="text")
    model = scripted_model()
    model.get_tokenizer = byte_tokenizer
    assert OnnxWrapper(model, input_mode="text").tokenizer.pad_token_id == P
    bare = OnnxWrapper(scripted_model(), input_mode="tokens", generate_kwargs={"max_new_tokens": 1})
    assert rows(bare(token_td(HI)), "tokens", "response") == [[64]]
    with pytest.raises(ValueError, match="stop_sequences need a tokenizer"):
        OnnxWrapper(scripted_model(), input_mode="tokens", generate_kwargs={"stop_sequences": ["a"]})


def test_input_errors_change_nothing(wrap: Make) -> None:
    td = TensorDict({"other": np.ones(2)}, batch_size=[2])
    for mode in MODES:
        with pytest.raises(
            ValueError, match=f"Expected .*{mode}.* key for {mode} input mode, but found keys"
        ):
            wrap(mode)(td)
    assert set(td.keys()) == {"other"}
    with pytest.raises(TypeError, match="Expected History object"):
        wrap("history", input_key="other")(td)
    with pytest.raises(ValueError, match="Expected list of text"):
        wrap("text", input_key="other")(td)
    with pytest.raises(ValueError, match="Expected token ids with 2 dimensions"):
        wrap("tokens", input_key="other")(td)
    long = text_td("x" * 257)
    with pytest.raises(ValueError, match="context"):
        wrap("text")(long)
    assert set(long["text"].keys()) == {"prompt"}
    with pytest.raises(RuntimeError, match="locked"):
        wrap("text")(text_td("Hi").lock_())
    with pytest.raises(TypeError, match="no options of generation"):
        wrap("text", generate=False)(text_td("Hi", field="full"), max_new_tokens=2)
    with pytest.raises(ValueError, match="logits_only can only"):
        wrap("text")(text_td("Hi"), logits_only=True)
