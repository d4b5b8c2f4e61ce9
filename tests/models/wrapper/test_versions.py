"""New versions of wrappers: which arguments are carried, changed and dropped."""

from __future__ import annotations

import inspect
from typing import Any

from helpers.cases import raises
from helpers.models.prompts import Make, text_td
from helpers.models.real_models import MODELS

from lite.models import OnnxWrapper, embedded_model_path

MODEL = MODELS / "optimum-llama"


EVERY: dict[str, Any] = {
    "input_mode": "tokens", "input_key": ("in", "ids"), "attention_mask_key": "am",
    "generate_kwargs": {"max_new_tokens": 3, "temperature": 0.5},
    "tokenizer_kwargs": {"add_special_tokens": False}, "pad_output": True, "inplace": False,
    "device": "cpu", "layout": "strided", "num_samples": 2, "chat_template_name": "qwen",
    "chat_template": "{{ messages }}", "chat_template_kwargs": {"enable_thinking": False},
    "return_log_probs": False, "zero_first_log_prob": True, "history_key": "h", "text_key": "x",
    "tokens_key": "t", "masks_key": "m", "log_probs_key": "l", "sampling_key": "own_sampling",
    "batching": True, "min_batch_size": 2, "max_batch_size": 4, "batching_timeout": 1.5,
    "prefer_tokens": True, "seed": 3, "sessions": 2,
}  # fmt: skip


def test_every_argument_is_carried(scripted_model: Make, byte_tokenizer: Make) -> None:
    parameters = set(inspect.signature(OnnxWrapper).parameters)
    special = {"model", "tokenizer", "generate", "pad_model_input", "num_threads", "score_kwargs"}
    of_real_models = {
        "max_rows", "prefix_cache", "assistant_model", "variant", "adapters", "adapter", "runtime",
    }  # fmt: skip
    assert parameters == {*special, *of_real_models, *EVERY}
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


def test_arguments_can_be_changed(wrap: Make) -> None:
    cases: list[dict[str, Any]] = [
        {"pad_output": False}, {"num_samples": 3}, {"tokens_key": "other"}, {"prefer_tokens": False},
    ]  # fmt: skip
    for changes in cases:
        wrapper = wrap("text", pad_output=True, prefer_tokens=True)
        new = wrapper.get_new_version(**changes)
        ((name, value),) = changes.items()
        assert getattr(new, name) == value, changes
        assert getattr(wrapper, name) != value, changes
        again = new.get_new_version()
        assert getattr(again, name) == value, changes


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
    raises(ValueError, "num_samples can only be given", policy.get_new_version, generate=False, num_samples=2)
    assert wrap("text", generate_kwargs={"n": 2}).get_new_version(generate=False).num_samples is None
    assert policy.get_new_version(num_samples=None).num_samples is None


def test_unknown_arguments(wrap: Make) -> None:
    raises(TypeError, "pad_outputs", wrap("text").get_new_version, pad_outputs=True)
    raises(TypeError, "", wrap("text").get_new_version, True)


def test_a_model_folder_is_loaded_once() -> None:
    wrapper = OnnxWrapper(MODEL, input_mode="text", device="cpu")
    new = wrapper.get_new_version(generate=False)
    assert new.model is wrapper.model
    assert new.tokenizer is wrapper.tokenizer
    other = wrapper.get_new_version(model=MODEL)
    assert other.model is not wrapper.model
    named = OnnxWrapper(wrapper.model, tokenizer=MODEL, input_mode="text")
    assert named.get_new_version().tokenizer is named.tokenizer


def test_an_assistant_is_loaded_once() -> None:
    wrapper = OnnxWrapper(MODEL, input_mode="text", assistant_model=MODEL)
    assert wrapper.get_new_version(num_samples=2).assistant_model is wrapper.assistant_model
    # opened again
    assert wrapper.get_new_version(device="cpu").assistant_model is not wrapper.assistant_model
    assert wrapper.get_new_version(assistant_model=None).assistant_model is None
    assert wrapper.get_new_version(generate=False).assistant_model is None


def test_the_runtime_is_that_of_the_model() -> None:
    policy = OnnxWrapper(embedded_model_path(), input_mode="text", runtime="numpy")
    judge = policy.get_new_version(generate=False)
    assert judge.model is policy.model
    assert policy.get_new_version(runtime="onnxruntime").model.runtime == "onnxruntime"
    policy.trainable(lora=2).sync()
    assert policy.model.runtime == "numpy"
