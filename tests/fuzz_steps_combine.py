"""Steps that stack, concatenate and copy."""

from __future__ import annotations

from typing import Any

from fuzz_sides import Side, stacked
from fuzz_step import Choices, Step, dim, method, step
from fuzz_steps_index import get_index
from fuzz_values import shares_nodes

import lite


@step(8)
def combine(c: Choices, v: list[Any], at: int) -> Step:
    td = v[at]
    name = c.pick(["stack", "cat", "lazy_stack", "maybe_dense_stack", "LazyStackedTensorDict", "lazy_stack"])
    kind = c.pick(["clone", "self", "variable", "changed", "three", "one"])
    d = dim(c, td.ndim + (name != "cat"))
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
            dense = name in ("stack", "cat")  # parts that share arrays are those of kind "self"
            items += [v[at].clone(), v[at].copy() if dense else v[at].clone()]
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
    d = v[at].stack_dim

    def run(s: Side, v: list[Any]) -> Any:
        if name in ("unbind", "contiguous"):
            return v[at].unbind(d) if name == "unbind" else v[at].contiguous()
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
        v[at].extend([item, item.clone()])
        return None

    return Step(name, f"{name}({kind})", run, kind=kind)


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
