"""Rules of functions that sort."""

from typing import Any

import numpy as np
from helpers.central_differences import Case, assert_gradients, grad_of
from helpers.graphs import check as check_graph
from helpers.graphs import numbers
from helpers.rule_tests import of_rules
from helpers.vmap_cases import check_mapped, f, for_each, i, ordered, written

CASES: list[Case] = [
    *((f"sort, axis={axis}", lambda x, axis=axis: np.sort(x, axis), (f(3, 4),)) for axis in (None, 0, -1)),
    ("sort, kind", lambda x: np.sort(x, kind="heapsort") * np.sort(x, stable=True), (f(5),)),
    ("partition", lambda x: np.sum(np.partition(x, 2, 1)[:, :2], 1), (f(3, 5),)),
    ("partition, several", lambda x: np.partition(x, (1, 3), None)[1:4:2], (f(5),)),
]
test_derivatives, test_graphs, test_graphs_of_derivatives = of_rules(CASES)


def test_sorting_in_place() -> None:
    def fn(x: Any) -> Any:
        x = x * 2.0
        x.sort(0)
        return x

    assert_gradients(fn, np.random.default_rng(0).standard_normal((4, 3)))


def test_equal_elements_stay_in_their_order() -> None:
    got = grad_of(lambda x: np.sort(x) * np.arange(1.0, 5.0), [2.0, 1.0, 2.0, 0.0])
    np.testing.assert_array_equal(got, [3, 2, 4, 1])


def test_nan_is_sorted_to_the_end() -> None:
    got = grad_of(lambda x: np.sort(x)[:2], [2.0, np.nan, 1.0])
    np.testing.assert_array_equal(got, [1, 0, 1])

    x = np.random.default_rng(0).normal(size=(9, 8)).astype(np.float32)
    x[::2, 3] = x[1, ::3] = np.nan
    x[4, 4], x[5, 1] = np.inf, -np.inf
    check_graph(lambda x: (np.sort(x, 0), np.argsort(x, 0), np.argsort(x, 1)), x)
    check_graph(lambda x: np.sort(np.partition(x, 3, -1)[:, :4]), x)
    for side in ("left", "right"):
        check_graph(lambda x, side=side: np.searchsorted(np.sort(x[0]), x, side), x)
    check_graph(lambda x: np.digitize(x, [-1.0, 0.0]), x)


VMAP_CASES: list[Case] = [
    ("sort method", written(lambda x: x.sort(0)), (f(5, 2),)),
    ("argsort", lambda x: x.argsort(0), (f(5, 2),)),
    ("argpartition", lambda x: np.take_along_axis(x, np.argpartition(x, 2), -1)[..., 2], (f(2, 5),)),
    ("searchsorted", lambda x, y: np.searchsorted(x, y), (ordered(5), f(3, 2))),
    (
        "searchsorted, ties",
        lambda x: np.searchsorted(x, x) + 9 * np.searchsorted(x, x, "right"),
        (ordered(5),),
    ),
    ("searchsorted, right", lambda x, y: np.searchsorted(x, y, "right"), (ordered(5), f())),
    ("searchsorted, sorter", lambda x, y: np.searchsorted(x, y, sorter=np.argsort(x)), (f(5), f(3))),
    ("lexsort", lambda x, y: np.lexsort((x, y)), (f(5), i(5))),
    ("lexsort of one key", lambda x: np.lexsort((x,)), (f(5),)),
    ("interp", lambda x: np.interp(x, [0.0, 1.0], [2.0, 3.0]), (f(3),)),
    ("digitize", lambda x: np.digitize(x, [0.0, 1.0]), (f(3),)),
    ("isin", lambda x, y: np.isin(x, y), (i(2, 3), i(2))),
]


def test_maps_equal_loops() -> None:
    for_each(check_mapped, VMAP_CASES)


def test_sorting() -> None:
    x = numbers(5, 4)
    check_graph(lambda x: np.take_along_axis(x, np.argpartition(x, 0, 0), 0)[0], x)
    check_graph(lambda x: (np.sort(x), np.sort(x, 0), np.argsort(x, 1), np.sort(x, None)), x)


def test_ties_are_stable() -> None:
    check_graph(lambda x: np.argsort(x, -1, stable=True), np.float32([[1, 0, 1, 0], [2, 2, 1, 1]]))


def test_places_between_edges() -> None:
    edges = np.float32([-1, 0, 1])
    check_graph(lambda x: (np.searchsorted(edges, x), np.digitize(x, edges)), numbers(5, 3))
    check_graph(lambda x: np.searchsorted(edges, x, side="right"), np.float32([[-1, 0], [1, 2]]))


def test_members_and_bools_in_a_graph() -> None:
    x = np.arange(6).reshape(3, 2)
    check_graph(lambda x: (np.isin(x, [1, 4, 9]), np.isin(x, [[1], [4]], invert=True)), x)
    check_graph(lambda x: (np.sort(x % 2 > 0, 0), np.argsort(x % 3 > 0, 0, kind="stable")), x)
