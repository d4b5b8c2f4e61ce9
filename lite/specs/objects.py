"""`NonTensor`: the spec of objects."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lite import NonTensorData, is_non_tensor, is_tensor_collection, lazy_stack
from lite._arrays.public import belong_to
from lite.kernels._integer import integer
from lite.specs.base import Shape, TensorSpec, as_size


class NonTensor(TensorSpec):
    """Any objects.

    Args:
        shape: as for `Unbounded`.
        device: None or "cpu".
        dtype: None: objects have none.
        example_data: the object that `zero`, `one` and `rand` give.
        batched: give one object per element, in place of one for all.
        feature_dims: how many of the last dimensions share one object; all by default, none if `batched`.

    Every object is in, except arrays and TensorDicts; `NonTensorData` and `NonTensorStack` if their shape is.

    Raises:
        ValueError: both `batched` and `feature_dims` are given, or as for `Unbounded`.

    Source:
        torchrl.data.NonTensor.

    Example:
        >>> from lite.data import NonTensor
        >>> NonTensor((2,), example_data="hi").zero((2,)).tolist()
        [['hi', 'hi'], ['hi', 'hi']]
    """

    def __init__(
        self,
        shape: Any = (1,),
        device: Any = None,
        dtype: None = None,
        example_data: Any = None,
        batched: bool | None = None,
        feature_dims: int | None = None,
    ) -> None:
        if device not in (None, "cpu"):
            raise ValueError(f"device must be None or 'cpu', got {device!r}")
        if dtype is not None:
            raise ValueError(f"dtype must be None for objects, got {dtype!r}")
        if batched is not None and feature_dims is not None:
            raise ValueError("give batched or feature_dims, not both")
        self.shape = as_size(shape)
        self.example_data = example_data
        self.feature_dims = 0 if batched else self.ndim
        if feature_dims is not None:
            self.feature_dims = integer("feature_dims", feature_dims)
            if not 0 <= self.feature_dims <= self.ndim:
                raise ValueError(f"feature_dims must be from 0 to {self.ndim}, got {feature_dims}")

    def is_in(self, value: Any) -> bool:
        if is_non_tensor(value):
            return self._fits(tuple(value.shape))
        return not is_tensor_collection(value) and not isinstance(value, np.ndarray)

    def zero(self, shape: Any = ()) -> Any:
        """The example, with the dimensions `shape` in front, for each of which there is one object."""
        made = self._made(shape)
        split = len(made) - self.feature_dims
        return _stacked(self.example_data, made[:split], made[split:])

    def one(self, shape: Any = ()) -> Any:
        """Alias of `zero`."""
        return self.zero(shape)

    def rand(self, shape: Any = (), *, rng: np.random.Generator | int | None = None) -> Any:
        """Alias of `zero`: nothing is drawn."""
        return self.zero(shape)

    def project(self, value: Any) -> Any:
        if not self.is_in(value):
            raise ValueError(f"an object of shape {self.shape} was expected, got {value!r}")
        return value

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NonTensor)
            and (self.shape, self.feature_dims) == (other.shape, other.feature_dims)
            and _same(self.example_data, other.example_data)
        )

    def __repr__(self) -> str:
        return f"NonTensor(shape={self.shape}, example_data={self.example_data!r})"

    def _expanded(self, shape: Shape) -> Self:
        return self._reshaped(shape)


belong_to("lite.data", NonTensor)


def _stacked(example: Any, batch: Shape, features: Shape) -> Any:
    if not batch:
        return NonTensorData(example, batch_size=features)
    if not batch[0]:
        return NonTensorData(example, batch_size=(*batch, *features))
    return lazy_stack([_stacked(example, batch[1:], features) for _ in range(batch[0])])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return type(one) is type(other) and np.array_equal(one, other)
    return bool(one == other)
