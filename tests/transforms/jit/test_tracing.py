"""Programs: what a traced function reads, draws and writes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same

import lite
from lite import TensorDict, nn
from lite._transforms.jit.structure import Flattener
from lite._transforms.jit.tracing import trace_function


def test_inputs_and_outputs() -> None:
    net = nn.Linear(2, 2)
    td, rng = TensorDict(x=np.ones((3, 2), np.float32), batch_size=[3]), np.random.default_rng(0)

    def function(td: TensorDict, scale: float, rng: np.random.Generator, unused: np.ndarray) -> tuple:
        td["y"] = net(td["x"]) * scale
        td["x"] *= 2
        return td, rng.random(td["x"].shape[0])

    flat = Flattener()
    parts = [flat.structure(value, "x") for value in (td, 0.5, rng, np.ones(2))]
    structure = ("tuple", ("tuple", *parts), ("dict", ()))
    program = trace_function(function, structure, flat.leaves, [("n", 2), (), (), (2,)])
    assert program.arguments == ["input_0", "input_1", None, "input_3"]
    assert {x.name for x in program.traced.inputs} == {"input_0", "input_1", "captured_0", "captured_1"} | {
        name for name in program.draws if any(name in node.inputs for node in program.traced.nodes)
    }
    assert [one.holder for one in program.captured.values()] == [net.weight, net.bias]
    assert [(draw.source, draw.method) for draw in program.draws.values()] == [(2, "random")]
    assert list(program.written) == [0]
    assert [(i, key) for i, key, *_ in program.entries] == [(0, "y")]
    assert program.structure == ("tuple", ("given", 0), ("array",))
    assert program.labels == {"n": (0, 0)}


def test_the_line_of_an_error_is_that_of_the_caller() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        return np.linalg.qr(x)[0]

    flat = Flattener()
    structure = ("tuple", ("tuple", flat.structure(np.eye(2), "x")), ("dict", ()))
    line = function.__code__.co_firstlineno + 1
    with pytest.raises(NotImplementedError, match=rf"test_tracing.py, line {line}: return np.linalg.qr"):
        trace_function(function, structure, flat.leaves, [(2, 2)])


def test_numbers_of_each_call_are_refused_with_the_line_that_uses_them() -> None:
    calls = iter(range(9))

    def function(x: np.ndarray) -> np.ndarray:
        first = x + 1
        return first * np.full(2, next(calls))

    line = function.__code__.co_firstlineno + 2
    with pytest.raises(
        NotImplementedError, match=rf"other numbers.* Mul .*test_tracing.py, line {line}: return"
    ):
        lite.jit(function)(np.ones(2))


def test_a_view_of_all_of_an_array_is_written_through() -> None:
    def loss(x: Any) -> Any:
        y = x * 2
        np.squeeze(y).fill(3.0)  # no size is 1: another name of the array
        return (y * x).sum()

    x = np.ones((2, 3))
    np.testing.assert_array_equal(lite.jit(lite.grad(loss))(x), np.full((2, 3), 3.0))


def test_a_quotient_of_dynamic_sizes_may_be_a_plain_number() -> None:
    """As the width of a head is, where an exported network leaves it to -1."""

    def heads(x: Any) -> Any:
        apart = x.reshape(x.shape[0] * 2, -1)
        return np.broadcast_to(apart[:, None], (x.shape[0] * 2, 3, apart.shape[1])).sum(1)

    step = lite.jit(heads, dynamic_axes={"x": {0: "n"}})
    for n in (3, 5):
        x = np.random.default_rng(n).normal(size=(n, 16))
        np.testing.assert_allclose(step(x), heads(x))
    (runner,) = step._kept.values()
    assert [shape for _, shape, _ in runner.program.traced.outputs] == [(None, 8)]


def test_a_view_of_several_steps_is_no_copy() -> None:
    """`vmap` reshapes in Fortran's order by three functions, each of which gives a view."""

    def loss(x: Any) -> Any:
        y = x * 2
        flat = np.reshape(y, -1, order="F")
        flat += 1
        return (y * y).sum()

    x = np.ones((2, 3))
    np.testing.assert_array_equal(lite.vmap(lite.grad(loss))(x), np.full((2, 3), 12.0))
    with pytest.raises(NotImplementedError, match="a graph writes to a view of an array only where indices"):
        lite.jit(lambda x: lite.vmap(lite.grad(loss))(x))(x)


