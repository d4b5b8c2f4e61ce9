"""`make_composite_from_td`: the specs of what a TensorDict has."""

from __future__ import annotations

from typing import Any

from lite import (
    LazyStackedTensorDict,
    NonTensorData,
    NonTensorStack,
    TensorDictBase,
    is_non_tensor,
    is_tensor_collection,
)
from lite.specs.arrays import Unbounded
from lite.specs.composite import Composite
from lite.specs.objects import NonTensor


def make_composite_from_td(
    data: TensorDictBase, *, unsqueeze_null_shapes: bool = True, dynamic_shape: bool = False
) -> Composite:
    """A spec of what a TensorDict has: `Unbounded` arrays of the same shapes and dtypes, and objects.

    Args:
        data: the TensorDict.
        unsqueeze_null_shapes: write shape (1,) for numbers.
        dynamic_shape: leave the last size of each array open, -1.

    Source:
        torchrl.envs.utils.make_composite_from_td.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import make_composite_from_td
        >>> make_composite_from_td(TensorDict({"x": np.zeros((2, 3)), "n": {"y": 1}}, []))["x"]
        Unbounded(shape=(2, 3), dtype=float64)
    """
    specs: dict[str, Any] = {}
    for key, value in data.items():
        if is_non_tensor(value) or not (is_tensor_collection(value) or hasattr(value, "dtype")):
            entry = data._get_entry(key)
            shape = tuple(getattr(entry, "batch_size", data.batch_size))
            if isinstance(entry, NonTensorStack):
                example = next(iter(entry._objects().flat), None)
            else:
                example = entry.data if isinstance(entry, NonTensorData) else value
            specs[key] = NonTensor(shape, example_data=example, feature_dims=len(shape) - data.ndim)
        elif is_tensor_collection(value):
            specs[key] = make_composite_from_td(
                value, unsqueeze_null_shapes=unsqueeze_null_shapes, dynamic_shape=dynamic_shape
            )
        else:
            shape = tuple(value.shape)
            if not shape and unsqueeze_null_shapes:
                shape = (1,)
            elif len(shape) > data.ndim and dynamic_shape:
                shape = (*shape[:-1], -1)
            specs[key] = Unbounded(shape, dtype=value.dtype)
    kind = type(data)
    data_cls = None if kind is LazyStackedTensorDict else kind  # its from_dict takes one dict for each part
    return Composite(specs, shape=data.batch_size, data_cls=data_cls)
