"""Gradients are compared with central differences in float64, and mapped gradients with a loop."""

from __future__ import annotations

import itertools
import warnings
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.vmap_cases import Spec

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


def numeric(loss: Callable[..., Any], args: Any, place: int, step: float = STEP) -> Any:
    """The derivative of a loss by one argument, from its values on both sides."""
    x = np.array(args[place], np.float64)
    out = np.zeros(x.shape)
    for index in np.ndindex(x.shape):
        sides = []
        for sign in (1, -1):
            moved = x.copy()
            moved[index] += sign * step
            sides.append(float(loss(*args[:place], moved, *args[place + 1 :])))
        out[index] = (sides[0] - sides[1]) / (2 * step)
    return out


def frozen(args: Any) -> list[Any]:
    """Arguments that nobody can write."""
    out = []
    for x in args:
        x = np.array(x)
        x.flags.writeable = False
        out.append(x)
    return out


def assert_gradients(fn: Callable[..., Any], *args: Any, rtol: float = 1e-6, atol: float = 1e-7) -> None:
    """Gradients by all arguments of floats are those of central differences, values are those of NumPy."""
    args = tuple(frozen(args))
    loss = weighted(fn, args, np.random.default_rng(0))
    places = floats(args)
    value, grads = value_and_grad(loss, places)(*args)
    np.testing.assert_allclose(value, loss(*args), rtol=1e-12, atol=1e-12)
    for place, got in zip(places, grads, strict=True):
        assert got.dtype == args[place].dtype
        np.testing.assert_allclose(got, numeric(loss, args, place), rtol=rtol, atol=atol)


def check_central(name: str, fn: Any, specs: Any) -> None:
    """A rule against central differences."""
    rng = seed_of(name)
    assert_gradients(fn, *[spec.draw(rng, ()) for spec in specs])


SIZE = 3


def check_vmap_of_grad(name: str, fn: Any, specs: Any) -> None:
    """Gradients per sample: those of a loop, for each choice of mapped arguments."""
    rng = seed_of(name)
    single = [spec.draw(rng, ()) for spec in specs]
    loss, places = weighted(fn, single, rng), floats(single)
    both = value_and_grad(loss, places)
    for mapped in itertools.product((True, False), repeat=len(specs)):
        if not any(mapped):
            continue
        args = frozen([spec.draw(rng, (SIZE,) if on else ()) for spec, on in zip(specs, mapped, strict=True)])
        dims = tuple(0 if on else None for on in mapped)
        values, grads = vmap(both, dims)(*args)
        for k in range(SIZE):
            row = [x[k] if on else x for x, on in zip(args, mapped, strict=True)]
            value, wanted = both(*row)
            np.testing.assert_allclose(values[k], value, rtol=1e-9, atol=1e-9)
            for got, expected in zip(grads, wanted, strict=True):
                np.testing.assert_allclose(got[k], expected, rtol=1e-9, atol=1e-9)


def check_grad_of_vmap(name: str, fn: Any, specs: Any) -> None:
    """The gradient of a map: the sum of those of its elements by what they share, each of them by its own."""
    rng = seed_of(name)
    single = [spec.draw(rng, ()) for spec in specs]
    loss, places = weighted(fn, single, rng), floats(single)
    both = value_and_grad(loss, places)
    for mapped in itertools.product((True, False), repeat=len(specs)):
        if not any(mapped):
            continue
        args = frozen([spec.draw(rng, (SIZE,) if on else ()) for spec, on in zip(specs, mapped, strict=True)])
        dims = tuple(0 if on else None for on in mapped)
        if not any(mapped[place] for place in places):
            continue
        value, grads = value_and_grad(lambda *xs, dims=dims: np.sum(vmap(loss, dims)(*xs)), places)(*args)
        rows = [both(*[x[k] if on else x for x, on in zip(args, mapped, strict=True)]) for k in range(SIZE)]
        np.testing.assert_allclose(value, sum(row[0] for row in rows), rtol=1e-9, atol=1e-9)
        for i, place in enumerate(places):
            parts = [row[1][i] for row in rows]
            wanted = np.stack(parts) if mapped[place] else sum(parts)
            np.testing.assert_allclose(grads[i], wanted, rtol=1e-9, atol=1e-9)


def check_jacobian(name: str, fn: Any, specs: Any) -> None:
    """The way back for all numbers of the results at once gives what it gives for one at a time."""
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
    for i, item in enumerate(out):
        for index in np.ndindex(item.shape):
            one = np.zeros(item.shape, item.dtype)
            one[index] = 1
            wanted = pull([one if k == i else None for k in range(len(out))])
            for got, expected in zip(found[i], wanted, strict=True):
                np.testing.assert_allclose(got[index], expected, rtol=1e-9, atol=1e-12)


def check_jit(name: str, fn: Any, specs: Any) -> None:
    """Value and gradient as one graph of onnxruntime, or refused by the name of what has no graph."""
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
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


GRADIENTS = (check_central, check_vmap_of_grad, check_grad_of_vmap, check_jacobian)


def check_gradients(name: str, fn: Any, specs: Any) -> None:
    """All of one function: they take less time than pytest needs for a test of each."""
    for check in GRADIENTS:
        check(name, fn, specs)


CHECKS = (check_gradients, pytest.param(check_jit, marks=pytest.mark.grid))
