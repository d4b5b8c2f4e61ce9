"""The spec of transformed values, from the spec of the values and the function that transforms them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite.envs.transforms.base import Transform, apply_to_composite, apply_to_composite_inv
from lite.specs.arrays import Bounded, Unbounded
from lite.specs.base import TensorSpec, known


def mapped(spec: TensorSpec, function: Callable[[Any], Any]) -> TensorSpec:
    """The spec of `function(value)` for the values of a spec.

    The function is called on the bounds, or else on ones, to find its shape and dtype.

    Args:
        spec: spec of the function's argument.
        function: a function of arrays; monotonic if the spec has bounds.
    """
    if isinstance(spec, Bounded):
        ends = function(spec.low), function(spec.high)
        low, high = np.minimum(*ends), np.maximum(*ends)
        return Bounded(low, high, shape=low.shape, dtype=low.dtype)
    if spec.dtype is None:
        return spec
    made = function(np.ones(known(spec.shape), spec.dtype))
    if made.dtype.kind == "f" != spec.dtype.kind and (made != 1).any():
        return Unbounded(made.shape, dtype=made.dtype)  # scaled integers, such as classes, are real numbers
    changed = spec.clone()
    changed.shape, changed.dtype = np.shape(made), made.dtype
    return changed


def _of_values(transform: Transform, spec: TensorSpec) -> TensorSpec:
    """The spec of a transform's output, from that of its input."""
    return mapped(spec, transform._apply_transform)


# Methods for transforms: `transform_observation_spec = map_outputs`, `transform_action_spec = map_inputs`.
map_outputs: Any = apply_to_composite(_of_values)
map_inputs: Any = apply_to_composite_inv(_of_values)
