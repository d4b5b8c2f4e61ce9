"""Gradients are compared with central differences in float64, and mapped gradients with a loop."""

import functools
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import Spec, check_nested, check_strides, choices

import lite
from lite import jacrev, jit, value_and_grad, vjp, vmap

Case = tuple[str, Callable[..., Any], tuple[Spec, ...]]
STEP = 1e-6


def seed_of(name: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(name.encode()))


def results_of(out: Any) -> list[Any]:
    """The arrays of floats that a function gives, in nested lists and tuples."""
    if isinstance(out, tuple | list):
        return [item for part in out for item in results_of(part)]
    return [out] if getattr(out, "dtype", np.dtype(float)).kind == "f" else []


def weighted(fn: Callable[..., Any], args: Any, rng: np.random.Generator) -> Callable[..., Any]:
    """A loss: the results times random numbers, summed, so that every element counts in its own way."""
    weights = [rng.uniform(0.5, 1.5, np.shape(item)) for item in results_of(fn(*args))]
    assert weights, "the function gives no floats"

    def loss(*args: Any) -> Any:
        items = results_of(fn(*args))
        return sum((np.sum(item * w) for item, w in zip(items, weights, strict=True)), 0.0)

    return loss


def floats(args: Any) -> tuple[int, ...]:
    """Places of the arguments that are differentiated by."""
    return tuple(i for i, x in enumerate(args) if np.asarray(x).dtype.kind == "f")


def frozen(args: Any) -> list[Any]:
    """Arguments that nobody can write."""
    out = []
    for x in args:
        x = np.array(x)
        x.flags.writeable = False
        out.append(x)
    return out


def assert_gradients(fn: Callable[..., Any], *args: Any, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    """Gradients by all arguments of floats give the central difference along a random direction in which no
    two elements move alike; values are those of NumPy."""
    rng = np.random.default_rng(0)
    args = tuple(frozen(args))
    loss = weighted(fn, args, rng)
    places = floats(args)
    value, grads = value_and_grad(loss, places)(*args)
    np.testing.assert_allclose(value, loss(*args), rtol=1e-12, atol=1e-12)
    ways = [rng.uniform(0.5, 1.5, np.shape(args[place])) for place in places]
    expected = 0.0
    for sign in (1, -1):
        moved = list(args)
        for place, way in zip(places, ways, strict=True):
            moved[place] = args[place] + sign * STEP * way
        expected += sign * float(loss(*moved)) / (2 * STEP)
    for place, grad in zip(places, grads, strict=True):
        assert grad.dtype == args[place].dtype
        assert grad.shape == args[place].shape
    found = sum(np.sum(grad * way, dtype=np.float64) for grad, way in zip(grads, ways, strict=True))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=atol)


def grad_of(fn: Callable[..., Any], x: Any) -> Any:
    """The gradient of the sum of what a function gives."""
    return value_and_grad(lambda x: np.sum(fn(x)))(np.asarray(x))[1]


def check_central(name: str, fn: Any, specs: Any) -> None:
    """A rule against central differences."""
    rng = seed_of(name)
    assert_gradients(fn, *[spec.draw(rng, ()) for spec in specs])


def check_second(name: str, fn: Any, specs: Any) -> None:
    """The gradient of a gradient, along a direction, is the central difference of the gradient."""
    rng = seed_of(name)
    args = frozen([spec.draw(rng, ()) for spec in specs])
    loss, places = weighted(fn, args, np.random.default_rng(0)), floats(args)
    gradient = lite.grad(loss, places)
    ways = [rng.uniform(0.5, 1.5, np.shape(args[place])) for place in places]

    def slope(*args: Any) -> Any:
        return sum((np.sum(g * way) for g, way in zip(gradient(*args), ways, strict=True)), 0.0)

    # A slope that is linear does not depend on the arguments: so that it does.
    found = lite.grad(lambda *args: slope(*args) + 0 * loss(*args), places)(*args)
    sides = []
    for sign in (1, -1):
        moved = list(args)
        for place, way in zip(places, ways, strict=True):
            moved[place] = args[place] + sign * STEP * way
        sides.append(gradient(*moved))
    for got, after, before in zip(found, *sides, strict=True):
        np.testing.assert_allclose(got, (after - before) / (2 * STEP), rtol=1e-5, atol=1e-5)


