"""What a wrapper writes: shapes of results, where they go, and the names of their entries."""

from typing import Any

import numpy as np
import pytest
from helpers.models.prompts import HELLO, HI, MODES, Make, chat_td, prompts, rows, text_td, token_td

from lite import TensorDict, lazy_stack
from lite.data import Composite
from lite.models import ChatHistory, LogProbs, Masks, Text, Tokens

# -- shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mode", "padded"), list(zip(MODES, (True, False, True), strict=True)))
def test_num_samples(wrap: Make, mode: str, padded: bool) -> None:
    make = {"num_samples": 3, "pad_output": padded, "generate_kwargs": {"temperature": 3.0}}
    td = prompts(mode)
    out = wrap(mode, **make, seed=0)(td)
    assert out is not td
    assert out.batch_size == (2, 3)
    responses = [np.asarray(r).tolist() for row in out.get(("tokens", "response"), as_list=True) for r in row]
    assert len(responses) == 6
    assert len({tuple(r) for r in responses}) > 3
    again = wrap(mode, **make, seed=0)(td)
    one = out[1, 2]
    np.testing.assert_array_equal(one["tokens", "response"], again[1, 2]["tokens", "response"])
    np.testing.assert_array_equal(one["tokens", "prompt"][-1:], out[1, 0]["tokens", "prompt"][-1:])
    single = wrap(mode, **make, seed=0)(td[0])
    assert single.batch_size == (3,)
    alone = wrap(mode, pad_output=padded, inplace=False)(td)
    for i, j in np.ndindex(2, 3):
        tokens = out[i, j]["tokens"]
        np.testing.assert_array_equal(tokens.prompt, alone[i]["tokens", "prompt"])
        np.testing.assert_array_equal(tokens.full, np.concatenate([tokens.prompt, tokens.response]))
    if mode == "history":
        assert one["history"].full.batch_size == (2,)
        assert one["history"].prompt[0].content == "Hello"
    elif mode == "text":
        assert one["text", "full"] == "Hello" + one["text", "response"]


def test_one_sample_still_gets_a_dimension(wrap: Make) -> None:
    assert wrap("text", num_samples=1)(text_td("Hi", "Hello")).batch_size == (2, 1)
    assert wrap("text", generate_kwargs={"n": 2})(text_td("Hi")).batch_size == (1, 2)
    assert wrap("text", num_samples=2, generate_kwargs={"n": 1})(text_td("Hi")).batch_size == (1, 2)


def test_any_number_of_dimensions(wrap: Make) -> None:
    for mode, padded, samples in list(zip(MODES, (True, False, False), (None, 2, None), strict=True)):
        wrapper = wrap(
            mode, pad_output=padded, num_samples=samples, inplace=False, generate_kwargs={"seed": 0}
        )
        flat = wrapper(prompts(mode))
        square = prompts(mode).unsqueeze(0)
        out = wrapper(square)
        assert out.batch_size == (1, *flat.batch_size), mode
        for i in range(2):
            index = (i, 0) if samples else (i,)
            np.testing.assert_array_equal(out[(0, *index)]["tokens", "full"], flat[index]["tokens", "full"])


def test_empty_batches(wrap: Make) -> None:
    for mode in MODES:
        for padded, generate in ((True, False), (False, True)):
            td = prompts(mode)[:0] if generate else wrap(mode)(prompts(mode))[:0]
            out = wrap(mode, pad_output=padded, generate=generate, inplace=False)(td)
            assert out.batch_size == (0,), padded
            assert out["tokens"].batch_size == (0,), padded
            assert out["tokens", "full"].shape == (0, 0), padded


def test_lazy_stacks_as_input(wrap: Make) -> None:
    parts = [TensorDict({"tokens": Tokens(prompt=np.array(row))}) for row in (HI, HELLO)]
    td = lazy_stack(parts)
    out = wrap("tokens")(td)
    assert out is td
    assert rows(out, "tokens", "response") == [[64, 65, 256], [64, 65, 66, 67]]
    np.testing.assert_array_equal(parts[0]["tokens", "response"], [64, 65, 256])
    chats = chat_td("Hi", "Hello")
    out = wrap("history")(lazy_stack([chats[0], chats[1]]))
    assert out["history"].full.batch_size == (2, 2)
    square = lazy_stack(
        [lazy_stack([TensorDict({"tokens": Tokens(prompt=np.array(row))}) for row in (HI, HELLO)])]
    )
    assert [len(row) for row in wrap("tokens")(square).get(("tokens", "full"), as_list=True)[0]] == [5, 9]
    text = lazy_stack([TensorDict({"text": Text(prompt=t)}) for t in ("Hi", "Hello")])
    assert list(wrap("text")(text)["text", "response"]) == ["ab<eos>", "abcd"]


