"""Distributions against torch's and torchrl's."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torchrl import modules
from torchrl.modules.distributions import discrete as reference

from lite import nn
from lite.nn.distributions import LLMMaskedCategorical

pytestmark = pytest.mark.filterwarnings("ignore")


IGNORE = -100


@st.composite
def problems(draw):
    """Logits (*batch, T, V), a mask of positions or tokens, and tokens (some to ignore)."""
    batch = draw(hnp.array_shapes(min_dims=0, max_dims=2, min_side=1, max_side=3))
    length, vocab = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    numbers = st.floats(-30, 30, width=32)
    if draw(st.booleans()):
        numbers = numbers | st.sampled_from([np.inf, -np.inf, np.nan])
    logits = draw(hnp.arrays(dtype, (*batch, length, vocab), elements=numbers))
    positions = (*batch, length)
    mask = draw(hnp.arrays(np.bool_, positions if draw(st.booleans()) else (*positions, vocab)))
    tokens = draw(hnp.arrays(np.int64, positions, elements=st.integers(0, vocab - 1) | st.just(IGNORE)))
    return logits, mask, tokens


def both(logits, mask):
    return (
        LLMMaskedCategorical(logits, mask),
        reference.LLMMaskedCategorical(torch.from_numpy(logits), torch.from_numpy(mask)),
    )


@given(problems())
@settings(max_examples=40)
def test_masked_log_probs(problem):
    logits, mask, tokens = problem
    if not np.isfinite(logits).all():
        logits = np.nan_to_num(logits, nan=1.0, posinf=50.0, neginf=-50.0)
    ours, theirs = both(logits, mask)
    expected = theirs.log_prob(torch.from_numpy(tokens)).numpy()
    got = ours.log_prob(tokens)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@given(problems())
@settings(max_examples=40)
def test_masked_entropy_mode_and_logits(problem):
    logits, mask, _ = problem
    ours, theirs = both(logits, mask)
    np.testing.assert_array_equal(ours.masked_logits, theirs.masked_logits.numpy())
    # the reference adds the constant to logits of 1e4 before it takes differences
    np.testing.assert_allclose(ours.entropy(), theirs.entropy().numpy(), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(ours.masked_dist.probs, theirs.masked_dist.probs.numpy(), rtol=1e-3, atol=1e-6)
    if not np.isnan(logits).any():
        np.testing.assert_array_equal(ours.mode, theirs.mode.numpy())
        assert (ours.batch_shape, ours.event_shape) == (tuple(theirs.batch_shape), tuple(theirs.event_shape))
    assert ours.position_level_masking == theirs.position_level_masking


def test_names_of_torchrl_modules():
    shared = {name for name in nn.distributions.__all__ if hasattr(modules, name)}
    assert len(shared) > 8
    assert shared <= set(nn.__all__)
    assert all(getattr(nn, name) is getattr(nn.distributions, name) for name in shared)
