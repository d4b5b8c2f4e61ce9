"""NumPy functions on arrays with a namespace of their own, also traced ones: JAX.

Containers hold such leaves unchanged, as they hold those in GPU memory (`device.py`). To call a function
written for NumPy arrays, a leaf is wrapped in a `NamespaceArray`: NumPy's protocols redirect each call to the
function of the same name in the array's namespace (`jax.numpy`). So formulas, batch operations and layers are
written once, in NumPy's functions, and JAX can trace, differentiate and compile them. No library is imported
here, as an array names its namespace.
"""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import ArrayLike

from lite._arrays.methods import ArrayMethods
from lite._arrays.types import Array, ArrayHolder, DtypeLike, Function, HostArray, Shape, has_namespace

_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
# Formulas that branch on values, which traced arrays lack, and the functions of JAX that replace them.
_SPECIAL = {"erf": "erf", "erfc": "erfc", "log_gamma": "gammaln"}
# Functions that write into their first argument.
_WRITERS = frozenset({np.copyto, np.put, np.putmask, np.place, np.fill_diagonal, np.put_along_axis})


class _Flags(NamedTuple):
    c_contiguous: bool = True
    writeable: bool = False


def as_constant(array: Any) -> Any:
    """An array of another library as a constant of the derivatives that its library takes."""
    library = sys.modules.get(array.__array_namespace__().__name__.partition(".")[0])
    lax = getattr(library, "lax", None)  # JAX; other libraries have no derivatives of functions
    return array if lax is None else lax.stop_gradient(array)


