"""Steps that index, assign and write into arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from fuzz_oracle import Rows
from fuzz_sides import Dense, Side
from fuzz_step import Choices, Step, lazy_below, method, step
from fuzz_values import follow, index, leaf, mask, paths, tree


@step(10)
def get_index(c: Choices, v: list[Any], at: int) -> Step:
    i = index(c, v[at].batch_size)
    # Whether the parts of a lazy stack are copied then is not fixed.
    last = lazy_below(v[at]) and not all(
        item is None or item is Ellipsis or isinstance(item, int | slice)
        for item in (i if isinstance(i, tuple) else (i,))
    )
    oracle = Rows(lambda numbers: np.asarray(numbers[i]))
    return Step("index", f"td[{i!r}]", lambda s, v: v[at][s.index(i)], False, last, index=i, oracle=oracle)


@step(8)
def set_index(c: Choices, v: list[Any], at: int) -> Step:
    td = v[at]
    i = index(c, td.batch_size)
    kind = c.pick(["number", "self", "tree", "dict", "other", "row", "masked", "new"])
    if kind == "masked" and td.batch_size:  # mostly more than one element
        i = mask(c, [max(td.batch_size[0], 0)]) | mask(c, [max(td.batch_size[0], 0)])
    if type(i) is tuple and not i:
        i = Ellipsis
    text = f"td[{i!r}] = {kind}"
    source: Callable[[Side, list[Any]], Any]
    if kind in ("number", "masked"):
        number = c.pick([0, 1, 5]) if kind == "number" else 3
        source = lambda s, v: number  # noqa: E731
    elif kind in ("self", "dict", "row"):
        drop = c.pick(["", "a", "n", "s", "r", "b"])
        scale = c.below(2)

        def source(s: Side, v: list[Any]) -> Any:
            part = v[at][s.index(i)].clone()
            if kind == "row" and part.batch_dims:
                part = part[0]
            if drop in part.keys():  # noqa: SIM118
                del part[drop]
            if scale:
                part.zero_()
            return part.to_dict() if kind == "dict" else part

    elif kind == "other":
        other = c.below(len(v))
        text += f" v{other}"
        source = lambda s, v: v[other]  # noqa: E731
    else:
        try:
            shape = np.zeros(td.batch_size, bool)[i].shape if -1 not in td.batch_size else ()
        except IndexError:
            shape = ()
        new = tree(c.rest(), shape, 0)
        if kind == "new":  # a node that there is not
            new = Dense(shape, {"new": Dense(shape, {"a": leaf((*shape, 2), "int64", 1)})})
        text += f" {new}"
        source = lambda s, v: s.value(new)  # noqa: E731

    def run(s: Side, v: list[Any]) -> None:
        v[at][s.index(i)] = source(s, v)

    return Step("set_index", text, run, True, lazy_below(td), index=i, kind=kind, source=source)


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