SIZE = 2


def check_mapped_gradients(name: str, fn: Any, specs: Any) -> None:
    """Gradients per sample are those of a loop. The gradient of a map is the sum of those of its elements by
    what they share, each of them by its own."""
    rng = seed_of(name)
    single = [spec.draw(rng, ()) for spec in specs]
    loss, places = weighted(fn, single, rng), floats(single)
    both = value_and_grad(loss, places)
    same = functools.partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
    for mapped in choices(len(specs)):
        args = frozen([spec.draw(rng, (SIZE,) if on else ()) for spec, on in zip(specs, mapped, strict=True)])
        dims = tuple(0 if on else None for on in mapped)
        rows = [both(*[x[k] if on else x for x, on in zip(args, mapped, strict=True)]) for k in range(SIZE)]
        losses = np.array([value for value, _ in rows])
        each = [np.stack(parts) for parts in zip(*(grads for _, grads in rows), strict=True)]
        values, grads = vmap(both, dims)(*args)
        same(values, losses)
        for got, wanted in zip(grads, each, strict=True):
            same(got, wanted)
        if any(mapped[place] for place in places):
            value, grads = value_and_grad(lambda *xs, dims=dims: np.sum(vmap(loss, dims)(*xs)), places)(*args)
            same(value, losses.sum())
            for place, got, wanted in zip(places, grads, each, strict=True):
                same(got, wanted if mapped[place] else wanted.sum(0))


def check_jacobian(name: str, fn: Any, specs: Any) -> None:
    """The backward pass for weighted results gives what it gives for the weights."""
    rng = seed_of(name)
    args = frozen([spec.draw(rng, ()) for spec in specs])
    places = floats(args)

    def chosen(*inside: Any) -> list[Any]:
        given = dict(zip(places, inside, strict=True))
        return results_of(fn(*[given.get(i, x) for i, x in enumerate(args)]))

    of_floats = [args[place] for place in places]
    out, pull = vjp(chosen, *of_floats)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # which say that a function has no batching rule
        found = jacrev(chosen, tuple(range(len(places))))(*of_floats)
    weights = [rng.standard_normal(item.shape).astype(item.dtype) for item in out]
    for i, wanted in enumerate(pull(weights)):
        got = sum(np.tensordot(w, by[i], w.ndim) for w, by in zip(weights, found, strict=True))
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


def check_gradients(name: str, fn: Any, specs: Any) -> None:
    """Maps of one function, and its derivatives, also within maps and around them."""

    def run(*args: Any) -> Any:
        out = fn(*args)
        return tuple(out) if isinstance(out, list) else out

    check_strides(name, run, specs)
    check_nested(name, run, specs)
    check_central(name, fn, specs)
    check_mapped_gradients(name, fn, specs)
    check_jacobian(name, fn, specs)
    check_second(name, fn, specs)


def one_of_each(cases: list[Case]) -> list[Case]:
    """The first case of each function, which is the first word of its name."""
    return list(
        {name.replace(",", " ").split()[0]: (name, *rest) for name, *rest in reversed(cases)}.values()
    )


def check_jit(name: str, fn: Any, specs: Any) -> None:
    """Value and gradient as one graph of onnxruntime, or refused by the name of what has no graph."""
    rng = seed_of(name)
    args = frozen([spec.draw(rng, ()) for spec in specs])
    both = value_and_grad(weighted(fn, args, np.random.default_rng(0)), floats(args))
    value, grads = both(*args)
    try:
        got, slopes = jit(both, threads=1)(*args)
    except NotImplementedError:
        return
    np.testing.assert_allclose(got, value, rtol=1e-6, atol=1e-6)
    for slope, grad in zip(slopes, grads, strict=True):
        np.testing.assert_allclose(slope, grad, rtol=1e-5, atol=1e-6)


CHECKS = (check_gradients, pytest.param(check_jit, marks=pytest.mark.grid))
