"""`grad`, `value_and_grad` and `vjp`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import lite._transforms.grad.dispatch  # noqa: F401  # which gives traced arrays their rules
from lite._arrays.dtypes import is_floating
from lite._arrays.types import ArrayHolder, HostArray, raw
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.mode import functional
from lite._transforms.grad.tape import Node, walk
from lite._transforms.levels import numbers
from lite._transforms.vmap.trees import flatten, unflatten
from lite._tree.collection import TensorCollection


def value_and_grad(fn: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives what `fn` gives, and its derivative by arguments."""

    @functools.wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        level = next(numbers)
        single = not isinstance(argnums, tuple | list)
        places = (argnums,) if single else tuple(argnums)
        inside = list(args)
        taken = []
        for place in places:
            inside[place], leaves, rebuild = _traced(args[place], level)
            taken.append((leaves, rebuild))
        with functional():
            out = fn(*inside, **kwargs)
        value, aux = out if has_aux else (out, None)
        if type(value) is not TracedArray or value.level != level:
            raise ValueError("the loss depends on none of the arguments that are differentiated by.")
        if value.shape != ():
            raise ValueError(f"the loss must be a single number, got shape {value.shape}.")
        shares = walk([(value.node, np.ones_like(value.value))])
        grads = [rebuild([_share(shares, leaf) for leaf in leaves]) for leaves, rebuild in taken]
        result = grads[0] if single else tuple(grads)
        return ((value.value, _plain(aux)) if has_aux else value.value), result

    return run


def grad(fn: Callable[..., Any], argnums: Any = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that gives the derivative of `fn` by arguments."""
    both = value_and_grad(fn, argnums, has_aux)

    @functools.wraps(fn, updated=())
    def run(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return run


def _share(shares: dict[Any, Any], leaf: Any) -> Any:
    node, value = leaf
    found = None if node is None else shares.get(node)
    return np.zeros_like(value) if found is None else found


def _traced(arg: Any, level: int) -> tuple[Any, list[Any], Callable[[list[Any]], Any]]:
    """An argument with traced arrays as leaves, the leaves, and what puts their derivatives in their places."""
    flat, plan = flatten(arg)
    leaves: list[Any] = []

    def trace(x: Any) -> Any:
        x = raw(x)
        if isinstance(x, float):
            x = np.asarray(x)
        if not is_floating(x.dtype):
            leaves.append((None, x))
            return x
        node = Node((), None, x)
        leaves.append((node, x))
        return TracedArray(x, node, level)

    inside = []
    for item in flat:
        inside.append(item.apply(trace) if isinstance(item, TensorCollection) else trace(item))

    def rebuild(shares: list[Any]) -> Any:
        queue = iter(shares)
        out = [
            item.apply(lambda x: next(queue)) if isinstance(item, TensorCollection) else next(queue)
            for item in flat
        ]
        return unflatten(out, plan)

    return unflatten(inside, plan), leaves, rebuild


def _plain(aux: Any) -> Any:
    """Results without their derivatives."""
    flat, plan = flatten(aux)
    out = []
    for item in flat:
        if type(item) is TracedArray:
            item = item.value
        elif isinstance(item, TensorCollection):
            item = item.apply(lambda x: x.value if type(x) is TracedArray else x)
        out.append(item)
    return unflatten(out, plan)


__all__ = ["ArrayHolder", "HostArray", "grad", "value_and_grad"]
