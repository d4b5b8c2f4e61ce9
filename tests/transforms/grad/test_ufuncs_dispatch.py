"""From a call of a NumPy function to its derivative's rule."""

from typing import Any

import numpy as np
import pytest

import lite
from lite import TensorDict


def test_a_function_without_a_rule_is_named() -> None:
    for call, name in [
        (lambda x: np.polyfit(x[0], x[1], 1), r"numpy\.polyfit"),
        (lambda x: np.fft.hfft(x), r"numpy\.fft\.hfft"),
        (lambda x: np.histogram(x), r"numpy\.histogram"),
        (lambda x: np.apply_along_axis(np.sum, 0, x), r"numpy\.apply_along_axis"),
    ]:
        with pytest.raises(NotImplementedError, match=rf"no gradient through {name}: .*lite\.custom_vjp"):
            lite.grad(call)(np.eye(3))


def test_flat_functions_give_plain_arrays() -> None:
    def loss(x: Any) -> Any:
        for flat in (np.argsort(x), np.argmax(x), x.argmin(), np.isclose(x, 1), np.round(x), x.nonzero()[0]):
            assert not hasattr(flat, "node")
        assert np.shape(x) == (3,)
        assert np.array_equal(x, x)
        return x[np.argsort(x)][-1] * np.searchsorted(x, 2.5)

    np.testing.assert_array_equal(lite.grad(loss)(np.array([1.0, 2.0, 3.0])), [0, 0, 2])


@pytest.mark.parametrize("position", [False, True])
def test_out(position: bool) -> None:
    def loss(x: Any) -> Any:
        out = np.zeros_like(x, shape=2)
        done = np.sum(x, 1, None, out) if position else np.sum(x, 1, out=out)
        assert np.sum(x, 1, out=(out,)) is out
        assert done is out
        return (out * out).sum()

    np.testing.assert_array_equal(lite.grad(loss)(np.array([[1.0, 2.0], [3.0, 4.0]])), [[6, 6], [14, 14]])
    target = np.zeros(2)
    with pytest.raises(TypeError, match=r"numpy\.sum has a gradient, which an ndarray as out= would lose"):
        lite.grad(lambda x: np.sum(x, 1, None, target) if position else np.sum(x, 1, out=target))(np.eye(2))


def test_arguments_with_a_derivative_that_is_not_known() -> None:
    with pytest.raises(NotImplementedError, match=r"no gradient through numpy\.pad"):
        lite.grad(lambda x: np.pad(x, 1, constant_values=x[0]))(np.ones(2))


def test_functions_beside_tensordicts() -> None:
    def loss(x: Any) -> Any:
        td = TensorDict({"a": x, "b": x * 2}, [2])
        both = lite.stack([td, td * 3], 0)
        assert both.batch_size == (2, 2)
        return sum((entry**2).sum() for entry in both.values()) + td[0]["a"] + td.sum(0)["b"]

    np.testing.assert_allclose(lite.grad(loss)(np.array([1.0, 2.0])), [2 * 50 + 1 + 2, 4 * 50 + 2])


def test_padded_tensordicts() -> None:
    def loss(td: Any) -> Any:
        return (lite.pad(td, [1, 2], value=3.0)["a"] ** 2).sum()

    td = TensorDict({"a": np.array([1.0, 2.0])}, [2])
    np.testing.assert_array_equal(lite.grad(loss)(td)["a"], [2, 4])
    rows = TensorDict({"a": np.array([[1.0, 2.0], [3.0, 4.0]])}, [2, 2])
    np.testing.assert_array_equal(lite.vmap(loss)(rows), [27 + 5, 27 + 25])


def test_places_of_arguments_are_known_of_functions_in_c() -> None:
    """NumPy 2.2 and 2.3 do not tell the parameters of these."""
    np.testing.assert_array_equal(lite.grad(lambda x: np.concatenate([x, x], 0).sum())(np.ones(2)), [2, 2])
    np.testing.assert_array_equal(lite.grad(lambda x: np.dot(x, x))(np.ones(2)), [2, 2])


def test_results_of_several_arrays_are_copied_into_out() -> None:
    def fractions(x: Any) -> Any:
        whole, rest = np.zeros_like(x), np.zeros_like(x)
        found = np.divmod(x, 2.0, out=(whole, rest))
        assert found[0] is whole
        assert found[1] is rest
        return (rest * rest).sum()

    np.testing.assert_allclose(lite.grad(fractions)(np.array([2.5, 5.0])), [1, 2])
