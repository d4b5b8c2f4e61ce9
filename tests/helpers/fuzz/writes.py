"""Operations that store entries and write into them. All is checked before anything changes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.fuzz import model as m
from helpers.fuzz.choices import DTYPES, Choices, index, leaf, mask, strings, tree
from helpers.fuzz.keys import (
    Key,
    any_objects,
    common,
    elements_or_self,
    find,
    get,
    key,
    keys_of,
    path_of,
    require,
    unlocked,
)
from helpers.fuzz.moves import _items
from helpers.fuzz.register import Call, calls, operation

Write = Callable[[], None]
WHOLE = (Ellipsis,)


def fitting(value: Any, td: Any) -> Any:
    """A value that is to become an entry: it must start with the batch shape."""
    if isinstance(value, dict):
        entries: dict[str, Any] = {}
        new = m.Tree(td.shape, entries, td.names)
        for name, given in value.items():
            entries[name] = fitting(given, new)
        return new
    if isinstance(value, m.One):
        return value
    if value.shape[: len(td.shape)] != td.shape:
        raise m.Refused("RuntimeError")
    if isinstance(value, m.Tree):  # named as the TensorDict that it is stored in
        m.name_below(value, td.names)
        value.locked = False
    return value


def row_of(value: Any, at: tuple[int, ...]) -> Any:
    """What an element of a batch gets of a value."""
    if isinstance(value, m.One):
        return value
    if isinstance(value, np.ndarray):
        found = value[(*at, ...)]
        return m.One(found[()]) if found.dtype == object and not found.ndim else found.copy()
    return m.copied(m.moved(value, lambda x: x[(*at, ...)], lambda names: []))


# -- storing ----------------------------------------------------------------------------------


def store(td: Any, key: Key, value: Any) -> None:
    """Replace or add an entry, with the nodes on the way to it."""
    unlocked(td)
    path = path_of(key)
    if isinstance(td, m.Rows):
        value = fitting(value, td)
        for at in np.ndindex(td.shape):
            store(td.array[at], key, row_of(value, at))
        return
    if len(path) == 1:
        td.entries[path[0]] = fitting(value, td)
        return
    below = td.entries.get(path[0])
    if below is None:
        below = m.Tree(td.shape, {}, td.names)
        store(below, path[1:], value)
        td.entries[path[0]] = below
    elif m.is_node(below):
        store(below, path[1:], value)
    else:
        raise KeyError(key)


@operation("set", in_place=True)
def set_(td: Any, key: Key, value: Any) -> Any:
    store(td, key, value)
    return td


@operation("set item", in_place=True)
def set_item(td: Any, key: Key, value: Any) -> None:
    store(td, key, value)


@operation()
def setdefault(td: Any, key: Key, value: Any) -> Any:
    if path_of(key) not in map(path_of, keys_of(td)):
        store(td, key, value)
    return find(td, key)


@operation(in_place=True)
def update(td: Any, value: Any) -> Any:
    check_update(td, value)
    merge(td, value)
    return td


def check_update(td: Any, value: Any) -> None:
    unlocked(td)
    if isinstance(td, m.Rows) and isinstance(value, m.Rows):
        return
    for given in common(value).values() if m.is_node(value) else value.values():
        if isinstance(given, dict):
            check_update(td, given)
        else:
            fitting(m.copied(given), td)


def merge(td: Any, value: Any) -> None:
    if isinstance(td, m.Rows) and isinstance(value, m.Rows):
        for pair in zip(td.array.ravel(), value.array.ravel(), strict=True):
            merge(*pair)
        return
    entries = common(value) if m.is_node(value) else value
    for name in list(entries):
        given = find(value, name) if isinstance(value, m.Rows) else entries[name]
        below = common(td).get(name)
        if m.is_node(below) and (m.is_node(given) or isinstance(given, dict)):
            merge(find_node(td, name), given)
        else:
            store(td, name, given)


def find_node(td: Any, name: str) -> Any:
    """A node of a TensorDict; of Rows one whose elements are those of the rows."""
    return find(td, name)


@operation()
def replace(td: Any, value: Any) -> Any:
    entries = common(value) if m.is_node(value) else value
    return update(m.copied(td), value) if entries else td


# -- writing ----------------------------------------------------------------------------------


def write(target: m.Array, index: Any, value: m.Array) -> Write:
    """`target[index] = value`, checked now, done later."""
    try:
        shape = target[index].shape
        extra = value.ndim - len(shape)
        if extra > 0 and value.shape[:extra] == (1,) * extra:
            value = value.reshape(value.shape[extra:])
        value = np.broadcast_to(value, shape)
    except ValueError as error:
        raise m.Refused from error
    if not target.flags.writeable:
        raise m.Refused("ValueError")

    def do() -> None:
        target[index] = value

    return do


def writes_to(node: m.Tree, name: str, index: Any, value: Any) -> list[Write]:
    """What writes a value into an entry that exists; `index` is WHOLE for all of it."""
    entry = node.entries[name]
    if isinstance(entry, m.Rows):
        value = (
            m.Rows(np.broadcast_to(m.elements(value), entry.array[index].shape), 0)
            if m.is_node(value)
            else value
        )
        return writes_to_rows(entry, index, value)
    if isinstance(entry, m.Tree):
        if m.is_node(value):
            return [do for k, v in common(value).items() for do in writes_or_stores(entry, k, index, v)]
        if isinstance(value, np.ndarray):
            raise m.Refused
        return [do for k in entry.entries for do in writes_to(entry, k, index, value)]
    if isinstance(entry, m.One) or entry.dtype == object:
        return [object_write(node, name, index, value)]
    number = value.value if isinstance(value, m.One) else value
    if not isinstance(number, int) and not m.is_numbers(number):
        raise m.Refused
    return [write(entry, index, np.asarray(number))]


def writes_to_rows(rows: m.Rows, index: Any, value: Any) -> list[Write]:
    picked = rows.array[index]
    found = []
    for at, row in np.ndenumerate(picked if isinstance(picked, np.ndarray) else np.array(picked)):
        given = value.array[at] if isinstance(value, m.Rows) else value
        for name in row.entries:
            if not m.is_node(given):
                found += writes_to(row, name, WHOLE, given)
            elif name in given.entries:
                found += writes_to(row, name, WHOLE, given.entries[name])
    return found


def object_write(node: m.Tree, name: str, index: Any, value: Any) -> Write:
    entry = node.entries[name]
    if m.is_node(value) or m.is_numbers(value):
        raise m.Refused
    shape = node.shape

    def do() -> None:
        if isinstance(value, m.One) and (index is WHOLE or (isinstance(entry, m.One) and value == entry)):
            node.entries[name] = value
            return
        rows = m.spread(entry, shape).copy()
        if isinstance(value, m.One):
            rows[index] = m.spread(value, rows[index].shape)
        else:
            rows[index] = value
        node.entries[name] = rows if rows.ndim else m.One(rows[()])

    return do


def writes_or_stores(node: m.Tree, name: str, index: Any, value: Any) -> list[Write]:
    """As `writes_to`; an entry that is missing is made of zeros, or of None for objects."""
    if name in node.entries:
        return writes_to(node, name, index, value)
    unlocked(node)
    if index is WHOLE:
        return [lambda: store(node, name, m.copied(value))]
    picked = np.empty(node.shape, bool)[index]
    if isinstance(value, m.One):
        new: Any = np.full(node.shape, None, object)
    elif m.is_node(value):
        new = m.Tree(node.shape, {}, node.names, kind=getattr(value, "kind", ""))
        found = [do for k, v in common(value).items() for do in writes_or_stores(new, k, index, v)]
        return [lambda: node.entries.update({name: new}), *found]
    else:
        new = np.full(
            node.shape + value.shape[picked.ndim :], None if value.dtype == object else 0, value.dtype
        )

    def do() -> None:
        node.entries[name] = new
        for write in writes_to(node, name, index, value):
            write()

    return [do]


@operation("assign", in_place=True)
def assign(td: Any, given: Any, value: Any) -> None:
    """`td[index] = value`."""
    items = (*_items(given, len(td.shape)), ...)
    if not m.is_node(value):
        value = m.One(value)
    elif value.shape != np.empty(td.shape, bool)[items].shape:
        raise m.Refused
    np.empty(td.shape, bool)[items]  # an index out of range is refused without entries, too
    if isinstance(td, m.Rows):
        todo = writes_to_rows(td, items, m.Rows(m.elements(value), 0) if m.is_node(value) else value)
    elif m.is_node(value):
        todo = [
            do for name, entry in common(value).items() for do in writes_or_stores(td, name, items, entry)
        ]
    else:
        todo = [do for name in td.entries for do in writes_to(td, name, items, value)]
    for do in todo:
        do()


def write_entry(td: Any, key: Key, value: Any) -> list[Write]:
    """What writes a whole entry that exists."""
    require(td, key)
    if isinstance(td, m.Rows):
        if not isinstance(value, m.One) and value.shape[: len(td.shape)] != td.shape:
            raise m.Refused
        return [do for at in np.ndindex(td.shape) for do in write_entry(td.array[at], key, row_of(value, at))]
    name, *rest = path_of(key)
    if rest:
        return write_entry(td.entries[name], tuple(rest), value)
    if not m.is_node(td.entries[name]) and m.is_node(value):
        raise m.Refused
    if m.is_node(td.entries[name]) and not m.is_node(value):
        raise m.Refused
    return writes_to(td, name, WHOLE, value)


def written(td: Any, value: Any, names: Any) -> list[Write]:
    """What writes some entries of another TensorDict."""
    if isinstance(td, m.Rows) and isinstance(value, m.Rows):
        pairs = zip(td.array.ravel(), value.array.ravel(), strict=True)
        return [do for row, new in pairs for do in written(row, new, row.entries.keys() & new.entries)]
    return [do for name in names for do in write_entry(td, name, find(value, name))]


@operation("set_", in_place=True)
def write_(td: Any, key: Key, value: Any) -> Any:
    require(td, key)
    for path in keys_of(value) if m.is_node(value) else ():
        require(td, (*path_of(key), *path_of(path)))
    for do in write_entry(td, key, value):
        do()
    return td


@operation("set in place", in_place=True)
def set_in_place(td: Any, key: Key, value: Any) -> Any:
    exists = path_of(key) in map(path_of, keys_of(td))
    if not exists:
        return set_(td, key, value)
    for do in write_entry(td, key, value):
        do()
    return td


@operation(in_place=True)
def update_(td: Any, value: Any) -> Any:
    for path in keys_of(value):
        require(td, path)
    todo = written(td, value, common(value))
    for do in todo:
        do()
    return td


@operation("update in place", in_place=True)
def update_in_place(td: Any, value: Any) -> Any:
    new = [name for name in common(value) if name not in common(td)]
    try:
        todo = written(td, value, [name for name in common(value) if name not in new])
    except m.Refused:
        if new and td.locked:  # two mistakes, either of which may be named
            raise m.Refused from None
        raise
    if new:
        unlocked(td)
    for do in todo:
        do()
    for name in new:
        store(td, name, find(value, name))
    return td


@operation(in_place=True)
def update_at_(td: Any, value: Any, at: int) -> Any:
    for name in common(value):
        find(td, name)
    assign(td, at, value)
    return td


@operation(in_place=True)
def zero_(td: Any) -> Any:
    todo = [do for row in elements_or_self(td) for do in zeros(row)]
    for do in todo:
        do()
    return td


def zeros(td: m.Tree) -> list[Write]:
    found = []
    for _, _, value in m.leaves(td):
        if isinstance(value, m.Rows):
            found += [do for row in value.array.ravel() for do in zeros(row)]
        elif m.is_numbers(value):
            found.append(write(value, ..., np.zeros((), value.dtype)))
    return found


@operation("set names", in_place=True)
def set_names(td: Any, names: list[str | None]) -> None:
    if names is not None and len(names) != len(td.shape):
        raise m.Refused
    m.name_below(td, names or [None] * len(td.shape))


# -- calls ------------------------------------------------------------------------------------


def entry(c: Choices, td: Any, key: Key) -> Any:
    """Something to store: an array, text, one string per element, or a tree."""
    size = td.shape
    for i in range(1, len(path_of(key)) if not m.has_rows(td) else 0):
        if isinstance(holder := get(td, path_of(key)[:i]), m.Tree):
            size = holder.shape
    kind = c.pick(["leaf", "like", "text", "rows", "tree", "like", "wrong"])
    if m.has_rows(td) and kind == "leaf":  # whose rows are of any length
        kind = "like"
    if kind == "like":
        try:
            found = find(td, key)
            if m.is_numbers(found):
                return leaf(found.shape, str(found.dtype), 6)
            if isinstance(found, m.Tree) and not (0 in size and any_objects(found)):
                return m.mapped(m.copied(found), lambda x: np.asarray(x * 0 + 1, x.dtype))
        except (KeyError, m.Refused):
            pass
    if kind == "text" or m.has_rows(td):
        return m.One(c.pick(["stored", None]))
    if kind == "rows" and size and 0 not in size:
        return strings(size, c.below(3))
    if kind == "tree" and size and 0 not in size:
        return tree(c.rest(), size, 1)
    if kind == "wrong":
        return leaf((*size, 3)[1:] if size else (2,), "float32", 1)
    return leaf(size + c.pick([(), (2,), (1,)]), c.pick(DTYPES), c.below(5))


@calls(8)
def set_key(c: Choices, v: list[Any], at: int) -> Call:
    k = key(c, v[at])
    name = c.pick(["set", "set item", "set_", "set in place", "setdefault", "set"])
    return Call(name, (k, entry(c, v[at], k)))


def source(c: Choices, td: Any, new: bool = True) -> Any:
    """Values for some of the entries of a TensorDict, and maybe a new one."""
    found = m.mapped(m.copied(td), lambda x: np.asarray(~x if x.dtype == bool else x * 2 + 1, x.dtype))
    if isinstance(found, m.Tree):
        drop = c.pick(["", "a", "n", "s", "r", "b"])
        found.entries.pop(drop, None)
        if new and c.one_in(4) and "new" not in found.entries:
            found.entries["new"] = leaf((*td.shape, 2), "int64", 4)
        elif new and c.one_in(6) and "m" not in found.entries:
            found.entries["m"] = m.Tree(td.shape, {"a": leaf(td.shape, "float32", 4), "s": m.One("deep")})
        m.nameless(found)
    return found


@calls(6)
def update_call(c: Choices, v: list[Any], at: int) -> Call:
    td = v[at]
    name = c.pick(["update", "update_", "update in place", "update_at_", "update", "replace"])
    if 0 in td.shape and any_objects(td):
        return Call("zero_")
    if name == "replace" and not isinstance(td, m.Tree):
        name = "update"
    if name == "update_at_":
        if not td.shape or not td.shape[0] or m.has_rows(td):
            return Call("zero_")
        first = m.moved(td, lambda x: x[0, ...], lambda names: names[1:])
        return Call(name, (source(c, first), 0))
    new = source(c, td)
    return Call(name, (new,))


@calls(8)
def set_index(c: Choices, v: list[Any], at: int) -> Call:
    td = v[at]
    i = mask(c, td.shape[:1]) if td.shape and c.one_in(3) else index(c, td.shape, distinct=True)
    if c.one_in(3) and not any_objects(td):
        return Call("assign", (i, c.pick([0, 1, 5])))
    try:
        items = _items(i, len(td.shape))
        picked = m.moved(td, lambda x: x[(*items, ...)], lambda names: [])
        m.nameless(picked)
    except IndexError:
        return Call("zero_") if m.has_rows(td) else Call("assign", (i, 0))
    if 0 in picked.shape and (m.has_rows(picked) or any_objects(picked)):
        return Call("zero_")
    return Call("assign", (i, source(c, picked, new=not m.has_rows(td))))


@calls(3)
def other(c: Choices, v: list[Any], at: int) -> Call:
    if c.one_in(2):
        return Call("zero_")
    n = len(v[at].shape)
    return Call("set names", (c.pick([list("uvwx"[:n]), [None] * n, list("uvwxyz"[: n + 1])]),))
