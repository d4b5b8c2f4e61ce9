"""Derivatives that a user writes, and results that are computed again instead of kept."""

import itertools
import weakref
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.compared import assert_same

import lite
from lite import nn


@lite.custom_vjp
def tenfold(x: Any, y: Any) -> Any:
    """A product whose derivatives are ten times too large, so that one sees that they are used."""
    return x * y


def _shares(residuals: Any, g: Any) -> Any:
    x, y = residuals
    return 10 * g * y, 10 * g * x


tenfold.defvjp(lambda x, y: (x * y, (x, y)), _shares)
X, Y = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0])


def test_the_given_derivative_is_used() -> None:
    first, second = lite.grad(lambda x, y: tenfold(x, y).sum(), (0, 1))(X[1], Y)
    np.testing.assert_array_equal(first, 10 * Y)
    np.testing.assert_array_equal(second, 10 * X[1])
    np.testing.assert_array_equal(lite.grad(lambda x: tenfold(x, Y).sum())(X[1]), 10 * Y)


def test_without_a_gradient_it_is_the_function() -> None:
    np.testing.assert_array_equal(tenfold(X, Y), X * Y)
    np.testing.assert_array_equal(lite.vmap(tenfold, (0, None))(X, Y), X * Y)
    assert tenfold.__name__ == "tenfold"
    assert (
        tenfold.__doc__
        == "A product whose derivatives are ten times too large, so that one sees that they are used."
    )


@each_case("mapped", [(0, None), (None, 0), (0, 0)])
def test_beside_maps(mapped: Any) -> None:
    args = (X if mapped[0] == 0 else Y, X + 1 if mapped[1] == 0 else Y)

    def loss(x: Any, y: Any) -> Any:
        return (tenfold(x, y) ** 2).sum()

    rows = [
        lite.grad(loss, (0, 1))(*[arg[k] if on == 0 else arg for arg, on in zip(args, mapped, strict=True)])
        for k in range(2)
    ]
    inner = lite.vmap(lite.grad(loss, (0, 1)), mapped)(*args)
    outer = lite.grad(lambda x, y: lite.vmap(loss, mapped)(x, y).sum(), (0, 1))(*args)
    for place, on in enumerate(mapped):
        parts = np.stack([row[place] for row in rows])
        np.testing.assert_allclose(inner[place], parts)
        np.testing.assert_allclose(outer[place], parts if on == 0 else parts.sum(0))


def test_parameters() -> None:
    weight = nn.Parameter(Y.copy())
    with lite.enable_grad():
        tenfold(weight, X[1]).sum().backward()
    np.testing.assert_array_equal(weight.grad, 10 * X[1])
    assert type(tenfold(weight, X[1])) is np.ndarray


def test_errors_of_custom_derivatives() -> None:
    @lite.custom_vjp
    def fn(x: Any) -> Any:
        return x * 2

    np.testing.assert_array_equal(fn(Y), 2 * Y)
    with pytest.raises(TypeError, match=r"fn has no derivative yet: give it with fn.defvjp\(fwd, bwd\)"):
        lite.grad(lambda x: fn(x).sum())(Y)
    fn.defvjp(lambda x: (x * 2, None), lambda _, g: g)
    raises(TypeError, "the bwd of fn must give a tuple of 1 shares", lite.grad(lambda x: fn(x).sum()), Y)
    fn.defvjp(lambda x: (x * 2, None), lambda _, g: (g[:1],))
    raises(RuntimeError, r"rule of fn gives has the shape \(1,\)", lite.grad(lambda x: fn(x).sum()), Y)
    fn.defvjp(lambda x: ("out", None), lambda _, g: (g,))
    with pytest.raises(TypeError, match="the fwd of fn must give an array and residuals, got a str"):
        lite.grad(lambda x: fn(x).sum())(Y)

    def closed(x: Any) -> Any:
        fn.defvjp(lambda y: (y * x, None), lambda _, g: (g,))
        return fn(x).sum()

    raises(TypeError, "must compute from its arguments alone", lite.grad(closed), Y)


# -- checkpoint ---------------------------------------------------------------------------------


def block(x: Any, weight: Any) -> Any:
    hidden = np.tanh(x @ weight)
    hidden += 1
    return hidden * x


def test_checkpoint_of_structures_and_of_what_is_around() -> None:
    def loss(x: Any, fn: Any) -> Any:
        around = x * 3

        def inner(args: Any, *, shift: Any) -> Any:
            a = args["a"]
            a *= 2  # not seen outside, as an argument is a value
            return {"b": [a * around, a[0].astype(np.float32)], "n": np.arange(3), "c": shift.sum()}

        kept = x * x
        out = fn(inner)({"a": kept}, shift=x + 1)
        assert type(out["n"]) is np.ndarray
        assert out["b"][1].dtype == np.float32
        return out["b"][0].sum() * out["c"] + out["b"][1] + kept.sum()

    def plain(fn: Any) -> Any:
        return lambda args, shift: fn({"a": args["a"] * 1}, shift=shift)

    wanted = lite.grad(lambda x: loss(x, plain))(Y)
    got = lite.grad(lambda x: loss(x, lite.checkpoint))(Y)
    np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("dims", [(0, None), (None, 0)])
def test_checkpoint_beside_maps(dims: Any) -> None:
    weight = np.random.default_rng(0).normal(size=(2, 3, 3))
    args = (X if dims[0] == 0 else Y, weight if dims[1] == 0 else weight[0])

    def loss(fn: Any) -> Any:
        return lambda x, w: (fn(x, w) ** 2).sum()

    again = loss(lite.checkpoint(block))
    np.testing.assert_allclose(
        lite.vmap(lite.grad(again, 1), dims)(*args), lite.vmap(lite.grad(loss(block), 1), dims)(*args)
    )
    np.testing.assert_allclose(
        lite.grad(lambda x, w: lite.vmap(again, dims)(x, w).sum(), 1)(*args),
        lite.grad(lambda x, w: lite.vmap(loss(block), dims)(x, w).sum(), 1)(*args),
    )


def test_checkpoint_of_modules() -> None:
    net = nn.Sequential(nn.Linear(3, 4, rng=0), nn.Tanh(), nn.Linear(4, 1, rng=1)).double()
    with lite.enable_grad():
        net(X).sum().backward()
    wanted = [param.grad for param in net.parameters()]
    net.zero_grad()
    with lite.enable_grad():
        out = lite.checkpoint(net.forward)(X)
        assert out.requires_grad
        out.sum().backward()
    assert_same([param.grad for param in net.parameters()], wanted, rtol=1e-12)


def test_checkpoint_keeps_nothing_in_between() -> None:
    kept: list[Any] = []

    def deep(x: Any) -> Any:
        for _ in range(5):
            x = np.tanh(x)
            kept.append(weakref.ref(x.node if hasattr(x, "node") and x.node is not None else x))
        return x

    calls = itertools.count()

    def loss(x: Any) -> Any:
        out = lite.checkpoint(deep)(x)
        assert all(ref() is None for ref in kept[:4])
        next(calls)
        return out.sum()

    lite.grad(loss)(np.ones(3))
    assert next(calls) == 1
    assert len(kept) == 10  # once more in the backward pass


def test_checkpoint_of_integers() -> None:
    assert lite.checkpoint(lambda x: x + 1)(2) == 3
    got = lite.grad(lambda x: (x * lite.checkpoint(lambda x: (x > 1.5) * 2)(x)).sum())(Y)
    np.testing.assert_array_equal(got, [0, 2, 2])
