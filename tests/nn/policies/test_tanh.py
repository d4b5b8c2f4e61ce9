"""TanhModule: entries within bounds."""

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, nn
from lite.data import Bounded, Categorical, Composite

X = np.array([-50.0, 0.0, 50.0], np.float32)


def test_bounds() -> None:
    module = nn.TanhModule(["a"], ["b"], low=-2.0, high=4.0)
    np.testing.assert_array_equal(module(TensorDict(a=X))["b"], [-2.0, 1.0, 4.0])
    spec = Composite(a=Bounded([-1, -2, -3], [1, 2, 3]), x=Categorical(3))
    np.testing.assert_array_equal(nn.TanhModule(["a"], spec=spec)(X), [-1.0, 0.0, 3.0])
    clamped = nn.TanhModule(["a"], clamp=True)(X)
    assert 0 < 1 - clamped[2] < 2e-6
    assert 0 < 1 + clamped[0] < 2e-6


def test_errors() -> None:
    with pytest.raises(ValueError, match=r"low must not exceed high, got low=1\.0 and high=-1\.0"):
        nn.TanhModule(["a"], low=1.0, high=-1.0)
    with pytest.raises(ValueError, match=r"high must be that of the spec, \[1.\], got 2"):
        nn.TanhModule(["a"], spec=Bounded(-1, 1, (1,)), high=2)
    with pytest.raises(ValueError, match="the spec of 'a' must have bounds, got Categorical"):
        nn.TanhModule(["a"], spec=Categorical(3))
    raises(ValueError, r"out_keys must be as many as in_keys=\['a'\]", nn.TanhModule, ["a"], ["b", "c"])
    raises(KeyError, r"TanhModule reads the entries \['b'\]", nn.TanhModule(["a", "b"]), TensorDict(a=X))
