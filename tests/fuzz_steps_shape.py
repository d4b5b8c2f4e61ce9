"""Steps that change shapes, batch sizes and dimension names."""

from __future__ import annotations

from typing import Any

import numpy as np
from fuzz_oracle import shaped
from fuzz_sides import Side
from fuzz_step import Choices, Step, dim, method, step
from fuzz_values import leaf, mask, tree


def moved(name: str, at: int, *args: Any, **kwargs: Any) -> Step:
    found = method(name, at, *args, **kwargs)
    found.facts["oracle"] = shaped(name, args, kwargs)
    return found


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
        return moved(name, at, *c.pick(options))
    if name == "flatten":
        first = c.below(max(ndim, 1))
        return moved(name, at, first, first + c.below(max(ndim - first, 1)))
    if name == "unflatten":
        d = c.below(max(ndim, 1))
        n = size[d] if d < ndim else 1
        return moved(name, at, d, c.pick([(1, n), (n, 1), (2, n // 2), (n,)]))
    if name in ("unsqueeze", "squeeze"):
        return moved(name, at, dim(c, ndim + (name == "unsqueeze")))
    if name == "squeeze_all":
        return moved("squeeze", at)
    if name == "permute":
        order = list(range(ndim))
        for i in range(ndim - 1, 0, -1):
            j = c.below(i + 1)
            order[i], order[j] = order[j], order[i]
        return moved(name, at, *(d - ndim if c.one_in(4) else d for d in order))
    if name in ("transpose", "movedim"):
        return moved(name, at, dim(c, ndim), dim(c, ndim))
    if name == "expand":
        options = [(2, *size), tuple(3 if n == 1 else n for n in size), size, (1, *size), (2, *size[1:])]
        return moved(name, at, *c.pick(options))
    if name == "split":
        n = c.pick([1, 2, [1, 1], [1, size[0] - 1] if ndim and size[0] > 0 else [1]])
        return moved(name, at, n, dim(c, ndim))
    if name == "chunk":
        return moved(name, at, c.pick([2, 1, 3]), dim(c, ndim))
    return moved("unbind", at, dim(c, ndim))


@step(3)
def pick(c: Choices, v: list[Any], at: int) -> Step:
    size = v[at].batch_size
    ndim = len(size)
    name = c.pick(["repeat", "repeat_interleave", "gather", "masked_fill", "where", "flip", "masked_select"])
    chosen = mask(c, [max(n, 0) for n in size])
    if name == "repeat":
        return moved(name, at, *(1 + c.below(2) for _ in range(ndim)))
    if name == "repeat_interleave":
        return moved(name, at, 2, dim=dim(c, ndim))
    if name == "flip":
        return moved(name, at, [dim(c, ndim)])
    if name == "gather":
        d = c.below(max(ndim, 1))
        n = size[d] if d < ndim else 1
        at_ = leaf([1 if i == d else max(m, 0) for i, m in enumerate(size)], "int64", c.below(3))
        return moved(name, at, d, np.asarray(at_ % max(n, 1)))
    if name == "masked_fill":
        return moved(name, at, chosen, c.pick([0, 1, 5]))
    if name == "where":
        other = c.pick([0, "self", "tree"])
        facts = {}
        if other == "self":
            run = lambda s, v: v[at].where(s.value(chosen), v[at].clone().zero_())  # noqa: E731
        elif other == "tree":
            new = tree(c.rest(), tuple(size), 1)
            facts = {"mask": chosen, "tree": new}
            run = lambda s, v: v[at].where(s.value(chosen), s.value(new))  # noqa: E731
        else:
            run = lambda s, v: v[at].where(s.value(chosen), 0)  # noqa: E731
        return Step("where", f"where(mask, {other})", run, other=other, **facts)
    return moved(name, at, chosen)


@step(3)
def metadata(c: Choices, v: list[Any], at: int) -> Step:
    td = v[at]
    name = c.pick(["batch_size", "names", "auto_batch_size_", "no names"])
    if name == "auto_batch_size_":
        return moved(name, at, *c.pick([(), (1,), (2,)]))
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
