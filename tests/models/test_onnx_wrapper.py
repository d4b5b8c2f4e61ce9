from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lite import LazyStackedTensorDict, TensorDict, lazy_stack
from lite.models import ChatHistory, History, LogProbs, Masks, OnnxWrapper, Text, Tokens

P = 259
HI, HELLO = [39, 72], [39, 68, 75, 75, 78]
MODES = ["history", "text", "tokens"]
Make = Callable[..., Any]

pytest.importorskip("tokenizers")
pytest.importorskip("jinja2")


def text_td(*texts: str, field: str = "prompt") -> TensorDict:
    return TensorDict(
        {"text": Text(**{field: list(texts)}, batch_size=[len(texts)])}, batch_size=[len(texts)]
    )


def token_td(*rows: list[int], field: str = "prompt") -> TensorDict:
    tokens = lazy_stack([Tokens(**{field: np.array(row)}) for row in rows])
    return TensorDict({"tokens": tokens}, batch_size=[len(rows)])


def chat_td(*texts: str) -> TensorDict:
    chats = [[{"role": "user", "content": text}] for text in texts]
    history = ChatHistory(prompt=History.from_chats(chats), batch_size=[len(texts)])
    return TensorDict({"history": history}, batch_size=[len(texts)])


def prompts(mode: str) -> TensorDict:
    return (
        {"history": chat_td, "text": text_td}[mode]("Hi", "Hello")
        if mode != "tokens"
        else token_td(HI, HELLO)
    )


def rows(td: Any, *key: str) -> list[list[Any]]:
    value = td.get(key, as_list=True)
    return [np.asarray(row).tolist() for row in value]


# -- the vectors of the specification ----------------------------------------------------------


@pytest.mark.parametrize("mode", ["text", "tokens"])
def test_padded_vectors(wrap: Make, mode: str) -> None:
    out = wrap(mode, pad_output=True)(prompts(mode))
    np.testing.assert_array_equal(out["tokens", "prompt"], [[P, P, P, 39, 72], HELLO])
    np.testing.assert_array_equal(out["tokens", "response"], [[64, 65, 256, P], [64, 65, 66, 67]])
    np.testing.assert_array_equal(
        out["tokens", "full"], [[P, P, P, 39, 72, 64, 65, 256, P], [*HELLO, 64, 65, 66, 67]]
    )
    mask = [[0, 0, 0, 1, 1, 1, 1, 1, 0], [1] * 9]
    np.testing.assert_array_equal(out["masks", "all_attention_mask"], np.array(mask, bool))
    said = [[0, 0, 0, 0, 0, 1, 1, 1, 0], [0] * 5 + [1] * 4]
    np.testing.assert_array_equal(out["masks", "all_assistant_mask"], np.array(said, bool))
    assert (out["tokens", "full"].dtype, out["log_probs", "response"].dtype) == (np.int64, np.float32)
    for key in ("tokens", "masks", "log_probs"):
        assert out.get(key).padded is True


@pytest.mark.parametrize("mode", ["text", "tokens"])
def test_unpadded_vectors(wrap: Make, mode: str) -> None:
    out = wrap(mode)(prompts(mode))
    assert rows(out, "tokens", "prompt") == [HI, HELLO]
    assert rows(out, "tokens", "response") == [[64, 65, 256], [64, 65, 66, 67]]
    assert rows(out, "tokens", "full") == [[*HI, 64, 65, 256], [*HELLO, 64, 65, 66, 67]]
    assert rows(out, "masks", "all_attention_mask") == [[True] * 5, [True] * 9]
    assert rows(out, "masks", "all_assistant_mask") == [[False] * 2 + [True] * 3, [False] * 5 + [True] * 4]
    assert [len(row) for row in rows(out, "log_probs", "response")] == [3, 4]
    for key in ("tokens", "masks", "log_probs"):
        assert out.get(key).padded is False
    with pytest.raises(RuntimeError):
        out["tokens"].response  # noqa: B018


