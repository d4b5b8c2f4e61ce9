"""Unbatched arrays: entries whose shape is independent of the batch size of their TensorDict.

An unbatched array is a subclass of ndarray, so elementwise operations work on it and return one again. It
also implements `Entry`: a batch operation changes its recorded batch size only, and loops over plain arrays,
which test for the exact type, pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from lite._arrays.dtypes import is_numeric
from lite._arrays.public import belong_to
from lite._arrays.types import Array, Shape, Unbatched
from lite._tree.batch_ops import BatchOp
from lite._tree.collection import Entry
from lite._tree.entry_errors import entry_error
from lite._tree.shape import as_shape


class UnbatchedTensor(np.ndarray, Unbatched, Entry):
    """An array without batch dimensions in a TensorDict.

    It holds a table, a mask or constants that all elements share. Its shape need not start with the batch
    size. Indexing, reshaping, stacking, concatenating, expanding and reducing the TensorDict, and assignments
    at an index, leave it unchanged. Joining several keeps the first, with a warning if the values differ.
    Elementwise operations such as arithmetic, `apply`, casts and `clone` work on it and return an
    UnbatchedTensor. It is a NumPy array that shares memory with `data`. No file format can hold it.

    Args:
        data: an array, numbers, or an UnbatchedTensor, whose memory is shared.
        batch_size: the initial value of `batch_size`; a TensorDict that stores it sets its own.

    Raises:
        TypeError: the data are not numbers.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, UnbatchedTensor
        >>> td = TensorDict(x=np.zeros((4, 2)), scale=UnbatchedTensor([1.0, 10.0, 100.0]), batch_size=[4])
        >>> td[0]["scale"].shape, td.reshape(2, 2)["scale"].batch_size
        ((3,), (2, 2))
        >>> np.shares_memory(td[:2]["scale"], td["scale"]), (td * 2)["scale"].tolist()
        (True, [2.0, 20.0, 200.0])
    """

    __slots__ = ("_batch_size",)
    _batch_size: Shape

    def __new__(cls, data: object, batch_size: Sequence[int] | int | None = None) -> Self:
        array = np.asarray(data)
        if not is_numeric(array.dtype):
            raise TypeError(f"data must be numbers, got {type(data).__name__} of dtype {array.dtype}.")
        out = array.view(cls)
        if batch_size is not None:
            out._batch_size = as_shape((batch_size,), "batch_size")
        elif isinstance(data, UnbatchedTensor):
            out._batch_size = data._batch_size
        return out

    def __array_finalize__(self, made_from: object) -> None:
        self._batch_size = getattr(made_from, "_batch_size", ())

    @property
    def batch_size(self) -> Shape:
        """Batch size of the TensorDict that it is stored in."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: object) -> None:
        self._batch_size = as_shape((value,), "batch_size")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({np.asarray(self)!r})"

    def __str__(self) -> str:
        return str(np.asarray(self))

    def __reduce__(self) -> Any:
        return type(self), (np.asarray(self), self._batch_size)

    def __deepcopy__(self, memo: object) -> Self:
        return self._clone(True)

    # -- as an entry: the batch goes its own way ------------------------------------------------------

    def _rebatch(self, batch_size: Shape) -> Self:
        out = self.view()
        out._batch_size = batch_size
        return out

    def _run(self, op: BatchOp) -> Self:
        return self._rebatch(op.shape + self._batch_size[op.ndim :])

    def unbind(self, dim: int) -> tuple[Self, ...]:
        """One view of the whole array for every index of batch dimension `dim`."""
        size = self._batch_size
        at = dim % len(size)
        return tuple([self._rebatch(size[:at] + size[at + 1 :]) for _ in range(size[at])])

    def _clone(self, recurse: bool) -> Self:
        return self.copy() if recurse else self

    def _map_leaves(self, fn: Callable[[Array], Any]) -> Self:
        return self._like(fn(self))

    def _like(self, array: object) -> Any:
        """An UnbatchedTensor of the same batch size that holds a computed array."""
        if not isinstance(array, np.ndarray | np.generic):
            raise TypeError(
                f"{type(self).__name__} must be in host memory, got a {type(array).__name__}; leave it out "
                "first: td.exclude(...)."
            )
        return array if isinstance(array, UnbatchedTensor) else type(self)(array, self._batch_size)

    def _export(self) -> Any:
        return self

    def to(self, device: str | None) -> Self:
        """Self for the CPU; TypeError for any other device."""
        if device is not None and device != "cpu":
            raise TypeError(f"an {type(self).__name__} cannot be moved to {device!r}; leave it out first.")
        return self


def joined(items: Sequence[UnbatchedTensor], size: Shape) -> UnbatchedTensor:
    """The first of several, with the batch size of the joined TensorDict; warns if values differ."""
    first = items[0]
    memory = first.__array_interface__["data"]
    for other in items:
        if other.__array_interface__["data"] != memory and not _equal(first, other):
            from lite._arrays.caller import warn  # most programs never warn

            warn(
                "Stacking UnbatchedTensors with different data storage. Only the first element's data will "
                "be kept; use an array with batch dimensions for data that differ."
            )
            break
    return first._rebatch(size)


def require_equal_shapes(items: Sequence[UnbatchedTensor]) -> None:
    """Raise RuntimeError if shapes differ."""
    shape = items[0].shape
    for other in items:
        if other.shape != shape:
            raise entry_error(
                RuntimeError,
                f"The shapes of the tensors to stack is incompatible{{at}}: {other.shape} vs {shape}.",
            )


def _equal(a: Array, b: Array) -> bool:
    return a.shape == b.shape and bool(np.all((a == b) | ((a != a) & (b != b))))


belong_to("lite", UnbatchedTensor)
