"""Rules of functions that choose elements or write some, in other forms than brackets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.central_differences import Case, assert_gradients, check_central, check_gradients, check_jacobian
from helpers.graphs import check as check_graph
from helpers.graphs import check_onnx, numbers
from helpers.vmap_cases import b, check_mapped, f, for_each, i
from helpers.vmap_cases import written as written_to_copy

import lite
from lite import vmap
from lite._transforms.vmap.loop import _warned


def written(write: Any) -> Any:
    """A function that writes into an array that everything is in, and reads it."""

    def fn(x: Any, *args: Any) -> Any:
        out = x * 2 + sum(0 * arg.sum() for arg in args)
        write(out, *args)
        return out * out

    return fn


CASES: list[Case] = [
    ("where", lambda m, x, y: np.where(m, x, y), (b(2, 3), f(2, 3), f(3))),
    ("where of one", lambda m, x: np.where(m, x, 1.0) * np.where(m, 2, x), (b(2, 3), f())),
    ("where of bools", lambda m, x: np.where(m, x > 0, ~m) * x, (b(2, 3), f(2, 3))),
    ("where of floats", lambda x: np.where(x, x * x, 0), (f(3),)),
    ("take", lambda x, k: np.take(x, k % 2, 0), (f(2, 3), i(2, 2))),
    ("take of all", lambda x: np.take(x, [[0, -1], [2, 2]]) * x.take(0), (f(2, 3),)),
    ("take, wrap", lambda x: np.take(x, [5, -7], 1, mode="wrap") * np.take(x, [5, -7], 1, mode="clip"),
        (f(2, 3),)),
    ("take_along_axis", lambda x, k: np.take_along_axis(x, k % 3, -1), (f(2, 3), i(2, 1))),
    ("take_along_axis, several", lambda x, k: np.take_along_axis(x, k % 3, -1), (f(2, 3), i(2, 5))),
    ("take_along_axis, first", lambda x, k: np.take_along_axis(x, k % 2, 0), (f(2, 3), i(4, 3))),
    ("take_along_axis of all", lambda x: np.take_along_axis(x, np.array([5, 0, 0]), None), (f(2, 3),)),
    ("put_along_axis", written(lambda out, y: np.put_along_axis(out, np.array([[1], [2]]), y, 1)),
        (f(2, 3), f(2, 1))),
    ("copyto", written(lambda out, y: np.copyto(out, y)), (f(2, 3), f(3))),
    ("copyto, where", written(lambda out, y: np.copyto(out, y, where=np.array([True, False, True]))),
        (f(2, 3), f(3))),
    ("fill_diagonal", written(lambda out, y: np.fill_diagonal(out, y)), (f(3, 2), f())),
    ("choose", lambda x, y: np.choose(np.array([0, 1, 1]), [x, y]), (f(3), f(3))),
    ("select", lambda x, y: np.select([x > 0.5, x > 0], [x * y, y], x * x), (f(5), f(5))),
    ("compress", lambda x: np.compress([True, False, True], x, 1) ** 2, (f(2, 3),)),
    ("extract", lambda x: np.extract(np.array([True, False, True]), x) ** 2, (f(3),)),
]  # fmt: skip
# A map of these is a loop, of which vmap warns.
LOOPED: list[Case] = [
    ("piecewise", lambda x,
        y: np.piecewise(x, [x < 0, x > 0.5], [lambda v, n: v * v.sum() * n, lambda v, n: v * v, 7], y),
        (f(9), f())),
    ("piecewise of one condition", lambda x, y: np.piecewise(x, x < 0, [y, lambda v: 3 * v]), (f(9), f())),
    ("piecewise of numbers", lambda x: np.piecewise(x, [np.array([1, 0, 1])], [lambda v: v * v, np.sin]),
        (f(3),)),
    ("put_along_axis of all", written(lambda out, y: np.put_along_axis(out, np.array([5, 0]), y, None)),
        (f(2, 3), f(2))),
    ("put", written(lambda out, y: np.put(out, [1, -1, 2], y)), (f(2, 3), f(2))),
    ("place", written(lambda out, y: np.place(out, np.eye(3, dtype=bool), y)), (f(3, 3), f(2))),
    ("putmask", written(lambda out, y: np.putmask(out, np.eye(3, dtype=bool), y)), (f(3, 3), f(4))),
    ("fill_diagonal, wrap", written(lambda out, y: np.fill_diagonal(out, y, wrap=True)), (f(5, 2), f(2))),
]  # fmt: skip


def test_derivatives() -> None:
    for_each(check_gradients, CASES)
    for_each(check_central, LOOPED)
    for_each(check_jacobian, LOOPED)


def test_graphs() -> None:
    check_onnx(CASES)


def test_where_of_a_condition_alone_has_no_derivative() -> None:
    def loss(x: Any) -> Any:
        (places,) = np.where(x > 0)
        assert type(places) is np.ndarray
        return x[places].sum()

    assert_gradients(loss, np.array([1.0, -1.0, 2.0]))


def test_the_side_that_is_not_chosen_is_not_zero_times_infinity() -> None:
    x = np.array([0.0, 4.0])
    np.testing.assert_array_equal(lite.grad(lambda x: np.where(x > 0, x, 0).sum())(x), [0, 1])
    # As in every library: the root of 0 has an infinite slope, and 0 times that is no number.
    got = lite.grad(lambda x: np.where(x > 0, np.sqrt(x), 0).sum())(x)
    np.testing.assert_array_equal(got, [np.nan, 0.25])
    got = lite.grad(lambda x: np.where(x > 0, np.sqrt(np.where(x > 0, x, 1)), 0).sum())(x)
    np.testing.assert_array_equal(got, [0, 0.25])


def test_piecewise_computes_a_function_only_where_its_condition_holds() -> None:
    def fn(x: Any) -> Any:
        return np.piecewise(x, [x > 0], [np.sqrt]).sum()

    got = lite.grad(fn)(np.array([0.0, 4.0]))
    np.testing.assert_array_equal(got, [0, 0.25])
    with pytest.raises(ValueError, match=r"2 conditions.*got 4"):
        lite.grad(lambda x: np.piecewise(x, [x > 0, x < -1], [1, 2, 3, 4]).sum())(np.ones(2))


VMAP_CASES: list[Case] = [
    ("unravel_index", lambda k: np.stack(np.unravel_index(k % 12, (2, 3, 2))), (i(5),)),
    ("unravel_index by columns", lambda k: np.unravel_index(k % 12, (4, 3), order="F")[0], (i(),)),
    ("ravel_multi_index", lambda k, n: np.ravel_multi_index((k % 4, n % 5), (4, 5)), (i(3), i())),
    ("ravel_multi_index, modes", lambda k, n: np.ravel_multi_index((k, n), (2, 3), ("wrap", "clip"), "F"),
        (i(3, high=9), i(3, high=9))),
    ("put_along_axis", written_to_copy(lambda x, k, y: np.put_along_axis(x, k, y, 1)),
        (f(2, 5), i(2, 1), f(2, 1))),
    ("take of none", lambda x: np.take(x, [], 0), (f(5),)),
    ("take, clip", lambda x, k: np.take(x, k, 0, mode="clip"), (f(5), i(3, high=9))),
    ("choose, clip", lambda k, x, y: np.choose(k, [x, y], mode="clip"), (i(3, high=9), f(3), f(2, 3))),
    ("choose", lambda k, x, y: np.choose(k, [x, y], mode="wrap"), (i(3, high=9), f(3), f(2, 3))),
    ("nonzero of as many", lambda x: np.nonzero(x > np.median(x))[0], (f(5),)),
    ("flatnonzero", lambda x: np.flatnonzero(x > np.median(x)), (f(5),)),
    ("copyto", written_to_copy(lambda x, y, m: np.copyto(x, y, where=m)), (f(2, 3), f(3), b(2, 1))),
    ("put", written(lambda x, k, y: np.put(x, k, y)), (f(2, 3), i(2), f(2))),
    ("put into a view", written(lambda x, y: np.put(x.T, np.array([0, 3]), y)), (f(2, 3), f(2))),
    ("putmask", written_to_copy(lambda x, m: np.putmask(x, m, 3.0)), (f(2, 3), b(2, 3))),
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:vmap has no batching rule for this call of numpy.fill_diagonal")
def test_diagonals_that_are_filled_one_by_one() -> None:
    for shape, value, wrap in (((5, 2), 3.0, True), ((2, 2, 2), 3.0, False), ((3, 2), [1.0, 2, 3], False)):
        for new in (value, np.reshape(value, (1, -1))):

            def filled(x: Any, new: Any = new, wrap: bool = wrap) -> Any:
                x = x.copy()
                np.fill_diagonal(x, new, wrap=wrap)
                return x

            rows = np.zeros((2, *shape))
            np.testing.assert_array_equal(lite.vmap(filled)(rows), [filled(row) for row in rows])


def test_places_of_numbers_that_are_not_zero() -> None:
    rows = np.array([[0.0, 2, 1], [3, 0, 1]])
    np.testing.assert_array_equal(lite.vmap(lambda x: np.nonzero(x)[0])(rows), [[1, 2], [0, 2]])


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


def test_put_in_other_modes_and_of_more_values_runs_in_a_loop() -> None:
    _warned.add("numpy.put")
    x, k = np.zeros((2, 5)), np.array([[1, 7], [2, 8]])
    for mode, places, values in (
        ("wrap", k, x[0, :2] + 1),
        ("clip", k, 3.0),
        ("raise", k % 5, np.ones((1, 2))),
    ):
        put = written_to_copy(lambda x, k, mode=mode, values=values: np.put(x, k, values, mode=mode))
        expected = [put(*pair) for pair in zip(x, places, strict=True)]
        np.testing.assert_array_equal(vmap(put)(x, places), expected)


def test_lookups() -> None:
    x, ids = numbers(5, 4), np.int64([[0, 3], [1, -1], [2, 2], [0, 0], [3, 1]])
    check_graph(lambda x, ids: (np.take_along_axis(x, ids % 4, 1), np.take(x, [1, 3], 1)), x, ids)
    with pytest.raises(NotImplementedError, match="use functions that NumPy dispatches"):
        check_graph(lambda ids: np.take(np.arange(4.0), ids), ids)  # NumPy looks at the table alone


@each_case("mode", ["clip", "wrap"])
def test_indices_that_are_brought_into_a_dynamic_size(mode: Any) -> None:
    for function in (
        lambda x: np.take(x, [0, 5, -7], 0, mode=mode),
        lite.grad(lambda x: (np.take(x, [0, 5, -7], 0, mode=mode) ** 2).sum()),
    ):
        step = lite.jit(function)
        for n in (3, 2, 9):
            x = numbers(n, 4)
            np.testing.assert_allclose(step(x), function(x))


def test_shapes_that_depend_on_numbers() -> None:
    x = numbers(5, 3)
    for function in (np.nonzero, np.flatnonzero, np.argwhere, lambda x: np.where(x < 1)):
        check_graph(lambda x, function=function: function(x > 0), x)
    check_graph(lambda x: (np.compress(x[:, 0] > 0, x, 0), np.extract(x > 0, x), np.nonzero(x)), x)
    for dtype in (np.float64, np.float16, np.int8, np.uint64):
        check_graph(np.nonzero, np.array([[0.5, 0], [0, 3]]).astype(dtype))
    raises(NotImplementedError, "the shape of the result depends on numbers", check_graph, np.unique, x)


def test_numbers_of_elements_and_their_indices() -> None:
    k, n = np.arange(4), np.int64([4, 0, 3, 2])

    def places(k: Any, n: Any) -> Any:
        number = np.ravel_multi_index((k, n), (4, 5))
        return (
            number, *np.unravel_index(number, (4, 5)), *np.unravel_index(number, (4, 5), order="F"),
            np.unravel_index(k, 9)[0], np.ravel_multi_index((2 * k, n - 2), (3, 2), ("wrap", "clip"), "F"),
        )  # fmt: skip

    check_graph(places, k, n)
    check_graph(lambda x: np.unravel_index(np.argmax(x), x.shape), numbers(5, 4))
    for call in (lambda k: np.unravel_index(k, (2, 2)), lambda k: np.ravel_multi_index((k, k), (9, 4))):
        raises(ValueError, r"out of bounds|invalid entry", lite.vmap(call), np.arange(5))


def test_all_elements_are_written_by_their_number() -> None:
    def fn(x: Any, k: Any) -> Any:
        out = x * 2
        np.put_along_axis(out, k, x.reshape(-1)[:2], None)
        return out

    check_graph(fn, numbers(3, 4), np.int64([5, 11]), axes={})


def test_what_is_taken_lies_by_rows() -> None:
    """A write into a reshape reaches it, as NumPy's results share memory there."""

    def fn(x: Any) -> Any:
        taken = np.take(x, [[0, 2], [1, 1]], 1)
        np.multiply(x[0, 0], 3, out=taken.reshape(-1)[:2])
        return taken.sum()

    x = np.arange(6.0).reshape(2, 3) + 1
    np.testing.assert_allclose(lite.value_and_grad(fn)(x)[0], fn(x.copy()))
