"""Steps that read, store, move and remove entries, and lock them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuzz_sides import Side
from fuzz_step import Choices, Step, lazy_below, method, step
from fuzz_values import entry, key, leaf, shares_nodes, tree


@step(5)
def set_key(c: Choices, v: list[Any], at: int) -> Step:
    td = v[at]
    k = key(c, td)
    value = entry(c, td, k)
    if isinstance(value, int):
        value = value % len(v)
        if shares_nodes(td, v[value]):
            value = leaf(tuple(max(n, 0) for n in td.batch_size), "int64", 8)
    name = c.pick(["set", "setitem", "set_", "inplace", "setdefault"])

    def source(s: Side, v: list[Any]) -> Any:
        return v[value] if isinstance(value, int) else s.value(value)

    def run(s: Side, v: list[Any]) -> Any:
        item = source(s, v)
        if name == "setitem":
            v[at][k] = item
            return None
        if name == "inplace":
            return v[at].set(k, item, inplace=True)
        return getattr(v[at], name)(k, item)

    shown = f"v{value}" if isinstance(value, int) else repr(value)
    facts = {"how": name, "key": k, "value": value, "source": source}
    return Step("set", f"{name}({k!r}, {shown})", run, name in ("set_", "inplace"), **facts)


def above(key: Any, other: Any) -> bool:
    a, b = (k if isinstance(k, tuple) else (k,) for k in (key, other))
    return a != b and b[: len(a)] == a


@step(8)
def keys(c: Choices, v: list[Any], at: int) -> Step:
    td = v[at]
    k, other = key(c, td), key(c, td)
    if above(k, other) or above(other, k):
        other = k  # tensordict's select depends on the order of a node and its entries
    name = c.pick(
        [
            "select", "exclude", "rename_key_", "pop", "del_", "flatten_keys", "unflatten_keys", "clear",
            "flat_round", "split_keys", "create_nested", "filter_empty_", "popitem", "exclude", "select",
            "replace", "empty",
        ]
    )  # fmt: skip
    if name == "select" and c.one_in(3):  # all of them, in other order
        return method(name, at, *reversed([*td.keys()]), **c.pick([{}, {"inplace": True}]))
    if name == "select":
        return method(name, at, k, other, **c.pick([{}, {}, {"strict": False}, {"inplace": True}]))
    if name == "exclude":
        return method(name, at, k, other, **c.pick([{}, {}, {"inplace": True}]))
    if name == "rename_key_":
        return method(name, at, k, other, **c.pick([{}, {}, {"safe": True}]))
    if name == "pop":
        return method(name, at, k, *c.pick([(), (None,), ("default",)]))
    if name in ("del_", "create_nested"):
        return method(name, at, k)
    if name == "flat_round":
        run = lambda s, v: v[at].flatten_keys(".").unflatten_keys(".")  # noqa: E731
        return Step("flat_round", "flatten_keys().unflatten_keys()", run)
    if name in ("flatten_keys", "unflatten_keys"):
        return method(name, at, c.pick([".", "_"]), **c.pick([{}, {}, {"inplace": True}]))
    if name == "split_keys":
        return method(name, at, [k], **c.pick([{}, {"strict": False}, {"inplace": True}]))
    if name == "replace":
        return method(name, at, {"a": entry(c, td, "a")} if not c.one_in(4) else {})
    if name == "empty":
        return method(name, at, **c.pick([{}, {"recurse": True}]))
    return method(name if name != "keys" else "is_empty", at)


@step(6)
def read(c: Choices, v: list[Any], at: int) -> Step:
    k = key(c, v[at])
    name = c.pick(
        ["get", "item", "list", "padded", "contains", "keys", "shape", "get_at", "items", "default"]
    )
    runs: dict[str, Callable[[Side, list[Any]], Any]] = {
        "get": lambda s, v: v[at].get(k),
        "default": lambda s, v: v[at].get(k, "default"),
        "item": lambda s, v: v[at][k],
        "list": lambda s, v: v[at].get(k, as_list=True),
        "padded": lambda s, v: v[at].get(k, as_padded_tensor=True, padding_value=-1),
        "contains": lambda s, v: (k in v[at], k in v[at].keys(True)),
        "keys": lambda s, v: (
            sorted(map(str, v[at].keys(True))),
            sorted(map(str, v[at].keys(True, True))),
            list(v[at].keys()),
        ),
        "shape": lambda s, v: tuple(v[at].get_item_shape(k)),
        "get_at": lambda s, v: v[at].get_at(k, 0),
        "items": lambda s, v: dict(v[at].items()),
    }
    return Step(f"read {name}", f"{name} {k!r}", runs[name], key=k)


@step(4)
def update(c: Choices, v: list[Any], at: int) -> Step:
    td = v[at]
    name = c.pick(["update", "update_", "inplace", "update_at_", "clone"])
    kind = c.pick(["self", "tree", "dict", "variable"])
    size = tuple(2 if n < 0 else n for n in td.batch_size)
    new = tree(c.rest(), size, 1) if kind == "tree" else None
    other = c.below(len(v))
    drop = c.pick(["", "a", "n", "s", "r", "b"])

    cyclic = v[at] is not v[other] and shares_nodes(v[at], v[other])

    def source(s: Side, v: list[Any]) -> Any:
        found = whole(s, v)
        return found[0] if name == "update_at_" and kind != "dict" else found

    def whole(s: Side, v: list[Any]) -> Any:
        if kind == "tree":
            return s.value(new)
        if kind == "dict":
            return {"a": s.value(leaf(size, "int64", 2)), "n": {"new": s.value(leaf(size, "float32", 3))}}
        if kind == "variable":
            return v[other].clone() if cyclic else v[other]
        out = v[at].clone().zero_()
        if drop in out.keys():  # noqa: SIM118
            del out[drop]
        return out

    def run(s: Side, v: list[Any]) -> Any:
        found = source(s, v)
        if name == "update_":
            return v[at].update_(found)
        if name == "update_at_":
            return v[at].update_at_(found, 0)
        return v[at].update(found, **{"inplace": {"inplace": True}, "clone": {"clone": True}}.get(name, {}))

    writes = name not in ("update", "clone")
    last = writes and lazy_below(td)
    return Step(
        "update", f"{name}({kind} {new or ''})", run, writes, last, how=name, kind=kind, source=source
    )


@step(4)
def lock(c: Choices, v: list[Any], at: int) -> Step:
    name = c.pick(["lock_", "unlock_", "is_locked", "with unlock", "lock_"])
    if name == "is_locked":
        value = c.pick([True, False])

        def set_lock(s: Side, v: list[Any]) -> None:
            v[at].is_locked = value

        return Step(name, f"is_locked = {value}", set_lock)
    if name == "with unlock":

        def inside(s: Side, v: list[Any]) -> None:
            with v[at].unlock_() as td:
                td["new"] = s.value(leaf([max(n, 0) for n in td.batch_size], "int64", 4))

        return Step(name, name, inside)
    return method(name, at)
