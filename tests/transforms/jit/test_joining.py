"""Small arrays that stay are one array for the session; nothing else changes."""

from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same

import lite
from lite import TensorDict, nn, optim
from lite._transforms.graphs.graph import Node
from lite._transforms.graphs.trace import Input, Traced
from lite._transforms.jit.joining import join

F = np.dtype(np.float32)


def traced(
    nodes: list[Node], inputs: dict[str, tuple[int, ...]], outputs: dict[str, tuple[int, ...]]
) -> Traced:
    return Traced(
        tuple(Input(name, shape, F) for name, shape in inputs.items()),
        tuple((name, shape, F) for name, shape in outputs.items()),
        tuple(nodes),
        {},
    )


def test_what_is_computed_alike_is_computed_once() -> None:
    shapes: dict[str, tuple[int, ...]] = {"a": (2, 3), "b": (4, 3), "c": (), "a1": (2, 3), "b1": (4, 3)}
    gradients = {"ga": (2, 3), "gb": (4, 3), "ma": (2, 3), "mb": (4, 3)}
    nodes = [
        Node("Mul", ("ga", "c"), ("ma",)),
        Node("Sub", ("a", "ma"), ("a1",)),
        Node("Mul", ("gb", "c"), ("mb",)),
        Node("Sub", ("b", "mb"), ("b1",)),
    ]
    inputs = {name: (shapes | gradients)[name] for name in ("a", "b", "c", "ga", "gb")}
    given, pairs = traced(nodes, inputs, {k: shapes[k] for k in ("a1", "b1")}), {"a": "a1", "b": "b1"}
    graph, (group,) = join(given, pairs, shapes | gradients)
    assert [node.op for node in graph.nodes] == ["Reshape", "Reshape", "Concat", "Mul", "Sub"]
    assert (group.inputs, group.shapes) == (("a", "b"), ((2, 3), (4, 3)))
    assert {x.name for x in graph.inputs} == {"c", "ga", "gb", group.input}
    assert [(name, shape) for name, shape, _ in graph.outputs] == [(group.output, (18,))]
    # Of a computed size, as after a Reshape to the number of elements of each image, each is computed first.
    graph, (group,) = join(given, pairs, shapes)
    ops = sorted(node.op for node in graph.nodes if node.op != "Sub")
    assert ops == ["Concat", "Mul", "Mul", "Reshape", "Reshape"]
    assert group.inputs == ("a", "b")


def test_what_reads_a_part_reads_it_in_the_memory_of_the_whole() -> None:
    shapes: dict[str, tuple[int, ...]] = {"a": (2, 3), "b": (4,), "c": (), "read": (3, 2)}
    shapes |= {"a1": (2, 3), "b1": (4,)}
    nodes = [
        Node("Mul", ("a", "c"), ("a1",)),
        Node("Mul", ("b", "c"), ("b1",)),
        Node("Transpose", ("a",), ("read",), {"perm": [1, 0]}),
    ]
    inputs, outputs = {k: shapes[k] for k in "abc"}, {k: shapes[k] for k in ("a1", "b1", "read")}
    given, pairs = traced(nodes, inputs, outputs), {"a": "a1", "b": "b1"}
    graph, (group,) = join(given, pairs, shapes)
    assert sorted(node.op for node in graph.nodes) == ["Mul", "Transpose"]
    assert group.read == ("a",)
    assert {x.name: x.shape for x in graph.inputs} == {"c": (), "a": (2, 3), group.input: (10,)}
    graph, (group,) = join(given, pairs, shapes, views=False)  # where a part may begin at no odd address
    assert sorted(node.op for node in graph.nodes) == ["Mul", "Reshape", "Split", "Transpose"]
    assert group.read == ()
    assert {x.name for x in graph.inputs} == {"c", group.input}


def test_what_the_function_joins_itself_is_joined_once() -> None:
    """The norm of all gradients reads them side by side, as the optimiser does."""
    net, adam = nn.MLP(3, 2, num_cells=[4, 4]), optim.Adam(1e-2)
    params = TensorDict.from_module(net).data.clone()

    def update(params: Any, state: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            with params.to_module(net):
                return (net(x) ** 2).mean()

        grads, norm = optim.clip_grad_norm(lite.grad(loss)(params), 0.1)
        return norm, *adam.update(params, grads, state)

    x = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    step = lite.jit(update, donate=("params", "state"))
    plain, held = [params.clone(), adam.init(params)], [params.clone(), adam.init(params)]
    for _ in range(3):
        want, *plain[:] = update(*plain, x)
        got, *held[:] = step(*held, x)
        np.testing.assert_allclose(got, want, rtol=1e-5)
    assert_same(held[0], plain[0], rtol=1e-4, atol=1e-6)
    (runner,) = step._kept.values()
    ops = [node.op for node in runner.traced.nodes]
    assert (ops.count("Concat"), ops.count("ReduceSum")) == (1, 3 + 1)  # three biases, and the norm


def test_what_differs_stays_apart() -> None:
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("a", "b", "a1", "b1"), (2, 2))
    shapes |= {"c": (), "x": (), "y": ()}
    for nodes in (
        [Node("Neg", ("a",), ("a1",)), Node("Abs", ("b",), ("b1",))],  # other operators
        [Node("Sub", ("a", "x"), ("a1",)), Node("Sub", ("b", "y"), ("b1",))],  # numbers of their own
        [Node("Sub", ("a", "c"), ("a1",)), Node("MatMul", ("b", "b"), ("b1",))],
        [Node("Add", ("a", "c"), ("a1",)), Node("Mul", ("a1", "c"), ("b1",))],
    ):
        inputs = {k: shapes[k] for k in ("a", "b", "c", "x", "y")}
        given = traced(nodes, inputs, dict.fromkeys(("a1", "b1"), (2, 2)))
        graph, groups = join(given, {"a": "a1", "b": "b1"}, shapes)
        assert graph is given
        assert groups == ()


