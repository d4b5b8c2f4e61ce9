"""Random programs on TensorDicts: what each step does, written once for both libraries.

A program is a list of byte strings, one per step. A step reads its bytes as choices among what the
current state allows (`plan`), so that most steps are valid, and gives a function to run on each side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fuzz_sides import Array, Dense, Lazy, Side, stacked

import lite

DTYPES = ("float32", "int64", "bool", "float64", "int32", "uint8")
KEYS = ("a", "b", "g", "n", "s", "r", "x", "new")
NESTED = (("n", "a"), ("n", "s"), ("n", "new"), ("n", "n", "a"), ("n",), ("new", "a"), ("a", "a"))


class Choices:
    """Bytes read as choices; 0 is always the simplest."""

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


class Step:
    """A planned step.

    Attributes:
        name: the operation.
        text: the operation with its arguments.
        run: what to call with a side and its variables.
        writes: whether it may write into arrays that exist.
        last: end the program here, because tensordict stores new arrays instead of writing.
        facts: what the rules want to know about the arguments.
    """

    def __init__(
        self,
        name: str,
        text: str,
        run: Callable[[Side, list[Any]], Any],
        writes: bool = False,
        last: bool = False,
        **facts: Any,
    ) -> None:
        self.name = name
        self.text = text
        self.run = run
        self.writes = writes
        self.last = last
        self.facts = facts


# -- values -----------------------------------------------------------------------------------


def leaf(shape: Sequence[int], dtype: str, seed: int) -> Array:
    """An array whose elements are mostly distinct, so that a misplaced row shows."""
    numbers = np.arange(int(np.prod(shape))).reshape(tuple(shape)) * 7 + 3 * seed
    if dtype == "bool":
        return np.asarray(numbers % 3 == 0)
    return np.asarray(numbers % 101, dtype=dtype)


def sizes(c: Choices) -> tuple[int, ...]:
    return c.pick([(2, 3), (3,), (2,), (), (2, 1), (1,), (1, 2, 2), (3, 2), (0,), (2, 0), (4,), (2, 2, 1)])


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
    given = ["p", "q", "t"][: len(size)] if names and size and c.one_in(3) else None
    return Dense(size, entries, given)


def strings(size: tuple[int, ...], seed: int) -> Any:
    """Nested lists with one string per element."""
    if not size:
        return f"row{seed}"
    return [strings(size[1:], seed * size[0] + i) for i in range(size[0])]


def lazy(c: Choices, size: tuple[int, ...]) -> Lazy:
    """Parts with a ragged leaf `g`, an exclusive `x`, and otherwise the same keys."""
    dim = c.below(len(size))
    inner = size[:dim] + size[dim + 1 :]
    ragged, exclusive = c.one_in(2), c.one_in(3)
    keys = ("a", "n", "s", "r")[: 1 + c.below(4)]
    dtype = c.pick(DTYPES)
    parts = []
    for i in range(size[dim]):
        entries: dict[str, Any] = {}
        for key in keys:
            if key == "a":
                entries[key] = leaf((*inner, 2), dtype, i)
            elif key == "n":
                entries[key] = Dense(inner, {"a": leaf(inner, "int64", i + 3), "s": f"in {i}"})
                if ragged:
                    entries[key].entries["g"] = leaf((*inner, 1 + i), "float32", i)
            elif key == "s":
                entries[key] = f"text {i}" if ragged else "text"
            elif key == "r" and 0 < len(inner) < 3:
                entries[key] = strings(inner, i)
        if ragged:
            entries["g"] = leaf((*inner, i + 1), "float32", i)
        if exclusive and i == 0:
            entries["x"] = leaf(inner, "int64", 9)
        parts.append(Dense(inner, entries))
    return Lazy(dim, parts)


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
            items.append(leaf(size[used : used + 2], "bool", c.below(4)))
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
            items.append(leaf((n,), "bool", c.below(4)))
            used += 1
        else:
            items.append(slice(None))
            used += 1
    return items[0] if len(items) == 1 and not c.one_in(3) else tuple(items)


def key(c: Choices, td: Any) -> Any:
    """A key, mostly one that is there."""
    there = [k for k in td.keys(True) if k not in ("zz",)]
    if there and not c.one_in(4):
        return c.pick(there)
    return c.pick([*KEYS, *NESTED])


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


# -- steps ------------------------------------------------------------------------------------

Plan = Callable[[Choices, list[Any], int], Step]
STEPS: list[Plan] = []


def step(weight: int = 1) -> Callable[[Plan], Plan]:
    def add(plan: Plan) -> Plan:
        STEPS.extend([plan] * weight)
        return plan

    return add


def plan(data: bytes, variables: list[Any]) -> Step:
    """The step that some bytes stand for, given lite's variables."""
    c = Choices(data)
    make = c.pick(STEPS)
    at = len(variables) - 1 - c.pick([0, 0, 0, 1, 2]) % len(variables)
    found = make(c, variables, at)
    found.text = f"{found.text} on v{at}"
    found.facts.setdefault("target", at)
    return found


