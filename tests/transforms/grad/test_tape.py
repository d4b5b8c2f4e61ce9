"""What traced arrays note, and the walk back."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

import lite
import lite._transforms.grad.ufuncs
from lite._transforms.grad import tape
from lite._transforms.grad.array import TracedArray


def leaf(value: Any, level: int = 0) -> TracedArray:
    value = np.asarray(value)
    return TracedArray(value, tape.Node((), None, value), level)


def test_values() -> None:
    x, array = leaf([1.0]), np.ones(2)
    assert tape.value_of(x) is x.value
    assert tape.value_of(array) is array
    assert tape.values_of(([x, 2], {"a": (x,)})) == ([x.value, 2], {"a": (x.value,)})
    assert tape.holds_traced([1, {"a": (x,)}])
    assert not tape.holds_traced([1, {"a": (array,)}])
    assert tape.level_of([array, {"a": [leaf(1.0, 7)]}]) == 7
    assert tape.level_of([array]) is None


def test_nothing_is_noted_without_traced_arguments() -> None:
    array = np.ones(2)
    assert tape.with_node(array, (array, lambda g: g)) is array
    assert tape.with_vjp(array, [array, 2.0], lambda g: (g, None)) is array
    assert tape.constant(array, array) is array


def test_shares_are_added_up_in_the_order_of_the_numbers() -> None:
    x = leaf([1.0, 2.0])
    order: list[str] = []

    def noted(name: str, factor: float, source: Any) -> Any:
        def vjp(g: Any) -> Any:
            order.append(name)
            return g * factor

        return tape.with_node(source.value * factor, (source, vjp))

    a = noted("a", 2.0, x)
    b = noted("b", 3.0, a)
    c = tape.with_vjp(a.value * b.value, (a, b, 5.0), lambda g: (g * b.value, g * a.value, None))
    got = tape.walk([(c.node, np.ones(2))])
    assert order == ["b", "a"]
    np.testing.assert_array_equal(got[x.node], 24 * x.value)


def test_a_share_of_another_shape_names_its_rule() -> None:
    def broken(x: Any) -> Any:
        return tape.with_node(x.value * 1, (x, lambda g: g[:1]))

    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match=r"rule of test_a_share.* gives has the shape \(1,\).*\(2,\)"):
        tape.walk([(broken(x).node, np.ones(2))])


def test_shares_are_not_written_into() -> None:
    g = np.ones(3)
    x = leaf(np.zeros(3))
    out = tape.with_node(np.zeros(3), (x, lambda g: g), (x, lambda g: g), (x, lambda g: g))
    got = tape.walk([(out.node, g)])
    np.testing.assert_array_equal(got[x.node], 3)
    np.testing.assert_array_equal(g, 1)


def test_nodes_are_released_or_kept() -> None:
    x = leaf([1.0])
    out = tape.with_node(x.value * 2, (x, lambda g: g * 2))
    tape.walk([(out.node, np.ones(1))], release=False)
    tape.walk([(out.node, np.ones(1))])
    raises(RuntimeError, "released by an earlier backward", tape.walk, [(out.node, np.ones(1))])


def test_different_gradients_do_not_mix() -> None:
    a, b = leaf([1.0], 1), leaf([1.0], 2)
    for mix in (
        lambda: a * b,
        lambda: np.concatenate([a, b]),
        lambda: tape.with_node(np.ones(1), (a, lambda g: g), (b, lambda g: g)),
        lambda: tape.with_vjp(np.ones(1), (a, b), lambda g: (g, g)),
        lambda: a.__setitem__(0, b[0]),
    ):
        raises(RuntimeError, "arrays of different gradients meet", mix)


def test_constants_take_what_is_written() -> None:
    x = leaf([1.0, 2.0])
    empty = tape.constant(np.zeros((2, 2)), x)
    assert not empty.requires_grad
    assert not (empty * 2).requires_grad
    empty[0] = x
    assert empty.requires_grad
    got = tape.walk([((empty * 3).node, np.ones((2, 2)))])
    np.testing.assert_array_equal(got[x.node], 3)


def test_unbroadcast() -> None:
    for own, shape in [((2, 3), (3,)), ((2, 3), (2, 1)), ((4, 2, 3), (1, 3)), ((2, 3), ()), ((1, 3), (1, 1))]:
        g = np.arange(float(np.prod(own))).reshape(own)
        got = tape.unbroadcast(g, shape)
        x = np.zeros(shape)
        extra = len(own) - len(shape)
        axes = (*range(extra), *[k + extra for k, n in enumerate(shape) if n == 1])
        np.testing.assert_array_equal(got, g.sum(axes).reshape(shape))
        assert got.shape == x.shape


def test_a_graph_sums_rows_by_a_product() -> None:
    """The derivative by a bias, for batches of any size; few columns are summed as they are."""
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
    by_bias = lite.grad(lambda b, x: np.mean((x + b) ** 2))
    for columns, operator in ((40, "MatMul"), (4, "ReduceSum")):
        step, bias = lite.jit(by_bias, dynamic_axes={"x": {0: "n"}}), np.ones(columns, np.float32)
        for rows in (7, 3, 300):
            x = np.random.default_rng(rows).normal(size=(rows, columns)).astype(np.float32)
            np.testing.assert_allclose(step(bias, x), by_bias(bias, x), rtol=1e-5)
        assert step.graph(bias, x).operators.get(operator) == 1
        assert len(step._kept) == 1


def test_who_answers_beside_maps() -> None:
    seen: list[bool] = []
    x = np.ones((2, 3))
    lite.grad(lambda w: lite.vmap(lambda x: seen.append(tape.is_traced(x, w)) or (x * w).sum())(x).sum())(
        np.ones(3)
    )
    lite.vmap(lite.grad(lambda x, w: seen.append(tape.is_traced(None, w, x)) or (x * w).sum()), (0, None))(
        x, np.ones(3)
    )
    assert seen == [False, True]
    assert not tape.is_traced(x, None, 2.0)


def test_a_rule_that_forgets_inner_maps_is_told() -> None:
    def forgetful(x: Any, w: Any) -> Any:
        return tape.with_node(x * tape.value_of(w), (w, lambda g: g))

    with pytest.raises(RuntimeError, match="array of a vmap that runs inside"):
        lite.grad(lambda w: lite.vmap(lambda x: forgetful(x, w))(np.ones((2, 3))).sum())(np.ones(3))


@pytest.mark.depth
def test_long_chains_are_freed_without_recursion() -> None:
    def loss(x: Any) -> Any:
        for _ in range(50_000):
            x = x + 1.0
        return x

    assert lite.grad(loss)(np.array(1.0)) == 1.0
    lite.value_and_grad(lambda x: (x, loss(x)), has_aux=True)(np.array(1.0))  # of which only the end is freed


def test_threads_have_nothing_in_common() -> None:
    got: dict[int, Any] = {}

    def work(k: int) -> None:
        x = np.full(5, float(k))
        for _ in range(50):
            got[k] = lite.grad(lambda x: (np.tanh(x) * x).sum())(x)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        x = np.full(5, float(k))
        np.testing.assert_allclose(got[k], np.tanh(x) + x / np.cosh(x) ** 2, rtol=1e-12)