@pytest.mark.parametrize("padded", [True, False])
def test_text_and_log_probs(wrap: Make, scripted_model: Make, padded: bool) -> None:
    out = wrap("text", pad_output=padded)(text_td("Hi", "Hello"))
    assert list(out["text", "prompt"]) == ["Hi", "Hello"]
    assert list(out["text", "response"]) == ["ab<eos>", "abcd"]
    assert list(out["text", "full"]) == ["Hiab<eos>", "Helloabcd"]
    model = scripted_model()
    for prompt, response, got in zip(
        [HI, HELLO], [[64, 65, 256], [64, 65, 66, 67]], rows(out, "log_probs", "response"), strict=True
    ):
        expected = [model.log_prob([*prompt, *response[:i]], token) for i, token in enumerate(response)]
        np.testing.assert_allclose(got[: len(expected)], expected, atol=1e-5)
        assert got[0] != 0
        assert got[len(expected) :] == [0.0] * (4 - len(expected)) * padded
    for name in ("prompt", "full"):
        assert getattr(out["log_probs"], name) is None


@pytest.mark.parametrize("mode", ["text", "tokens"])
def test_pad_that_is_also_end(wrap: Make, scripted_model: Make, byte_tokenizer: Make, mode: str) -> None:
    """The end token and end tokens inside prompts stay real."""
    tokenizer = byte_tokenizer(pad_token=None)
    model = scripted_model(
        {(72, 87): 64, (72, 64): 65, (72, 65): 256, (68, 78): 64, (68, 64): 65, (68, 65): 66, (68, 66): 67}
    )
    prompt = [39, 72, 256, 87]
    dense = Tokens(prompt=np.array([[256, *prompt], HELLO]), batch_size=[2])
    td = text_td("Hi<eos>x", "Hello") if mode == "text" else TensorDict({"tokens": dense}, batch_size=[2])
    options = {"model": model, "tokenizer": tokenizer, "inplace": False}
    out = wrap(mode, **options)(td)
    assert rows(out, "tokens", "response")[0] == [64, 65, 256]
    assert rows(out, "tokens", "full")[0] == [*prompt, 64, 65, 256]
    padded = wrap(mode, **options, pad_output=True)(td)
    np.testing.assert_array_equal(
        padded["masks", "all_attention_mask"][0], np.array([0, 1, 1, 1, 1, 1, 1, 1, 0], bool)
    )


@pytest.mark.parametrize("padded", [True, False])
def test_scoring_vectors(wrap: Make, scripted_model: Make, padded: bool) -> None:
    score = wrap("tokens", generate=False, pad_output=padded)
    dense = np.array([[P, P, P, *HI], HELLO])
    out = score(TensorDict({"tokens": Tokens(full=dense, batch_size=[2])}, batch_size=[2]))
    alone = score(TensorDict({"tokens": Tokens(full=np.array([HI]), batch_size=[1])}, batch_size=[1]))
    model = scripted_model()
    hi = [0.0, model.log_prob(HI[:1], 72)]
    hello = [0.0] + [model.log_prob(HELLO[:i], HELLO[i]) for i in range(1, 5)]
    got = rows(out, "log_probs", "full")
    np.testing.assert_allclose(got[0], [0.0] * 3 * padded + hi, atol=1e-5)
    np.testing.assert_allclose(got[1], hello, atol=1e-5)
    assert got[0][-2:] == rows(alone, "log_probs", "full")[0]
    assert out["log_probs"].response is None
    if padded:
        np.testing.assert_array_equal(out["tokens", "full"], dense)


# -- agreement ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
def test_scores_equal_the_log_probs_of_generation(wrap: Make, mode: str, padded: bool) -> None:
    out = wrap(mode, pad_output=padded)(prompts(mode))
    scored = wrap("tokens", generate=False, pad_output=padded, inplace=False)(out)
    said = rows(out, "masks", "all_assistant_mask")
    real = rows(out, "log_probs", "response")
    for row, mask, lp, mask_again in zip(
        rows(scored, "log_probs", "full"),
        said,
        real,
        rows(scored, "masks", "all_assistant_mask"),
        strict=True,
    ):
        got = np.array(row)[np.array(mask)]
        np.testing.assert_allclose(got, lp[: len(got)], atol=1e-5)
        assert mask == mask_again
    assert rows(scored, "tokens", "full") == rows(out, "tokens", "full")


