"""AdditiveGaussianModule: the noise, and the bounds of the sum."""

import numpy as np
import pytest

from lite import TensorDict, nn
from lite.data import Bounded, Unbounded

ACTION = np.full((4000, 2), 3.0, np.float32)
ACTION.flags.writeable = False


def test_noise() -> None:
    module = nn.AdditiveGaussianModule(Unbounded((2,)), 0.5, 0.1, mean=2.0, std=4.0, generator=0)
    got = module(TensorDict(action=ACTION, batch_size=[4000]))["action"]
    assert got.dtype == np.float32
    np.testing.assert_allclose([got.mean(), got.std()], [3.0 + 0.5 * 2.0, 0.5 * 4.0], rtol=0.03)


def test_bounds() -> None:
    module = nn.AdditiveGaussianModule(Bounded(2, 3.5, (2,)), generator=0)
    got = module(TensorDict(action=ACTION, batch_size=[4000]))["action"]
    assert got.min() == 2
    assert got.max() == 3.5
    with nn.set_interaction_type("mode"):
        np.testing.assert_array_equal(module(TensorDict(action=ACTION))["action"], ACTION)
    with pytest.raises(KeyError, match="AdditiveGaussianModule reads the entry 'action'"):
        module(TensorDict())
    with pytest.raises(RuntimeError, match="AdditiveGaussianModule needs a spec: give one, or set its"):
        nn.AdditiveGaussianModule()(TensorDict(action=ACTION))
