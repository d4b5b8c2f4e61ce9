"""Targets that follow."""

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import TensorDict, nn, optim


def test_modules_with_their_buffers():
    target, source = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    source.weight.data[...] = 3.0
    source.running_mean[...] = 4.0
    weight, mean = target.weight.data, target.running_mean
    optim.soft_update(target, source, 0.5)
    np.testing.assert_array_equal(weight, [2, 2])
    np.testing.assert_array_equal(mean, [2, 2])
    np.testing.assert_array_equal(source.weight.data, [3, 3])


@each_case("size", [2, 300])  # of two sizes, as large arrays are computed in blocks
@each_case("wrap", [lite.jit, lambda step: step])
def test_what_a_module_has_twice_moves_once(size, wrap):
    shared, target = nn.Linear(size, size, rng=0), nn.Linear(size, size, rng=0)
    start, source, target = (
        target.weight.data.copy(),
        nn.Sequential(shared, shared),
        nn.Sequential(*[target] * 2),
    )
    shared.weight.data += 1.0
    wrap(lambda: optim.soft_update(target, source, 0.5))()
    np.testing.assert_allclose(target[1].weight.data, start + 0.5, rtol=1e-5)


def test_one_copies_exactly():
    target, source = (
        TensorDict(w=np.zeros(3, np.float32)),
        TensorDict(w=np.array([0.1, np.inf, np.nan], np.float32)),
    )
    optim.soft_update(target, source, 1)
    np.testing.assert_array_equal(target["w"], source["w"])
    assert not np.shares_memory(target["w"], source["w"])


@each_case(
    ("source", "tau", "message"),
    [
        (TensorDict(w=np.ones(2)), 1.5, "tau must be from 0 to 1, got 1.5"),
        (TensorDict(w=np.ones(2)), np.nan, "tau must be from 0 to 1, got nan"),
        (TensorDict(w=np.ones(3)), 0.5, r"source has the shape \(3,\) at 'w', target has \(2,\)"),
        (TensorDict(v=np.ones(2)), 0.5, "source has the entry 'v', which target does not have"),
        (TensorDict(), 0.5, "source must have an array at 'w', as target has"),
    ],
)
def test_errors(source, tau, message):
    target = TensorDict(w=np.zeros(2))
    raises(ValueError, message, lambda: optim.soft_update(target, source, tau))
    assert (target["w"] == 0).all()


def test_read_only_targets():
    target = TensorDict(a=np.zeros(2), w=np.zeros(2))
    target["w"].flags.writeable = False
    with pytest.raises(ValueError, match="target is written in place"):
        optim.soft_update(target, TensorDict(a=np.ones(2), w=np.ones(2)), 0.5)
    assert (target["a"] == 0).all()
    raises(TypeError, "target must be a TensorDict, got list", lambda: optim.soft_update([1], target, 0.5))