class NamespaceArray(ArrayMethods, NDArrayOperatorsMixin, HostArray):
    """An array of another library with the methods of a NumPy array.

    A write in place creates a new array, which this object then holds. The original array and views of it do
    not change.

    Args:
        leaf: an array that has `__array_namespace__`.
    """

    __slots__ = ("leaf",)
    __array_priority__ = 2000  # so that operators of arrays on the left defer to this one
    __hash__ = object.__hash__
    layered = False
    level = -2  # not inside a transformation

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    @property
    def _namespace(self) -> Any:
        try:
            return self.leaf.__array_namespace__()
        except NotImplementedError:  # JAX's arrays of random keys have such a dtype
            return sys.modules[f"{type(self.leaf).__module__.partition('.')[0]}.numpy"]

    @property
    def shape(self) -> Shape:
        """The size of each dimension."""
        return tuple(self.leaf.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Dtype of the elements."""
        return self.leaf.dtype

    @property
    def flags(self) -> _Flags:
        """Flags of a contiguous, read-only array."""
        return _Flags()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(map(_is_foreign, inputs)):
            return NotImplemented
        out = kwargs.pop("out", None)
        found = _named(self._namespace, "", ufunc.__name__)
        if method != "__call__":
            found = _method(found, method)
        dtype = kwargs.pop("dtype", None) if method == "__call__" else None
        result = self._computed(found, inputs, kwargs)
        if dtype is not None:
            result = result.astype(dtype)
        return result if out is None else _store_out(out, result)

    def __array_function__(self, func: Function, types: Any, args: Any, kwargs: Any) -> Any:
        if any(hasattr(kind, "_as_node") for kind in types):  # a TensorDict
            return NotImplemented
        if func in _WRITERS:
            raise self._no_function(f"{func.__name__} into an array")
        out = kwargs.pop("out", None)
        found = _named(self._namespace, func.__module__, func.__name__)
        result = self._computed(found, args, kwargs)
        return result if out is None else _store_out(out if isinstance(out, tuple) else (out,), result)

    def _computed(self, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        return _wrap_results(function(*self._to_namespace(args), **self._to_namespace(kwargs)))

    def _to_namespace(self, value: Any) -> Any:
        """Convert arguments for the namespace: wrapped arrays to its own, and dtypes to those that it has."""
        if isinstance(value, NamespaceArray):
            return value.leaf
        if isinstance(value, ArrayHolder):
            return self._to_namespace(value.data)
        if isinstance(value, tuple | list):
            return type(value)(map(self._to_namespace, value)) if type(value) in (tuple, list) else value
        if isinstance(value, dict):
            return {key: self._to_namespace(item) for key, item in value.items()}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return self._supported_dtype(value)
        return value

    def _supported_dtype(self, dtype: DtypeLike) -> np.dtype[Any]:
        """A dtype, or the one of half its width if the namespace lacks it, as JAX may lack 64 bits."""
        dtype = np.dtype(dtype)
        narrow = _NARROW.get(dtype.name)
        if narrow is None or dtype.name in self._namespace.__array_namespace_info__().dtypes():
            return dtype
        return np.dtype(narrow)

    def _no_function(self, what: str) -> TypeError:
        return TypeError(
            f"{what} is not available for a {type(self.leaf).__name__}, which is never written to. Compute a "
            "new array, or convert it: np.asarray(array), td.to('cpu')."
        )

    # -- elements and views ---------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        return _wrap_results(self.leaf[self._to_namespace(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        """Replace the held array by a copy with `value` at `index`."""
        at = getattr(self.leaf, "at", None)
        if at is None:
            raise self._no_function("an assignment")
        self.leaf = at[self._to_namespace(index)].set(self._own(value))

    def _own(self, value: Any) -> Any:
        """A value converted to an array of the same library and dtype."""
        array = self._namespace.asarray(self._to_namespace(value))
        same = array.dtype == self.leaf.dtype  # random keys have no astype
        return array if same else array.astype(self.leaf.dtype)

    def look_up(self, table: ArrayLike) -> Any:
        """`table[self]` for an ndarray `table`."""
        return _wrap_results(self._namespace.asarray(self._to_namespace(table))[self.leaf])

    def elementwise(self, function: Callable[..., Any], *args: Any) -> NamespaceArray:
        """`function` of every element, computed by its replacement in JAX."""
        name = _SPECIAL.get(function.__name__)
        library = self._namespace.__name__.partition(".")[0]
        if name is None or library not in sys.modules:
            raise self._no_function(function.__name__)
        special = importlib.import_module(f"{library}.scipy.special")
        return NamespaceArray(getattr(special, name)(self.leaf))

    # -- copies ---------------------------------------------------------------------------------------

    def detach(self) -> NamespaceArray:
        """The values as a constant of any derivative."""
        return NamespaceArray(as_constant(self.leaf))

    def copy(self, order: str = "C") -> NamespaceArray:
        """A copy of the elements."""
        return NamespaceArray(self._namespace.copy(self.leaf))

    def astype(self, dtype: DtypeLike, *args: Any, **kwargs: Any) -> NamespaceArray:
        """Cast to another dtype; self if it has the dtype. NumPy's further arguments are ignored."""
        known = self._supported_dtype(dtype)
        return self if known == self.leaf.dtype else NamespaceArray(self.leaf.astype(known))

    def view(self, dtype: DtypeLike) -> NamespaceArray:
        """The bytes as another dtype."""
        return NamespaceArray(self.leaf.view(dtype))

    def filled_with(self, array: Array) -> NamespaceArray:
        """An array of the same library with the content of a host array."""
        return NamespaceArray(self._namespace.asarray(array, dtype=self._supported_dtype(array.dtype)))

    def __array__(self, dtype: DtypeLike = None, copy: bool | None = None) -> Any:
        # JAX raises if the array is traced.
        return np.asarray(self.leaf, dtype=dtype)

    def __jax_array__(self) -> Any:
        return self.leaf

    def item(self, *args: Any) -> Any:
        """The one element as a Python number."""
        return self.leaf.item(*args)

    def tolist(self) -> Any:
        """Nested lists of the elements."""
        return self.leaf.tolist()

    def __bool__(self) -> bool:
        return bool(self.leaf)

    def __int__(self) -> int:
        return int(self.leaf)

    def __float__(self) -> float:
        return float(self.leaf)

    def __complex__(self) -> complex:
        return complex(self.leaf)

    def __index__(self) -> int:
        return operator.index(self.leaf)

    def __repr__(self) -> str:
        return f"NamespaceArray({self.leaf!r})"


def known(leaf: Any) -> Array | None:
    """An array converted to NumPy; None if it is traced, and so has no values."""
    try:
        return np.asarray(leaf)
    except TypeError:
        return None


def _is_foreign(value: Any) -> bool:
    """Whether an argument handles ufuncs itself: a TensorDict, a Parameter, an array inside vmap."""
    return hasattr(type(value), "__array_ufunc__") and not isinstance(
        value, NamespaceArray | np.ndarray | np.generic
    )


def _wrap_results(value: Any) -> Any:
    """Wrap the results of a function of the namespace."""
    if has_namespace(value):
        return NamespaceArray(value)
    if isinstance(value, tuple | list):
        items = map(_wrap_results, value)
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _named(namespace: Any, module: str, name: str) -> Function:
    """The function of a namespace with the name of a NumPy function of `module`, such as "numpy.linalg"."""
    found = namespace
    for part in (*module.split(".")[1:], name):
        found = getattr(found, part, None)
    if found is None:
        raise TypeError(f"{namespace.__name__} has no {name}; convert the array first, by np.asarray.")
    return found


def _method(function: Function, method: str) -> Function:
    found = getattr(function, method, None)
    if found is None:
        raise TypeError(f"{function.__name__} has no {method} for arrays that are not NumPy's; convert them.")
    return found


def _store_out(out: tuple[Any, ...], result: Any) -> Any:
    """Store the result of a call with `out` in that object, as in-place operators need."""
    results = result if isinstance(result, tuple) else (result,)
    for target, array in zip(out, results, strict=True):
        if target is None:
            continue
        if not isinstance(target, NamespaceArray):
            kinds = type(array.leaf).__name__, type(target).__name__
            raise TypeError("a {} cannot be written into a {}.".format(*kinds))
        if array.shape != target.shape:
            raise ValueError(f"a result of shape {array.shape} does not fit into the shape {target.shape}.")
        target.leaf = array.leaf.astype(target.leaf.dtype)
    return out[0] if len(out) == 1 and out[0] is not None else result
