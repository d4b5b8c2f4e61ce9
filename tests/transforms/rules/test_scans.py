"""Rules of running sums and products, differences and other functions along one axis."""

from typing import Any

import numpy as np
from helpers.cases import raises
from helpers.central_differences import Case, assert_gradients, grad_of
from helpers.compared import assert_same
from helpers.graphs import check as check_graph
from helpers.rule_tests import of_rules
from helpers.vmap_cases import f, nan, ordered

import lite


def along(function: Any, *axes: Any) -> Any:
    return lambda x: [function(x, axis) for axis in axes]


CASES: list[Case] = [
    ("maximum.accumulate", along(np.maximum.accumulate, 0, 1, -1), (f(3, 4),)),
    ("minimum.accumulate", along(np.minimum.accumulate, 0, 1, -1), (f(3, 4),)),
    ("cumsum", along(np.cumsum, None, 0, 1, -2), (f(3, 4),)),
    ("cumprod", along(np.cumprod, None, 0, 1, -2), (f(3, 4),)),
    ("nancumsum", along(np.nancumsum, None, 1), (nan(3, 4),)),
    ("nancumprod", along(np.nancumprod, None, 1), (nan(3, 4),)),
    ("cumulative_sum", lambda x: np.cumulative_sum(x), (f(4),)),
    ("cumulative_prod", lambda x: np.cumulative_prod(x), (f(4),)),
    *(
        (
            f"{name}, initial",
            lambda x, name=name: getattr(np, name)(x, axis=1, include_initial=True),
            (f(2, 3),),
        )
        for name in ("cumulative_sum", "cumulative_prod")
    ),
    ("accumulate", lambda x: np.add.accumulate(x, 1) + np.multiply.accumulate(x), (f(3, 4),)),
    ("diff", lambda x: np.diff(x, 2, 0), (f(4, 2),)),
    ("diff, prepend and append", lambda x, y: np.diff(x, prepend=y, append=1.0), (f(2, 4), f(2, 1))),
    ("ediff1d", lambda x, y: np.ediff1d(x, y, [1.0, 2.0]), (f(3, 2), f(2))),
    ("trapezoid", lambda y, x: np.trapezoid(y, x), (f(2, 4), f(4))),
    ("trapezoid, dx", lambda y: np.trapezoid(y, dx=0.5, axis=0), (f(3, 4),)),
    ("trapezoid, places", lambda y, x: np.trapezoid(y, x, axis=0), (f(3, 4), f(3))),
    ("gradient", lambda x: np.gradient(x), (f(5),)),
    ("gradient, axes", lambda x: np.gradient(x, 0.5, 2.0), (f(3, 4),)),
    ("gradient, one axis", lambda x: np.gradient(x, axis=1, edge_order=2), (f(3, 4),)),
    ("gradient, places", lambda x: np.gradient(x, [0.0, 0.5, 2.0, 2.5], axis=0, edge_order=2), (f(4, 2),)),
    ("gradient, places with a derivative", lambda x, y: np.gradient(x, y, axis=0), (f(4), ordered(4))),
    ("unwrap", lambda x: np.unwrap(x * 4), (f(3, 8),)),
    ("unwrap, period", lambda x: np.unwrap(x * 4, 0.7, 0, period=2.0), (f(8, 2),)),
    ("polyval", lambda p, x: np.polyval(p, x), (f(3), f(4))),
    ("vander", lambda x: np.vander(x, 4), (f(3),)),
]
test_derivatives, test_graphs, test_graphs_of_derivatives = of_rules(CASES)


