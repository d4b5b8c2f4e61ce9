"""A graph while it is traced: values, nodes, sizes."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.graphs import check, new_graph, numbers

import lite._transforms.graphs.trace  # noqa: F401 - the rules
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.sizes import Size
from lite.nn import Parameter


def test_the_same_twice_is_once() -> None:
    graph, (x,) = new_graph(n=211)
    a, b = np.tanh(x) + 1, np.tanh(x) + np.float32(1)
    np.testing.assert_equal((a.name == b.name, [node.op for node in graph.nodes]), (True, ["Tanh", "Add"]))
    np.testing.assert_equal(len(graph.constants), 1)


def test_weights_are_known_by_their_array() -> None:
    graph, (x,) = new_graph(n=211)
    weight = np.ones(3, np.float32)
    named = graph.weight("scale", weight)
    for product in (x * weight, x * Parameter(weight), x * named):
        np.testing.assert_equal(product.name, (x * named).name)
    np.testing.assert_equal((list(graph.weights), list(graph.constants)), (["scale"], []))


def test_a_size_from_nowhere_is_refused() -> None:
    graph, (_,) = new_graph(n=211)
    with pytest.raises(NotImplementedError, match="computes a size from that of a dynamic dimension"):
        graph.size_array(Size(105))


def test_constants_of_a_dynamic_size_are_uniform() -> None:
    graph, (_,) = new_graph(n=211)
    made = graph.constant(np.full((211, 2), [1.0, 2.0], np.float32))
    np.testing.assert_equal((made.shape, next(iter(graph.constants.values())).shape), ((211, 2), (1, 2)))
    raises(NotImplementedError, "numbers differ along it", lambda: graph.constant(np.arange(211)))


def test_dtypes_that_are_none() -> None:
    graph, (x,) = new_graph(n=211)
    raises(NotImplementedError, "dtype object", lambda: graph.constant(np.array([None])))
    raises(NotImplementedError, "complex numbers", lambda: x * 1j)


def test_arrays_of_another_trace_are_refused() -> None:
    _, (x,) = new_graph(n=211)
    _, (y,) = new_graph(n=211)
    raises(NotImplementedError, "array of another trace", lambda: x + y)


def test_lists_of_arrays() -> None:
    graph, (x,) = new_graph(n=211)
    made = graph.operand([x[0, 0], 2.0])
    np.testing.assert_equal((made.shape, made.dtype), ((2,), np.float64))


def test_errors_have_the_path() -> None:
    graph = Graph({})
    with (
        graph.running("actor"),
        graph.running("actor.0"),
        pytest.raises(KeyError, match=r"'actor\.0' does that"),
    ):
        graph.fail("does that", KeyError)
    raises(NotImplementedError, "the module does that", lambda: graph.fail("does that"))


def test_sums_and_differences_of_a_dynamic_size() -> None:
    def function(x: np.ndarray) -> list[Any]:
        n = x.shape[0]
        chosen = x[x[:, 0] > 0]
        found = [
            x.sum(0) / (n - 1),
            np.zeros_like(x, shape=(n + 1, 2)),
            np.cov(x.T),
            x * (2 * n - 3) + 1 / (n + 2),
        ]
        return [*found, np.cov(chosen.T), chosen.sum(0) / (chosen.shape[0] + 1)]

    check(function, numbers(6, 2), sizes=(5, 9))
