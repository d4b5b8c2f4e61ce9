"""Specs of what a function makes of the values of a spec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite.envs.transforms.base import Transform, apply_to_composite, apply_to_composite_inv
from lite.specs.arrays import Bounded, Unbounded
from lite.specs.base import TensorSpec, known


def mapped(spec: TensorSpec, function: Callable[[Any], Any]) -> TensorSpec:
    """The spec of the function's values: its shape and dtype, and bounds where there are bounds.

    Args:
        spec: spec of what the function takes.
        function: a function of arrays, monotonous where the spec has bounds.
    """
    if isinstance(spec, Bounded):
        ends = function(spec.low), function(spec.high)
        low, high = np.minimum(*ends), np.maximum(*ends)
        return Bounded(low, high, shape=low.shape, dtype=low.dtype)
    if spec.dtype is None:
        return spec
    made = function(np.ones(known(spec.shape), spec.dtype))
    if made.dtype.kind == "f" != spec.dtype.kind and (made != 1).any():
        return Unbounded(made.shape, dtype=made.dtype)  # no numbers of classes any more
    changed = spec.clone()
    changed.shape, changed.dtype = np.shape(made), made.dtype
    return changed


def _of_values(transform: Transform, spec: TensorSpec) -> TensorSpec:
    """The spec of what `_apply_transform` makes of an entry."""
    return mapped(spec, transform._apply_transform)


# Methods: `transform_observation_spec = map_outputs`, and `transform_action_spec = map_inputs`.
map_outputs: Any = apply_to_composite(_of_values)
map_inputs: Any = apply_to_composite_inv(_of_values)