def test_values_that_need_each_other_stay_apart() -> None:
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(("a", "b", "x", "y", "a1", "b1"), (2,))
    nodes = [
        Node("Neg", ("a",), ("x",)),
        Node("Sub", ("a", "x"), ("a1",)),
        Node("Neg", ("a1",), ("y",)),
        Node("Sub", ("b", "y"), ("b1",)),
    ]
    given = traced(nodes, {"a": (2,), "b": (2,)}, {"a1": (2,), "b1": (2,)})
    assert join(given, {"a": "a1", "b": "b1"}, shapes)[1] == ()


@pytest.mark.parametrize("width", [4, 200])
def test_a_network_learns_as_without(width: int) -> None:
    net = nn.Sequential(
        nn.Linear(3, width, rng=0), nn.Tanh(), nn.Linear(width, width, rng=1), nn.Linear(width, 2, rng=2)
    )
    adam = optim.Adam(0.01)
    x = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)

    def update(params: TensorDict, state: TensorDict, x: Any) -> Any:
        def loss(params: TensorDict) -> Any:
            with params.to_module(net):
                return (net(x) ** 2).mean()

        value, grads = lite.value_and_grad(loss)(params)
        return value, *adam.update(params, grads, state)

    step = lite.jit(update, donate=("params", "state"), threads=1)
    plain = params = TensorDict.from_module(net).data.clone()
    state = kept = adam.init(plain)
    for _ in range(4):
        want, plain, state = update(plain, state, x)
        got, params, kept = step(params, kept, x)
        np.testing.assert_allclose(got, want, rtol=1e-4)
    # Adam divides by sizes: of a gradient of nearly 0 what the order of sums changes is not small.
    assert_same(params, plain, rtol=1e-3, atol=1e-4)
    runner = next(iter(step._kept.values()))
    names = [name for group in runner.joined for name in group.inputs]
    assert len(names) == (18 if width == 4 else 15)  # arrays of 40,000 elements are not copied for it


def test_one_number_for_all_parts() -> None:
    def step(state: TensorDict, x: Any) -> Any:
        share = x / (1 + np.abs(x))
        return state.apply(lambda m: m * 0.5 + share), share

    jitted = lite.jit(step, donate="state", threads=1)
    state = TensorDict(a=np.array(1.0), b=np.array(2.0))
    want, _ = step(state, np.float64(0.25))
    got, share = jitted(state.clone(), np.float64(0.25))
    assert (got["a"], got["b"], share) == (want["a"], want["b"], 0.2)


def test_parts_that_become_one_number() -> None:
    def step(state: TensorDict) -> Any:
        return TensorDict(a=np.array(0.5), b=np.array(0.5)), state["a"] + state["b"]

    state = TensorDict(a=np.array(1.0), b=np.array(2.0))
    got, total = lite.jit(step, donate="state", threads=1)(state)
    assert (got["a"], got["b"], total) == (0.5, 0.5, 3.0)


def test_a_number_of_more_dimensions() -> None:
    state = TensorDict(a=np.ones((2, 2)), b=np.ones((3, 2)))
    step = lite.jit(lambda state, x: state.apply(lambda m: m * x), donate="state", threads=1)
    np.testing.assert_array_equal(step(state, np.full((1, 1), 2.0))["b"], np.full((3, 2), 2.0))


def test_values_in_two_groups() -> None:
    def step(first: TensorDict, second: TensorDict, x: TensorDict) -> Any:
        v = {key: np.exp(x[key]) for key in "abc"}
        first = TensorDict({key: first[key] - v[key] for key in "ab"})
        second = TensorDict({key: second[key] * v[key] for key in "bc"})
        return first, second, v["a"] @ v["c"]

    values = dict(zip("abc", np.random.default_rng(0).normal(size=(3, 2)), strict=True))
    x = TensorDict(values)
    given = x.select("a", "b"), x.select("b", "c")
    *want, total = step(*given, x)
    *got, found = lite.jit(step, donate=("first", "second"), threads=1)(*given, x)
    np.testing.assert_allclose(found, total, rtol=1e-12)
    assert_same(got, want, rtol=1e-12)
