"""The parts of a lazy stack: from dicts, one by one, and apart again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

from lite._containers.lazy_keys import LazyKeysMixin
from lite._tree.keys import NestedKey
from lite._tree.lock import LOCK_ERROR


class LazyPartsMixin(LazyKeysMixin):
    """Constructors, and the methods of a list."""

    __slots__ = ()

    @classmethod
    def from_dict(
        cls,
        input_dict: Mapping[str, Any] | Sequence[Any],
        *,
        auto_batch_size: bool | None = None,
        batch_size: Any = None,
        device: Any = None,
        batch_dims: int | None = None,
        stack_dim_name: str | None = None,
        stack_dim: int = 0,
        names: Sequence[str | None] | None = None,
    ) -> Any:
        """A lazy stack of TensorDicts, one per dict.

        Args:
            input_dict: dicts, or a mapping with the keys "0", "1", ..., as `to_dict` of a lazy stack of
                lazy stacks gives them.
            auto_batch_size: see `TensorDict.from_dict`, as for `batch_size`, `device` and `batch_dims`,
                which are those of every part.
            stack_dim_name: name of the stack dimension.
            stack_dim: where it goes.
            names: names of all dimensions of the stack, instead of `stack_dim_name`.

        Raises:
            ValueError: both `names` and `stack_dim_name`.

        Example:
            >>> import numpy as np
            >>> from lite import LazyStackedTensorDict
            >>> rows = LazyStackedTensorDict.from_dict([{"a": np.ones(n)} for n in (1, 2)])
            >>> rows.get("a", as_list=True)
            [array([1.]), array([1., 1.])]
        """
        from lite._ops.combine import lazy_stack
        from lite._tensordict import TensorDict

        if names is not None and stack_dim_name is not None:
            raise ValueError("names and stack_dim_name exclude each other.")
        dicts = (
            [input_dict[str(i)] for i in range(len(input_dict))]
            if isinstance(input_dict, Mapping)
            else list(input_dict)
        )
        parts = [
            TensorDict.from_dict(
                item,
                auto_batch_size=auto_batch_size,
                batch_size=batch_size,
                device=device,
                batch_dims=batch_dims,
            )
            for item in dicts
        ]
        out = lazy_stack(parts, stack_dim, stack_dim_name=stack_dim_name)
        if names is not None:
            out.names = list(names)
        return out

    @classmethod
    def fromkeys(cls, keys: Iterable[NestedKey], value: Any = 0) -> Any:
        """A TensorDict, which is no lazy stack, with `value` under every key."""
        from lite._tensordict import TensorDict

        return TensorDict.fromkeys(keys, value)

    def insert(self, index: int, tensordict: Any) -> Self:
        """Insert a part before `index`.

        Raises:
            RuntimeError: the stack is locked.
            TypeError: `tensordict` is not a TensorDict.
            ValueError: its batch size or device is not that of the parts.
        """
        self.tensordicts[index:index] = self._new_parts([tensordict])
        return self

    def append(self, tensordict: Any) -> Self:
        """Add a part at the end; see `insert`."""
        return self.insert(len(self.tensordicts), tensordict)

    def extend(self, tensordict: Any) -> Self:
        """Add every TensorDict of a sequence, or every part of a TensorDict along `stack_dim`.

        Raises what `insert` raises, and then adds none of them.
        """
        node = self._as_node(tensordict)
        self.tensordicts += self._new_parts(tensordict if node is None else node.unbind(self.stack_dim))
        return self

    def _new_parts(self, tensordicts: Iterable[Any]) -> list[Any]:
        """What is to be added to the parts, if all of it can be."""
        if self.is_locked:
            raise RuntimeError(LOCK_ERROR)
        size, device, empty = self._part_size(), self.device, not self.tensordicts
        nodes: list[Any] = []
        for td in tensordicts:
            node = self._as_node(td)
            if node is None:
                raise TypeError(f"Expected new value to be a TensorDict, got {type(td)}.")
            own = node.batch_size
            if len(size) != len(own) or any(n not in (-1, m) for n, m in zip(size, own, strict=True)):
                raise ValueError(
                    f"Batch sizes in tensordicts differ: the parts have {size}, the new one {own}."
                )
            if empty:  # the first one decides
                device, empty = node.device, False
            if node.device != device:
                raise ValueError(
                    f"Devices differ: the parts have device {device}, the new one {node.device}."
                )
            nodes.append(node)
        return nodes

    def unbind(self, dim: int) -> tuple[Any, ...]:
        """Split along a batch dimension; along `stack_dim` this gives the parts themselves."""
        if dim == self.stack_dim or self._dim(dim) == self.stack_dim:
            return tuple(self.tensordicts)
        self._require_regular(dim, "unbind")
        return super().unbind(dim)

    def split(self, split_size: int | Sequence[int], dim: int = 0) -> tuple[Self, ...]:
        """Split along a batch dimension; along `stack_dim` the parts are distributed."""
        self._require_regular(dim, "split")
        return super().split(split_size, dim)

    def _require_regular(self, dim: int, method: str) -> None:
        if self.batch_size[self._dim(dim)] < 0:
            raise ValueError(f"cannot {method} dim {dim} of batch size {self.batch_size}: it is ragged.")
