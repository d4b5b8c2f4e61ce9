"""The arrays that a differentiated function sees."""

import copy
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

import lite
from lite import TensorDict, nn


def inside(fn: Any, x: Any = None) -> Any:
    """What a function gives of a traced array, with no need to be a loss."""
    out: list[Any] = []

    def loss(x: Any) -> Any:
        out.append(fn(x))
        return x.sum()

    lite.grad(loss)(np.arange(6.0).reshape(2, 3) if x is None else x)
    return out[0]


def test_attributes_are_those_of_the_value() -> None:
    found = inside(
        lambda x: (x.shape, x.ndim, x.size, x.dtype, len(x), x.itemsize, x.nbytes, x.requires_grad)
    )
    assert found == ((2, 3), 2, 6, np.float64, 2, 8, 48, True)
    assert inside(lambda x: x.flags.c_contiguous)
    assert inside(lambda x: (x.T.shape, x.mT.shape)) == ((3, 2), (3, 2))


def test_numbers_are_taken_out() -> None:
    assert inside(lambda x: (x[0, 1].item(), x.item(4), x.tolist())) == (1.0, 4.0, [[0, 1, 2], [3, 4, 5]])
    assert inside(lambda x: f"{x.sum():.2f} {x[0, 2]:g}") == "15.00 2"
    assert inside(lambda x: (bool(x[0, 1]), 4 in x, 7 in x)) == (True, True, False)
    assert inside(repr, np.ones(1)) == "TracedArray(array([1.]))"


@each_case("kind", [float, int, complex])
def test_numbers_that_would_lose_the_gradient(kind: Any) -> None:
    with pytest.raises(TypeError, match=rf"{kind.__name__}\(\) of an array that a gradient is computed for"):
        inside(lambda x: kind(x[0, 0]))


def test_numbers_after_backward() -> None:
    weight = nn.Parameter(np.ones(2))
    with lite.enable_grad():
        loss = (weight * 2).sum()
        raises(TypeError, r"use x\.item", lambda: float(loss))
        loss.backward()
        assert (float(loss), int(loss), complex(loss)) == (4.0, 4, 4 + 0j)


def test_comparisons_and_branches() -> None:
    def loss(x: Any) -> Any:
        assert type(x > 1) is np.ndarray
        return (x * x).sum() if x[0] > 0 else x.sum()

    np.testing.assert_array_equal(lite.grad(loss)(np.array([2.0, 3.0])), [4, 6])
    np.testing.assert_array_equal(lite.grad(loss)(np.array([-2.0, 3.0])), [1, 1])


def test_detach() -> None:
    np.testing.assert_array_equal(lite.grad(lambda x: (x * x.detach()).sum())(np.array([2.0, 3.0])), [2, 3])
    value = inside(lambda x: (x * 2).detach())
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 1.0  # the backward pass may need it
    raises(RuntimeError, r"use detach\(\) instead", lambda: inside(lambda x: x.numpy()))


def test_copies_keep_the_gradient() -> None:
    def loss(x: Any) -> Any:
        y = x.copy()
        y *= 2
        return (y * copy.copy(x) * copy.deepcopy(x)).sum()

    np.testing.assert_array_equal(lite.grad(loss)(np.array([2.0, 3.0])), [24, 54])


def test_other_views_of_bytes_are_refused() -> None:
    with pytest.raises(TypeError, match="the bytes of float64 seen as int64 have no derivative"):
        inside(lambda x: x.view(np.int64))
    assert inside(lambda x: x.view().shape) == (2, 3)


def test_no_other_attributes() -> None:
    assert not inside(lambda x: hasattr(x, "__cuda_array_interface__"))
    raises(AttributeError, "'TracedArray' object has no attribute 'colour'", inside, lambda x: x.colour)


def test_beside_tensordicts() -> None:
    data = TensorDict({"a": np.array([1.0, 2.0]), "b": np.array([3.0, 4.0])}, [2])

    def loss(x: Any) -> Any:
        out = (data * x) + (x * data)
        out["c"] = x**2
        return sum(entry.sum() for entry in out.values())

    np.testing.assert_array_equal(lite.grad(loss)(np.array([5.0, 6.0])), [2 * 4 + 10, 2 * 6 + 12])


def test_beside_parameters() -> None:
    weight = nn.Parameter(np.array([2.0, 3.0]))
    for fn in (lambda x: x * weight, lambda x: weight * x, lambda x: np.multiply(weight, x)):
        np.testing.assert_array_equal(lite.grad(lambda x, fn=fn: fn(x).sum())(np.ones(2)), [2, 3])
    stacked = lite.grad(lambda x: (np.stack([x, weight]) * np.array([[1.0], [5.0]])).sum())(np.ones(2))
    np.testing.assert_array_equal(stacked, 1)


def test_integers_are_indexed_in_tensordicts() -> None:
    data = TensorDict({"a": np.arange(3)}, [3])
    raises(TypeError, "indexed by integers and bools", lambda: inside(lambda x: data[x]))