@pytest.mark.parametrize("mode", MODES)
def test_batched_equals_alone(wrap: Make, mode: str) -> None:
    together = wrap(mode, generate_kwargs={"do_sample": True, "seed": 3})(prompts(mode))
    alone = wrap(mode, generate_kwargs={"do_sample": True, "seed": 3})(prompts(mode)[0])
    assert alone.batch_size == ()
    np.testing.assert_array_equal(alone["tokens", "response"], rows(together, "tokens", "response")[0])
    np.testing.assert_array_equal(alone["log_probs", "response"], rows(together, "log_probs", "response")[0])


# -- history -----------------------------------------------------------------------------------


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("name", ["chatml_format", "qwen"])
def test_history_generation(wrap: Make, scripted_model: Make, padded: bool, name: str) -> None:
    # the prompts end with "\n" (198) after "<" at 27 and "|" at 91
    model = scripted_model({(91, 198): 64, (91, 64): 65, (91, 65): 256})
    td = chat_td("Hi", "Hello")
    prompt = td["history"].prompt
    out = wrap("history", model=model, pad_output=padded, chat_template_name=name)(td)
    assert out is td
    history = out["history"]
    assert history.response.batch_size == (2, 1)
    assert history.full.batch_size == (2, 2)
    assert list(history.response[0].content) == ["ab"]
    assert list(history.full[1].role) == ["user", "assistant"]
    assert history.full[1, 0].content == "Hello"
    assert history.prompt[0, 0].content == prompt[0, 0].content == "Hi"
    assert bool(history.response[0, 0].is_complete) is True
    expected = prompt.apply_chat_template(chat_template_name=name, add_generation_prompt=True)
    assert list(out["text", "prompt"]) == expected
    assert list(out["text", "response"]) == ["ab<eos>", "ab<eos>"]
    assert list(out["text", "full"]) == [text + "ab<eos>" for text in expected]


def test_history_response_cut_short_is_incomplete(wrap: Make, scripted_model: Make) -> None:
    model = scripted_model({(91, 198): 64, (91, 64): 65})
    out = wrap("history", model=model, generate_kwargs={"max_new_tokens": 2})(chat_td("Hi"))
    assert bool(out["history"].response[0, 0].is_complete) is False
    assert out["history"].response[0, 0].content == "ab"


def test_history_scoring(wrap: Make, byte_tokenizer: Make) -> None:
    chats = [
        [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}],
        [{"role": "user", "content": "abc"}, {"role": "assistant", "content": "d"}],
    ]
    td = TensorDict({"history": ChatHistory(full=History.from_chats(chats), batch_size=[2])}, batch_size=[2])
    for padded in (True, False):
        out = wrap("history", generate=False, pad_output=padded, inplace=False, model=None)(td)
        assert list(out["text", "full"]) == td["history"].full.apply_chat_template(
            chat_template_name="chatml_format", add_generation_prompt=False
        )
        ids, said = rows(out, "tokens", "full"), rows(out, "masks", "all_assistant_mask")
        picked = [np.array(i)[np.array(m)] for i, m in zip(ids, said, strict=True)]
        assert byte_tokenizer().batch_decode(picked) == ["bc", "d"]
        assert out["history"].prompt is None
        assert out["history"].full.batch_size == (2, 2)
        assert out["text"].response is None


def test_empty_assistant_masks_warn(wrap: Make) -> None:
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "bc"}]
    td = TensorDict({"history": ChatHistory(full=History.from_chats([chat]), batch_size=[1])}, batch_size=[1])
    template = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
    with pytest.warns(UserWarning, match="the assistant mask"):
        out = wrap("history", generate=False, chat_template=template)(td)
    assert not any(rows(out, "masks", "all_assistant_mask")[0])


