"""`grad`, `value_and_grad` and `vjp`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same

import lite
from lite import TensorDict, nn

Pair = namedtuple("Pair", ["first", "second"])


def test_value_and_gradient() -> None:
    x = np.array([1.0, 2.0])
    x.flags.writeable = False
    value, got = lite.value_and_grad(lambda x: (x**3).sum())(x)
    assert type(value) is np.float64
    assert value == 9.0
    np.testing.assert_array_equal(got, [3, 12])
    assert type(got) is np.ndarray


def test_argnums() -> None:
    def loss(x: Any, y: Any, factor: float, *, power: int) -> Any:
        return factor * (x * y**power).sum()

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    np.testing.assert_array_equal(lite.grad(loss, 1)(x, y, 2.0, power=2), 4 * x * y)
    first, second = lite.grad(loss, (1, 0))(x, y, 2.0, power=2)
    np.testing.assert_array_equal(first, 4 * x * y)
    np.testing.assert_array_equal(second, 2 * y**2)
    (alone,) = lite.grad(loss, [-2])(x, y, 2.0, power=2)
    np.testing.assert_array_equal(alone, first)
    number = lite.grad(loss, 2)(x, y, 2.0, power=2)
    assert (number, number.dtype) == ((x * y**2).sum(), np.float32)  # a Python float has the default dtype
    with pytest.raises(ValueError, match="argnums has 3, but there are 3 positional arguments"):
        lite.grad(loss, 3)(x, y, 2.0, power=2)


def test_aux() -> None:
    def loss(x: Any) -> Any:
        y = x * 2
        return y.sum(), {"y": y, "td": TensorDict({"z": y + 1, "n": np.arange(2)}, [2]), "name": "a"}

    (value, aux), got = lite.value_and_grad(loss, has_aux=True)(np.array([1.0, 2.0]))
    assert value == 6.0
    np.testing.assert_array_equal(got, 2)
    assert type(aux["y"]) is type(aux["td"]["z"]) is np.ndarray
    np.testing.assert_array_equal(aux["td"]["z"], [3, 5])
    assert aux["name"] == "a"
    got, aux = lite.grad(loss, has_aux=True)(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(got, 2)
    np.testing.assert_array_equal(aux["y"], [2, 4])
    with pytest.raises(TypeError, match=r"has_aux=True.*must give a pair, got a ndarray"):
        lite.grad(lambda x: x.detach(), has_aux=True)(np.ones(2))


def test_structures() -> None:
    tree = {
        "a": [np.array([1.0]), Pair(np.array([2.0]), np.array([3], np.int64))],
        "b": (np.float32(4.0), "x", None),
    }

    def loss(tree: Any) -> Any:
        (one, pair), (four, _, _) = tree["a"], tree["b"]
        return (one * pair.first * four).sum() * 2

    got = lite.grad(loss)(tree)
    expected = {
        "a": [np.array([16.0]), Pair(np.array([8.0]), np.array([0]))],
        "b": (np.float32(4), None, None),
    }
    assert_same(got, expected, strict=True)
    assert type(got["a"][1]) is Pair


def test_tensordicts() -> None:
    td = TensorDict(
        {"a": np.ones((2, 3), np.float32), "n": {"b": np.arange(2.0)}, "k": np.arange(2), "s": "text"}, [2]
    )
    td.lock_()

    def loss(td: Any) -> Any:
        assert td["s"] == "text"
        return (td["a"].sum(-1) * td["n", "b"] * td["k"]).sum() + (td * 2)["n", "b"].sum()

    got = lite.grad(loss)(td)
    assert type(got) is TensorDict
    a, b, k = np.float32([[0] * 3, [1] * 3]), np.array([2.0, 5.0]), np.array([0, 0])
    assert_same(got, TensorDict({"a": a, "n": {"b": b}, "k": k, "s": "text"}, [2]), strict=True)
    np.testing.assert_array_equal(td["a"], 1)


def test_parameters_and_lazy_stacks() -> None:
    params = nn.TensorDictParams(TensorDict({"w": np.ones(2), "n": {"b": np.ones(1)}}))
    got = lite.grad(lambda p: (p["w"] * p["n", "b"]).sum())(params)
    np.testing.assert_array_equal(got["n", "b"], [2])
    np.testing.assert_array_equal(lite.grad(lambda p: (p * p).sum())(nn.Parameter(np.ones(2))), 2)
    stack = lite.lazy_stack([TensorDict({"a": np.full(k + 1, 2.0)}) for k in range(2)])
    got = lite.grad(lambda s: sum((part["a"] ** 2).sum() for part in s.unbind(0)))(stack)
    np.testing.assert_array_equal(got.tensordicts[1]["a"], [4, 4])


def test_tensorclasses() -> None:
    @lite.tensorclass
    class Point:
        x: np.ndarray
        y: np.ndarray

    point = Point(x=np.array([1.0, 2.0]), y=np.array([3.0, 4.0]), batch_size=[2])
    got = lite.grad(lambda p: (p.x * p.y).sum())(point)
    assert type(got) is Point
    np.testing.assert_array_equal(got.x, [3, 4])


def test_modules() -> None:
    net = nn.Sequential(nn.Linear(2, 3, rng=0), nn.Tanh(), nn.Linear(3, 1, rng=1)).double()
    params, x = lite.from_module(net), np.array([[1.0, 2.0]])

    def loss(params: Any, x: Any) -> Any:
        with params.to_module(net):
            return (net(x) ** 2).mean()

    got = lite.grad(loss)(params, x)
    step = 1e-6
    moved = params.apply(lambda p, g: np.asarray(p) + step * g, got)
    back = params.apply(lambda p, g: np.asarray(p) - step * g, got)
    slope = (loss(moved, x) - loss(back, x)) / (2 * step)
    np.testing.assert_allclose(slope, sum((g * g).sum() for g in got.values(True, True)), rtol=1e-7)
    assert type(net[0].weight) is nn.Parameter


def test_what_is_no_loss() -> None:
    for fn, error, message in [
        (lambda x: x, ValueError,
            r"must be a single number, got the shape \(2,\); mean\(\) or sum\(\) makes one"),
        (lambda x: x[:1], ValueError, r"got the shape \(1,\)"),
        (lambda x: 1.0, ValueError, "does not depend on the arguments"),
        (lambda x: x.detach().sum(), ValueError, "does not depend on the arguments"),
        (lambda x: (x > 0).sum(), ValueError, "does not depend on the arguments"),
        (lambda x: np.zeros_like(x).sum(), ValueError, "does not depend on the arguments"),
        (lambda x: "loss", TypeError, "must give an array, its loss, got a str"),
        (lambda x: None, TypeError, "got a NoneType"),
    ]:  # fmt: skip
        raises(error, message, lite.grad(fn), np.ones(2))


def test_arguments_without_floats() -> None:
    for arg in (np.arange(3), "a", None, 3, [np.arange(2)], TensorDict({"a": np.arange(2)})):
        with pytest.raises(
            TypeError, match="argument 0 of <lambda> has no array of floats to differentiate by"
        ):
            lite.grad(lambda x: x)(arg)


def test_gradients_of_gradients() -> None:
    x = np.array([1.0, 2.0])

    def inner(x: Any) -> Any:
        return (x**4).sum()

    second = lite.grad(lambda x: lite.grad(inner)(x).sum())
    np.testing.assert_array_equal(second(x), 12 * x**2)
    np.testing.assert_array_equal(lite.grad(lambda x: second(x).sum())(x), 24 * x)
    # The outer argument is a constant of the inner function, or what it computes with.
    got = lite.grad(lambda x: lite.grad(lambda y: (x * y).sum())(np.ones(2)).sum())(x)
    np.testing.assert_array_equal(got, 1)
    got = lite.grad(lambda x: lite.grad(lambda y: (np.sin(x) * y**2).sum())(x).sum())(x)
    np.testing.assert_allclose(got, 2 * x * np.cos(x) + 2 * np.sin(x))
    # What is detached, or computed under no_grad, is a constant.
    got = lite.grad(lambda x: (x * lite.grad(inner)(x.detach())).sum())(x)
    np.testing.assert_array_equal(got, 4 * x**3)

    def without(x: Any) -> Any:
        with lite.no_grad():
            slope = lite.grad(lambda y: (x * y**4).sum())(x)
        return (x * slope).sum()

    np.testing.assert_array_equal(lite.grad(without)(x), 4 * x**4)


def test_a_gradient_inside_of_what_is_computed_again() -> None:
    x = np.array([1.0, 2.0])
    inner = lite.checkpoint(lambda x: lite.grad(lambda y: (y**4).sum())(x))
    np.testing.assert_array_equal(lite.grad(lambda x: inner(x).sum())(x), 12 * x**2)
    weight = nn.Parameter(x.copy())
    again = lite.checkpoint(lambda x: lite.grad(lambda y: (weight * y**2).sum())(x))
    with lite.enable_grad():
        (again(x) ** 2).sum().backward()
    np.testing.assert_array_equal(weight.grad, 8 * x * x**2)  # of (2 weight x)²
    # Both, and a layer's backward pass between them.
    block = lite.checkpoint(lambda x: np.tanh(x) ** 2)
    found = lite.grad(lambda x: (lite.grad(lambda y: (block(y) * x).sum())(x) ** 2).sum())(x)
    plain = lite.grad(lambda x: (lite.grad(lambda y: (np.tanh(y) ** 2 * x).sum())(x) ** 2).sum())(x)
    np.testing.assert_allclose(found, plain)


def test_maps_between_two_gradients() -> None:
    rows, x = np.arange(6.0).reshape(3, 2), np.array([0.5, 2.0])

    def mapped(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return (lite.vmap(lambda row: np.matmul(row * x, y) + np.matmul(row, y * x) ** 2)(rows)).sum()

        return (lite.grad(inner)(x) ** 2).sum()

    def looped(x: Any) -> Any:
        def inner(y: Any) -> Any:
            return sum(((row * x) @ y + (row @ (y * x)) ** 2 for row in rows), 0.0)

        return (lite.grad(inner)(x) ** 2).sum()

    np.testing.assert_allclose(lite.grad(mapped)(x), lite.grad(looped)(x))
    each = lite.vmap(lite.grad(mapped))(np.stack([x, 2 * x]))
    np.testing.assert_allclose(each, [lite.grad(looped)(x), lite.grad(looped)(2 * x)])


def test_layers_whose_way_back_writes_in_place() -> None:
    lstm = nn.LSTM(2, 3, rng=0).double()
    x, way = np.random.default_rng(0).normal(size=(2, 4, 2))

    def out(x: Any) -> Any:
        return lstm(x)[0]

    forward = lite.grad(lambda g: (lite.grad(lambda x: (out(x) * g).sum())(x) * way).sum())(np.ones((4, 3)))
    np.testing.assert_allclose(forward, (out(x + 1e-6 * way) - out(x - 1e-6 * way)) / 2e-6, rtol=1e-6)


def test_an_inner_gradient_writes_into_its_own_arrays_only() -> None:
    def outer(x: Any) -> Any:
        def inner(y: Any) -> Any:
            own = np.zeros_like(y)
            own[:1] = x[:1] * y[1:]
            view = own[:1]
            view *= y[:1]
            return own.sum() * x[1]

        return (lite.grad(inner)(x) * np.array([1.0, 10.0])).sum()  # x1 x0 (y1 + 10 y0), y = x

    x = np.array([2.0, 3.0])
    np.testing.assert_array_equal(lite.grad(outer)(x), [3 * 3 + 2 * 10 * 2 * 3, 2 * 2 * 3 + 10 * 2 * 2])

    def refused(x: Any) -> Any:
        kept = x * 1

        def inner(y: Any) -> Any:
            kept[0] = y[0]
            return kept.sum()

        return lite.grad(inner)(x).sum()

    raises(RuntimeError, "cannot be written into an array of an outer one", lite.grad(refused), x)


def test_arrays_that_were_left_behind() -> None:
    kept: list[Any] = []
    lite.grad(lambda x: (kept.append(x * 2), x.sum())[1])(np.ones(2))
    raises(RuntimeError, "left behind must be detached", lite.grad(lambda x: (x * kept[0]).sum()), np.ones(2))
    np.testing.assert_array_equal(lite.grad(lambda x: (x * kept[0].detach()).sum())(np.ones(2)), 2)


def test_nan_passes_without_a_warning() -> None:
    x = np.array([0.0, np.nan, 1.0])
    got = lite.grad(lambda x: np.where(x > 0.5, np.log(np.where(x > 0, x, 1)), x).sum())(x)
    np.testing.assert_array_equal(got, [1, 1, 1])
    got = lite.grad(lambda x: (x * x).sum())(x)
    np.testing.assert_array_equal(got, [0, np.nan, 2])


def test_empty_arrays() -> None:
    for shape in ((0,), (0, 3), (2, 0, 1)):
        got = lite.grad(lambda x: (x * 2).sum() + np.concatenate([x, x]).sum())(np.ones(shape))
        assert got.shape == shape


def test_names_and_documentation_stay() -> None:
    def loss(x: Any) -> Any:
        """A loss."""
        return x.sum()

    assert lite.grad(loss).__name__ == lite.value_and_grad(loss).__name__ == "loss"
    assert lite.grad(loss).__doc__ == "A loss."


def test_vjp() -> None:
    def fn(x: Any, y: Any) -> Any:
        return {"product": x * y, "n": np.arange(2), "td": TensorDict({"sum": x + y}, [2])}

    x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    out, pull = lite.vjp(fn, x, y)
    assert type(out["product"]) is type(out["td"]["sum"]) is np.ndarray
    g = {"product": np.array([1.0, 10.0]), "n": None, "td": TensorDict({"sum": np.array([100.0, 0.0])}, [2])}
    for _ in range(2):  # as often as one likes
        first, second = pull(g)
        np.testing.assert_array_equal(first, [103, 40])
        np.testing.assert_array_equal(second, [101, 20])
    none = pull({"product": None, "n": None, "td": g["td"]})
    np.testing.assert_array_equal(none[0], [100, 0])
    with pytest.raises(
        ValueError, match=r"derivative by result 0 of fn must have its shape \(2,\), got \(3,\)"
    ):
        pull({**g, "product": np.ones(3)})
    raises(ValueError, "must have the 3 arrays that fn gives, got 1", pull, np.ones(2))


def test_vjp_with_aux() -> None:
    out, pull, aux = lite.vjp(lambda x: (x * x, x + 1), np.array([3.0]), has_aux=True)
    np.testing.assert_array_equal(aux, [4])
    assert type(aux) is np.ndarray
    np.testing.assert_array_equal(pull(out)[0], [54])


def test_results_have_memory_of_their_own() -> None:
    x, y, z = np.ones((2, 3)), np.ones((2, 3)), np.array(1.0)
    grads = lite.grad(lambda x, y, z: (x + y).sum() + x.T.sum() + z, (0, 1, 2))(x, y, z)
    assert [type(g) for g in grads] == [np.ndarray] * 3
    for g in grads:
        assert g.flags.writeable
        g *= 2
    np.testing.assert_array_equal(grads[0], 4)
    np.testing.assert_array_equal(grads[1], 2)
    for g in (lite.grad(lambda x: x.sum())(x), lite.vmap(lite.grad(lambda x: x.sum()))(x)):
        g[0, 0] = 5.0
        assert g.sum() == 10.0
    given = np.ones((2, 3))
    for g in lite.vjp(lambda x, y: x + y, x, y)[1](given):
        g *= 3
    np.testing.assert_array_equal(given, 1)
    assert type(lite.grad(lambda x: x * x)(np.float64(3.0))) is np.float64


def test_what_is_no_function_and_no_number_of_an_argument() -> None:
    for argnums in ("x", 0.5, (0, "y"), None):
        with pytest.raises(TypeError, match="fn must be a function, got int"):
            lite.grad(3)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="argnums must be an integer or a tuple of integers, got "):
            lite.grad(np.sum, argnums=argnums)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"got TracedArray: a loss .* has a method backward\(\)"):
        lite.grad(lambda x: lite.grad(x)(x))(np.ones(()))
