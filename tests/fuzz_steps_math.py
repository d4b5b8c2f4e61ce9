"""Steps that compute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuzz_sides import Side
from fuzz_step import Choices, Step, lazy_below, step
from fuzz_values import leaf


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
    return Step(
        f"arithmetic {name}", text, runs[name], writes, writes and lazy_below(v[at]), x=x, other=other
    )


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
