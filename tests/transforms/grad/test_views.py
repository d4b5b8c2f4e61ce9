"""Arrays that share memory: what is written to one is seen in the others, with its derivative."""

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from helpers.central_differences import Case, assert_gradients
from helpers.compared import assert_same
from helpers.rule_tests import of_derivatives
from helpers.vmap_cases import f

import lite


def through_a_view(x: Any) -> Any:
    y = x * 2
    row = y[1]
    row *= x[0]
    return [y, row]


def seen_in_views(x: Any) -> Any:
    y = x * 2
    rows, turned, flat = y[:1], y.T, y.reshape(-1)
    y[0] = x[1] ** 2
    y *= 3
    return [rows, turned * 2, flat]


def seen_beside(x: Any) -> Any:
    y = x * 2
    first, second, turned = y[0], y[:, 1], y.T
    first[...] = second.sum() * x[0]
    second += 1
    turned[0] = np.sin(turned[1])
    return [y, first, second, turned]


def views_of_views(x: Any) -> Any:
    y = x * 2
    inner = y.T[1:].reshape(-1)[::2]
    inner *= x[0, 0]
    deeper = inner[::-1]  # a view of one that was written to
    deeper[0] = x[1, 1] ** 3
    return [y, inner, deeper]


def kept_values(x: Any) -> Any:
    y = x * 2
    row = y[0]
    squares = row * row  # of what was there before
    row[...] = 0
    return [squares, y]


def overlapping(x: Any) -> Any:
    y = x * 2
    y[:, 1:] = y[:, :-1]
    y[:, 1:] += y[:, :-1]
    return y


def swapped(x: Any) -> Any:
    y = x * 2
    y[0], y[1] = y[1] * 1, y[0] * 1
    return y


def blocks(x: Any) -> Any:
    out = np.empty_like(x, order="C")
    flat = out.reshape(-1, out.shape[-1])
    for k in range(flat.shape[0]):
        part = flat[k : k + 1]
        np.subtract(x[k : k + 1], x[k].max(), out=part)
        part -= np.log(np.exp(part).sum())
    return out


CASES: list[Case] = [
    (fn.__name__, fn, (f(2, 3),))
    for fn in (
        through_a_view, seen_in_views, seen_beside, views_of_views, kept_values, overlapping, swapped,
        blocks,
    )
]  # fmt: skip

test_derivatives, test_graphs_of_derivatives = of_derivatives(CASES)


def test_memory_in_another_order() -> None:
    def fn(x: Any) -> Any:
        y = (x * 2).T * 1
        assert not y.flags.c_contiguous
        row, column = y[0], y[:, 1]
        row *= x[1, 0]
        column[:1] += 1
        y[1:] = 0
        return [y, row, column]

    assert_gradients(fn, np.random.default_rng(0).normal(size=(2, 3)))


def test_arguments_that_are_views() -> None:
    memory = np.random.default_rng(0).normal(size=(4, 6))

    def loss(x: Any, y: Any) -> Any:
        row = x[0]
        row *= y[1]
        y[::2] = row[:2] * 5
        return (x**3).sum() + (y * y).sum() + row.sum()

    for args in ((memory[::2, ::-2], memory[1, 1:4]), (memory.T[:3, 1:], memory[3, 3:])):
        before = memory.copy()
        value, grads = lite.value_and_grad(loss, (0, 1))(*args)
        np.testing.assert_array_equal(memory, before)
        apart = [np.ascontiguousarray(x) for x in args]
        wanted, slopes = lite.value_and_grad(loss, (0, 1))(*apart)
        np.testing.assert_allclose(value, loss(*map(np.copy, args)), rtol=1e-12)
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        assert_same(grads, slopes, rtol=1e-12)


def test_a_broadcast_array_is_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        lite.grad(lambda x: np.broadcast_to(x, (2, 3)).__setitem__(0, 1.0))(np.ones(3))


def test_random_programs_do_as_numpy() -> None:
    """Reads and writes in any order, through views of views: values of NumPy, derivatives of differences."""
    indices = [0, -1, slice(None, None, 2), slice(1, None), (slice(None), 0), (..., slice(None, None, -1))]

    def program(seed: int) -> Any:
        def run(x: Any) -> Any:
            rng = np.random.default_rng(seed)
            arrays = [x * 1.5]
            for _ in range(8):
                source = arrays[rng.integers(len(arrays))]
                choice = rng.integers(7)
                if choice < 2 and source.ndim:
                    index = indices[rng.integers(len(indices) if source.ndim > 1 else 4)]
                    part = source[index]
                    if part.ndim and part.size:
                        arrays.append(part)
                elif choice == 2:
                    arrays.append(source.T)
                elif choice == 3:
                    arrays.append(source.reshape(-1))
                elif choice == 4:
                    source *= 1.1
                elif choice == 5:
                    source[...] = np.sin(source) + x.sum()
                else:
                    source[:1] += arrays[rng.integers(len(arrays))].mean()
            return arrays

        return run

    for seed in range(60):
        assert_gradients(program(seed), np.random.default_rng(seed).normal(size=(2, 3)), rtol=1e-5, atol=1e-6)


def test_views_that_nobody_has_are_forgotten() -> None:
    counts = []

    def loss(x: Any) -> Any:
        y = x * 2
        total = y.sum()
        for _ in range(200):
            total = total + y[0].sum()
        counts.append(len(y.alias))
        return total

    lite.grad(loss)(np.ones((3, 2)))
    assert counts[0] < 40


@pytest.mark.usefixtures("only_new_garbage")
def test_nothing_is_held_by_circles() -> None:
    kept: list[Any] = []

    def loss(x: Any) -> Any:
        y = x * 2
        row = y[0]
        row += 1
        kept.extend(weakref.ref(array) for array in (x, y, row, row.node))
        return (y * y).sum()

    gc.collect()
    gc.disable()
    try:
        lite.grad(loss)(np.ones((2, 2)))
        assert [ref() for ref in kept] == [None] * 4
    finally:
        gc.enable()
