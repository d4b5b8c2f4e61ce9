"""`TensorDictBase`: the union of the mixins, and what does not depend on the kind of container."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from lite._convert.from_python import FromMixin
from lite._convert.pytree import PytreeMixin
from lite._convert.state_dict import StateDictMixin
from lite._convert.tables import TabularMixin
from lite._convert.to_python import ExportMixin
from lite._convert.torch import InteropMixin
from lite._files.mixin import FilesMixin
from lite._modules import ModulesMixin
from lite._ops.adopt import AdoptMixin
from lite._ops.apply import ApplyMixin
from lite._ops.arithmetic import ArithmeticMixin
from lite._ops.cast import CastMixin, DtypeMixin
from lite._ops.choose import MaskMixin
from lite._ops.compare import CompareMixin
from lite._ops.create import FactoryMixin
from lite._ops.entries import EntriesMixin
from lite._ops.forms import FormsMixin
from lite._ops.layout import LayoutMixin
from lite._ops.padding import PadMixin
from lite._ops.reductions import ReductionMixin
from lite._ops.scans import ScanMixin
from lite._ops.schema import SchemaMixin
from lite._processes.map import MapMixin
from lite._processes.pickling import PickleMixin
from lite._processes.shared import SharedMixin
from lite._show.html import HtmlMixin
from lite._show.summary import SummaryMixin
from lite._show.text import ReprMixin
from lite._tree.names import NamesMixin
from lite._tree.numpy_protocol import ArrayFunctionMixin
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
        from lite._ops.combine import stack

        return stack(input, dim, out=out)

    @classmethod
    def cat(cls, input: Iterable[Any], dim: int = 0, *, out: Any = None) -> Any:
        """Concatenate TensorDicts; see `lite.cat`."""
        from lite._ops.combine import cat

        return cat(input, dim, out=out)

    @classmethod
    def lazy_stack(cls, input: Iterable[Any], dim: int = 0, *, out: Any = None, **options: Any) -> Any:
        """Stack TensorDicts without copying; see `lite.lazy_stack`."""
        from lite._ops.combine import lazy_stack

        return lazy_stack(input, dim, out=out, **options)

    @classmethod
    def maybe_dense_stack(cls, input: Iterable[Any], dim: int = 0, *, out: Any = None) -> Any:
        """Stack densely where possible, lazily elsewhere; see `lite.maybe_dense_stack`."""
        from lite._ops.combine import maybe_dense_stack

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
