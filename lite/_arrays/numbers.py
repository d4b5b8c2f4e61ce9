"""Python numbers as operands of leaves, converted once per dtype instead of once per leaf.

A ufunc converts a Python number to an array of the leaf's dtype in each call, which takes as long as adding
it to a thousand elements: `td + 1` of ten small leaves would take 35% longer, of a hundred 65%.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

NUMBERS = frozenset({int, float, bool, complex})  # the exact types
SCALARS = (bool, int, float, complex, np.generic)  # for isinstance
# The kinds of dtypes of which a result has the leaf's dtype (NEP 50), by the type of the number.
_KINDS_OF_RESULT: dict[type, str] = {int: "iufc", float: "fc", complex: "c"}
# Smaller numbers fit floats of at least 32 bits and 64-bit integers; larger ones may warn or raise.
_LARGE = 1e18


def operands_for(number: Any, leaves: Iterable[Any]) -> list[Any]:
    """The operand for each leaf: the number, converted by `number_as_array`."""
    out = []
    dtype, value = None, number
    for leaf in leaves:
        if leaf.dtype is not dtype:
            dtype = leaf.dtype
            value = number_as_array(number, dtype)
        out.append(value)
    return out


def number_as_array(number: Any, dtype: np.dtype[Any]) -> Any:
    """A number as an array of `dtype` if a ufunc would convert it so; else the number itself."""
    kind = dtype.kind
    if kind not in _KINDS_OF_RESULT.get(type(number), ""):
        return number
    if kind in "fc" and (dtype.itemsize < 4 or not abs(number) < _LARGE):
        return number
    try:
        return np.asarray(number, dtype)
    except OverflowError:  # comparisons accept such numbers, and other ufuncs raise themselves
        return number