# -- where results go --------------------------------------------------------------------------


def test_inplace(wrap: Make) -> None:
    td = text_td("Hi").set("other", np.ones(1))
    assert wrap("text")(td) is td
    assert {"other", "text", "tokens", "masks", "log_probs"} == set(td.keys())
    assert td["text"].response is not None
    td = token_td([*HI, 64], field="full")
    td["tokens"] = lazy_stack([Tokens(prompt=np.array(HI), full=np.array([*HI, 64]))])
    wrap("tokens", generate=False)(td)
    assert td["tokens"].prompt is None  # out_keys are replaced, not merged


def test_new_results(wrap: Make) -> None:
    cases: list[Any] = [False, "empty"]
    for inplace in cases:
        td = text_td("Hi").set("other", np.ones(1))
        out = wrap("text", inplace=inplace)(td)
        assert out is not td, inplace
        assert set(out.keys()) == {"text", "tokens", "masks", "log_probs"}, inplace
        assert set(td.keys()) == {"text", "other"}, inplace
        assert td["text"].response is None, inplace


def test_tensordict_out(wrap: Make) -> None:
    td, out = text_td("Hi"), TensorDict({"kept": np.ones(1)}, batch_size=[1])
    assert wrap("text")(td, tensordict_out=out) is out
    assert set(out.keys()) == {"kept", "text", "tokens", "masks", "log_probs"}
    assert set(td.keys()) == {"text"}
    with pytest.raises(ValueError, match=r"tensordict_out must have batch size \(1,\), got \(2,\)"):
        wrap("text")(td, tensordict_out=TensorDict(batch_size=[2]))


def test_keys(wrap: Make) -> None:
    for mode, first in (("history", ["text"]), ("text", ["text"]), ("tokens", [])):
        wrapper = wrap(mode)
        assert wrapper.in_keys == [(mode, "prompt")]
        last = ["history"] if mode == "history" else []
        assert wrapper.out_keys == [*first, "masks", "tokens", "log_probs", *last]
        assert wrap(mode, generate=False).in_keys == [(mode, "full")]
    custom = wrap("text", input_key=("a", "b"), tokens_key="t", masks_key=("m", "m"), return_log_probs=False)
    assert custom.in_keys == [("a", "b")]
    td = TensorDict({"a": {"b": ["Hi"]}}, batch_size=[1])
    out = custom(td)
    assert {"a", "t", "m", "text"} == set(out.keys())
    assert out["a", "b"] == ["Hi"]
    assert isinstance(out["m", "m"], Masks)
    scored = wrap("tokens", generate=False, tokens_key="t", masks_key=("m", "m"), input_key=("t", "full"))(
        out
    )
    assert isinstance(scored["log_probs"], LogProbs)
    assert rows(scored, "m", "m", "all_assistant_mask") == [[False, False, True, True, True]]


def test_arguments_are_attributes(wrap: Make) -> None:
    wrapper = wrap("text", pad_output=True, num_samples=2, tokens_key="t")
    assert (wrapper.input_mode, wrapper.generate, wrapper.pad_output) == ("text", True, True)
    assert (wrapper.num_samples, wrapper.tokens_key, wrapper.inplace) == (2, "t", False)
    assert wrapper.input_key == ("text", "prompt")
    with pytest.raises(AttributeError, match="nothing"):
        wrapper.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("mode", "padded", "samples"), list(zip(MODES, (True, False, False), (None, 3, None), strict=True))
)
def test_responses_are_in_the_specs(wrap: Make, mode: str, padded: bool, samples: int | None) -> None:
    out = wrap(mode, return_log_probs=True, pad_output=padded, num_samples=samples)(prompts(mode))
    shape = (2,) if samples is None else (2, 3)
    spec = Composite(
        tokens=Tokens.default_spec(shape),
        masks=Masks.default_spec(shape),
        log_probs=LogProbs.default_spec(shape, keys=["response"]),
    )
    if mode != "tokens":
        spec["text"] = Text.default_spec(shape)
    if mode == "history":
        spec["history"] = ChatHistory.default_spec(shape)
    for name in spec:
        assert spec[name].is_in(out[name]), name
    assert spec.is_in(out)
    assert not spec.is_in(out[:1])
    assert not spec.is_in(out.exclude("tokens"))
    for wrong in [(7, *shape[1:]), (*shape[:-1], 7)]:
        assert not Tokens.default_spec(wrong).is_in(out["tokens"])
    assert Tokens.default_spec(()).is_in(out[(0,) * len(shape)]["tokens"])
