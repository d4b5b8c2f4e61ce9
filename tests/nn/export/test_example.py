"""Examples: which inputs there are, their names, and which sizes are dynamic."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.graphs import numbers

from lite import TensorDict, nn
from lite.nn._export.example import joined, names_of_outputs, of_arrays, of_entries, of_tensordict


def shapes(example: Any) -> dict[str, tuple[int | str, ...]]:
    return {one.name: one.symbolic.shape for one in example.inputs}


def test_names_of_keys() -> None:
    np.testing.assert_equal((joined("a"), joined(("a", "b", "c"))), ("a", "a.b.c"))


def test_arguments() -> None:
    class Net(nn.Module):
        def forward(it, x: Any, pair: Any, *rest: Any, scale: Any = None, mode: str = "") -> Any:
            return {"x": x, "pair": [pair[0], None, pair[1]], "more": {"a": scale, "td": TensorDict(b=x)}}

    a, net = numbers(5, 2), Net()
    example = of_arrays(net, (a, (a, {"k": a}), a, 3.0), {"scale": a, "mode": "m"}, None, None)
    np.testing.assert_equal(list(example.call(net, [a] * 5)), ["x", "pair_0", "pair_2.k", "more.a", "b"])
    wanted = ["x", "pair_0", "pair_1.k", "rest_0", "scale"]
    np.testing.assert_equal(shapes(example), dict.fromkeys(wanted, ("batch", 2)))
    np.testing.assert_equal(example.batch, "batch")


def test_dynamic_axes() -> None:
    net, a = nn.Bilinear(2, 2, 1), numbers(5, 2)
    example = of_arrays(net, (a, a), {}, None, {"input1": {0: "n"}, "input2": [-2]})
    np.testing.assert_equal(shapes(example), {"input1": ("n", 2), "input2": ("input2_dim_0", 2)})
    np.testing.assert_equal((example.batch, of_arrays(net, (a, a), {}, None, {}).batch), ("n", None))


def test_entries_of_a_tensordict() -> None:
    module = nn.TensorDictModule(lambda x, y: x, ["x", ("a", "b")], ["z"])
    td = TensorDict({"x": numbers(5, 2), "a": {"b": numbers(5)}, "other": numbers(5)}, [5])
    np.testing.assert_equal(
        shapes(of_tensordict(module, td, None, None)), {"x": ("batch", 2), "a.b": ("batch",)}
    )
    named = of_tensordict(module, td, {("a", "b"): "ab"}, {"x": {0: "n"}})
    np.testing.assert_equal(shapes(named), {"x": ("n", 2), "ab": (5,)})
    without = of_tensordict(module, TensorDict({"x": numbers(5, 2), "a": {"b": numbers(5)}}), None, None)
    np.testing.assert_equal((shapes(without), without.batch), ({"x": (5, 2), "a.b": (5,)}, None))


def test_a_node_is_all_that_is_in_it() -> None:
    module = nn.TensorDictModule(lambda x: x, ["obs"], ["z"])
    td = TensorDict({"obs": {"a": numbers(5), "b": {"c": numbers(5)}}}, [5])
    np.testing.assert_equal(list(shapes(of_tensordict(module, td, None, None))), ["obs.a", "obs.b.c"])


def test_arrays_for_a_module_of_tensordicts() -> None:
    module = nn.TensorDictModule(lambda x, y: x, ["x", ("a", "b")], ["z"])
    for args, kwargs in (((numbers(5, 2), numbers(5)), {}), ((numbers(5, 2),), {"a_b": numbers(5)})):
        example = of_entries(module, args, kwargs, None, None)
        np.testing.assert_equal(shapes(example), {"x": ("batch", 2), "a.b": ("batch",)})
    with pytest.raises(TypeError, match=r"got 1 arrays and the names \['c'\]"):
        of_entries(module, (numbers(5, 2),), {"c": numbers(5)}, None, None)


def test_two_keys_of_one_name() -> None:
    module = nn.TensorDictModule(lambda x, y: x, ["a.b", ("a", "b")], ["z"])
    td = TensorDict({"a.b": numbers(5), "a": {"b": numbers(5)}}, [5])
    raises(ValueError, "two keys have one name", of_tensordict, module, td, None, None)
    given = of_tensordict(module, td, ["first", "second"], None)
    np.testing.assert_equal(list(shapes(given)), ["first", "second"])


def test_names_of_outputs() -> None:
    inputs = of_arrays(nn.Linear(2, 2), (numbers(5, 2),), {}, ["x"], None).inputs
    np.testing.assert_equal(
        names_of_outputs(["x", ("n", "y")], None, inputs), {"x": "new_x", ("n", "y"): "n.y"}
    )
    np.testing.assert_equal(names_of_outputs(["x", "y"], ["a", "b"], inputs), {"x": "a", "y": "b"})
    for given, message in (
        (["x", "b"], "must not be names of inputs"),
        (["b", "b"], "two keys have one name"),
        (["b", ""], "must be names"),
        ([1, 2], "must be names"),
    ):
        raises(ValueError, message, names_of_outputs, ["x", "y"], given, inputs)


def test_examples_that_are_no_arrays_of_numpy() -> None:
    class Elsewhere:
        __cuda_array_interface__ = {"shape": (5, 2)}  # noqa: RUF012

    with pytest.raises(TypeError, match="the example 'input' must be a NumPy array, got Elsewhere"):
        of_arrays(nn.Linear(2, 2), (Elsewhere(),), {}, None, None)
