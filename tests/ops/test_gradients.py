"""Gradients by the parameters in a TensorDict, and of the results in one."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

import lite
from lite import TensorDict, lazy_stack, nn


def params() -> Any:
    return TensorDict({"a": nn.Parameter(np.array([1.0, 2.0])), "n": {"b": nn.Parameter(np.ones(3))}})


def test_grad_has_the_keys_that_have_gradients() -> None:
    td = params()
    assert td.grad is None
    with lite.enable_grad():
        (td["a"] ** 2).sum().backward()
    np.testing.assert_array_equal(td.grad["a"], [2, 4])
    assert list(td.grad.keys(True, True)) == ["a"]
    assert td.lock_().grad.is_locked
    assert td.zero_grad(set_to_none=False).grad["a"].tolist() == [0, 0]
    assert td.zero_grad() is td
    assert td.grad is None


def test_lazy_stacks() -> None:
    stack = lazy_stack([params(), params()])
    with lite.enable_grad():
        (stack["a"] * np.array([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    np.testing.assert_array_equal(stack[1]["a"].grad, [3, 4])
    np.testing.assert_array_equal(stack.grad["a"], [[1, 2], [3, 4]])
    stack.zero_grad()
    assert stack[0]["a"].grad is None


def test_setting_gradients_copies_into_those_that_are_there() -> None:
    td = params()
    td.grad = td.data.clone()
    held = td["a"].grad
    td.grad = td.data * 3
    np.testing.assert_array_equal(held, [3, 6])
    with pytest.raises(KeyError):
        td.grad = TensorDict(a=np.zeros(2))
    np.testing.assert_array_equal(td["a"].grad, [3, 6])
    with pytest.raises(RuntimeError, match="only Parameters have gradients, got an array for 'x'"):
        TensorDict(x=np.ones(2)).grad = TensorDict(x=np.ones(2))


def test_requires_grad() -> None:
    td = params()
    assert td.requires_grad
    assert td.requires_grad_(False) is td
    assert not td.requires_grad
    mixed = TensorDict(a=nn.Parameter(np.ones(2), requires_grad=False), b=np.ones(2))
    raises(RuntimeError, "TensorDictParams", lambda: mixed.requires_grad_())
    assert not mixed["a"].requires_grad
    mixed.requires_grad_(False)
    integers = TensorDict(a=nn.Parameter(np.ones(2), False), b=nn.Parameter(np.ones(2, np.int64), False))
    raises(RuntimeError, "floating", lambda: integers.requires_grad_())
    assert not integers["a"].requires_grad


def test_backward() -> None:
    td = params()
    with lite.enable_grad():
        losses = TensorDict({"x": (td["a"] ** 2).sum(), "y": {"z": td["n", "b"] * 2}, "steps": 5})
    raises(RuntimeError, r"single numbers, got the shape \(3,\) for \('y', 'z'\)", lambda: losses.backward())
    raises(TypeError, "must be a TensorDict, got ndarray", lambda: losses.backward(np.ones(3)))
    raises(KeyError, "'y', 'z'", lambda: losses.backward(TensorDict(x=np.array(1.0))))
    weights = TensorDict({"x": np.array(0.5), "y": {"z": np.arange(3.0)}})
    with pytest.raises(RuntimeError, match="must have shape"):
        losses.backward(TensorDict({"x": np.array(0.5), "y": {"z": np.arange(4.0)}}))
    raises(NotImplementedError, "create_graph", lambda: losses.backward(weights, create_graph=True))
    assert td.grad is None
    losses.backward(weights, retain_graph=True, inputs=td.select("a"))
    assert td["n", "b"].grad is None
    losses.backward(weights)
    np.testing.assert_array_equal(td["a"].grad, [2, 4])
    np.testing.assert_array_equal(td["n", "b"].grad, [0, 2, 4])
    raises(RuntimeError, "enable_grad", lambda: td.data.backward())


def test_detach() -> None:
    td = params()
    with lite.enable_grad():
        results = TensorDict({"x": td["a"] * 2, "n": {"y": td["a"] + 1}})
    plain = results.detach()
    assert type(plain["x"]) is np.ndarray
    assert not plain.requires_grad
    assert results.requires_grad
    assert results.detach_() is results
    assert type(results["n", "y"]) is np.ndarray
    assert td.detach_()["a"] is td["a"]
    with lite.enable_grad():
        ragged = lazy_stack([TensorDict(x=td["a"][:n] * 2) for n in (1, 2)])
    assert ragged.requires_grad
    assert not ragged.detach_().requires_grad


def test_all_parameters_as_one_array() -> None:
    """A norm of weights in a loss: `reduce=True`, and their arrays joined."""
    numbers = np.array([[3.0, 1.0], [2.0, -2.0]])
    for name, of, expected in (
        ("norm", lambda td: td.norm(reduce=True), numbers / np.sqrt(18)),
        ("mean of rows", lambda td: td.sum("feature", reduce=True)[0], [[1, 1], [0, 0]]),
        ("max along a dim", lambda td: td.amax(dim=0, reduce=True).sum(), [[1, 0], [0, 0]]),
        ("cat_from_tensordict", lambda td: (td.cat_from_tensordict(1) ** 2).sum(), 2 * numbers),
    ):
        td = TensorDict(
            {"a": nn.Parameter(numbers[:, :1].copy()), "b": nn.Parameter(numbers[:, 1:].copy())}, [2]
        )
        with lite.enable_grad():
            of(td).backward()
        found = np.concatenate([td["a"].grad, td["b"].grad], -1)
        np.testing.assert_allclose(found, expected, err_msg=name)
