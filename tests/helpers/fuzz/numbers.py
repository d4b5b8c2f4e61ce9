"""Operations on each number: arithmetic, comparisons, casts, choices, functions that a user gives."""

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers.fuzz.choices import Choices, mask
from helpers.fuzz.keys import any_objects, elements_or_self, is_empty, leaves_below
from helpers.fuzz.model import (
    Array,
    Names,
    One,
    Refused,
    Rows,
    Tree,
    copied,
    elements,
    is_node,
    is_numbers,
    mapped,
    objects,
    spread,
)
from helpers.fuzz.register import Call, Var, calls, operation
from helpers.fuzz.writes import write

UNARY: dict[str, Callable[[Array], Any]] = {
    "exp": np.exp, "abs": np.abs, "neg": np.negative, "sign": np.sign, "floor": np.floor,
    "isfinite": np.isfinite, "sqrt": np.sqrt, "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "logical_not": np.logical_not, "tanh": np.tanh,
}  # fmt: skip
CASTS = {"double": np.float64, "float": np.float32, "bool": np.bool_, "int": np.int32}
BINARY = ("add", "sub", "mul", "truediv", "eq", "ne", "lt", "ge")
COMPARE = ("eq", "ne", "lt", "ge")


def paired(
    a: Any, b: Any, f: Callable[[Array, Array], Any], locked: bool = False, names: Names | None = None
) -> Any:
    """`f` of the arrays of two trees with the same keys; everything else from the first."""
    if isinstance(a, Rows) or isinstance(b, Rows):
        rows = [paired(*pair, f) for pair in zip(elements(a).ravel(), elements(b).ravel(), strict=True)]
        return Rows(objects(rows, a.shape), getattr(a, "dim", 0), names or a.names, locked)
    if {k for k, v in a.entries.items()} != set(b.entries):
        raise KeyError("keys differ")
    entries = {}
    for key, value in a.entries.items():
        other = b.entries[key]
        if is_node(value):
            entries[key] = paired(value, other, f, locked)
        else:
            entries[key] = (
                value if isinstance(value, One) or value.dtype == object else np.asarray(f(value, other))
            )
    return Tree(a.shape, entries, names or a.names, locked, a.kind)


for _name, _f in UNARY.items():
    operation(_name)(lambda td, f=_f: quiet(td, f))
for _name, _dtype in CASTS.items():
    operation(_name)(lambda td, dtype=_dtype: mapped(td, lambda x: x.astype(dtype), td.locked))


def quiet(td: Any, f: Callable[[Array], Any]) -> Any:
    with np.errstate(all="ignore"):
        return mapped(td, lambda x: np.asarray(f(x)), td.locked)


def compared(td: Any, other: Any, f: Callable[..., Any]) -> Any:
    """A comparison has no names and is not locked. An object beside a number gives an empty node."""
    if isinstance(td, Rows) or isinstance(other, Rows):
        others = elements(other).ravel() if is_node(other) else [other] * td.array.size
        rows = [compared(row, its, f) for row, its in zip(elements(td).ravel(), others, strict=True)]
        return Rows(objects(rows, td.shape), getattr(td, "dim", 0))
    entries: dict[str, Any] = {}
    for key, value in td.entries.items():
        its = other.entries[key] if is_node(other) else other
        if is_node(value):
            entries[key] = compared(value, its, f)
        elif is_numbers(value):
            entries[key] = np.asarray(f(value, its))
        elif is_node(other):
            a, b = spread(value, td.shape), spread(its, td.shape)
            pairs = zip(a.ravel(), b.ravel(), strict=True)
            entries[key] = np.array([bool(f(*pair)) for pair in pairs], bool).reshape(a.shape)
        else:
            entries[key] = Tree(td.shape, {})
    return Tree(td.shape, entries, kind=td.kind)


def binary(name: str) -> None:
    f = getattr(operator, name)

    @operation(f"operator {name}")
    def run(td: Any, other: Any) -> Any:
        if name in COMPARE:
            return compared(td, other, f)
        return calculated(td, other)

    def calculated(td: Any, other: Any) -> Any:
        with np.errstate(all="ignore"):
            if is_node(other):
                return paired(td, other, lambda x, y: np.asarray(f(x, y)), td.locked)
            if isinstance(other, np.ndarray):
                return against(td, other, lambda x, m, _: f(x, m), None, td.locked)
            return mapped(td, lambda x: np.asarray(f(x, other)), td.locked)


def against(td: Any, rows: Array, f: Callable[..., Any], other: Any = None, locked: bool = False) -> Any:
    """`f` of every array, of what `rows` has for it (one number per batch element), and of the array of the
    same key of another tree, if there is one.
    """
    if isinstance(td, Rows):
        rows = np.broadcast_to(wide(rows, td.array), td.shape)
        new = [
            against(row, rows[at], f, None if other is None else elements(other)[at])
            for at, row in np.ndenumerate(td.array)
        ]
        return Rows(objects(new, td.shape), td.dim, td.names, locked)
    if other is not None and other.entries.keys() != td.entries.keys():
        raise KeyError("keys differ")
    entries: dict[str, Any] = {}
    for key, value in td.entries.items():
        its = None if other is None else other.entries[key]
        if is_node(value):
            entries[key] = against(value, rows, f, its, locked)
        elif is_numbers(value):
            entries[key] = np.asarray(f(value, wide(rows, value), its))
        else:
            entries[key] = value
    return Tree(td.shape, entries, td.names, locked, td.kind)


