"""`TensorDictBase`: the union of the mixins, and what does not depend on the kind of container."""

from __future__ import annotations

from typing import Any, Self

from lite._apply import ApplyMixin
from lite._arithmetic import ArithmeticMixin
from lite._array_function import ArrayFunctionMixin
from lite._cast import CastMixin, DtypeMixin
from lite._names import NamesMixin
from lite._repr import ReprMixin


class TensorDictBase(
    ReprMixin,
    ApplyMixin,
    ArithmeticMixin,
    ArrayFunctionMixin,
    CastMixin,
    DtypeMixin,
    NamesMixin,
):
    """Base of `TensorDict` and `LazyStackedTensorDict`; see `TensorDict` for the idea and examples."""

    __slots__ = ()

    def clone(self, recurse: bool = True) -> Self:
        """Copy; `recurse=False` copies the containers and shares the arrays."""
        return self._clone(recurse)  # type: ignore[return-value]

    def copy(self) -> Self:
        """Same as `clone(recurse=False)`."""
        return self._clone(False)  # type: ignore[return-value]

    def __copy__(self) -> Self:
        return self._clone(False)  # type: ignore[return-value]

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        out = self._clone(True)
        memo[id(self)] = out
        return out  # type: ignore[return-value]

    __hash__ = None  # type: ignore[assignment]
