"""Numbers beside arrays, converted once per dtype instead of once per leaf.

A ufunc turns a Python number into an array of the leaf's dtype each time, which takes as long as adding it
to a thousand elements: `td + 1` of ten small leaves would take 35% longer, of a hundred 65%.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

NUMBERS = frozenset({int, float, bool, complex})  # the exact types
SCALARS = (bool, int, float, complex, np.generic)  # for isinstance
# The kinds of dtypes that a number adopts (NEP 50); with others the result has a dtype of its own.
_ADOPTED: dict[type, str] = {int: "iufc", float: "fc", complex: "c"}
# What is smaller fits floats of 32 bits and more, and 64-bit integers; larger numbers may warn or fail.
_LARGE = 1e18


def beside(number: Any, leaves: Iterable[Any]) -> list[Any]:
    """What goes with each of some arrays in place of one number."""
    out = []
    dtype, value = None, number
    for leaf in leaves:
        if leaf.dtype is not dtype:
            dtype = leaf.dtype
            value = adopted(number, dtype)
        out.append(value)
    return out


def adopted(number: Any, dtype: np.dtype[Any]) -> Any:
    """A number as array of `dtype`, where a ufunc would make it one; else the number itself."""
    kind = dtype.kind
    if kind not in _ADOPTED.get(type(number), ""):
        return number
    if kind in "fc" and (dtype.itemsize < 4 or not abs(number) < _LARGE):
        return number
    try:
        return np.asarray(number, dtype)
    except OverflowError:  # which comparisons do without, and all others raise themselves
        return number