def test_sizes_and_texts_among_the_results_are_those_of_the_call() -> None:
    def sizes(x: Any) -> Any:
        return x * 2, x.shape[0], x.shape, {"all": x.size}

    def others(x: Any) -> Any:
        empty = TensorDict({}, batch_size=x.shape[:1])
        return x * 2, x.shape[0] + 1, f"{x.shape[0]} rows", list(x.shape), empty, empty.batch_size

    for function, graphs in ((sizes, 1), (others, 2)):
        step = lite.jit(function)
        for n in (3, 3, 4):
            got, want = step(np.ones((n, 2))), function(np.ones((n, 2)))
            np.testing.assert_array_equal(got[0], want[0])
            assert repr(got[1:]) == repr(want[1:])
        assert len(step._kept) == graphs
    number = iter(range(10))
    with pytest.raises(NotImplementedError, match="returns or sets other numbers, texts or keys from call"):
        lite.jit(lambda x: (x, next(number)))(np.ones(3))
    raises(NotImplementedError, "neither returns an array nor writes one", lite.jit(lambda x: 3), np.ones(3))


def test_objects_are_entries_that_a_function_may_set() -> None:
    @lite.jit
    def step(td: TensorDict) -> Any:
        td["name"] = td["name"] + "!"
        td["kind"] = "new"
        return td["x"] * 2

    for n, name in ((3, "a"), (4, "a"), (4, "b")):
        td = TensorDict(x=np.ones((n, 2)), name=name, batch_size=[n])
        step(td)
        assert (td["name"], td["kind"]) == (f"{name}!", "new")
        assert td.get("kind").batch_size == (n,)


def test_entries_are_removed_by_a_function_that_does_nothing_else() -> None:
    def removing(td: TensorDict) -> None:
        del td["a"]
        td.pop("b")

    for function in (removing, lambda td: td.exclude("a", "b", inplace=True)):
        step = lite.jit(function)
        for n in (2, 3):
            td = TensorDict(a=np.ones(n), b=np.ones(n), c=np.ones(n), batch_size=[n])
            assert step(td) in (None, td)
            assert set(td.keys()) == {"c"}


def test_what_a_function_puts_into_lists_and_dicts_is_refused() -> None:
    @dataclasses.dataclass
    class Batch:
        x: Any

    def appending(xs: list[Any]) -> Any:
        xs.append(xs[0] * 2)
        return xs[-1]

    def setting(xs: dict[str, Any]) -> Any:
        xs["x"] = xs["x"] * 2
        return xs["x"]

    def assigning(batch: Batch) -> Any:
        batch.x = batch.x * 2
        return batch.x

    x = np.ones(3)
    for function, given in ((appending, [x]), (setting, {"x": x}), (assigning, Batch(x))):
        kind = type(given).__name__
        with pytest.raises(NotImplementedError, match=f"the function changes a {kind} among its arguments"):
            lite.jit(function)(given)
    inside = {"x": x.copy(), "xs": [x.copy()]}

    def writing(inside: dict[str, Any]) -> None:
        inside["x"] *= 2  # the array, which stays the same
        inside["xs"][0][1:] = 5

    lite.jit(writing)(inside)
    np.testing.assert_array_equal(inside["x"], [2, 2, 2])
    np.testing.assert_array_equal(inside["xs"][0], [1, 5, 5])


def test_what_a_mask_chooses_in_a_step() -> None:
    def function(w: np.ndarray, td: TensorDict) -> tuple:
        def loss(w: np.ndarray) -> np.ndarray:
            chosen = td["x"][td["y"] > 0] @ w
            out = np.zeros_like(chosen, shape=td["y"].shape)
            out[td["y"] > 0] = chosen
            return (chosen**2).mean() + np.exp(out).sum() + chosen.std()

        return lite.value_and_grad(loss)(w), td[td["y"] > 0], td["x"][td["y"] > 0].shape[0]

    rng = np.random.default_rng(0)
    step = lite.jit(function)
    for n in (7, 9, 12):
        td = TensorDict(x=rng.normal(size=(n, 3)), y=rng.normal(size=n), batch_size=[n])
        assert_same(step(np.ones(3), td), function(np.ones(3), td), rtol=1e-12)
    assert len(step._kept) == 1
    fixed = lite.jit(lambda x: x[np.array([True, False, True])] * np.arange(1.0, 3.0))
    # a mask of the function says how much it chooses
    np.testing.assert_array_equal(fixed(np.ones(3)), [1, 2])
    for asks, message in (
        (lambda x: x[x > 0].sum() if x[x > 0].shape[0] else x.sum(), "asks how many elements were chosen"),
        (lambda x: x[x > 0] * len(x[x > 0]), "takes the len of a dynamic dimension"),
        (lambda x: x[x > 0] * x, "meets what was chosen .* with an array of another size"),
        (lambda x: x[x > 0] * rng.random(x[x > 0].shape), "or computes them from a dynamic size"),
    ):
        raises(NotImplementedError, message, lite.jit(asks), np.ones(3))


