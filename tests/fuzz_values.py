"""What random programs store, index with and look up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from fuzz_sides import Array, Dense, Lazy, is_container, is_objects, stacked
from fuzz_step import Choices

import lite

DTYPES = ("float32", "int64", "bool", "float64", "int32", "uint8")
KEYS = ("a", "b", "g", "n", "s", "r", "x", "new")
NESTED = (("n", "a"), ("n", "s"), ("n", "new"), ("n", "n", "a"), ("n",), ("new", "a"), ("a", "a"))


def leaf(shape: Sequence[int], dtype: str, seed: int) -> Array:
    """An array whose elements are mostly distinct, so that a misplaced row shows."""
    numbers = np.arange(int(np.prod(shape))).reshape(tuple(shape)) * 7 + 3 * seed
    if dtype == "bool":
        return np.asarray(numbers % 3 == 0)
    return np.asarray(numbers % 101, dtype=dtype)


def sizes(c: Choices) -> tuple[int, ...]:
    return c.pick([(2, 3), (3,), (2,), (), (2, 1), (1,), (1, 2, 2), (3, 2), (0,), (2, 0), (1, 3), (2, 2, 1)])


def tree(c: Choices, size: tuple[int, ...], depth: int = 2, names: bool = False) -> Dense | Lazy:
    """Entries of every kind, nested ones with a longer batch size or lazily stacked."""
    if size and 0 not in size and depth == 2 and c.below(3) == 1:
        return lazy(c, size)
    entries: dict[str, Any] = {}
    for key in ("a", "b", "n", "s", "r")[: 1 + c.below(5)]:
        if key == "n" and depth:
            inner = size + c.pick([(), (), (2,)])
            entries[key] = (
                lazy(c, inner) if inner and 0 not in inner and c.one_in(4) else tree(c, inner, depth - 1)
            )
        elif key == "s":
            entries[key] = c.pick(["text", "other", None, 7j])
            if entries[key] == 7j:
                entries[key] = {"a", "set"} if not c.one_in(2) else b"bytes"
        elif key == "r" and 0 < len(size) < 3 and 0 not in size:
            entries[key] = strings(size, c.below(3))
        elif key in ("a", "b"):
            feature = c.pick([(), (2,), (1,), (2, 2)])
            entries[key] = leaf(size + feature, c.pick(DTYPES), c.below(5))
    if c.one_in(3):
        entries = dict(reversed(entries.items()))
    given = ["p", "q", "t"][: len(size)] if names and size and c.one_in(2) else None
    return Dense(size, entries, given)


def strings(size: tuple[int, ...], seed: int) -> Any:
    """Nested lists with one string per element."""
    if not size:
        return f"row{seed}"
    return [strings(size[1:], seed * size[0] + i) for i in range(size[0])]


def lazy(c: Choices, size: tuple[int, ...]) -> Lazy:
    """Parts with a ragged leaf `g`, an exclusive leaf `x` or node `n`, and otherwise the same keys."""
    dim = c.below(len(size))
    inner = size[:dim] + size[dim + 1 :]
    ragged, exclusive = c.one_in(2), c.pick([None, "x", None, "n", "x", None])
    keys = ("a", "n", "s", "r")[: 1 + c.below(4)]
    dtype = c.pick(DTYPES)
    parts = []
    for i in range(size[dim]):
        entries: dict[str, Any] = {}
        for key in keys:
            if key == "a":
                entries[key] = leaf((*inner, 2), dtype, i)
            elif key == "n" and (i == 0 or exclusive != "n"):
                entries[key] = Dense(inner, {"a": leaf(inner, "int64", i + 3), "s": f"in {i}"})
                if ragged:
                    entries[key].entries["g"] = leaf((*inner, 1 + i), "float32", i)
            elif key == "s":
                entries[key] = f"text {i}" if ragged else "text"
            elif key == "r" and 0 < len(inner) < 3:
                entries[key] = strings(inner, i)
        if ragged:
            entries["g"] = leaf((*inner, i + 1), "float32", i)
        if exclusive == "x" and i == 0:
            entries["x"] = leaf(inner, "int64", 9)
        parts.append(Dense(inner, entries))
    return Lazy(dim, parts)


def mask(c: Choices, shape: Sequence[int]) -> Array:
    """Bools in any pattern."""
    n = int(np.prod(shape))
    pattern = c.below(1 << min(n, 8))
    return np.array([not pattern >> i % 8 & 1 for i in range(n)], bool).reshape(tuple(shape))


def index(c: Choices, size: tuple[int, ...]) -> Any:
    """An index that is right most of the time."""
    items: list[Any] = []
    used = 0
    for _ in range(c.pick([1, 1, 2, 2, 3, 0])):
        n = size[used] if used < len(size) else -1
        kind = c.pick(
            ["int", "slice", "array", "mask", "full", "none", "list", "ellipsis", "nd", "mask2", "bool"]
        )
        if kind == "none":
            items.append(None)
        elif kind == "ellipsis":
            items.append(Ellipsis)
        elif kind == "bool":
            items.append(c.pick([True, True, False]))
        elif n < 0:
            if c.one_in(6):
                items.append(0)
            break
        elif kind == "mask2" and used + 1 < len(size):
            items.append(mask(c, size[used : used + 2]))
            used += 2
        elif kind == "int":
            items.append(c.below(2 * n + 1) - n if n else 0)
            used += 1
        elif kind == "slice":
            start, stop = c.below(n + 1), c.pick([None, n, n - 1, 1, -1])
            items.append(slice(start or None, stop, c.pick([None, None, 2])))
            used += 1
        elif kind in ("array", "list", "nd") and n:
            picked = np.array([c.below(2 * n) - n for _ in range(c.pick([2, 1, 3]))])
            items.append(
                picked.tolist() if kind == "list" else picked.reshape(1, -1) if kind == "nd" else picked
            )
            used += 1
        elif kind == "mask":
            items.append(mask(c, (n,)))
            used += 1
        else:
            items.append(slice(None))
            used += 1
    return items[0] if len(items) == 1 and not c.one_in(3) else tuple(items)


def key(c: Choices, td: Any) -> Any:
    """A key, mostly one that is there."""
    try:
        there = list(td.keys(True))
    except RuntimeError:  # nested entries that cannot be stacked
        there = list(td.keys())
    if there and not c.one_in(4):
        return c.pick(there)
    return c.pick([*KEYS, *NESTED])


def entry(c: Choices, td: Any, k: Any) -> Any:
    """Something to store: an array, text, a list, a dict, a tree, or the number of a variable."""
    size = tuple(2 if n < 0 else n for n in td.batch_size)
    if len(size) > 2:
        return leaf(size + c.pick([(), (2,), (1,)]), c.pick(DTYPES), c.below(5))
    kind = c.pick(["leaf", "leaf", "text", "rows", "dict", "tree", "variable", "like", "wrong", "ragged"])
    if kind == "text":
        return c.pick(["stored", None])
    if kind == "rows":
        return strings(size, c.below(3)) if size and 0 not in size else "one"
    if kind == "dict":
        return {"a": leaf(size, c.pick(DTYPES), 1), "q": {"s": "deep"}}
    if kind == "tree":
        return tree(c.rest(), size + c.pick([(), (2,)]), 1)
    if kind == "variable":
        return c.below(3)
    if kind == "wrong":
        return leaf((*size, 1)[1:] if len(size) else (2,), "float32", 1)
    if kind == "ragged" and stacked(td) and td.stack_dim == 0:
        return [leaf((*size[1:], 1 + c.below(3)), "float32", i) for i in range(size[0])]
    if kind == "like":
        try:
            shape = td.get_item_shape(k)
            if -1 not in shape:
                return leaf(shape, c.pick(DTYPES), 6)
        except KeyError:
            pass
    return leaf(size + c.pick([(), (2,), (1,)]), c.pick(DTYPES), c.below(5))


def paths(td: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where the arrays of a TensorDict are: keys, and numbers of parts of lazy stacks."""
    if stacked(td):
        return [p for i, part in enumerate(td.tensordicts) for p in paths(part, (*prefix, i))]
    out: list[tuple[Any, ...]] = []
    for name, entry in td._items():
        if isinstance(entry, np.ndarray):
            out.append((*prefix, name))
        elif isinstance(entry, lite.TensorDictBase):
            out += paths(entry, (*prefix, name))
    return out


def follow(td: Any, path: Sequence[Any]) -> Any:
    for item in path:
        td = td.tensordicts[item] if isinstance(item, int) else td.get(item)
    return td


def nodes(td: Any) -> set[int]:
    """The identities of all containers of a tree."""
    inner = td.tensordicts if stacked(td) else [entry for _, entry in td._items()]
    return {id(td)}.union(*(nodes(e) for e in inner if isinstance(e, lite.TensorDictBase)))


def shares_nodes(a: Any, b: Any) -> bool:
    """Whether storing one in the other could make a cycle."""
    return bool(nodes(a) & nodes(b))


def nothing_below(value: Any) -> bool:
    """Whether there is a nested TensorDict without entries at any depth."""
    inner = [] if not is_container(value) else value.tensordicts if stacked(value) else value.values()
    nodes = [entry for entry in inner if is_container(entry) and not is_objects(entry)]
    return any(node.is_empty() or nothing_below(node) for node in nodes)