def method(name: str, at: int, *args: Any, writes: bool = False, **kwargs: Any) -> Step:
    """Call a method with arguments that `Side.value` builds."""

    def run(s: Side, v: list[Any]) -> Any:
        return getattr(v[at], name)(*map(s.value, args), **{k: s.value(a) for k, a in kwargs.items()})

    shown = ", ".join([*(repr(a) for a in args), *(f"{k}={a!r}" for k, a in kwargs.items())])
    return Step(name, f"{name}({shown})", run, writes, args=args, kwargs=kwargs)


@step(10)
def get_index(c: Choices, v: list[Any], at: int) -> Step:
    i = index(c, v[at].batch_size)
    # Whether the parts of a lazy stack are copied then is not fixed.
    last = lazy_below(v[at]) and not all(
        item is None or item is Ellipsis or isinstance(item, int | slice)
        for item in (i if isinstance(i, tuple) else (i,))
    )
    return Step("index", f"td[{i!r}]", lambda s, v: v[at][s.index(i)], False, last, index=i)


def lazy_below(td: Any) -> bool:
    """Whether there is a lazy stack in a tree."""
    if stacked(td):
        return True
    return any(lazy_below(entry) for _, entry in td._items() if isinstance(entry, lite.TensorDictBase))


@step(8)
def set_index(c: Choices, v: list[Any], at: int) -> Step:
    td = v[at]
    i = index(c, td.batch_size)
    kind = c.pick(["number", "self", "tree", "dict", "other", "row"])
    if type(i) is tuple and not i:
        i = Ellipsis
    text = f"td[{i!r}] = {kind}"
    if kind == "number":
        number = c.pick([0, 1, 5])

        def run(s: Side, v: list[Any]) -> None:
            v[at][s.index(i)] = number

    elif kind in ("self", "dict", "row"):
        drop = c.pick(["", "a", "n", "s", "r", "b"])
        scale = c.below(2)

        def run(s: Side, v: list[Any]) -> None:
            part = v[at][s.index(i)].clone()
            if kind == "row" and part.batch_dims:
                part = part[0]
            if drop in part.keys():  # noqa: SIM118
                del part[drop]
            if scale:
                part.zero_()
            v[at][s.index(i)] = part.to_dict() if kind == "dict" else part

    elif kind == "other":
        other = c.below(len(v))
        text += f" v{other}"

        def run(s: Side, v: list[Any]) -> None:
            v[at][s.index(i)] = v[other]

    else:
        try:
            shape = np.zeros(td.batch_size, bool)[i].shape if -1 not in td.batch_size else ()
        except IndexError:
            shape = ()
        new = tree(c.rest(), shape, 0)
        text += f" {new}"

        def run(s: Side, v: list[Any]) -> None:
            v[at][s.index(i)] = s.value(new)

    return Step("set_index", text, run, True, lazy_below(td), index=i, kind=kind)


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

    def run(s: Side, v: list[Any]) -> Any:
        item = v[value] if isinstance(value, int) else s.value(value)
        if name == "setitem":
            v[at][k] = item
            return None
        if name == "inplace":
            return v[at].set(k, item, inplace=True)
        return getattr(v[at], name)(k, item)

    shown = f"v{value}" if isinstance(value, int) else repr(value)
    return Step(
        "set", f"{name}({k!r}, {shown})", run, name in ("set_", "inplace"), how=name, key=k, value=value
    )


