"""TensorDicts as plain data: what the random programs compare with.

A dense TensorDict is a `Tree`: a batch shape and a dict of entries. An entry is an array, a `One` (one object
for the whole batch), an object array (one object per element), or a node. A lazy stack is `Rows`: an object
array of the batch shape whose elements are Trees of batch size (), so that each may have its own shapes.
Batch operations are therefore NumPy's on the leading axes of every entry, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
Names = list[str | None]


class One(NamedTuple):
    """One object that all elements of a batch share."""

    value: Any


class Tree:
    """A dense TensorDict, or an instance of a tensorclass whose name is `kind`."""

    def __init__(
        self,
        shape: Sequence[int],
        entries: dict[str, Any],
        names: Names | None = None,
        locked: bool = False,
        kind: str = "",
    ) -> None:
        self.shape = tuple(shape)
        self.entries = entries
        self.kind = kind
        self.names: Names = list(names) if names else [None] * len(self.shape)
        self.locked = locked
        name_below(self, self.names)

    def __repr__(self) -> str:
        items = ", ".join(f"{key}: {_short(value)}" for key, value in self.entries.items())
        named = self.names if any(self.names) else ""
        return f"{'locked ' if self.locked else ''}{self.kind}{self.shape}{named}{{{items}}}"


class Rows:
    """A lazy stack, as its elements; `dim` is the dimension that was stacked."""

    def __init__(self, array: Array, dim: int, names: Names | None = None, locked: bool = False) -> None:
        self.array = array
        self.dim = dim
        self.names: Names = list(names) if names else [None] * array.ndim
        self.locked = locked

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    def __repr__(self) -> str:
        return f"lazy[{self.dim}]{self.shape}{self.array.ravel().tolist()}"


Node = Tree | Rows


def name_below(node: Any, names: Names) -> None:
    """Nodes have the names of the dimensions they share with what holds them."""
    node.names = [*names, *node.names[len(names) :]]
    for value in node.entries.values() if isinstance(node, Tree) else ():
        if isinstance(value, Tree | Rows):
            name_below(value, names)


def nameless(node: Any) -> Any:
    """The node, without names at any depth."""
    node.names = [None] * len(node.shape)
    for value in node.entries.values() if isinstance(node, Tree) else ():
        if isinstance(value, Tree | Rows):
            nameless(value)
    return node


class Refused(Exception):
    """What the model does not allow. Lite must raise an error of the class named, or any if none is named."""


def _short(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype}{value.shape}"
    return repr(value.tolist()) if isinstance(value, np.ndarray) else repr(value)


def is_node(value: Any) -> bool:
    return isinstance(value, Tree | Rows)


def is_numbers(value: Any) -> bool:
    """Whether an entry is an array of numbers or bools."""
    return isinstance(value, np.ndarray) and value.dtype != object


def objects(values: Sequence[Any], shape: Sequence[int]) -> Array:
    """An object array of any objects, which NumPy does not look into."""
    out = np.empty(len(values), object)
    for i, value in enumerate(values):
        out[i] = value
    return out.reshape(tuple(shape))


# -- walks ------------------------------------------------------------------------------------


def mapped(node: Any, f: Callable[[Array], Any], locked: bool = False) -> Any:
    """The same tree with `f` of each array of numbers."""
    if isinstance(node, Rows):
        new = [mapped(row, f) for row in node.array.ravel()]
        return Rows(objects(new, node.shape), node.dim, node.names, locked)
    entries = {
        key: mapped(value, f, locked)
        if is_node(value)
        else np.asarray(f(value))
        if is_numbers(value)
        else value
        for key, value in node.entries.items()
    }
    return Tree(node.shape, entries, node.names, locked, node.kind)


def moved(
    node: Any, f: Callable[[Array], Array], names: Callable[[Names], Names], locked: bool = False
) -> Any:
    """A batch operation: `f` on each entry, whose leading axes are the batch, and `names` on the names."""
    ndim = len(node.shape)

    def entry(value: Any) -> Any:
        if isinstance(value, One):
            return value
        if not is_node(value):
            found = f(value)
            return One(found[()]) if found.dtype == object and not found.ndim else found
        new_names = names(value.names[:ndim]) + value.names[ndim:]
        if isinstance(value, Rows):
            array = f(value.array)
            return Rows(array, 0, new_names, locked) if array.ndim else array[()]
        entries = {k: entry(v) for k, v in value.entries.items()}
        return Tree(f(_blank(value.shape)).shape, entries, new_names, locked, value.kind)

    return entry(node)


def _blank(shape: Sequence[int]) -> Array:
    return np.empty(tuple(shape), bool)


def leaves(node: Any, prefix: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Tree, Any]]:
    """Every entry that is no node: its path, the node that holds it, and itself."""
    for key, value in node.entries.items():
        if isinstance(value, Tree):
            yield from leaves(value, (*prefix, key))
        else:
            yield (*prefix, key), node, value


def has_rows(node: Any) -> bool:
    """Whether there is a lazy stack in a tree."""
    return isinstance(node, Rows) or (isinstance(node, Tree) and any(map(has_rows, node.entries.values())))


def copied(node: Any) -> Any:
    """The same content in new memory, unlocked."""
    if isinstance(node, Tree):
        return Tree(node.shape, {k: copied(v) for k, v in node.entries.items()}, node.names, kind=node.kind)
    if isinstance(node, Rows):
        array = objects([copied(row) for row in node.array.ravel()], node.shape)
        return Rows(array, node.dim, node.names)
    if isinstance(node, list | tuple) and not isinstance(node, One):
        return [copied(item) for item in node]
    return node.copy() if isinstance(node, np.ndarray) else node


# -- lazy stacks and dense forms --------------------------------------------------------------


def elements(node: Node) -> Array:
    """The batch elements, each a Tree of batch size ()."""
    if isinstance(node, Rows):
        return node.array
    rows = [moved(node, lambda x, at=at: x[(*at, ...)], lambda names: []) for at in np.ndindex(node.shape)]
    return objects(rows, node.shape)


def dense(rows: Any) -> Any:
    """A Tree with the same elements; nodes become dense, too. Refused where rows differ in shape."""
    if isinstance(rows, Tree):
        entries = {k: dense(v) if is_node(v) else v for k, v in rows.entries.items()}
        return Tree(rows.shape, entries, rows.names, kind=rows.kind)
    if not is_node(rows):
        return rows
    flat = [dense(row) for row in rows.array.ravel()]
    if not flat:
        raise Refused("RuntimeError")
    keys = sorted(key for key in flat[0].entries if all(key in row.entries for row in flat))
    columns = {key: [row.entries[key] for row in flat] for key in keys}
    entries = {k: _column(v, rows.shape) for k, v in columns.items()}
    return Tree(rows.shape, entries, rows.names, kind=flat[0].kind)


def _column(values: list[Any], shape: tuple[int, ...]) -> Any:
    first = values[0]
    if isinstance(first, One):
        return objects([v.value for v in values], shape)
    if len({type(v) for v in values}) > 1 or len({v.shape for v in values}) > 1:
        raise Refused("RuntimeError")
    if isinstance(first, Tree):
        inner = Rows(objects(values, shape), 0)
        keys = first.entries
        if any(v.entries.keys() != keys.keys() for v in values):
            raise Refused("RuntimeError")
        columns = {k: _column([v.entries[k] for v in inner.array.ravel()], shape) for k in sorted(keys)}
        for key, column in columns.items():  # one object of a node with dims of its own
            if isinstance(first.entries[key], One) and first.shape:
                wide = column.reshape(*shape, *[1] * len(first.shape))
                columns[key] = np.broadcast_to(wide, (*shape, *first.shape))
        return Tree((*shape, *first.shape), columns, kind=first.kind)
    return np.stack(values).reshape(*shape, *first.shape)


def regular(node: Any) -> bool:
    """Whether a node could be dense: all rows have the same keys and shapes."""
    try:
        dense(node)
    except Refused:
        return False
    return not any(len({tuple(row.entries) for row in rows.array.ravel()}) > 1 for rows in stacks(node))


def stacks(node: Any) -> Iterator[Rows]:
    if isinstance(node, Rows):
        yield node
        for row in node.array.ravel():
            yield from stacks(row)
    elif isinstance(node, Tree):
        for value in node.entries.values():
            yield from stacks(value)


# -- what two libraries hold ------------------------------------------------------------------


class Mismatch(AssertionError):
    """Where two results differ; `kind` says in what."""

    def __init__(self, kind: str, path: str, ours: Any, expected: Any) -> None:
        super().__init__(f"{kind} at {path or 'the result'}: lite {ours!r}, expected {expected!r}")
        self.kind = kind
        self.path = path


def compare(ours: Any, expected: Any, path: str = "", by_element: bool = False) -> None:
    """Raise `Mismatch` at the first difference.

    Args:
        by_element: compare the batch elements, however they are arranged in lazy stacks. Locks of parts and
            the order of keys are not fixed then.
    """
    if isinstance(expected, tuple | list):
        _equal("parts", isinstance(ours, tuple | list) and len(ours), len(expected), path)
        for i, pair in enumerate(zip(ours, expected, strict=True)):
            compare(*pair, f"{path}[{i}]", by_element)
    elif is_node(expected):
        _equal("kind", is_node(ours), True, path)
        _compare_nodes(ours, expected, path, by_element)
    elif isinstance(expected, dict):
        _equal("keys", sorted(ours), sorted(expected), path)
        if not by_element:
            _equal("key order", list(ours), list(expected), path)
        for key in expected:
            compare(ours[key], expected[key], f"{path}/{key}", by_element)
    elif isinstance(expected, np.ndarray | np.generic):
        if by_element:
            ours = spread(ours, expected.shape)
        _compare_arrays(ours, np.asarray(expected), path)
    else:
        _equal("type", type(ours), type(expected), path)
        _equal("value", ours, expected, path)


def _equal(kind: str, ours: Any, expected: Any, path: str) -> None:
    if ours != expected:
        raise Mismatch(kind, path, ours, expected)


def _compare_arrays(ours: Any, expected: Array, path: str) -> None:
    if not isinstance(ours, np.ndarray | np.generic):
        raise Mismatch("kind", path, ours, expected)
    ours = np.asarray(ours)
    _equal("dtype", str(ours.dtype), str(expected.dtype), path)
    _equal("shape of objects" if expected.dtype == object else "shape", ours.shape, expected.shape, path)
    if expected.dtype == object:
        compare(ours.ravel().tolist(), expected.ravel().tolist(), path)
    elif ours.tobytes() != expected.tobytes() and not np.allclose(
        ours, expected, rtol=2e-5, atol=1e-6, equal_nan=True
    ):
        raise Mismatch("values", path, ours.tolist(), expected.tolist())


def _compare_nodes(ours: Node, expected: Node, path: str, by_element: bool) -> None:
    _equal("batch_size", ours.shape, expected.shape, path)
    if not (by_element and 0 in expected.shape):  # a lazy stack without parts has lost their names
        _equal("names", ours.names, expected.names, path)
    if by_element or isinstance(ours, Rows) or isinstance(expected, Rows):
        for at, row in np.ndenumerate(elements(expected)):
            _compare_rows(elements(ours)[at], row, f"{path}<{at}>")
        return
    _equal("class", ours.kind, expected.kind, path)
    _equal("lock", ours.locked, expected.locked, path)
    mine, theirs = content(ours), content(expected)
    _equal("keys", set(mine), set(theirs), path)
    for key, value in theirs.items():
        compare(mine[key], value, f"{path}/{key}")
    _equal("key order", list(mine), list(theirs), path)


def content(tree: Tree) -> dict[str, Any]:
    """The entries; None in a field of a tensorclass is the same as nothing."""
    return {
        k: v for k, v in tree.entries.items() if not (tree.kind and isinstance(v, One) and v.value is None)
    }


def _compare_rows(ours: Any, expected: Any, path: str) -> None:
    """Two elements, whose objects may be arranged in other ways."""
    if isinstance(ours, Rows) or isinstance(expected, Rows):
        _equal("batch_size", ours.shape, expected.shape, path)
        for at, row in np.ndenumerate(elements(expected)):
            _compare_rows(elements(ours)[at], row, f"{path}<{at}>")
    elif isinstance(expected, Tree):
        _equal("kind", is_node(ours), True, path)
        _equal("class", ours.kind, expected.kind, path)
        _equal("batch_size", ours.shape, expected.shape, path)
        mine, theirs = content(ours), content(expected)
        _equal("keys", set(mine), set(theirs), path)
        for key, value in theirs.items():
            _compare_rows(*(spread(x, expected.shape) for x in (mine[key], value)), f"{path}/{key}")
    else:
        compare(ours, expected, path)


def spread(value: Any, shape: tuple[int, ...]) -> Any:
    """One object as one per element."""
    return objects([value.value] * int(np.prod(shape)), shape) if isinstance(value, One) else value
