"""Values without gradients: targets, advantages, parameters that a loss holds fixed."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.namespace import as_constant
from lite._arrays.types import ArrayHolder, HostArray, has_namespace
from lite._tree.collection import TensorCollection


def detached(value: Any) -> Any:
    """An array, a Parameter, or a TensorDict of them without gradients, over the same memory."""
    if isinstance(value, TensorCollection):
        data: Any = value
        return data.data.apply(detached, filter_empty=False)
    array: Any = value.data if isinstance(value, ArrayHolder) else value
    if has_namespace(array):
        return as_constant(array)
    if type(array) is np.ndarray or not isinstance(array, HostArray):
        return array
    return array.detach()
