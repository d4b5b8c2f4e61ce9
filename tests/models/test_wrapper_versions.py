"""New versions of wrappers, collectors, and scoring without padding."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lite import TensorDict, lazy_stack
from lite.models import ChatHistory, History, OnnxWrapper, Text, Tokens, full_logits, score
from lite.nn import TensorDictModule

HI, HELLO = [39, 72], [39, 68, 75, 75, 78]
MODEL = Path(__file__).parents[1] / "onnx" / "models" / "optimum-llama"
Make = Callable[..., Any]

pytest.importorskip("tokenizers")


def text_td(*texts: str, field: str = "prompt") -> TensorDict:
    size = [len(texts)]
    return TensorDict({"text": Text(**{field: list(texts)}, batch_size=size)}, batch_size=size)


def token_td(*rows: list[int], field: str = "full") -> TensorDict:
    tokens = lazy_stack([Tokens(**{field: np.array(row)}) for row in rows])
    return TensorDict({"tokens": tokens}, batch_size=[len(rows)])


# -- get_new_version ---------------------------------------------------------------------------

EVERY: dict[str, Any] = {
    "input_mode": "tokens",
    "input_key": ("in", "ids"),
    "attention_mask_key": "am",
    "generate_kwargs": {"max_new_tokens": 3, "temperature": 0.5},
    "tokenizer_kwargs": {"add_special_tokens": False},
    "pad_output": True,
    "inplace": False,
    "device": "cpu",
    "layout": "strided",
    "num_samples": 2,
    "chat_template_name": "qwen",
    "chat_template": "{{ messages }}",
    "return_log_probs": False,
    "history_key": "h",
    "text_key": "x",
    "tokens_key": "t",
    "masks_key": "m",
    "log_probs_key": "l",
    "batching": True,
    "min_batch_size": 2,
    "max_batch_size": 4,
    "batching_timeout": 1.5,
    "prefer_tokens": True,
    "seed": 3,
}


def test_every_argument_is_carried(scripted_model: Make, byte_tokenizer: Make) -> None:
    parameters = set(inspect.signature(OnnxWrapper).parameters)
    assert parameters == {"model", "tokenizer", "generate", "pad_model_input", *EVERY}
    wrapper = OnnxWrapper(scripted_model(), tokenizer=byte_tokenizer(), **EVERY)
    new = wrapper.get_new_version()
    assert new is not wrapper
    assert (new.model, new.tokenizer) == (wrapper.model, wrapper.tokenizer)
    assert new.options == wrapper.options
    assert new.generation == wrapper.generation
    assert new.get_batching_state() == wrapper.get_batching_state()
    assert (new.in_keys, new.out_keys, new.layout) == (wrapper.in_keys, wrapper.out_keys, wrapper.layout)
    first = [w._rng.integers(100) for w in (wrapper, new)]
    assert first[0] == first[1]
    judge = OnnxWrapper(scripted_model(), input_mode="tokens", generate=False, pad_model_input=False)
    assert judge.get_new_version().options == judge.options


@pytest.mark.parametrize(
    "changes",
    [{"pad_output": False}, {"num_samples": 3}, {"tokens_key": "other"}, {"prefer_tokens": False}],
)
def test_arguments_can_be_changed(wrap: Make, changes: dict[str, Any]) -> None:
    wrapper = wrap("text", pad_output=True, prefer_tokens=True)
    new = wrapper.get_new_version(**changes)
    ((name, value),) = changes.items()
    assert getattr(new, name) == value
    assert getattr(wrapper, name) != value
    again = new.get_new_version()
    assert getattr(again, name) == value


def test_changed_generate_or_mode_reads_another_entry(wrap: Make) -> None:
    wrapper = wrap("text")
    judge = wrapper.get_new_version(generate=False)
    assert (judge.in_keys, judge.out_keys) == ([("text", "full")], ["text", "masks", "tokens", "log_probs"])
    assert judge.get_new_version(input_mode="tokens").in_keys == [("tokens", "full")]
    assert wrapper.get_new_version(input_mode="history").in_keys == [("history", "prompt")]
    custom = wrap("text", input_key="mine").get_new_version(generate=False)
    assert custom.in_keys == ["mine"]
    out = judge(wrapper(text_td("Hi", "Hello")))
    assert [len(row) for row in out.get(("log_probs", "full"), as_list=True)] == [5, 9]
    back = judge.get_new_version(generate=True)
    assert back.generation == wrapper.generation


def test_arguments_of_the_other_kind_are_dropped(wrap: Make) -> None:
    policy = wrap("text", num_samples=2, return_log_probs=False)
    judge = policy.get_new_version(generate=False)
    assert (judge.num_samples, judge.return_log_probs) == (None, None)
    plain = wrap("text", generate=False, pad_model_input=False)
    assert plain.get_new_version(generate=True).pad_model_input is None
    with pytest.raises(ValueError, match="num_samples can only be given"):
        policy.get_new_version(generate=False, num_samples=2)
    assert wrap("text", generate_kwargs={"n": 2}).get_new_version(generate=False).num_samples is None
    assert policy.get_new_version(num_samples=None).num_samples is None


def test_the_old_wrapper_does_not_change(wrap: Make) -> None:
    kwargs = {"truncation": True, "max_length": 3, "padding": True}
    wrapper = wrap("text", tokenizer_kwargs=kwargs, pad_output=True)
    new = wrapper.get_new_version(pad_output=False)
    assert kwargs == {"truncation": True, "max_length": 3, "padding": True}
    for each in (wrapper, new):
        assert each(text_td("Hi", "Hello"))["tokens"].batch_size == (2,)


def test_unknown_arguments(wrap: Make) -> None:
    with pytest.raises(TypeError, match="pad_outputs"):
        wrap("text").get_new_version(pad_outputs=True)
    with pytest.raises(TypeError):
        wrap("text").get_new_version(True)


def test_a_model_folder_is_loaded_once() -> None:
    pytest.importorskip("onnxruntime")
    wrapper = OnnxWrapper(MODEL, input_mode="text", device="cpu")
    new = wrapper.get_new_version(generate=False)
    assert new.model is wrapper.model
    assert new.tokenizer is wrapper.tokenizer
    other = wrapper.get_new_version(model=MODEL)
    assert other.model is not wrapper.model
    named = OnnxWrapper(wrapper.model, tokenizer=MODEL, input_mode="text")
    assert named.get_new_version().tokenizer is named.tokenizer


def test_another_model(wrap: Make, scripted_model: Make) -> None:
    model = scripted_model({(72, 72): 66, (72, 66): 256})
    new = wrap("text").get_new_version(model=model)
    assert list(new(text_td("Hi"))["text", "response"]) == ["c<eos>"]


def test_prefer_tokens_is_carried(wrap: Make) -> None:
    assert wrap("history", prefer_tokens=True).get_new_version().prefer_tokens is True
    assert wrap("history", prefer_tokens=True).get_new_version(prefer_tokens=False).prefer_tokens is False


# -- collectors --------------------------------------------------------------------------------


def test_register_collector(wrap: Make) -> None:
    class Collector:
        pass

    wrapper, collector = wrap("text"), Collector()
    assert wrapper.collector is None
    wrapper.register_collector(collector)
    assert wrapper.collector is collector
    assert wrapper.get_new_version().collector is None
    del collector
    gc.collect()
    assert wrapper.collector is None


def test_is_tdmodule_compatible(wrap: Make) -> None:
    assert wrap("text").is_tdmodule_compatible(TensorDictModule(abs, in_keys=["a"], out_keys=["b"]))
    assert wrap("text").is_tdmodule_compatible(wrap("tokens"))
    assert not wrap("text").is_tdmodule_compatible(abs)


# -- what a model must offer -------------------------------------------------------------------


def test_a_model_must_be_a_decoder() -> None:
    with pytest.raises(TypeError, match=r"interface of lite.models.Decoder; int has no vocab_size, "):
        OnnxWrapper(42, input_mode="tokens")


# -- scoring without padding -------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["tokens", "text", "history"])
@pytest.mark.parametrize("padded", [True, False])
def test_pad_model_input_changes_no_score(wrap: Make, scripted_model: Make, mode: str, padded: bool) -> None:
    pytest.importorskip("jinja2")
    texts = ["Hi", "Hello", "Hello", "x", "Hi"]
    if mode == "history":
        chats = [[{"role": "user", "content": t}, {"role": "assistant", "content": t[::-1]}] for t in texts]
        history = ChatHistory(full=History.from_chats(chats), batch_size=[5])
        td = TensorDict({"history": history}, batch_size=[5])
    else:
        td = text_td(*texts, field="full") if mode == "text" else token_td(HI, HELLO, HELLO, [87], HI)
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
            mode,
            model=model,
            generate=False,
            inplace=False,
            pad_output=padded,
            pad_model_input=pad_model_input,
        )
        outs.append(wrapper(td).get(("log_probs", "full"), as_list=True))
        if pad_model_input is False:
            assert all(len(lengths) == 1 for lengths in runs)
        else:
            assert any(len(lengths) > 1 for lengths in runs)
    for i in range(5):
        np.testing.assert_array_equal(outs[0][i], outs[1][i])
        np.testing.assert_array_equal(outs[0][i], outs[2][i])
    assert np.count_nonzero(np.asarray(outs[0][1])) > 0


def test_equal_lengths_on_a_real_graph() -> None:
    """Rows of a mixed batch score as they do alone; nothing is seen across rows."""
    pytest.importorskip("onnxruntime")
    from lite.models import OnnxDecoder

    decoder = OnnxDecoder(MODEL)
    rng = np.random.default_rng(0)
    rows = [rng.integers(3, decoder.vocab_size, n) for n in (4, 9, 4, 1, 9, 6)]
    together = score(decoder, rows, equal_lengths=True)
    for row, values, padded in zip(rows, together, score(decoder, rows), strict=True):
        np.testing.assert_allclose(values, score(decoder, [row])[0], atol=1e-5)
        np.testing.assert_allclose(values, padded, atol=1e-5)
        assert values[0] == 0
    for one, other in zip(
        full_logits(decoder, rows, equal_lengths=True), full_logits(decoder, rows), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)


# -- prefer_tokens -----------------------------------------------------------------------------


def chat_td(*chats: list[dict[str, str]]) -> TensorDict:
    history = ChatHistory(prompt=History.from_chats(list(chats)), batch_size=[len(chats)])
    return TensorDict({"history": history}, batch_size=[len(chats)])


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_tokens_of_a_conversation_stay_a_prefix(
    wrap: Make, scripted_model: Make, byte_tokenizer: Make
) -> None:
    """Turn after turn, the ids that were generated are the ids that are read, not what text gives again."""
    pytest.importorskip("jinja2")
    model = scripted_model()
    wrapper = wrap("history", model=model, prefer_tokens=True, inplace=False)
    td = chat_td([user("Hi")], [user("Hello")])
    out = wrapper(td)
    tokenizer = byte_tokenizer()
    said = tokenizer.encode("<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n")
    for _ in range(2):
        before = [row.tolist() for row in out.get(("tokens", "full"), as_list=True)]
        chats = [[*chat, user("more")] for chat in out["history"].full.to_chats()]
        td = chat_td(*chats)
        td["tokens"] = lazy_stack([Tokens(prompt=np.array([*row, *said])) for row in before])
        model.prefilled.clear()
        out = wrapper(td)
        assert model.prefilled == [[*row, *said] for row in before]
        for old, new in zip(before, out.get(("tokens", "full"), as_list=True), strict=True):
            assert new[: len(old)].tolist() == old
            assert len(new) > len(old)
        for text, ids in zip(out["text", "prompt"], model.prefilled, strict=True):
            assert text == tokenizer.decode(ids)


def test_tokens_are_used_only_if_preferred(wrap: Make, scripted_model: Make) -> None:
    pytest.importorskip("jinja2")
    for prefer, field, used in ((True, "prompt", True), (True, "full", True), (False, "prompt", False)):
        model = scripted_model()
        td = chat_td([user("Hi")], [user("Hello")])
        td["tokens"] = lazy_stack([Tokens(**{field: np.array(row)}) for row in (HI, HELLO)])
        out = wrap("history", model=model, prefer_tokens=prefer)(td)
        assert (model.prefilled == [HI, HELLO]) is used
        assert out["text"].response is not None
        assert out["tokens"].get("full", as_list=True) is not None


def test_preferred_tokens_with_a_mask(wrap: Make, scripted_model: Make) -> None:
    pytest.importorskip("jinja2")
    model = scripted_model()
    td = chat_td([user("Hi")], [user("Hello")])
    # 7 is not the pad id: only the mask says that it is padding
    td["tokens"] = Tokens(prompt=np.array([[7, 7, 7, *HI], HELLO]), batch_size=[2])
    td["attention_mask"] = np.array([[0, 0, 0, 1, 1], [1] * 5])
    wrap("history", model=model, prefer_tokens=True)(td)
    assert model.prefilled == [HI, HELLO]
    one = chat_td([user("Hi")])[0]
    one["tokens"] = Tokens(prompt=np.array(HI))
    model.prefilled.clear()
    assert wrap("history", model=model, prefer_tokens=True)(one).batch_size == ()
    assert model.prefilled == [HI]
