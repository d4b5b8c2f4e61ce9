"""token_log_probs against torch's log_softmax and gather, and torchrl's masked categorical."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.kernels import token_log_probs


@st.composite
def problems(draw):
    shape = (*draw(st.lists(st.integers(0, 4), max_size=3)), draw(st.integers(1, 5000)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    scale = draw(st.sampled_from([0.0, 1.0, 10.0, 300.0]))
    logits = (rng.normal(size=shape) * scale + draw(st.sampled_from([0, -50, 1000]))).astype(np.float32)
    tokens = rng.integers(0, shape[-1], shape[:-1])
    tokens[rng.random(tokens.shape) < 0.2] = -100
    return logits, tokens, rng


def expected(logits, tokens):
    log_probs = torch.log_softmax(torch.as_tensor(logits).double(), -1)
    index = torch.as_tensor(np.maximum(tokens, 0))[..., None]
    return np.where(tokens == -100, 0.0, log_probs.gather(-1, index)[..., 0].numpy())


@settings(max_examples=200)
@given(problems(), st.sampled_from([0.3, 1.0, 2.0]))
def test_float32(problem, temperature):
    logits, tokens, _ = problem
    got = token_log_probs(logits, tokens, temperature=temperature)
    want = expected(logits.astype(np.float64) / temperature, tokens)
    np.testing.assert_allclose(got, want, rtol=5e-7, atol=5e-7)


@settings(max_examples=50)
@given(problems(), st.sampled_from([torch.float16, torch.bfloat16, torch.float64]))
def test_other_types(problem, dtype):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    logits, tokens, _ = problem
    tensor = torch.as_tensor(logits).clamp(-6e4, 6e4).to(dtype)
    if dtype == torch.bfloat16:
        array = tensor.view(torch.uint16).numpy().view(ml_dtypes.bfloat16)
    else:
        array = tensor.numpy()
    np.testing.assert_allclose(token_log_probs(array, tokens), expected(tensor, tokens), rtol=5e-7, atol=5e-7)


@settings(max_examples=60)
@given(problems(), st.booleans())
def test_masks_of_llm_masked_categorical(problem, by_token):
    distributions = pytest.importorskip("torchrl.modules", reason="needs the parity extra")
    logits, tokens, rng = problem
    mask = rng.random(logits.shape if by_token else tokens.shape) < 0.8
    legal = np.where(tokens == -100, 0, tokens)
    if by_token and tokens.size:  # the reference scores masked tokens at the type's minimum
        np.put_along_axis(mask, legal[..., None], True, -1)
    reference = distributions.LLMMaskedCategorical(torch.as_tensor(logits), torch.as_tensor(mask))
    want = reference.log_prob(torch.as_tensor(tokens)).numpy()
    # The reference computes in float32 throughout; its error grows with the logits.
    atol = 1e-6 * max(1.0, float(np.abs(logits).max(initial=0.0)))
    np.testing.assert_allclose(token_log_probs(logits, tokens, mask), want, rtol=1e-5, atol=atol)


def test_adversarial_rows_of_256k():
    size = 256_000
    rows = np.stack(
        [
            np.zeros(size),
            np.where(np.arange(size) == 7, 60.0, 0.0),
            np.linspace(-80, 0, size),
            np.linspace(20, -20, size),
            np.random.default_rng(0).normal(size=size) * 5,
        ]
    ).astype(np.float32)
    for token in (0, 7, 100_000, size - 1):
        tokens = np.full(5, token)
        got = token_log_probs(rows, tokens)
        np.testing.assert_allclose(got, expected(rows, tokens), rtol=1e-6, atol=1e-7)
