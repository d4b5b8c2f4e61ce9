"""Taking a batch dimension off the entries of a TensorDict, and putting it back."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array, Names, Shape, as_array, computed
from lite._transforms.vmap.array import BatchedArray, SharedArray
from lite._transforms.vmap.indexing import get_index
from lite._tree.batch_ops import BatchOp
from lite._tree.unbatched import UnbatchedTensor


class RemoveBatchDim(BatchOp):
    """Every entry as a mapped array, without batch dimension `dim`."""

    __slots__ = ("dim", "number")

    def __init__(self, batch_size: Shape, dim: int, number: int) -> None:
        super().__init__(len(batch_size), batch_size[:dim] + batch_size[dim + 1 :])
        self.dim = dim
        self.number = number

    def array(self, value: object) -> Any:
        return remove_batch_dim(computed(value), self.dim, self.number)

    def names(self, names: list[str | None]) -> Names:
        return names[: self.dim] + names[self.dim + 1 :]

    def on_stack(self, stack: Any) -> Any:
        """The parts without the dimension; dense where it is the one that they are stacked along."""
        at = stack.stack_dim
        if self.dim == at:
            return stack.contiguous()._run(self)
        before = self.dim < at
        dim = self.dim if before else self.dim - 1
        parts = [part._run(RemoveBatchDim(self._head(part), dim, self.number)) for part in stack.tensordicts]
        return stack._like(parts, at - before, stack._dim_name)


class AddBatchDim(BatchOp):
    """Every entry with the mapped dimension at `dim`."""

    __slots__ = ("dim", "number", "size")

    def __init__(self, batch_size: Shape, dim: int, number: int, size: int) -> None:
        super().__init__(len(batch_size), (*batch_size[:dim], size, *batch_size[dim:]))
        self.dim = dim
        self.number = number
        self.size = size

    def array(self, value: object) -> Array:
        return add_batch_dim(computed(value), self.dim, self.number, self.size)

    def names(self, names: list[str | None]) -> Names:
        return [*names[: self.dim], None, *names[self.dim :]]

    def on_stack(self, stack: Any) -> Any:
        at = stack.stack_dim
        before = self.dim <= at
        dim = self.dim if before else self.dim - 1
        parts = [
            part._run(AddBatchDim(self._head(part), dim, self.number, self.size))
            for part in stack.tensordicts
        ]
        return stack._like(parts, at + before, stack._dim_name)


def remove_batch_dim(value: Any, dim: int, number: int) -> Array | BatchedArray:
    """An array as a mapped one, without dimension `dim`."""
    return BatchedArray(value if dim == 0 else np.moveaxis(value, dim, 0), number)


def add_batch_dim(value: Any, dim: int, number: int, size: int) -> Array:
    """The value of a mapped array, with the batch dimension at `dim`; others are expanded to `size`."""
    if type(value) is BatchedArray and value.level == number:
        held = value.value
        held = held.view(np.ndarray) if isinstance(held, SharedArray | UnbatchedTensor) else held
        return held if dim == 0 else np.moveaxis(held, 0, dim)
    if type(value) is not BatchedArray:
        value = as_array(value)
    shape = value.shape
    inner = value if dim == 0 else value[(*[slice(None)] * dim, None)]
    return np.broadcast_to(inner, (*shape[:dim], size, *shape[dim:]))


class MappedIndex(BatchOp):
    """Every entry indexed by something that has mapped arrays in it."""

    __slots__ = ("index",)
    keeps_lock = False

    def __init__(self, batch_size: Shape, index: Any) -> None:
        items = index if type(index) is tuple else (index,)
        self.index = items if any(item is Ellipsis for item in items) else (*items, Ellipsis)
        nothing = np.broadcast_to(np.zeros((), np.bool_), batch_size)
        super().__init__(len(batch_size), get_index(nothing, index).shape)

    def array(self, value: object) -> Any:
        return get_index(computed(value), self.index)

    def on_stack(self, stack: Any) -> Any:
        return stack.contiguous()._run(self)


def indexed(td: Any, index: Any) -> Any:
    """`td[index]` for an index that has mapped arrays in it."""
    return td._run(MappedIndex(td.batch_size, index))
