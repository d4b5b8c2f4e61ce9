"""Functions with batching rules are compared with a loop over the elements, for random arguments."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.cases import noting

from lite import vmap


def rows(n: int = 3, m: int = 2) -> Any:
    """An array to map over, of numbers that tell its elements apart."""
    return np.arange(float(n * m)).reshape(n, m)


class Spec:
    """Shape and kind of one argument: what one element along the mapped dimension is."""

    def __init__(self, *shape: int, kind: str = "f", high: int = 3) -> None:
        self.shape = shape
        self.kind = kind
        self.high = high

    def draw(self, rng: np.random.Generator, lead: tuple[int, ...]) -> Any:
        """Elements along new dimensions in front."""
        shape = (*lead, *self.shape)
        if self.kind == "i":
            return rng.integers(-self.high, self.high, shape)
        if self.kind == "b":
            return rng.random(shape) < 0.5
        if self.kind == "nan":
            out = rng.standard_normal(shape)
            out[rng.random(shape) < 0.2] = np.nan
            return out
        if self.kind == "c":
            return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        out = rng.standard_normal(shape)
        if self.kind == "spd":
            return out @ np.swapaxes(out, -1, -2) + 3 * np.eye(shape[-1])
        if self.kind == "sorted":
            return np.sort(out)
        return out


def f(*shape: int) -> Spec:
    return Spec(*shape)


def i(*shape: int, high: int = 3) -> Spec:
    return Spec(*shape, kind="i", high=high)


def b(*shape: int) -> Spec:
    return Spec(*shape, kind="b")


def spd(*shape: int) -> Spec:
    return Spec(*shape, kind="spd")


def nan(*shape: int) -> Spec:
    return Spec(*shape, kind="nan")


def c(*shape: int) -> Spec:
    return Spec(*shape, kind="c")


def ordered(*shape: int) -> Spec:
    return Spec(*shape, kind="sorted")


Case = tuple[str, Callable[..., Any], tuple[Spec, ...]]


def written(write: Callable[..., None]) -> Callable[..., Any]:
    """A function that writes into a copy of its first argument and returns it."""

    def run(x: Any, *args: Any) -> Any:
        out = np.zeros_like(x) + x
        write(out, *args)
        return out

    return run


def put(index: Any) -> Callable[..., Any]:
    def write(x: Any, value: Any) -> None:
        x[index] = value

    return written(write)


def put_at(x: Any, index: Any, value: Any) -> None:
    x[index] = value


def add_in_place(x: Any, y: Any) -> Any:
    x = x + 0
    x += y
    return x


SIZE = 4


def choices(count: int) -> list[tuple[bool, ...]]:
    """Which of so many arguments are mapped: all of them, and each alone."""
    alone = [tuple(k == on for k in range(count)) for on in range(count)]
    return alone if count == 1 else [(True,) * count, *alone]


def stacked(results: list[Any]) -> Any:
    if isinstance(results[0], tuple):
        return tuple(stacked(list(column)) for column in zip(*results, strict=True))
    return np.stack([np.asarray(result) for result in results])


def looped(fn: Any, dims: tuple[int | None, ...], args: list[Any]) -> Any:
    """What `vmap` must give: the results of the elements, stacked."""
    size = next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)
    return stacked(
        [
            fn(*[a if d is None else np.take(a, k, d)[()] for a, d in zip(args, dims, strict=True)])
            for k in range(size)
        ]
    )


def assert_same(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        assert isinstance(got, tuple)
        assert len(got) == len(expected)
        for g, e in zip(got, expected, strict=True):
            assert_same(g, e)
        return
    assert got.dtype == expected.dtype
    assert type(got) is np.ndarray
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def writes(name: str) -> bool:
    """Whether the first argument must be mapped, as the function writes into one like it."""
    return name.startswith("assign") or name in (
        *("put_along_axis", "copyto", "fill_diagonal", "ufunc.at", "full_like", "in place", "putmask"),
    )


def check_arguments(name: str, fn: Any, specs: Any) -> None:
    """A rule against the loop; one that loops would warn, and fail."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for mapped in choices(len(specs)):
        if writes(name) and not mapped[0]:
            continue
        args = [spec.draw(rng, (SIZE,) if on else ()) for spec, on in zip(specs, mapped, strict=True)]
        dims = tuple(0 if on else None for on in mapped)
        kept = [arg.copy() for arg in args]
        assert_same(vmap(fn, dims)(*args), looped(fn, dims, args))
        np.testing.assert_equal(args, kept)


def check_strides(name: str, fn: Any, specs: Any) -> None:
    """The mapped dimension is the last one, so that what rules get is no contiguous array."""
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 1)
    args = [np.moveaxis(spec.draw(rng, (SIZE,)), 0, -1) for spec in specs]
    dims = (-1,) * len(args)
    assert_same(vmap(fn, -1)(*args), looped(fn, dims, args))


def check_nested(name: str, fn: Any, specs: Any) -> None:
    """Two maps, each over some of the arguments."""
    rng = np.random.default_rng(zlib.crc32(name.encode()) + 2)
    every = (((0,), (0,)), ((0, None), (None, 0)), ((None, 0), (0, None)), ((0, 0), (0, None)))
    for outer, inner in every if len(specs) > 1 else every[:1]:
        outer_on = tuple(outer[k % len(outer)] is not None for k in range(len(specs)))
        inner_on = tuple(inner[k % len(inner)] is not None for k in range(len(specs)))
        if not any(outer_on) or not any(inner_on):
            continue
        if writes(name) and not (outer_on[0] and inner_on[0]):
            continue
        args = [
            spec.draw(rng, (*[3] * a, *[2] * b)) for spec, a, b in zip(specs, outer_on, inner_on, strict=True)
        ]
        inner_dims = tuple(0 if on else None for on in inner_on)
        outer_dims = tuple(0 if on else None for on in outer_on)
        got = vmap(vmap(fn, inner_dims), outer_dims)(*args)
        expected = looped(lambda *rest, dims=inner_dims: looped(fn, dims, list(rest)), outer_dims, args)
        assert_same(got, expected)


def check_mapped(name: str, fn: Any, specs: Any) -> None:
    check_arguments(name, fn, specs)
    check_strides(name, fn, specs)
    # A mapped mask within another map runs as a loop; see test_masks_in_nested_maps.
    if name not in ("mapped mask of as many", "nonzero of as many", "flatnonzero"):
        check_nested(name, fn, specs)


def for_each(check: Callable[..., None], cases: list[Case]) -> None:
    """Run a check for each of many small cases; a failure names the case."""
    for name, fn, specs in cases:
        with noting(name):
            check(name, fn, specs)
