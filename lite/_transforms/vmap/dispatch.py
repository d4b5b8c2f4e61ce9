"""Dispatch of NumPy's functions on mapped arrays to their batching rules."""

from __future__ import annotations

from typing import Any

import lite._transforms.rules  # noqa: F401 - which registers them
from lite._arrays.types import Function
from lite._transforms.arrays import GIVING_ARRAYS
from lite._transforms.registry import VMAP, NoRule, without_out
from lite._transforms.vmap.array import number_of, rules
from lite._transforms.vmap.indexing import get_index, set_index
from lite._transforms.vmap.level import batched_in, level_of
from lite._transforms.vmap.loop import loop
from lite._transforms.vmap.tensordicts import indexed
from lite._transforms.vmap.ufuncs import call_ufunc, elementwise


def call_function(func: Function, args: Any, kwargs: Any) -> Any:
    """Call a function on arguments with mapped arrays, by its rule. The result is copied into `out`."""
    level = level_of(batched_in(kwargs.values(), batched_in(args, [])))
    args, kwargs, out = without_out(func, args, kwargs)
    rule = VMAP.rules.get(func)
    if rule is None:
        result = loop(level, func, args, kwargs)
    else:
        try:
            result = rule(level, *args, **kwargs)
        except NoRule:
            result = loop(level, func, args, kwargs)
    if out is None:
        return number_of(result, func not in GIVING_ARRAYS)
    out[...] = result
    return out


rules.elementwise = elementwise
rules.ufunc = call_ufunc
rules.function = call_function
rules.get_index = get_index
rules.set_index = set_index
rules.index_batch = indexed
