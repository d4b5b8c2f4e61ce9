"""What a traced function sees, and what it is refused."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.cases import raises
from helpers.graphs import new_graph

import lite._transforms.graphs.trace  # noqa: F401 - the rules
from lite._arrays.types import HostArray, as_array, is_array
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.sizes import Size
from lite._transforms.vmap.running import everything


def test_it_is_an_array_to_lite() -> None:
    _, (x,) = new_graph(n=211)
    np.testing.assert_equal((is_array(x), isinstance(x, HostArray), as_array(x) is x), (True, True, True))
    np.testing.assert_equal((x.shape, x.ndim, x.size, x.itemsize, x.nbytes), ((211, 3), 2, 633, 4, 2532))
    np.testing.assert_equal((type(x.shape[0]), type(x.shape[1]), len(x)), (Size, int, 211))
    np.testing.assert_equal(everything(x).shape, (0,))
    np.testing.assert_equal(repr(x), "GraphArray('n', shape=(211, 3), dtype=float32)")


def test_copies_have_the_value_and_go_their_own_way() -> None:
    graph, (x,) = new_graph(n=211)
    for other in (x.copy(), copy.copy(x), x.astype(np.float32)):
        np.testing.assert_equal((other is x, other.name), (False, "n"))
        other += 1
        np.testing.assert_equal(x.name, "n")
    np.testing.assert_equal((x.astype(np.float32, copy=False) is x, copy.deepcopy(x) is x), (True, True))
    np.testing.assert_equal([node.op for node in graph.nodes], ["Add"])


def test_numbers_are_not_known() -> None:
    for ask in [bool, int, float, complex, lambda x: x.item(), lambda x: x.tolist(), lambda x: [0][x], range]:
        graph, (x,) = new_graph(n=211)
        with (
            graph.running("policy.head"),
            pytest.raises(RuntimeError, match=r"policy\.head.*the numbers in an array"),
        ):
            ask(x[0, 0])


def test_branches_say_what_to_do() -> None:
    _, (x,) = new_graph(n=211)
    raises(RuntimeError, r"branches on .*use np\.where instead of a branch", lambda: bool((x > 0).all()))
    raises(RuntimeError, r"takes a float of .*: return the array, whose numbers a call gives", float, x[0, 0])
    with pytest.raises(
        RuntimeError, match=r"counts, with .*: np\.take\(x, i \+ np\.arange\(n\), axis\) takes n"
    ):
        np.ones(3)[x[0, 0].astype(int) :]
    raises(RuntimeError, "branches on", lambda: np.testing.assert_equal(1.0 in x, True))


def test_it_becomes_no_ndarray() -> None:
    _, (x,) = new_graph(n=211)
    raises(NotImplementedError, "use functions that NumPy dispatches", lambda: np.asarray(x))
    raises(NotImplementedError, "sees memory as another dtype", lambda: x.view(np.int32))
    raises(TypeError, "unsized", lambda: len(x[0, 0]))


def test_tables_and_elementwise_functions() -> None:
    graph, (x,) = new_graph(n=211)
    found = x.astype(np.int64).look_up(np.ones((5, 2), np.float32))
    np.testing.assert_equal((type(found), found.shape), (GraphArray, (211, 3, 2)))
    raises(NotImplementedError, "no rule for ONNX", lambda: x.elementwise(np.unwrap))
    np.testing.assert_equal([node.op for node in graph.nodes], ["Cast", "Gather"])