def wide(rows: Array, x: Array) -> Array:
    """With as many dims as another array."""
    rows = np.asarray(rows)
    return rows.reshape(rows.shape + (1,) * (x.ndim - rows.ndim))


for _name in (*BINARY, "and_", "or_"):
    binary(_name)


@operation("add_", in_place=True)
def add_(td: Any, number: float) -> Any:
    found = [
        value
        for row in elements_or_self(td)
        for _, _, value in leaves_below(row)
        if isinstance(value, np.ndarray) and value.dtype != object
    ]
    todo = []
    for value in found:
        new = np.asarray(value + number)
        if not np.can_cast(new.dtype, value.dtype, "same_kind"):
            raise Refused
        todo.append(write(value, ..., new.astype(value.dtype)))
    for do in todo:
        do()
    return td


@operation("apply double")
def apply_double(td: Any) -> Any:
    return mapped(td, lambda x: x + x)


@operation("apply other")
def apply_other(td: Any, other: Any) -> Any:
    return paired(td, other, lambda x, y: x + y)


@operation("apply without a")
def apply_without(td: Any) -> Any:
    def left(node: Any) -> Any:
        if isinstance(node, Rows):
            return Rows(objects([left(row) for row in node.array.ravel()], node.shape), node.dim, node.names)
        if not is_node(node):
            return node
        entries = {k: left(v) for k, v in node.entries.items() if k != "a" or not is_numbers(v)}
        entries = {
            k: v for k, v in entries.items() if not is_node(v) or leaves_left(v) or is_empty(node.entries[k])
        }
        return Tree(node.shape, entries, node.names, kind=node.kind)

    found = left(td)
    return found if leaves_left(found) or not leaves_left(td) else None


def leaves_left(td: Any) -> bool:
    return any(row.entries for row in elements_or_self(td))


@operation()
def masked_fill(td: Any, chosen: Array, number: float) -> Any:
    return against(td, chosen, lambda x, m, _: np.where(m, np.asarray(number, x.dtype), x))


@operation()
def where(td: Any, chosen: Array, other: Any) -> Any:
    if is_node(other):
        return against(td, chosen, lambda x, m, y: np.where(m, x, y), other, td.locked)
    return against(td, chosen, lambda x, m, _: np.where(m, x, other), None, td.locked)


# -- calls ------------------------------------------------------------------------------------


def dtypes(td: Any) -> set[str]:
    """The kinds of dtype of all arrays."""
    rows = elements_or_self(td)
    return {v.dtype.kind for row in rows for _, _, v in leaves_below(row) if isinstance(v, np.ndarray)} - {
        "O"
    }


def like(td: Any, c: Choices) -> Any:
    scale = 1 + c.below(3)
    found = mapped(copied(td), lambda x: np.asarray(x if x.dtype == bool else x * scale - 1, x.dtype))
    found.names = list(td.names)
    return found


@calls(8)
def arithmetic(c: Choices, v: list[Any], at: int) -> Call:
    td = v[at]
    kinds = dtypes(td)
    if 0 in td.shape and any_objects(td):
        return Call("numel")
    if kinds == {"b"} and c.one_in(2):
        return Call(c.pick(["operator and_", "operator or_"]), (like(td, c),))
    if "b" in kinds and any_objects(td):
        return Call(c.pick(["double", "float"]))
    if "b" in kinds:
        return (
            Call(f"operator {c.pick(['eq', 'ne'])}", (c.pick([0, 1, Var(at)]),))
            if c.one_in(2)
            else Call(c.pick(["double", "float"]))
        )
    kind = c.pick(["number", "td", "rows", "unary", "in place", "self"])
    name = f"operator {c.pick(BINARY)}"
    if any_objects(td):  # which compare as equal or not, and with other objects only
        kind = {"number": "td"}.get(kind, kind)
    if kind == "unary":
        return Call(c.pick(list(UNARY)))
    if kind == "in place":
        return Call("add_", (c.pick([1, 2, 0.5]),))
    if kind == "rows":
        return Call(f"operator {c.pick(['add', 'sub', 'mul'])}", (mask(c, td.shape) * 2.0 + 1,))
    if kind in ("td", "self") and name[9:] in ("lt", "ge"):
        name = "operator eq"
    return Call(name, ({"number": c.pick([1, 2, 0.5, -1]), "td": like(td, c), "self": Var(at)}[kind],))


@calls(3)
def cast(c: Choices, v: list[Any], at: int) -> Call:
    return Call(c.pick(list(CASTS)))


@calls(4)
def apply(c: Choices, v: list[Any], at: int) -> Call:
    td = v[at]
    name = c.pick(["apply double", "apply other", "apply without a", "where", "masked_fill", "where"])
    if 0 in td.shape and any_objects(td):
        return Call("apply double")
    if name == "apply other":
        return Call(name, (like(td, c),))
    if name in ("where", "masked_fill"):
        value = like(td, c) if name == "where" and c.one_in(2) else c.pick([0, 1])
        return Call(name, (mask(c, td.shape), value))
    return Call(name)
