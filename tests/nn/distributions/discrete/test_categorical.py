"""Categorical: log-probs, samples, memory layouts, errors."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite.nn.distributions import Categorical

RNG = np.random.default_rng(0)


def logits_of(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    out = RNG.normal(size=shape).astype(dtype)
    out.flags.writeable = False
    return out


def softmax(values: np.ndarray) -> np.ndarray:
    out = np.exp(values.astype(np.float64))
    return out / out.sum(-1, keepdims=True)


# -- Categorical -------------------------------------------------------------------------------


@each_case("shape", [(5,), (3, 5), (2, 3, 5)])
def test_categorical(shape: tuple[int, ...]) -> None:
    logits = logits_of(*shape)
    probs = softmax(logits)
    for dist in (Categorical(logits=logits), Categorical(probs=(3 * probs).astype(np.float32))):
        assert (dist.batch_shape, dist.event_shape) == (shape[:-1], ())
        np.testing.assert_allclose(dist.probs, probs, rtol=1e-5)
        np.testing.assert_allclose(dist.logits, np.log(probs), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(dist.entropy(), -(probs * np.log(probs)).sum(-1), rtol=1e-5)
        np.testing.assert_array_equal(dist.mode, probs.argmax(-1))
        assert dist.mode.dtype == np.int64
        assert np.isnan(dist.mean).all()
        np.testing.assert_allclose(dist.log_prob(np.full(shape[:-1], 2)), np.log(probs[..., 2]), rtol=1e-5)
        assert dist.logits.dtype == dist.entropy().dtype == np.float32


def test_categorical_broadcasts_values() -> None:
    dist = Categorical(logits=logits_of(3, 5))
    np.testing.assert_array_equal(dist.log_prob(2), dist.logits[:, 2])
    np.testing.assert_array_equal(dist.log_prob(np.array([[0], [4]])), dist.logits[:, [0, 4]].T)


def test_categorical_of_extreme_logits() -> None:
    dist = Categorical(logits=np.array([-np.inf, 1e30, 0.0], np.float32))
    np.testing.assert_array_equal(dist.probs, [0, 1, 0])
    assert dist.entropy() == 0
    assert set(dist.sample((50,), rng=0).tolist()) == {1}


def test_categorical_errors() -> None:
    for arguments in ({}, {"probs": np.ones(2), "logits": np.ones(2)}):
        raises(ValueError, "Either `probs` or `logits` must be specified", Categorical, **arguments)
    raises(ValueError, "at least one-dimensional", lambda: Categorical(logits=np.float32(1)))
    raises(TypeError, "logits must be floats, got int64", lambda: Categorical(logits=np.ones(3, np.int64)))
    for bad in (-1, 3):
        with pytest.raises(IndexError, match=f"value must be from 0 to 2, got {bad} to {bad}"):
            Categorical(probs=np.ones(3)).log_prob(bad)
    raises(TypeError, "value must be integers", lambda: Categorical(probs=np.ones(3)).log_prob(1.0))
