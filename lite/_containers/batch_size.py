"""The batch size of a dense TensorDict: how it is read, checked, changed and found."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any, Self

from lite._arrays.types import Shape
from lite._base import TensorDictBase
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorData


def parse_batch_size(batch_size: Any) -> Shape:
    """Read a batch size given as None, an int or a sequence of ints.

    Raises:
        ValueError: a negative size, or a string.
        TypeError: anything that is not an integer.
    """
    if batch_size is None:
        return ()
    if type(batch_size) is tuple or type(batch_size) is list:
        # First, because asking an abstract class costs more than all the rest.
        for n in batch_size:
            if type(n) is not int or n < 0:
                break
        else:
            return tuple(batch_size)
        shape = tuple([operator.index(n) for n in batch_size])
    elif isinstance(batch_size, str):
        raise ValueError(f"batch size was not specified as integers, got {batch_size!r}.")
    elif isinstance(batch_size, Iterable):
        shape = tuple(operator.index(n) for n in batch_size)
    else:
        shape = (operator.index(batch_size),)
    if shape and min(shape) < 0:
        raise ValueError(f"batch_size must not be negative, got {shape}.")
    return shape


class BatchSizeMixin(TensorDictBase):
    """`batch_size` and `auto_batch_size_` of a container that holds its entries in a dict."""

    __slots__ = ("_batch_size", "_data")
    _data: dict[str, Any]
    _batch_size: Shape

    @property
    def batch_size(self) -> Shape:
        """Shape that all entries share as their leading dimensions; assign to change it.

        Raises:
            RuntimeError: on assignment, if an entry does not start with the new batch size.
        """
        return self._batch_size

    @batch_size.setter
    def batch_size(self, value: Any) -> None:
        new = parse_batch_size(value)
        if new == self._batch_size:
            return
        self._check_rebatch(new)
        for entry in self._data.values():
            node = self._as_node(entry)
            if node is not None and len(node.batch_size) < len(new):
                node.batch_size = new
        self._data = {
            key: entry._rebatch(new)
            if isinstance(entry, NonTensorData) and entry.batch_size[: len(new)] != new
            else entry
            for key, entry in self._data.items()
        }
        self._batch_size = new
        if self._names is not None:
            self._set_names(check_names([*self._names, *[None] * len(new)][: len(new)], len(new)))

    def _check_rebatch(self, new: Shape) -> None:
        for key, entry in self._data.items():
            node = self._as_node(entry)
            if isinstance(entry, NonTensorData) or (node is not None and node.is_empty()):
                continue
            if isinstance(node, BatchSizeMixin) and len(node.batch_size) < len(new):
                node._check_rebatch(new)
                continue
            if tuple(entry.shape[: len(new)]) != new:
                kind = type(entry).__name__
                raise RuntimeError(
                    f"the {kind} {key} has shape {tuple(entry.shape)} which is incompatible with the "
                    f"batch-size {new}."
                )

    def auto_batch_size_(self, batch_dims: int | None = None, keep_compliant_size: bool = False) -> Self:
        """Set the batch size to the longest leading shape that all direct entries share.

        Args:
            batch_dims: at most this many dimensions, also for nested TensorDicts.
            keep_compliant_size: leave nested batch sizes longer than the cap as they are.
        """
        shapes: list[Shape] = []
        for entry in self._data.values():
            node = self._as_node(entry)
            if isinstance(node, BatchSizeMixin):
                if not (keep_compliant_size and batch_dims is not None and node.ndim >= batch_dims):
                    node.auto_batch_size_(batch_dims, keep_compliant_size)
                shapes.append(node.batch_size)
            elif not isinstance(entry, NonTensorData) or entry.batch_size:
                shapes.append(tuple(entry.shape))
        if not shapes:
            self.batch_size = self._batch_size if batch_dims is None else self._batch_size[:batch_dims]
            return self
        common = _common_prefix(shapes)
        self.batch_size = common if batch_dims is None else common[:batch_dims]
        if batch_dims is not None and not keep_compliant_size:
            size = self._batch_size
            for key, entry in self._data.items():
                if isinstance(entry, NonTensorData) and len(entry.batch_size) > len(size):
                    self._data[key] = entry._rebatch(size)
        return self


def _common_prefix(shapes: list[Shape]) -> Shape:
    if not shapes:
        return ()
    out = []
    for sizes in zip(*shapes, strict=False):
        if len(set(sizes)) > 1:
            break
        out.append(sizes[0])
    return tuple(out)
