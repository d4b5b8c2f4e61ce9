"""Clipping: what is written and what is not."""

import math

import numpy as np
import pytest

from lite import TensorDict, nn, optim


def test_functions_only_read():
    grads = TensorDict({"a": np.array([3.0]), "n": {"b": np.array([4.0])}, "count": np.array([7])})
    new, norm = optim.clip_grad_norm(grads, 1.0)
    assert float(norm) == 5.0
    np.testing.assert_allclose([new["a"][0], new["n", "b"][0], new["count"][0]], [0.6, 0.8, 7], rtol=1e-5)
    assert grads["a"] == 3.0
    assert optim.clip_grad_value(grads, 3.5)["n", "b"] == 3.5
    assert grads["n", "b"] == 4.0


def test_in_place():
    grads = TensorDict({"a": np.array([3.0]), "n": {"b": np.array([4.0])}})
    array = grads["n", "b"]
    assert optim.clip_grad_norm_(grads, 10.0) == 5.0
    assert array == 4.0
    optim.clip_grad_norm_(grads, 1.0)
    np.testing.assert_allclose(array, [0.8], rtol=1e-5)


def test_parameters_of_a_tensordict_have_gradients():
    params = nn.TensorDictParams({"a": np.ones(2), "b": np.ones(1)})
    params["a"].grad = np.array([3.0, 4.0])
    assert optim.clip_grad_norm_(params, 1.0) == 5.0
    np.testing.assert_allclose(params["a"].grad, [0.6, 0.8], rtol=1e-5)
    np.testing.assert_array_equal(params["a"].data, [1, 1])


def test_a_gradient_that_arithmetic_made_a_scalar():
    p = nn.Parameter(np.float32(2))
    for clip in (optim.clip_grad_norm_, optim.clip_grad_value_):
        p.grad = np.float32(3) * 2
        clip([p], 1.0)
        np.testing.assert_allclose(p.grad, 1, rtol=1e-5)


def test_no_gradients():
    assert optim.clip_grad_norm_([nn.Parameter(np.ones(2))], 1.0) == 0.0
    assert optim.clip_grad_norm_([], 1.0) == 0.0
    assert optim.clip_grad_norm_(nn.Parameter(np.ones(2)), 1.0, math.inf) == 0.0


def test_numbers_that_are_not_finite():
    for value, allowed in ((3.0, True), (math.inf, False), (math.nan, False)):
        grads = TensorDict(a=np.array([value]), b=np.ones(1))
        assert optim.clip_grad_norm(grads, 1.0)[1] == pytest.approx(math.hypot(value, 1.0), nan_ok=True)
        if allowed:
            assert optim.clip_grad_norm(grads, 1.0, error_if_nonfinite=True)[1] > 3
            continue
        with pytest.raises(RuntimeError, match=f"the norm of the gradients is {value}, so they cannot be"):
            optim.clip_grad_norm_(grads, 1.0, error_if_nonfinite=True)
        assert grads["b"] == 1


def test_half_precision_is_summed_in_more():
    grads = TensorDict(a=np.full(40_000, 10, np.float16))
    assert optim.clip_grad_norm_(grads, 1.0) == 2000
    np.testing.assert_allclose(grads["a"], 0.005, rtol=2e-3)


def test_no_parameters():
    with pytest.raises(TypeError, match="must be Parameters or a TensorDict of gradients, got ndarray"):
        optim.clip_grad_norm_([np.ones(2)], 1.0)
    with pytest.raises(TypeError, match="grads must be a TensorDict, got list"):
        optim.clip_grad_value([np.ones(2)], 1.0)