@pytest.mark.filterwarnings("ignore:vmap has no batching rule")
def test_mapped_functions_are_one_graph_for_all_sizes_of_the_batch() -> None:
    def loss(w: np.ndarray, x: np.ndarray, action: np.ndarray) -> np.ndarray:
        logits = np.tanh(x @ w)
        hot = np.zeros_like(logits)
        hot[action] = 1
        return logits[action] - np.sort(logits)[-1] * 0.3 + (hot * logits).sum()

    of_each = lite.vmap(lite.value_and_grad(loss), (None, 0, 0))
    step = lite.jit(lambda w, td: of_each(w, td["x"], td["action"]))
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4, 3))
    for n in (5, 8):
        td = TensorDict(x=rng.normal(size=(n, 4)), action=rng.integers(3, size=n), batch_size=[n])
        assert_same(step(w, td), of_each(w, td["x"], td["action"]), rtol=1e-12)
    assert len(step._kept) == 1
    mapped = lite.jit(lite.vmap(lambda x: np.array_equiv(x, 1)), dynamic_axes={"x": {0: "n"}})
    with pytest.raises(NotImplementedError, match="once for each element, and how many there are changes"):
        mapped(np.ones((3, 2)))


class Box:
    """An object that a function writes to."""

    total: Any = 0.0


def test_sizes_are_compared_with_each_other_at_each_call() -> None:
    """Which no trace sees as equal: each has a size of its own there."""
    functions: tuple[tuple[Callable[..., Any], int], ...] = (
        (lambda x, y: x * 2 if x.shape[0] == y.shape[0] else x, 2),
        (lambda x, y: x * 2 if x.shape != y.shape else x, 2),
        (lambda x, y: x * 2 if 2 * x.shape[0] >= y.shape[0] else x, 2),
        (lambda x, y: x * 2 if x.shape[0] == y.shape[0] + 1 else x, 5),  # of which n + 1 is not found again
    )
    for number, (function, graphs) in enumerate(functions):
        step = lite.jit(function, dynamic_axes={"x": {0: "n"}, "y": {0: "m"}})
        for n, m in ((3, 4), (5, 5), (4, 3), (2, 9)):
            x, y = np.ones((n, 2)), np.ones((m, 2))
            assert_same(step(x, y), function(x, y), where=f"function {number}, {n} {m}")
        assert len(step._kept) == graphs, number


def test_what_a_size_cuts_beside_the_graph() -> None:
    """Tables that the sizes of a trace leave whole, and that those of some calls do not."""
    table, box = np.arange(1.0, 7.0), Box()

    def restored(x: Any) -> Any:
        before, box.total = box.total, x.sum()
        _ = list(table)[: x.shape[0]][3]  # raises for small sizes
        out, box.total = box.total * x, before
        return out

    functions: tuple[tuple[Callable[[Any], Any], int], ...] = (
        (lambda x: x + table[: x.shape[0]].mean(), 3),
        (lambda x: (x[0, 0] * table[-x.shape[0] :]).sum(), 3),
        (lambda x: (x, len(table[: x.shape[0]])), 3),
        (lambda x: x * math.gcd(x.shape[0], 6), 3),
        (lambda x: lite.grad(lambda y: (np.triu(y.T @ y, x.shape[0] - 6) ** 2).sum())(x), 3),
        (restored, 1),
    )
    for number, (function, graphs) in enumerate(functions):
        step = lite.jit(function)
        for n in (4, 5, 9):
            x = np.random.default_rng(n).normal(size=(n, 4))
            assert_same(step(x), function(x), rtol=1e-9, where=f"function {number}")
        assert len(step._kept) == graphs
    assert box.total == 0.0