def nodes(td: Any) -> set[int]:
    """The identities of all containers of a tree."""
    inner = td.tensordicts if stacked(td) else [entry for _, entry in td._items()]
    return {id(td)}.union(*(nodes(e) for e in inner if isinstance(e, lite.TensorDictBase)))


def shares_nodes(a: Any, b: Any) -> bool:
    """Whether storing one in the other could make a cycle."""
    return bool(nodes(a) & nodes(b))


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


@step(2)
def poke(c: Choices, v: list[Any], at: int) -> Step:
    """Write into an array itself: whoever shares it must see it, on both sides the same."""
    found = paths(v[at])
    if not found:
        return method("is_empty", at)
    path = c.pick(found)

    def run(s: Side, v: list[Any]) -> None:
        array = follow(v[at], path)
        if s.name == "lite":
            np.copyto(array, array * 0 + 1, casting="unsafe")
        else:
            array.copy_(array * 0 + 1)

    return Step("poke", f"write to {path}", run, True, path=path)


def _dim(c: Choices, ndim: int) -> int:
    """Mostly a dimension there is."""
    return c.below(2 * ndim + 2) - ndim - 1 if c.one_in(6) or not ndim else c.below(2 * ndim) - ndim


@step(14)
def shape(c: Choices, v: list[Any], at: int) -> Step:
    size = v[at].batch_size
    ndim = len(size)
    name = c.pick(
        [
            "reshape", "view", "flatten", "unflatten", "unsqueeze", "squeeze", "permute", "transpose",
            "movedim", "expand", "split", "chunk", "unbind", "squeeze_all", "permute", "unsqueeze",
        ]
    )  # fmt: skip
    if name in ("reshape", "view"):
        total = int(np.prod(size))
        options = [(-1,), (total,), (1, total), (total, 1), size[::-1], (-1, 1), (2, -1), (total + 1,), size]
        options += [(*size[:-2], -1)] if ndim > 1 else []
        return method(name, at, *c.pick(options))
    if name == "flatten":
        first = c.below(max(ndim, 1))
        return method(name, at, first, first + c.below(max(ndim - first, 1)))
    if name == "unflatten":
        d = c.below(max(ndim, 1))
        n = size[d] if d < ndim else 1
        return method(name, at, d, c.pick([(1, n), (n, 1), (2, n // 2), (n,)]))
    if name in ("unsqueeze", "squeeze"):
        return method(name, at, _dim(c, ndim + (name == "unsqueeze")))
    if name == "squeeze_all":
        return method("squeeze", at)
    if name == "permute":
        order = list(range(ndim))
        for i in range(ndim - 1, 0, -1):
            j = c.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return method(name, at, *(d - ndim if c.one_in(4) else d for d in order))
    if name in ("transpose", "movedim"):
        return method(name, at, _dim(c, ndim), _dim(c, ndim))
    if name == "expand":
        options = [(2, *size), tuple(3 if n == 1 else n for n in size), size, (1, *size), (2, *size[1:])]
        return method(name, at, *c.pick(options))
    if name == "split":
        n = c.pick([1, 2, [1, 1], [1, size[0] - 1] if ndim and size[0] > 0 else [1]])
        return method(name, at, n, _dim(c, ndim))
    if name == "chunk":
        return method(name, at, c.pick([2, 1, 3]), _dim(c, ndim))
    return method("unbind", at, _dim(c, ndim))


@step(3)
def pick(c: Choices, v: list[Any], at: int) -> Step:
    size = v[at].batch_size
    ndim = len(size)
    name = c.pick(["repeat", "repeat_interleave", "gather", "masked_fill", "where", "flip", "masked_select"])
    mask = leaf([max(n, 0) for n in size], "bool", c.below(4))
    if name == "repeat":
        return method(name, at, *(1 + c.below(2) for _ in range(ndim)))
    if name == "repeat_interleave":
        return method(name, at, 2, dim=_dim(c, ndim))
    if name == "flip":
        return method(name, at, [_dim(c, ndim)])
    if name == "gather":
        d = c.below(max(ndim, 1))
        n = size[d] if d < ndim else 1
        at_ = leaf([1 if i == d else max(m, 0) for i, m in enumerate(size)], "int64", c.below(3))
        return method(name, at, d, at_ % max(n, 1))
    if name == "masked_fill":
        return method(name, at, mask, c.pick([0, 1, 5]))
    if name == "where":
        other = c.pick([0, "self", "tree"])
        if other == "self":
            run = lambda s, v: v[at].where(s.value(mask), v[at].clone().zero_())  # noqa: E731
        elif other == "tree":
            new = tree(c.rest(), tuple(size), 1)
            run = lambda s, v: v[at].where(s.value(mask), s.value(new))  # noqa: E731
        else:
            run = lambda s, v: v[at].where(s.value(mask), 0)  # noqa: E731
        return Step("where", f"where(mask, {other})", run, other=other)
    return method(name, at, mask)


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
            return v[at].update_at_(found[0] if kind != "dict" else found, 0)
        return v[at].update(found, **{"inplace": {"inplace": True}, "clone": {"clone": True}}.get(name, {}))

    writes = name not in ("update", "clone")
    last = writes and lazy_below(td)
    return Step("update", f"{name}({kind} {new or ''})", run, writes, last, how=name, kind=kind)


@step(8)
def combine(c: Choices, v: list[Any], at: int) -> Step:
    td = v[at]
    name = c.pick(["stack", "cat", "lazy_stack", "maybe_dense_stack", "LazyStackedTensorDict", "lazy_stack"])
    kind = c.pick(["clone", "self", "variable", "changed", "three", "one"])
    d = _dim(c, td.ndim + (name != "cat"))
    other = c.below(len(v))
    drop = c.pick(["a", "n", "s", "r", "b"])

    def run(s: Side, v: list[Any]) -> Any:
        items = [v[at]]
        if kind == "clone":
            items.append(v[at].clone())
        elif kind == "self":
            items.append(v[at])
        elif kind == "variable":
            items.append(v[other])
        elif kind == "three":
            items += [v[at].clone(), v[at].copy()]
        elif kind == "changed":
            items.append(v[at].clone())
            if drop in items[1].keys():  # noqa: SIM118
                del items[1][drop]
        if name == "LazyStackedTensorDict":
            return s.lib.LazyStackedTensorDict(*items, stack_dim=d)
        call = getattr(s.lib, name, None) or getattr(s.lib.TensorDict, name)
        return call(items, d)

    return Step(name, f"{name}({kind}, {d})", run, kind=kind, dim=d)


@step(4)
def stack_edit(c: Choices, v: list[Any], at: int) -> Step:
    if not stacked(v[at]):
        return get_index(c, v, at)
    name = c.pick(["append", "insert", "extend", "unbind", "contiguous"])
    other = c.below(len(v))
    kind = c.pick(["part", "variable", "changed"])
    cyclic = shares_nodes(v[at], v[other])

    def run(s: Side, v: list[Any]) -> Any:
        parts = v[at].tensordicts
        item = v[other] if kind == "variable" and not cyclic else v[at].clone()
        item = parts[0].clone() if kind != "variable" and parts else item
        if kind == "changed" and "a" in item.keys():  # noqa: SIM118
            del item["a"]
        if name == "append":
            v[at].append(item)
            return None
        if name == "insert":
            v[at].insert(0, item)
            return None
        if name == "extend":
            v[at].extend([item, item.clone()])
            return None
        return v[at].unbind(v[at].stack_dim) if name == "unbind" else v[at].contiguous()

    return Step(name, f"{name}({kind})", run, kind=kind)


@step(5)
def arithmetic(c: Choices, v: list[Any], at: int) -> Step:
    name = c.pick(["number", "td", "rows", "in place", "unary", "compare", "compare td", "all", "logic"])
    x = c.pick([1, 2, 0.5, -1])
    other = c.below(len(v))
    rows = leaf([max(n, 0) for n in v[at].batch_size], "float64", 2)
    unary = c.pick(["exp", "abs", "neg", "sign", "floor", "isfinite", "sigmoid"])
    runs: dict[str, Callable[[Side, list[Any]], Any]] = {
        "number": lambda s, v: (v[at].double() + x) * x - x,
        "td": lambda s, v: v[at].double() * v[at].double() + v[other].double(),
        "rows": lambda s, v: v[at].double() + s.value(rows),
        "in place": lambda s, v: v[at].add_(1),
        "unary": lambda s, v: getattr(v[at].double(), unary)(),
        "compare": lambda s, v: v[at] == x,
        "compare td": lambda s, v: v[at] == v[other],
        "all": lambda s, v: (v[at].bool().all(), v[at].bool().any()),
        "logic": lambda s, v: v[at].bool() & v[at].bool(),
    }
    text = f"{name} {x} {unary} v{other}"
    writes = name == "in place"
    return Step(f"arithmetic {name}", text, runs[name], writes, writes and lazy_below(v[at]), x=x)


@step(4)
def apply(c: Choices, v: list[Any], at: int) -> Step:
    name = c.pick(["double", "none", "named", "inplace", "other", "grow", "zero_", "is_leaf", "some"])
    size = v[at].batch_size
    runs: dict[str, Callable[[Side, list[Any]], Any]] = {
        "double": lambda s, v: v[at].apply(lambda x: x + x),
        "none": lambda s, v: v[at].apply(lambda x: None),
        "some": lambda s, v: v[at].apply(lambda x: x if x.ndim > len(size) else None, filter_empty=False),
        "named": lambda s, v: v[at].named_apply(lambda k, x: None if "a" in k else x, nested_keys=True),
        "inplace": lambda s, v: v[at].apply_(lambda x: x * 0),
        "other": lambda s, v: v[at].apply(lambda x, y: y, v[at].clone()),
        "grow": lambda s, v: v[at].apply(lambda x: x[None], batch_size=(1, *size)),
        "zero_": lambda s, v: v[at].zero_(),
        "is_leaf": lambda s, v: v[at].apply(lambda x: x * 2, propagate_lock=True),
    }
    return Step(f"apply {name}", f"apply {name}", runs[name], name in ("inplace", "zero_"))


@step(4)
def copies(c: Choices, v: list[Any], at: int) -> Step:
    name = c.pick(["clone", "copy", "to_tensordict", "contiguous", "to_dict", "double", "float", "unlocked"])
    if name == "unlocked":
        return Step("unlocked", "clone().lock_().unlock_()", lambda s, v: v[at].clone().lock_().unlock_())
    return method(name, at)


@step(4)
def like(c: Choices, v: list[Any], at: int) -> Step:
    name = c.pick(["zeros_like", "ones_like", "full_like", "new_zeros", "is_empty", "numel", "tolist"])
    if name == "full_like":
        run = lambda s, v: (torch_like(s, name))(v[at], 3)  # noqa: E731
    elif name in ("zeros_like", "ones_like"):
        run = lambda s, v: torch_like(s, name)(v[at])  # noqa: E731
    elif name == "new_zeros":
        return method(name, at, 2, 3)
    else:
        return method(name, at)
    return Step(name, name, run)


def torch_like(s: Side, name: str) -> Any:
    if s.name == "lite":
        return getattr(lite, name)
    import torch

    return getattr(torch, name)


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


@step(3)
def metadata(c: Choices, v: list[Any], at: int) -> Step:
    td = v[at]
    name = c.pick(["batch_size", "names", "auto_batch_size_", "no names"])
    if name == "auto_batch_size_":
        return method(name, at, *c.pick([(), (1,), (2,)]))
    if name == "batch_size":
        value: Any = c.pick([td.batch_size[:-1], (), (*td.batch_size, 2), (5,), td.batch_size])
    else:
        value = None if name == "no names" else [*"pqtuv"[: td.ndim]]
        if name == "names" and c.one_in(3):
            value = [None, *value[1:]] if value else []

    attribute = "names" if "names" in name else name

    def run(s: Side, v: list[Any]) -> None:
        setattr(v[at], attribute, value)

    return Step(attribute, f"{attribute} = {value}", run)
