"""The base class of wrappers, and the rules of their constructor arguments."""

import gc
from typing import Any

import pytest
from helpers.models.prompts import Make, prompts

from lite.nn import TensorDictModule

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"input_mode": "words"}, "input_mode must be one of"),
    ({"pad_output": 1}, "pad_output must be a bool, got 1"),
    ({"pad_model_input": True}, "pad_model_input"),
    ({"inplace": "yes"}, "inplace must be True, False, 'empty' or None, got 'yes'"),
    ({"inplace": 1}, "inplace must be True, False, 'empty' or None, got 1"),
    ({"inplace": 0}, "inplace must be True, False, 'empty' or None, got 0"),
    ({"inplace": 1.0}, "inplace must be True"),
    ({"generate": False, "return_log_probs": False}, "return_log_probs must be True when generate=False."),
    ({"generate": False, "num_samples": 2}, "num_samples can only be given with generate=True"),
    ({"num_samples": 0}, "num_samples must be an integer of at least 1, got 0"),
    ({"num_samples": 2, "inplace": True}, r"inplace must be False \(or None\)"),
    ({"num_samples": 2, "inplace": "empty"}, r"inplace must be False \(or None\)"),
    ({"num_samples": 2, "generate_kwargs": {"n": 3}}, r"num_samples differs from generate_kwargs\['n'\]"),
    ({"generate_kwargs": {"num_beams": 2, "n": 3}}, "num_return_sequences must be at most num_beams"),
    ({"generate_kwargs": {"top_p": 2}}, "top_p must be between 0 and 1"),
    ({"chat_template_kwargs": {"messages": [], "x": 1}}, r"chat_template_kwargs: .* decides \['messages'\]"),
    ({"device": "cuda"}, "device='cuda' differs from the model's"),
]


def test_constructor_errors(wrap: Make) -> None:
    for options, message in WRONG:
        with pytest.raises(ValueError, match=message):
            wrap(**options)


def test_tokenizer_kwargs_that_are_decided(wrap: Make) -> None:
    cases: list[dict[str, Any]] = [
        {"return_tensors": "pt"},
        {"return_attention_mask": False},
        {"padding_side": "right"},
    ]
    for given in cases:
        with pytest.raises(RuntimeError, match=f"tokenizer_kwargs: {next(iter(given))} must be"):
            wrap("text", tokenizer_kwargs=given)


@pytest.mark.usefixtures("only_new_garbage")
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


def test_a_selected_entry_is_whole_though_what_is_read_is_inside(wrap: Make) -> None:
    for mode, inplace in (("history", True), ("text", False), ("tokens", True)):
        wrapper = wrap(mode, inplace=inplace).select_out_keys(mode, "masks")
        out = wrapper(prompts(mode))
        assert set(out.keys()) == {mode, "masks"}, mode
        for part in ("prompt", "response", "full"):
            assert (mode, part) in out, mode
        assert set(wrap(mode).select_out_keys("masks")(prompts(mode)).keys(True)) >= {
            "masks",
            (mode, "prompt"),
        }
