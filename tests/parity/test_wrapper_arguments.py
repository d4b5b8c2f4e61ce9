"""Constructor arguments and distributions of OnnxWrapper against torchrl's TransformersWrapper."""

from pathlib import Path

import numpy as np
import pytest
import tensordict
import torch
import transformers
from helpers.cases import each_case, raises
from parity.torch_face import TorchFace
from torchrl.modules import llm
from torchrl.modules.llm.policies import common

import lite
from lite.models import OnnxDecoder, OnnxWrapper, Tokenizer, Tokens

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.usefixtures("lists_as_batches")]


FOLDER = Path(__file__).parents[1] / "models" / "exports" / "optimum-llama"


@pytest.fixture(scope="module")
def both():
    """Makes the two wrappers with the same arguments."""
    decoder, tokenizer = OnnxDecoder(FOLDER), Tokenizer.from_pretrained(FOLDER)
    theirs = transformers.AutoTokenizer.from_pretrained(FOLDER)
    return (
        lambda **options: OnnxWrapper(decoder, tokenizer=tokenizer, **options),
        lambda **options: llm.TransformersWrapper(TorchFace(decoder), tokenizer=theirs, **options),
    )


# -- arguments ---------------------------------------------------------------------------------


@each_case(
    ("options", "message"),
    [
        ({"input_mode": "words"}, "input_mode must be one of"),
        ({"generate": False, "return_log_probs": False},
            "return_log_probs must be True when generate=False."),
        ({"num_samples": 2, "inplace": True}, r"inplace must be False \(or None\)"),
        ({"num_samples": 2, "generate_kwargs": {"n": 3}},
            r"num_samples differs from generate_kwargs\['n'\]\."),
        ({"generate_kwargs": {"do_sample": False, "temperature": 0.7}},
            r"When do_sample=False \(greedy decoding\), temperature must be 0. Got temperature=0.7"),
        ({"generate_kwargs": {"temperature": -0.5}}, "Temperature must be non-negative, got -0.5"),
        ({"generate_kwargs": {"do_sample": False, "temperature": -1}},
            r"When do_sample=False \(greedy decoding\)"),
        ({"generate_kwargs": {"top_p": 1.5}}, "top_p must be between 0 and 1, got 1.5"),
        ({"generate_kwargs": {"top_k": -2}}, "top_k must be positive.*, got -2"),
        ({"generate_kwargs": {"repetition_penalty": 0}}, "repetition_penalty must be positive, got 0"),
        ({"batching": False, "min_batch_size": 2},
            "min_batch_size and max_batch_size must be None if batching is False."),
        ({"batching": False, "max_batch_size": 2},
            "min_batch_size and max_batch_size must be None if batching is False."),
        ({"min_batch_size": 5, "max_batch_size": 2},
            r"min_batch_size \(5\) must be <= max_batch_size \(2\)"),
    ],
)  # fmt: skip
def test_the_same_messages(both, options, message):
    for make in both:
        raises(ValueError, message, make, **{"input_mode": "text", **options})


@pytest.mark.parametrize("tokenizer_kwargs", [{"padding_side": "right"}, {"return_attention_mask": False}])
def test_the_same_tokenizer_options_are_refused(both, tokenizer_kwargs):
    for make in both:
        raises(RuntimeError, "", make, input_mode="text", tokenizer_kwargs=tokenizer_kwargs)


@each_case(
    "options",
    [
        {"min_batch_size": 2, "max_batch_size": 5}, {"min_batch_size": 3, "max_batch_size": 3},
        {"min_batch_size": 5}, {"batching": True}, {"batching": True, "max_batch_size": 2},
        {"batching": True, "min_batch_size": 2}, {}, {"batching": False},
    ],
)  # fmt: skip
def test_the_same_batching_state(both, options):
    ours, theirs = (make(input_mode="text", batching_timeout=2.0, **options) for make in both)
    assert ours.batching == theirs.batching
    state = theirs.get_batching_state()
    assert ours.get_batching_state() == {**state, "lock_state": "unlocked"} if ours.batching else state
    for wrapper in (ours, theirs):
        wrapper.cleanup_batching()


# -- distributions -----------------------------------------------------------------------------


@each_case("padded", [True, False])
@each_case("method", ["get_dist", "_get_generic_dist", "_get_sft_dist", "_get_rlhf_dist", "custom"])
def test_distributions(both, padded, method):
    options = {"input_mode": "tokens", "generate": False, "pad_output": padded}
    ours, theirs = (make(**options) for make in both)
    pad = ours.tokenizer.pad_token_id
    rng = np.random.default_rng(0)
    prompts = np.array([[pad, pad, 30, 40], [50, 60, 70, 80]])
    full = np.concatenate([prompts, rng.integers(20, 90, (2, 5))], 1)
    real = np.ones(full.shape, bool)
    real[0, :2] = False
    said = real & (np.arange(9) > 5)

    def fill(td, tokens, masks, array):
        parts = []
        for i in range(2):
            keep = slice(0, None) if padded else slice(2 * (1 - i), None)
            row = td({})
            row["tokens"] = tokens(full=array(full[i, keep]), prompt=array(prompts[i, keep]))
            row["masks"] = masks(
                all_attention_mask=array(real[i, keep]), all_assistant_mask=array(said[i, keep])
            )
            parts.append(row)
        return parts

    mine = lite.lazy_stack(fill(lite.TensorDict, Tokens, lite.models.Masks, np.array))
    other = tensordict.lazy_stack(fill(tensordict.TensorDict, common.Tokens, common.Masks, torch.tensor))
    extra = ({}, {})
    if method == "get_dist":  # the reference has no usable default mask, and pads on the other side
        extra = ({"mask_key": ("masks", "all_attention_mask"), "padding_side": "left"},) * 2
    if method == "custom":
        method = "_get_dist_with_custom_mask"
        mask = rng.random(full.shape) < 0.5
        extra = {"mask": mask}, {"mask": torch.tensor(mask)}
    got = getattr(ours, method)(mine, **extra[0])
    expected = getattr(theirs, method)(other, **extra[1])
    np.testing.assert_array_equal(got.mask, expected.mask.numpy())
    # the first token has nothing before it: there the reference has the logits of padding
    later = real & (np.cumsum(real, 1) > 1)
    ids = np.where(real, full, 0)
    np.testing.assert_allclose(
        got.log_prob(ids)[later], expected.log_prob(torch.tensor(ids)).numpy()[later], atol=1e-4
    )
    np.testing.assert_allclose(got.logits[later], expected.logits.numpy()[later], atol=1e-4)
    assert (got.batch_shape, got.event_shape) == (tuple(expected.batch_shape), tuple(expected.event_shape))
