"""Operations on keys: reading, choosing, moving and removing entries."""

from __future__ import annotations

from typing import Any

import numpy as np
from helpers.fuzz import model as m
from helpers.fuzz.choices import Choices
from helpers.fuzz.register import Call, calls, operation

FIELDS = ("a", "s")  # of the tensorclass
Key = str | tuple[str, ...]
MISSING = (("n", "new"), "new", ("new", "a"), ("n", "n", "b"))


def path_of(key: Key) -> tuple[str, ...]:
    return key if isinstance(key, tuple) else (key,)


def keys_of(td: Any, prefix: tuple[str, ...] = ()) -> list[Key]:
    """All keys at any depth; those of a lazy stack are the ones that all its rows have."""
    entries = common(td)
    found: list[Key] = []
    for key, value in entries.items():
        found.append((*prefix, key) if prefix else key)
        if m.is_node(value):
            found += keys_of(value, (*prefix, key))
    return found


def common(td: Any) -> dict[str, Any]:
    """The entries of a Tree; of Rows those of the first row that all others have."""
    if isinstance(td, m.Tree):
        return td.entries
    rows = td.array.ravel()
    return (
        {k: v for k, v in rows[0].entries.items() if all(k in row.entries for row in rows)}
        if len(rows)
        else {}
    )


def find(td: Any, key: Key) -> Any:
    """An entry, as a copy where it lies in a lazy stack."""
    for i, name in enumerate(path_of(key)):
        if isinstance(td, m.Rows):
            require(td, path_of(key)[i:])
            return column(td, path_of(key)[i:])
        if not isinstance(td, m.Tree) or name not in td.entries:
            raise KeyError(key)
        td = td.entries[name]
    return td


def require(td: Any, key: Key) -> None:
    if path_of(key) not in map(path_of, keys_of(td)):
        raise KeyError(key)


def column(rows: m.Rows, path: tuple[str, ...]) -> Any:
    """An entry of a lazy stack: nodes stay lazy, arrays are stacked."""
    found = [find(row, path) for row in rows.array.ravel()]
    if all(isinstance(node, m.Tree) and not node.shape for node in found):
        return m.Rows(m.objects(found, rows.shape), rows.dim, rows.names)
    if all(map(m.is_node, found)):
        inner = np.stack([m.elements(node) for node in found])
        names = [*rows.names, *[None] * (inner.ndim - 1)]
        return m.Rows(inner.reshape(*rows.shape, *inner.shape[1:]), rows.dim, names)
    holder = find(rows.array.ravel()[0], path[:-1]).shape
    if isinstance(found[0], m.One) and holder:
        found = [m.spread(one, holder) for one in found]
    return m._column(found, rows.shape)


def unlocked(td: Any) -> Any:
    if td.locked:
        raise m.Refused("RuntimeError")
    return td


def each(td: Any, f: Any) -> Any:
    """A new node: `f` of a Tree; of Rows that of every row."""
    if isinstance(td, m.Rows):
        return m.Rows(m.objects([f(row) for row in td.array.ravel()], td.shape), td.dim, td.names)
    return f(td)


# -- reading ----------------------------------------------------------------------------------


@operation()
def get(td: Any, key: Key, *default: Any) -> Any:
    try:
        return find(td, key)
    except KeyError:
        return default[0] if default else None


@operation()
def item(td: Any, key: Key) -> Any:
    return plain(find(td, key))


