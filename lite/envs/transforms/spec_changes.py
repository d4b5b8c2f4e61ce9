"""Specs of what a function makes of the values of a spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite.specs.arrays import Bounded
from lite.specs.base import TensorSpec, known


def mapped(spec: TensorSpec, function: Callable[[Any], Any]) -> TensorSpec:
    """The spec of the function's values: its shape and dtype, and bounds where there are bounds.

    Args:
        spec: of what the function takes.
        function: of arrays; monotonous where the spec has bounds.
    """
    if isinstance(spec, Bounded):
        ends = function(spec.low), function(spec.high)
        low, high = np.minimum(*ends), np.maximum(*ends)
        return Bounded(low, high, shape=low.shape, dtype=low.dtype)
    if spec.dtype is None:
        return spec
    made = function(np.zeros(known(spec.shape), spec.dtype))
    changed = spec.clone()
    changed.shape, changed.dtype = np.shape(made), made.dtype
    return changed
