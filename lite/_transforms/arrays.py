"""The base of the interpreters' arrays: ndarray's interface, computed by rules."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from lite._arrays.methods import ArrayMethods
from lite._arrays.types import ArrayHolder, Function, HostArray, is_symbolic
from lite._transforms.levels import innermost
from lite._transforms.registry import parameters
from lite._tree.collection import TensorCollection


class Rules:
    """The functions behind the arrays of an interpreter. They need the class, so `dispatch` sets them."""

    __slots__ = (
        *("backward", "binary", "cast", "elementwise", "function", "get_index", "index_batch"),
        *("refresh_view", "same", "set_index", "ufunc"),
    )
    backward: Callable[..., None]
    binary: Callable[..., Any]
    cast: Callable[..., Any]
    elementwise: Callable[..., Any]
    function: Callable[..., Any]
    get_index: Callable[..., Any]
    index_batch: Callable[..., Any]
    refresh_view: Callable[..., None]
    same: Callable[..., Any]
    set_index: Callable[..., None]
    ufunc: Callable[..., Any]


# NumPy takes axes 0 and -1 of an array without dimensions for all of it in these functions.
_FLATTEN: frozenset[Any] = frozenset(
    (np.all, np.any, np.argmax, np.argmin, np.argsort, np.count_nonzero, np.cumprod, np.cumsum, np.max)
    + (np.min, np.nancumsum, np.nansum, np.prod, np.ptp, np.repeat, np.squeeze, np.sum, np.take)
)


def _of_all(func: Function, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Arguments with None in place of an axis of an array without dimensions."""
    at = parameters(func).index("axis")
    if len(args) > at and args[at] in (0, -1):
        return (*args[:at], None, *args[at + 1 :]), kwargs
    return args, kwargs if kwargs.get("axis") not in (0, -1) else {**kwargs, "axis": None}


# They have no argument that is an array of an interpreter, but for `like`.
_CREATING: frozenset[Any] = frozenset(
    (np.arange, np.array, np.asanyarray, np.asarray, np.empty, np.eye, np.full, np.identity, np.ones, np.tri)
    + (np.zeros,)
)


def _joined(items: Any) -> Any:
    """Nested lists with arrays of an interpreter in them as one array."""
    return np.stack(list(map(_joined, items))) if isinstance(items, list | tuple) else items


class InterpretedArray(ArrayMethods, NDArrayOperatorsMixin, HostArray):
    """An array of an interpreter. It handles a call unless an array of a later transformation takes part."""

    __slots__ = ()
    __hash__ = object.__hash__
    rules: ClassVar[Rules]
    # False: a holder among the arguments handles the call first, which gives the array that it computes with.
    _takes_holders: ClassVar[bool] = True

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        own = type(self)
        for item in inputs:
            kind = type(item)
            if kind is own or kind is np.ndarray:
                continue
            if isinstance(item, TensorCollection):
                return NotImplemented
            if isinstance(item, HostArray | ArrayHolder) and type(innermost((inputs, kwargs))) is not own:
                return NotImplemented
            if isinstance(item, ArrayHolder) and not own._takes_holders:
                return NotImplemented
        return self.rules.ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Function, types: Any, args: Any, kwargs: Any) -> Any:
        own = type(self)
        for kind in types:
            if kind is own or kind is np.ndarray:
                continue
            if issubclass(kind, TensorCollection):
                return NotImplemented
            if issubclass(kind, HostArray | ArrayHolder) and type(innermost((args, kwargs))) is not own:
                return NotImplemented
            if issubclass(kind, ArrayHolder) and not own._takes_holders:
                return NotImplemented
        if func in _CREATING:
            return self._made(func, args, kwargs)
        if func in _FLATTEN and args and not getattr(args[0], "ndim", 1):
            args, kwargs = _of_all(func, args, kwargs)
        return self.rules.function(func, args, kwargs)

    def _made(self, func: Function, args: Any, kwargs: Any) -> Any:
        """A new array that this one computes with, as `func(..., like=self)` gives it."""
        inner = innermost((args, kwargs))
        if inner is None:
            value = func(*args, **kwargs)
        else:
            value = _joined(args[0])
            dtype = kwargs.get("dtype", args[1] if len(args) > 1 else None)
            value = value.astype(value.dtype if dtype is None else dtype)
            if inner.level >= self.level:
                return value
        out = np.empty_like(self, value.dtype, shape=value.shape)
        out[...] = value
        return out

    def __len__(self) -> int:
        """The first size; a graph whose sizes change is told, as it is a plain number."""
        length = super().__len__()
        inner: Any = self
        while isinstance(inner, InterpretedArray) and not inner.symbolic:
            inner = getattr(inner, "value", None)
        if is_symbolic(inner):
            inner.graph.note_length(length)
        return length

    def __getitem__(self, index: Any) -> Any:
        return self.rules.get_index(self, index)

    def __setitem__(self, index: Any, value: object) -> None:
        self.rules.set_index(self, index, value)

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.copy()

    def copy(self, order: str = "C") -> Any:
        """A copy of the elements."""
        raise NotImplementedError

    def __contains__(self, item: Any) -> bool:
        return bool((self == item).any())


def use_in_brackets(depth: int = 2) -> str:
    """Whether an ndarray's brackets call a method of this class: "write", "read", or nothing if not.

    Args:
        depth: how many functions are between.
    """
    frame = sys._getframe(depth)
    at = frame.f_lasti
    operation, argument = frame.f_code.co_code[at : at + 2]
    name = dis.opname[operation]
    if name == "STORE_SUBSCR":
        return "write"
    # From Python 3.14 on, brackets are the binary operator NB_SUBSCR.
    return "read" if name == "BINARY_SUBSCR" or (name == "BINARY_OP" and argument == 26) else ""


# What these give without dimensions is an array in NumPy; all other functions give a number.
GIVING_ARRAYS: frozenset[Any] = _CREATING | frozenset(
    (np.broadcast_to, np.copy, np.cov, np.cross, np.empty_like, np.full_like, np.ones_like, np.piecewise)
    + (np.reshape, np.select, np.squeeze, np.tensordot, np.transpose, np.where, np.zeros_like)
)


class NumberlessArray(InterpretedArray):
    """An array that has no numbers to give: what asks for one raises RuntimeError.

    Attributes:
        is_number: whether NumPy or Python would have a number in its place, which `a += b` does not write to.
    """

    __slots__ = ("is_number",)

    def _refuse(self, what: str) -> NoReturn:
        """Raise the error of a function that does `what` an array."""
        raise NotImplementedError

    def __bool__(self) -> bool:
        self._refuse("branches on")

    def __int__(self) -> int:
        self._refuse("takes an int of")

    def __float__(self) -> float:
        self._refuse("takes a float of")

    def __complex__(self) -> complex:
        self._refuse("takes a complex number of")

    def __index__(self) -> int:
        self._refuse("indexes, or counts, with")

    def item(self, *args: Any) -> NoReturn:
        """Raises RuntimeError: there is no single number."""
        self._refuse("takes an item of")

    def tolist(self) -> NoReturn:
        """Raises RuntimeError: there are no single numbers."""
        self._refuse("makes a list of")


def _in_place(operator: Any) -> Any:
    """An operator such as `+=`, for which Python computes `a + b` where there is a number."""
    return lambda self, other: NotImplemented if self.is_number else operator(self, other)


for _name in ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"):
    setattr(NumberlessArray, f"__i{_name}__", _in_place(getattr(NDArrayOperatorsMixin, f"__i{_name}__")))
