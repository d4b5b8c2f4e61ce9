"""Bytes as choices, and what random programs store and index with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from helpers.fuzz.model import Array, One, Rows, Tree, objects

DTYPES = ("float32", "int64", "bool", "float64")
SIZES = ((2, 3), (3,), (2,), (), (2, 1), (1,), (1, 2, 2), (3, 2), (4,), (0,), (2, 0))


class Choices:
    """Bytes read as choices; 0 is always the simplest, so that shrinking simplifies."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def below(self, n: int) -> int:
        if self.at >= len(self.data) or n <= 1:
            return 0
        self.at += 1
        return self.data[self.at - 1] % n

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.below(len(options))]

    def one_in(self, n: int) -> bool:
        return self.below(n) == 1

    def rest(self) -> Choices:
        """All that is left, for a part that needs more choices than there are bytes."""
        seed = int.from_bytes(self.data[self.at :], "little")
        return Choices(np.random.default_rng(seed).bytes(64) if seed else b"")


def dim(c: Choices, ndim: int) -> int:
    """Mostly a dimension there is."""
    return c.below(2 * ndim + 2) - ndim - 1 if c.one_in(8) or not ndim else c.below(2 * ndim) - ndim


def leaf(shape: Sequence[int], dtype: str, seed: int) -> Array:
    """An array whose elements are mostly distinct, so that a misplaced row shows."""
    numbers = np.arange(int(np.prod(shape))).reshape(tuple(shape)) * 7 + 3 * seed
    return np.asarray(numbers % 3 == 0) if dtype == "bool" else np.asarray(numbers % 101, dtype=dtype)


def strings(shape: Sequence[int], seed: int) -> Array:
    """One string per element."""
    return objects([f"row{seed + i}" for i in range(int(np.prod(shape)))], shape)


def tree(
    c: Choices, size: tuple[int, ...], depth: int = 2, names: bool = False, nested_lazy: bool = True
) -> Any:
    """Entries of every kind, nested ones with a longer batch size or lazily stacked."""
    if depth == 2 and size and 0 not in size and c.below(4) == 1:
        return lazy(c, size)
    entries: dict[str, Any] = {}
    for key in ("a", "b", "n", "s", "r", "c")[: 1 + c.below(6)]:
        if key == "n" and depth:
            inner = size + c.pick([(), (), (2,)])
            is_lazy = nested_lazy and inner and 0 not in inner and c.one_in(6)
            entries[key] = lazy(c, inner) if is_lazy else tree(c, inner, depth - 1, nested_lazy=nested_lazy)
        elif key == "s":
            entries[key] = One(c.pick(["text", "other", None, b"bytes"]))
        elif key == "c" and depth == 2:
            entries[key] = Tree(
                size,
                {"a": leaf(size + c.pick([(), (2,)]), c.pick(DTYPES), c.below(5)), "s": One("field")},
                kind="Point",
            )
        elif key == "r" and size and 0 not in size:
            entries[key] = strings(size, c.below(3))
        elif key in ("a", "b"):
            entries[key] = leaf(size + c.pick([(), (2,), (1,), (2, 2)]), c.pick(DTYPES), c.below(5))
    if c.one_in(3):
        entries = dict(reversed(entries.items()))
    return Tree(size, entries, list("pqt"[: len(size)]) if names and size and c.one_in(2) else None)


def lazy(c: Choices, size: tuple[int, ...]) -> Rows:
    """A lazy stack, some with entries whose length differs from part to part."""
    dim, ragged, count, dtype = c.below(len(size)), c.one_in(2), c.below(3), c.pick(DTYPES)
    rows = []
    for number, at in enumerate(np.ndindex(size)):
        part = at[dim]
        entries: dict[str, Any] = {"a": leaf((2,), dtype, number)}
        if count:
            entries["n"] = Tree((), {"a": leaf((), "int64", number + 3)})
            if ragged:
                entries["n"].entries["g"] = leaf((1 + part,), "float32", number)
        if count == 2:
            entries["s"] = One(f"text {part}")
        if ragged:
            entries["g"] = leaf((1 + part,), "float32", number)
        rows.append(Tree((), entries))
    return Rows(objects(rows, size), dim)


def mask(c: Choices, shape: Sequence[int]) -> Array:
    """Bools in any pattern."""
    n = int(np.prod(shape))
    pattern = c.below(256)
    return np.array([not pattern >> i % 8 & 1 for i in range(n)], bool).reshape(tuple(shape))


def index(c: Choices, size: tuple[int, ...], distinct: bool = False) -> Any:
    """An index that is right most of the time.

    Args:
        distinct: no element is picked twice, as the order of writes is not fixed.
    """
    items: list[Any] = []
    used = 0
    for _ in range(c.pick([1, 1, 2, 2, 3])):
        if used >= len(size):
            if not items or c.one_in(8):
                items.append(c.pick([None, Ellipsis, 0]))
            break
        n = size[used]
        kind = c.pick(["int", "slice", "array", "mask", "full", "none", "list", "ellipsis", "nd", "mask2"])
        if kind == "none":
            items.append(None)
            continue
        if kind == "ellipsis" and not any(item is Ellipsis for item in items):
            items.append(Ellipsis)
            break
        used += 1
        if kind == "mask2" and used < len(size):
            items.append(mask(c, size[used - 1 : used + 1]))
            used += 1
        elif kind == "int":
            items.append(c.below(2 * n) - n if not c.one_in(10) else n)
        elif kind == "slice":
            items.append(
                slice(c.below(n + 1) or None, c.pick([None, n, n - 1, 1, -1]), c.pick([None, None, 2]))
            )
        elif kind in ("array", "list", "nd") and n:
            picked = [c.below(2 * n) - n for _ in range(c.pick([2, 1, 3]))]
            if distinct:
                picked = list({i % n: i for i in picked}.values())
            items.append(picked if kind == "list" else np.array([picked] if kind == "nd" else picked))
        elif kind == "mask":
            items.append(mask(c, (n,)))
        else:
            items.append(slice(None))
    return items[0] if len(items) == 1 and not c.one_in(3) else tuple(items)
