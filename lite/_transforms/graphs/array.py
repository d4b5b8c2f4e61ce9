"""The arrays that a traced function sees: a shape, a dtype, and the name of a value in the graph."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn

import numpy as np

from lite._arrays.types import Array, DtypeLike, Shape
from lite._transforms.arrays import NumberlessArray, Rules, use_in_brackets

rules = Rules()

ORDERING = ("ArgMax", "ArgMin", "TopK")
_LACKING = {
    **dict.fromkeys(ORDERING, "b1 i2 u2 u4 u8"),
    **dict.fromkeys(("CumSum", "Einsum", "Trilu"), "b1 i1 u1 i2 u2 u4 u8"),
    "MatMul": "b1 i1 u1 i2 u2",
    "Pad": "i2 u2",
    "Where": "i2 u2 u8",
}
WIDENED = {op: tuple(map(np.dtype, names.split())) for op, names in _LACKING.items()}
"""Integers that an operator takes as int64, as onnxruntime 1.31 has no kernel for them."""


class GraphArray(NumberlessArray):
    """An array of which only shape and dtype are known; NumPy's functions of it write nodes of a graph.

    Writing in place gives it the name of another value. What NumPy would make a view knows what it is a view
    of: a write into a part that was indexed reaches the whole, and one that the views of an array would have
    to see makes them stale, which to use is an error.

    Args:
        graph: the graph that gets the nodes.
        name: name of the value.
        shape: sizes; a `Size` for a dynamic dimension.
        dtype: dtype of the elements.
        base: the array that this one is a view of.
        index: where in `base`, if it was indexed.

    Attributes:
        weak: whether it stands for a number of Python, so that arrays beside it keep their dtype.
    """

    __slots__ = (
        "__weakref__", "_dtype", "_name", "_shape", "_stale", "base", "graph", "index", "views", "weak",
    )  # fmt: skip
    __array_priority__ = 3000
    rules = rules
    layered: ClassVar[bool] = False
    symbolic: ClassVar[bool] = True

    def __init__(
        self, graph: Any, name: str, shape: Shape, dtype: np.dtype[Any], base: GraphArray | None = None,
        index: Any = None,
    ) -> None:  # fmt: skip
        self.graph = graph
        self._name = name
        self._shape = shape
        self._dtype = dtype
        self._stale = False
        self.base = base
        self.index = index
        self.weak = self.is_number = False
        self.views: list[weakref.ref[GraphArray]] = []
        if graph.track is not None:
            graph.track.append(weakref.ref(self))
        if base is not None:
            base.views.append(weakref.ref(self))

    @property
    def name(self) -> str:
        """Name of the value that it has now."""
        if self._stale:
            self._fail(
                "uses a view of an array that was written since, which would have to have changed with it: "
                "write x = x + y instead of x += y"
            )
        return self._name

    @property
    def shape(self) -> Shape:
        """The sizes, dynamic ones as `Size`."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self._dtype

    def replace(self, value: GraphArray) -> None:
        """Replace the value in place."""
        name = value.name
        if self.base is not None:
            if self.index is None:
                self._fail("writes into a view that is another shape or order of an array: write a new array")
            rules.set_index(self.base, self.index, GraphArray(self.graph, name, self._shape, self._dtype))
            self.base.views.append(weakref.ref(self))  # all are stale now, but for this one
        self._name, self._stale = name, False
        self._outdate()

    def _outdate(self) -> None:
        """Make all views of this array stale."""
        for reference in self.views:
            view = reference()
            if view is not None:
                view._stale = True
                view._outdate()
        self.views.clear()

    @property
    def level(self) -> int:  # type: ignore[override]
        """The number of the trace among all transformations."""
        return self.graph.level

    def __iter__(self) -> Iterator[Any]:
        count = int(self._shape[0]) if self._shape else len(self)
        if self.graph.size(self._shape[0]) is not None:
            self.graph.fail("walks over a dimension of dynamic size in Python")
        return iter([self[i] for i in range(count)])

    def _fail(self, what: str, error: type[Exception] = NotImplementedError) -> NoReturn:
        self.graph.fail(what, error)
        raise AssertionError

    def __array__(self, dtype: DtypeLike = None, copy: bool | None = None) -> NoReturn:
        use = use_in_brackets()
        if use == "write":
            self._refuse_write()
        if use == "read":
            self._fail(
                "reads an ndarray at computed places: write np.asarray(table, like=i)[i], or make the table "
                "an argument or a buffer of the module"
            )
        self._fail(
            "makes an ndarray of an array that has no numbers yet: use functions that NumPy dispatches, such "
            "as np.stack or np.array([...], like=x) for np.array, instead of those of other libraries; what "
            "lite.kernels computes, such as advantages, is an argument of the step"
        )

    def _refuse_write(self) -> NoReturn:
        self._fail(
            "writes into an ndarray what has no numbers yet: make it with np.zeros(..., like=x), or with "
            "np.zeros_like(x)"
        )

    def _refuse(self, what: str) -> NoReturn:
        if use_in_brackets(3) == "write":  # of a single number
            self._refuse_write()
        way_out = _WAYS_OUT.get(what, "return the array, whose numbers a call gives")
        self._fail(f"{what} the numbers in an array, which a graph does not know: {way_out}", RuntimeError)

    def backward(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises RuntimeError: what has a derivative is an array of `grad`, whatever computes below."""
        self._fail(
            "calls backward() of an array that has no gradient: compute it inside "
            "`with lite.enable_grad():`, from parameters that require gradients",
            RuntimeError,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphArray:
        return self

    def as_number(self) -> GraphArray:
        """The number of an array of one element, as a float of Python."""
        number: Any = self.astype(np.float64).reshape(())
        number.weak = number.is_number = True
        return number

    def elementwise(self, function: Callable[..., Any], *args: Any) -> GraphArray:
        """A function of lite, such as `erf`, that has an operator."""
        return rules.elementwise(self, function, *args)

    def astype(
        self,
        dtype: DtypeLike,
        order: str = "K",
        casting: str = "unsafe",
        subok: bool = True,
        copy: bool = True,
    ) -> GraphArray:
        """Elements in another dtype; self if that is what they have and `copy` is false."""
        if np.dtype(dtype) == self._dtype:
            return self.copy() if copy else self
        return number_of(rules.cast(self, np.dtype(dtype)), self.is_number)

    def view(self, *args: Any) -> NoReturn:
        """Refused: a graph has no memory to see as another dtype."""
        self._fail("sees memory as another dtype (view)")

    def look_up(self, table: Array) -> Any:
        """`table[self]`."""
        return rules.get_index(self.graph.operand(table), self)

    def pick(self, table: Array, index: Any) -> Any:
        """`table[index]`, where this array is in the index."""
        return rules.get_index(self.graph.operand(table), index)

    def index_batch(self, td: Any, index: Any) -> Any:
        """`td[index]` for a TensorDict and an index that this array is in."""
        return rules.index_batch(td, index)

    @property
    def flags(self) -> Any:
        """The flags of a C-contiguous array that owns its memory."""
        return _FLAGS

    def copy(self, order: str = "C") -> GraphArray:
        """The value as a new array, no view."""
        return number_of(GraphArray(self.graph, self.name, self._shape, self._dtype), self.is_number)

    def __repr__(self) -> str:
        return f"GraphArray({self.name!r}, shape={tuple(map(int, self._shape))}, dtype={self._dtype})"


def number_of(value: Any, is_number: bool = True) -> Any:
    """A result of NumPy's functions: a number if it has no dimensions, unless the function says no."""
    if type(value) is not GraphArray or value.ndim or value.is_number == is_number:
        return value
    number = GraphArray(value.graph, value.name, (), value.dtype)
    number.weak, number.is_number = value.weak, is_number
    return number


_FLAGS = np.empty((2, 2)).flags
_WAYS_OUT = {
    "branches on": "use np.where instead of a branch",
    "indexes, or counts, with": "np.take(x, i + np.arange(n), axis) takes n elements from number i on",
}
