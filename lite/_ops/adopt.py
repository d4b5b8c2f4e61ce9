"""The `inplace=` form of operations that change the batch size: self takes over a result."""

from __future__ import annotations

from typing import Any, Self

from lite._ops.structure import StructureMixin
from lite._tree.lock import LOCK_ERROR


class AdoptMixin(StructureMixin):
    """What methods with `inplace=` end with."""

    __slots__ = ()

    def _adopt(self, out: Any, name: str) -> Self:
        """Give self the entries, batch size and names of `out`, which was made from it.

        Raises:
            NotImplementedError: self is a lazy stack, whose batch size follows from its parts.
            RuntimeError: self is locked.
        """
        if self._parts() is not None:
            raise NotImplementedError(
                f"{name}(inplace=True) is not supported on {type(self).__name__}; call .to_tensordict() "
                "first or use inplace=False."
            )
        if self.is_locked:
            raise RuntimeError(LOCK_ERROR)
        if out is not self:
            this: Any = self
            this._data, this._batch_size, this._names = out._data, out.batch_size, out._names
        return self