def test_interpolation() -> None:
    places, values = np.array([0.0, 1.0, 3.0]), np.array([1.0, 4.0, 2.0])
    x = np.array([0.3, 2.0, 1.4])
    assert_gradients(np.interp, x, places, values)
    assert_gradients(lambda f: np.interp([-1.0, 0.5, 7.0], [0.0, 1.0, 3.0], f), values)
    assert_gradients(
        lambda x: np.interp(x, [0.0, 1.0, 3.0], [1.0, 4.0, 2.0], -1.0, 9.0), np.array([-0.5, 2.0, 4.0])
    )
    np.testing.assert_array_equal(grad_of(lambda x: np.interp(x, places, values), [-5.0, 9.0]), [0, 0])
    assert_gradients(lambda *xs: np.interp(*xs, period=2.5), x, places + 0.1, values)
    assert_gradients(lambda x: np.interp(x, places, values), np.array(0.3))
    at_the_end = lite.value_and_grad(lambda x: np.interp(x, [0.0, 2.0, 2.0], [1.0, 4.0, 7.0]))
    assert at_the_end(2.0) == (7.0, 0.0)  # of equal points the last, as NumPy has it
    assert_gradients(lambda x, f: np.interp(x, [1.0], f, right=5.0), np.array([0.5, 2.0]), values[:1])


def test_too_few_points() -> None:
    slope = lite.grad(lambda x: (np.diff(np.arcsin(x)) * 1.5).sum() + np.sin(x).sum())
    np.testing.assert_allclose(lite.jit(slope)(np.array([0.3])), np.cos([0.3]))  # of no difference
    for size in (2, 3):
        few = np.ones(size - 1)
        raises(ValueError, "too small", grad_of, lambda x, n=size: np.gradient(x, edge_order=n - 1), few)
        assert grad_of(lambda x, n=size: np.gradient(x, edge_order=n - 1), np.ones(size)).shape == (size,)


def test_running_sums_of_integer_parts_name_the_function() -> None:
    raises(NotImplementedError, r"numpy\.cumsum", grad_of, lambda x: np.cumsum(x, dtype=np.int64), [1.5])


def test_cumulative_functions_need_an_axis() -> None:
    raises(ValueError, "axis", grad_of, np.cumulative_sum, [[1.5]])


def test_the_latest_of_equal_extremes_has_the_gradient() -> None:
    np.testing.assert_array_equal(
        grad_of(np.maximum.accumulate, [1.0, 1.0, 0.0, np.nan, 2.0]), [1, 2, 0, 2, 0]
    )
    td = lite.TensorDict(a=lite.nn.Parameter(np.array([3.0, 1.0, 2.0], np.float32)), batch_size=[3])
    with lite.enable_grad():
        td.cummin(0).values["a"].sum().backward()
    np.testing.assert_array_equal(td["a"].grad, [1, 2, 0])


def test_interpolation_in_a_graph() -> None:
    x, places, values = np.array([-1, 0, 0.5, 1, 2, 3, np.nan]), np.array([0.0, 1, 2]), np.array([5.0, 7, 1])
    for ends in ({}, {"left": -9.0, "right": 4.0}, {"period": -1.5}):
        check_graph(lambda x, ends=ends: np.interp(x, places, values, **ends), x)
    grads = lite.grad(lambda x, values: np.interp(x, places, values).sum(), argnums=(0, 1))
    assert_same(lite.jit(grads, threads=1)(x[:-1], values), grads(x[:-1], values), rtol=1e-7)
    steps = np.int64([0, 30, 200])
    check_graph(lambda n: np.interp(n, [0, 100], [1.0, 0.1]), steps)  # as epsilon of a policy


def test_running_extremes_of_bools() -> None:
    check_graph(
        lambda x: (np.maximum.accumulate(x), np.minimum.accumulate(x)), np.array([False, True, False])
    )


def test_running_extremes_of_unsigned_integers() -> None:
    def extremes(x: Any) -> Any:
        return np.maximum.accumulate(x, 1), np.minimum.accumulate(x, 1)

    for dtype in (np.uint8, np.uint32, np.uint64):
        check_graph(extremes, np.array([[3, 5, 2, 4] * 4], dtype))
        x = np.array([[5, np.iinfo(dtype).max, 2, 1 << 7]], dtype)
        assert_same(lite.jit(extremes)(x), extremes(x))
