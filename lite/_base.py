"""`TensorDictBase`: the union of the mixins, and what does not depend on the kind of container."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from lite._adopt import AdoptMixin
from lite._apply import ApplyMixin
from lite._arithmetic import ArithmeticMixin
from lite._array_function import ArrayFunctionMixin
from lite._cast import CastMixin, DtypeMixin
from lite._compare import CompareMixin
from lite._entries import EntriesMixin
from lite._export import ExportMixin
from lite._factories import FactoryMixin
from lite._files.mixin import FilesMixin
from lite._forms import FormsMixin
from lite._from_any import FromMixin
from lite._html import HtmlMixin
from lite._interop import InteropMixin
from lite._layout import LayoutMixin
from lite._map import MapMixin
from lite._masking import MaskMixin
from lite._modules import ModulesMixin
from lite._names import NamesMixin
from lite._pad import PadMixin
from lite._pickle import PickleMixin
from lite._pytree import PytreeMixin
from lite._reductions import ReductionMixin
from lite._repr import ReprMixin
from lite._scans import ScanMixin
from lite._schema import SchemaMixin
from lite._shared import SharedMixin
from lite._state_dict import StateDictMixin
from lite._summary import SummaryMixin
from lite._tabular import TabularMixin
from lite._unsupported import UnsupportedMixin


class TensorDictBase(
    ReprMixin,
    AdoptMixin,
    ApplyMixin,
    ArithmeticMixin,
    ArrayFunctionMixin,
    CastMixin,
    CompareMixin,
    DtypeMixin,
    EntriesMixin,
    ExportMixin,
    FactoryMixin,
    FilesMixin,
    FormsMixin,
    FromMixin,
    HtmlMixin,
    InteropMixin,
    LayoutMixin,
    MapMixin,
    MaskMixin,
    ModulesMixin,
    PadMixin,
    PickleMixin,
    PytreeMixin,
    ReductionMixin,
    ScanMixin,
    SchemaMixin,
    SharedMixin,
    StateDictMixin,
    SummaryMixin,
    TabularMixin,
    NamesMixin,
    UnsupportedMixin,
):
    """Base of `TensorDict` and `LazyStackedTensorDict`; see `TensorDict` for the idea and examples."""

    __slots__ = ()

    @classmethod
    def stack(cls, input: Iterable[Any], dim: int = 0, *, out: Any = None) -> Any:
        """Stack TensorDicts densely; see `lite.stack`."""
        from lite._combine import stack

        return stack(input, dim, out=out)

    @classmethod
    def cat(cls, input: Iterable[Any], dim: int = 0, *, out: Any = None) -> Any:
        """Concatenate TensorDicts; see `lite.cat`."""
        from lite._combine import cat

        return cat(input, dim, out=out)

    @classmethod
    def lazy_stack(cls, input: Iterable[Any], dim: int = 0, *, out: Any = None, **options: Any) -> Any:
        """Stack TensorDicts without copying; see `lite.lazy_stack`."""
        from lite._combine import lazy_stack

        return lazy_stack(input, dim, out=out, **options)

    @classmethod
    def maybe_dense_stack(cls, input: Iterable[Any], dim: int = 0, *, out: Any = None) -> Any:
        """Stack densely where possible, lazily elsewhere; see `lite.maybe_dense_stack`."""
        from lite._combine import maybe_dense_stack

        return maybe_dense_stack(input, dim, out=out)

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
