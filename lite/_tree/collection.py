"""The protocol between a TensorDict and its entries that are not arrays.

A parent never tests the class of an entry: nested TensorDicts, lazy stacks, tensorclasses and non-tensor data
all implement `Entry`. Unbatched arrays implement it too, although users do not see them as collections.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, ClassVar, Self

from lite._arrays.public import belong_to
from lite._arrays.types import Array, Shape
from lite._tree.batch_ops import BatchOp


class Entry:
    """An entry that implements batch operations itself, unlike a plain array."""

    __slots__ = ()
    _is_non_tensor: ClassVar[bool] = False
    device: Any
    if os.name == "any":  # for mypy, see `Container`
        to: Callable[..., Any]
        unbind: Callable[..., tuple[Any, ...]]

    @property
    def batch_size(self) -> Shape:
        """Shape that all entries share as their leading dimensions."""
        raise NotImplementedError

    def _rebatch(self, batch_size: Shape) -> Self:
        """A shallow copy with another batch size; raises RuntimeError where entries do not fit."""
        raise NotImplementedError

    def _run(self, op: BatchOp) -> Entry:
        """Apply a batch-shape operation. Batch dimensions beyond those of the parent are kept."""
        raise NotImplementedError

    def _clone(self, recurse: bool) -> Self:
        """Copy the containers, and the arrays too if `recurse`."""
        raise NotImplementedError

    def _map_leaves(self, fn: Callable[[Array], Any]) -> Self:
        """Same structure and batch size with every array leaf replaced; non-tensors are kept."""
        raise NotImplementedError

    def _export(self) -> Any:
        """Plain Python form: nested dicts of arrays, unwrapped objects."""
        raise NotImplementedError


class TensorCollection(Entry):
    """Anything with a batch size that can be an entry of a TensorDict, other than an array; for `isinstance`.

    Example:
        >>> from lite import NonTensorData, TensorCollection, TensorDict
        >>> isinstance(TensorDict(), TensorCollection), isinstance(NonTensorData("x"), TensorCollection)
        (True, True)
    """

    __slots__ = ()

    # Each class has its own implementation; other packages call these by name.
    if os.name == "any":  # for mypy, see `Container`
        clone: Callable[..., Self]
        items: Callable[..., Any]
        update_: Callable[..., Self]


def is_tensor_collection(datatype: object) -> bool:
    """Tell whether an object, or a type, is a TensorDict, tensorclass or non-tensor wrapper.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, is_tensor_collection
        >>> is_tensor_collection(TensorDict()), is_tensor_collection(np.zeros(3))
        (True, False)
    """
    cls = datatype if isinstance(datatype, type) else type(datatype)
    return issubclass(cls, TensorCollection)


def is_non_tensor(data: object) -> bool:
    """Tell whether an object is non-tensor data (`NonTensorData` or `NonTensorStack`).

    Example:
        >>> from lite import NonTensorData, is_non_tensor
        >>> is_non_tensor(NonTensorData("x")), is_non_tensor("x")
        (True, False)
    """
    return bool(getattr(type(data), "_is_non_tensor", False))


def default_is_leaf(cls: type) -> bool:
    """The default leaf predicate: arrays are leaves, collections (also non-tensors) are not.

    Example:
        >>> import numpy as np
        >>> from lite import NonTensorData, default_is_leaf
        >>> default_is_leaf(np.ndarray), default_is_leaf(NonTensorData)
        (True, False)
    """
    return not issubclass(cls, TensorCollection)


def is_leaf_nontensor(cls: type) -> bool:
    """Leaf predicate that counts non-tensor entries as leaves beside the arrays.

    Example:
        >>> from lite import NonTensorData, TensorDict, is_leaf_nontensor
        >>> is_leaf_nontensor(NonTensorData), is_leaf_nontensor(TensorDict)
        (True, False)
    """
    return not issubclass(cls, TensorCollection) or bool(getattr(cls, "_is_non_tensor", False))


belong_to("lite", TensorCollection)