def test_a_history_without_turn_dimension(wrap: Make) -> None:
    history = History(role=["user", "user"], content=["Hi", "Hello"], batch_size=[2])
    td = TensorDict({"my": history}, batch_size=[2])
    out = wrap("history", input_key="my")(td)
    assert out["history"].full.batch_size == (2, 2)


def test_tool_calls_in_a_response(wrap: Make, scripted_model: Make, byte_tokenizer: Make) -> None:
    said = '<tool_call>\n{"name": "f"}\n</tool_call>'
    ids = byte_tokenizer().encode(said + "<eos>")
    model = scripted_model({})
    plain = model.logits

    def scripted(context: Any) -> np.ndarray:
        values = plain(context)
        start = byte_tokenizer().decode(context).index("<|im_start|>assistant\n") + len(
            "<|im_start|>assistant\n"
        )
        values[ids[len(context) - start]] = 9.0
        return values

    model.logits = scripted
    out = wrap("history", model=model, generate_kwargs={"max_new_tokens": 60})(chat_td("Hi"))
    turn = out["history"].response[0, 0]
    assert turn.content == said
    assert turn.tool_calls == [{"name": "f"}]


# -- shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
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
    if mode == "history":
        assert one["history"].full.batch_size == (2,)
        assert one["history"].prompt[0].content == "Hello"
    elif mode == "text":
        assert one["text", "full"] == "Hello" + one["text", "response"]


def test_one_sample_still_gets_a_dimension(wrap: Make) -> None:
    assert wrap("text", num_samples=1)(text_td("Hi", "Hello")).batch_size == (2, 1)
    assert wrap("text", generate_kwargs={"n": 2})(text_td("Hi")).batch_size == (1, 2)
    assert wrap("text", num_samples=2, generate_kwargs={"n": 1})(text_td("Hi")).batch_size == (1, 2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("samples", [None, 2])
def test_any_number_of_dimensions(wrap: Make, mode: str, padded: bool, samples: int | None) -> None:
    wrapper = wrap(mode, pad_output=padded, num_samples=samples, inplace=False, generate_kwargs={"seed": 0})
    flat = wrapper(prompts(mode))
    square = prompts(mode).unsqueeze(0)
    out = wrapper(square)
    assert out.batch_size == (1, *flat.batch_size)
    for i in range(2):
        index = (i, 0) if samples else (i,)
        np.testing.assert_array_equal(out[(0, *index)]["tokens", "full"], flat[index]["tokens", "full"])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("generate", [True, False])
def test_empty_batches(wrap: Make, mode: str, padded: bool, generate: bool) -> None:
    td = prompts(mode)[:0] if generate else wrap(mode)(prompts(mode))[:0]
    out = wrap(mode, pad_output=padded, generate=generate, inplace=False)(td)
    assert out.batch_size == (0,)
    assert out["tokens"].batch_size == (0,)
    assert out["tokens", "full"].shape == (0, 0)


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


def test_inplace_of_more_dimensions(wrap: Make) -> None:
    td = prompts("text").unsqueeze(0)
    assert wrap("text")(td) is td
    assert td["text", "response"] == [["ab<eos>", "abcd"]]
    np.testing.assert_array_equal(td[0, 0]["tokens", "response"], [64, 65, 256])


@pytest.mark.parametrize("inplace", [False, "empty"])
def test_new_results(wrap: Make, inplace: Any) -> None:
    td = text_td("Hi").set("other", np.ones(1))
    out = wrap("text", inplace=inplace)(td)
    assert out is not td
    assert set(out.keys()) == {"text", "tokens", "masks", "log_probs"}
    assert set(td.keys()) == {"text", "other"}
    assert td["text"].response is None


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


def test_select_out_keys(wrap: Make) -> None:
    wrapper = wrap("text", inplace=False)
    wrapper.select_out_keys("tokens")
    assert set(wrapper(text_td("Hi")).keys()) == {"tokens"}
    wrapper.reset_out_keys()
    assert "masks" in wrapper(text_td("Hi"))


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