def plain(value: Any) -> Any:
    """What reading a key gives: the object itself if the whole batch shares it."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return nested_lists(value)
    return value.value if isinstance(value, m.One) else value


@operation()
def contains(td: Any, key: Key) -> bool:
    return path_of(key) in map(path_of, keys_of(td))


@operation("key list")
def key_list(td: Any) -> Any:
    return [sorted(common(td)), sorted(map(str, keys_of(td))), len(td.shape) and td.shape[0]]


@operation()
def get_item_shape(td: Any, key: Key) -> Any:
    require(td, key)
    return list(item_shape(td, path_of(key)))


def item_shape(td: Any, path: tuple[str, ...]) -> tuple[int, ...]:
    """The shape of an entry; -1 where the rows of a lazy stack differ."""
    if isinstance(td, m.Rows):
        shapes = [item_shape(row, path) for row in td.array.ravel()]
        if len({len(shape) for shape in shapes}) > 1:
            raise m.Refused("RuntimeError")
        return td.shape + tuple(n[0] if len(set(n)) == 1 else -1 for n in zip(*shapes, strict=True))
    entry = td.entries[path[0]]
    if len(path) > 1:
        return item_shape(entry, path[1:])
    return td.shape if isinstance(entry, m.One) else entry.shape


@operation()
def numel(td: Any) -> int:
    return int(np.prod(td.shape))


@operation()
def is_empty(td: Any) -> bool:
    return all(
        not (isinstance(v, np.ndarray | m.One))
        for row in elements_or_self(td)
        for _, _, v in leaves_below(row)
    )


def elements_or_self(td: Any) -> list[Any]:
    return list(td.array.ravel()) if isinstance(td, m.Rows) else [td]


def leaves_below(td: Any) -> list[Any]:
    found = []
    for path, node, value in m.leaves(td):
        found += (
            [x for row in elements_or_self(value) for x in leaves_below(row)]
            if m.is_node(value)
            else [(path, node, value)]
        )
    return found


def any_objects(td: Any) -> bool:
    rows = elements_or_self(td)
    return any(not m.is_numbers(value) for row in rows for _, _, value in leaves_below(row))


@operation()
def to_dict(td: Any) -> dict[str, Any]:
    if isinstance(td, m.Rows):
        td = m.dense(td)
        td.entries = dict(sorted(td.entries.items()))
    found = {k: to_dict(v) if m.is_node(v) else listed(v) for k, v in td.entries.items()}
    return {name: found.get(name) for name in FIELDS} if td.kind else found


def listed(value: Any) -> Any:
    if isinstance(value, m.One):
        return value.value
    return nested_lists(value) if value.dtype == object else value


def nested_lists(rows: Any) -> Any:
    return [nested_lists(row) for row in rows] if isinstance(rows, np.ndarray) else rows


# -- choosing ---------------------------------------------------------------------------------


@operation(view=True)
def select(td: Any, *keys: Key, inplace: bool = False, strict: bool = True) -> Any:
    paths = [path_of(key) for key in keys]
    if strict:
        for path in paths:
            require(td, path)

    def chosen(node: m.Tree, paths: list[tuple[str, ...]]) -> m.Tree:
        entries: dict[str, Any] = {}
        for path in paths:
            name = path[0]
            if name not in node.entries or name in entries:
                continue
            below = [p[1:] for p in paths if p[0] == name]
            value = node.entries[name]
            if () in below:
                entries[name] = value
            elif m.is_node(value):
                entries[name] = each(value, lambda n, below=below: chosen(n, below))
        return m.Tree(node.shape, entries, node.names, kind=node.kind)

    return replaced(td, each(td, lambda node: chosen(node, paths)), inplace)


@operation(view=True)
def exclude(td: Any, *keys: Key, inplace: bool = False) -> Any:
    paths = [path_of(key) for key in keys]

    def left(node: m.Tree, paths: list[tuple[str, ...]]) -> m.Tree:
        entries: dict[str, Any] = {}
        for name, value in node.entries.items():
            below = [p[1:] for p in paths if p[0] == name]
            if () not in below:
                entries[name] = (
                    each(value, lambda n, b=below: left(n, b)) if below and m.is_node(value) else value
                )
        return m.Tree(node.shape, entries, node.names, kind=node.kind)

    return replaced(td, each(td, lambda node: left(node, paths)), inplace)


def replaced(td: Any, new: Any, inplace: bool) -> Any:
    """The new node, or the old one with the content of the new one."""
    if not inplace:
        return new
    unlocked(td)
    if isinstance(td, m.Rows):
        td.array = new.array
    else:
        td.entries = new.entries
    return td


@operation()
def split_keys(td: Any, keys: list[Key]) -> Any:
    return [m.copied(select(td, *keys)), m.copied(each(exclude(td, *keys), without_empty))]


def without_empty(node: m.Tree) -> m.Tree:
    """Without nodes that have no entries but nodes."""
    entries = {
        key: each(value, without_empty) if m.is_node(value) else value
        for key, value in node.entries.items()
        if not m.is_node(value) or not is_empty(value)
    }
    return m.Tree(node.shape, entries, node.names, kind=node.kind)


@operation(view=True)
def empty(td: Any) -> Any:
    return each(td, lambda node: m.Tree(node.shape, {}, node.names))


@operation(view=True)
def flatten_keys(td: Any, separator: str) -> Any:
    def flat(node: m.Tree) -> m.Tree:
        entries: dict[str, Any] = {}
        for path, _, value in m.leaves(node):
            if isinstance(value, m.Rows):
                raise NotImplementedError
            name = separator.join(path)
            if name in entries:
                raise KeyError(name)
            entries[name] = value
        return m.Tree(node.shape, entries, node.names, kind=node.kind)

    return each(td, flat)


# -- moving and removing ----------------------------------------------------------------------


def parent(td: Any, key: Key) -> list[m.Tree]:
    """The Trees that hold an entry: one, or one per row of a lazy stack."""
    require(td, key)
    holders = elements_or_self(td)
    for name in path_of(key)[:-1]:
        holders = [node for holder in holders for node in elements_or_self(holder.entries[name])]
    return holders


def remove(td: Any, key: Key) -> None:
    unlocked(td)
    holders = parent(td, key)
    for holder in holders:
        del holder.entries[path_of(key)[-1]]


@operation("del", in_place=True)
def delete(td: Any, key: Key) -> None:
    remove(td, key)


@operation()
def pop(td: Any, key: Key, *default: Any) -> Any:
    try:
        found = find(td, key)
    except KeyError:
        if not default:
            raise
        return default[0]
    found = m.copied(found) if m.is_node(found) else found
    remove(td, key)
    return found


@operation(in_place=True)
def rename_key_(td: Any, old: Key, new: Key, safe: bool = False) -> Any:
    unlocked(td)
    require(td, old)
    if path_of(old) == path_of(new):
        return td
    if safe and contains(td, new):
        raise KeyError(new)
    above = [path_of(new)[:i] for i in range(1, len(path_of(new))) if contains(td, path_of(new)[:i])]
    if above:
        holder, moved = find(td, above[-1]), get_item_shape(td, old)
        if not m.is_node(holder):
            raise KeyError(new)
        shared = any(isinstance(find(row, old), m.One) for row in elements_or_self(td))
        if not shared and tuple(moved[: len(holder.shape)]) != holder.shape:
            raise m.Refused("RuntimeError")
    for row in elements_or_self(td):
        move(row, path_of(old), path_of(new))
    return td


def move(node: m.Tree, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    """Move an entry to another key, with the nodes on the way to it."""
    if old[0] == new[0]:
        for row in elements_or_self(node.entries[old[0]]):
            move(row, old[1:], new[1:])
        return
    value = find(node, old)
    below: Any = node
    for name in new[:-1]:
        below = below.entries.get(name, m.Tree((), {}))
        if isinstance(below, m.Rows):  # an entry that is cut into rows is no rename
            raise NotImplementedError
    remove(node, old)
    for name in new[:-1]:
        node = node.entries.setdefault(name, m.Tree(node.shape, {}, node.names))
    node.entries[new[-1]] = value


@operation(in_place=True)
def clear(td: Any) -> Any:
    unlocked(td)
    for row in elements_or_self(td):
        row.entries.clear()
    return td


@operation(in_place=True)
def filter_empty_(td: Any) -> Any:
    unlocked(td)
    for row in elements_or_self(td):
        for key in [k for k, v in row.entries.items() if m.is_node(v) and is_empty(v)]:
            del row.entries[key]
        for value in row.entries.values():
            if m.is_node(value):
                filter_empty_(value)
    return td


@operation(in_place=True)
def create_nested(td: Any, key: Key) -> Any:
    above = path_of(key)[:1]
    if contains(td, key) or (contains(td, above) and not m.is_node(find(td, above))):
        raise NotImplementedError
    unlocked(td)
    nodes = elements_or_self(td)
    for name in path_of(key):
        found = [node.entries.setdefault(name, m.Tree(node.shape, {}, node.names)) for node in nodes]
        if not all(map(m.is_node, found)):
            raise KeyError(key)
        nodes = [row for node in found for row in elements_or_self(node)]
    return td


def lock(td: Any, locked: bool) -> None:
    td.locked = locked
    for value in common(td).values():
        if m.is_node(value):
            lock(value, locked)


@operation(in_place=True)
def lock_(td: Any) -> Any:
    lock(td, True)
    return td


@operation(in_place=True)
def unlock_(td: Any) -> Any:
    lock(td, False)
    return td


for _name in ("clone", "copy"):
    operation(_name)(m.copied)
operation("contiguous")(lambda td: m.copied(m.dense(td)))


@operation()
def to_tensordict(td: Any) -> Any:
    return classless(m.copied(m.dense(td)))


def classless(node: Any) -> Any:
    """With TensorDicts for instances of tensorclasses, at any depth."""
    for tree in elements_or_self(node):
        tree.kind = ""
        for value in tree.entries.values():
            if m.is_node(value):
                classless(value)
    return node


# -- calls ------------------------------------------------------------------------------------


def key(c: Choices, td: Any) -> Any:
    """A key, mostly one that is there."""
    there = keys_of(td)
    return c.pick(there) if there and not c.one_in(6) else c.pick(MISSING)


def above(a: Key, b: Key) -> bool:
    return path_of(b)[: len(path_of(a))] == path_of(a)


@calls(6)
def read(c: Choices, v: list[Any], at: int) -> Call:
    name = c.pick(
        ["get", "item", "contains", "key list", "get_item_shape", "numel", "is_empty", "to_dict", "get"]
    )
    if name in ("key list", "numel", "is_empty", "to_dict"):
        return Call(name)
    return Call(
        name, (key(c, v[at]), *([c.pick([None, "default"])] if name == "get" and c.one_in(3) else []))
    )


@calls(8)
def change(c: Choices, v: list[Any], at: int) -> Call:
    k, other = key(c, v[at]), key(c, v[at])
    name = c.pick(
        [
            "select", "exclude", "rename_key_", "pop", "del", "flatten_keys", "split_keys", "empty", "clear",
            "filter_empty_", "create_nested", "exclude", "select", "rename_key_", "del",
        ]
    )  # fmt: skip
    if name in ("select", "exclude"):
        keys = (k,) if above(k, other) or above(other, k) else (k, other)
        return Call(name, keys, {"inplace": True} if c.one_in(4) else {})
    if name == "rename_key_":
        if above(k, other) or above(other, k):
            other = "moved"
        return Call(name, (k, other), {"safe": True} if c.one_in(3) else {})
    if name == "pop":
        return Call(name, (k, *c.pick([(), ("default",)])))
    if name == "del":
        return Call(name, (k,))
    if name == "split_keys":
        return Call(name, ([path_of(k)[0]],))
    if name == "create_nested":
        return Call(name, (c.pick(["new", ("new", "m"), ("n", "new")]),))
    if name == "flatten_keys":
        longer = isinstance(v[at], m.Rows) or any(
            isinstance(value, m.Rows | m.One) and node.shape != v[at].shape
            for _, node, value in m.leaves(v[at])
        )
        return Call("empty") if longer else Call(name, (".",))  # objects of a longer batch are left out
    return Call(name)


@calls(3)
def lock_or_copy(c: Choices, v: list[Any], at: int) -> Call:
    return Call(c.pick(["lock_", "unlock_", "clone", "copy", "to_tensordict", "contiguous", "lock_"]))
