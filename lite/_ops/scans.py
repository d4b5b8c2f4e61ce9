"""Functions along one batch dimension that keep its size: cumulative ones, sorting, softmax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays import formulas
from lite._arrays.device import unwrap
from lite._arrays.dtypes import as_dtype
from lite._arrays.reductions import Axis
from lite._arrays.types import Array, as_array
from lite._ops.reduce import Extremes, Scope, batch_dim, joined, reduced
from lite._tree.methods import AnyMethod, described
from lite._tree.numpy_protocol import implements, implements_with
from lite._tree.protocol import Container
from lite._tree.walks import map_kept


def _along(
    td: Container, name: str, dim: int, fn: Callable[[Array, int], Any], reduce: bool | None = None
) -> Any:
    """`fn(array, axis)` for every array, or for all arrays joined."""
    d = batch_dim(td, dim)
    if reduce:
        return unwrap(as_array(fn(joined(td, name, (d,)), d)))

    def call(array: Array, axis: Axis, keepdims: bool) -> Any:
        return fn(array, d)

    # With "keepdim" batch size and names stay the same; only the function gets the dimension.
    return reduced(td, name, call, _Kept((d,), keepdim=True))


class _Kept(Scope):
    """A scope in which every dimension keeps its size."""

    __slots__ = ()

    def size(self, size: tuple[int, ...]) -> tuple[int, ...]:
        return size


def _running(ufunc: np.ufunc, dtype: np.dtype[Any] | None = None) -> Callable[[Array, int], Any]:
    def call(array: Array, axis: int) -> Any:
        small = dtype is None and array.dtype.kind in "biu" and array.dtype.newbyteorder("=") != np.uint64
        return ufunc.accumulate(array, axis, dtype=np.int64 if small else dtype)

    return call


def _where_best(ufunc: np.ufunc) -> Callable[[Array, int], Any]:
    def call(array: Array, axis: int) -> Any:
        """Position of the value so far, the latest of equal ones."""
        best = ufunc.accumulate(array, axis)
        hit = array == best
        if array.dtype.kind in "fcV":
            hit |= np.isnan(array)
        steps = np.arange(array.shape[axis]).reshape((-1,) + (1,) * (array.ndim - axis - 1))
        return np.maximum.accumulate(np.where(hit, steps, 0), axis)

    return call


def _cumulative(name: str, ufunc: np.ufunc, what: str) -> AnyMethod:
    def method(self: Any, dim: int, *, dtype: DTypeLike | None = None) -> Any:
        return _along(self, name, dim, _running(ufunc, None if dtype is None else as_dtype(dtype)))

    return described(method, name, f"{what} along batch dimension `dim`, in `dtype` if given.")


def _cumulative_extremes(name: str, ufunc: np.ufunc, what: str) -> AnyMethod:
    values, indices = ufunc.accumulate, _where_best(ufunc)

    def method(self: Any, dim: int, *, reduce: bool | None = None, return_indices: bool = True) -> Any:
        found = _along(self, name, dim, values, reduce)
        return Extremes(found, _along(self, name, dim, indices, reduce)) if return_indices else found

    doc = f"{what} so far along batch dimension `dim`.\n{_CUMULATIVE}"
    return described(method, name, doc)


_CUMULATIVE = """
        Args:
            dim: the batch dimension.
            reduce: join the arrays of all entries along it first, and return arrays.
            return_indices: return `(values, indices)`, not only the values; of equal values the
                latest counts.

        Raises:
            IndexError: `dim` is not a batch dimension.
            RuntimeError: entries of a lazy stack are ragged.
        """


_METHODS = {
    "cumsum": _cumulative("cumsum", np.add, "Running sum"),
    "cumprod": _cumulative("cumprod", np.multiply, "Running product"),
    "cummax": _cumulative_extremes("cummax", np.maximum, "Largest value"),
    "cummin": _cumulative_extremes("cummin", np.minimum, "Smallest value"),
}


def _numpy_form(name: str) -> Callable[..., Any]:
    """`np.cumsum(td, axis, dtype)`; without an axis, of the flattened batch."""

    def call(a: Any, axis: int | None = None, dtype: DTypeLike | None = None) -> Any:
        flat, along = (a.flatten(), 0) if axis is None else (a, axis)
        return getattr(flat, name)(along, dtype=dtype)

    return call


implements(np.cumsum)(_numpy_form("cumsum"))
implements(np.cumprod)(_numpy_form("cumprod"))
implements_with(np.nan_to_num, "nan_to_num")


def scan(name: str) -> AnyMethod:
    """The method of a cumulative function along a batch dimension.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.array([2, 1, 3])}, batch_size=[3])
        >>> td.cumsum(0)["a"], td.cummax(0).values["a"], td.sort(0).indices["a"]
        (array([2, 3, 6]), array([2, 2, 3]), array([1, 0, 2]))
    """
    return _METHODS[name]


def sort(td: Container, dim: int = -1, descending: bool = False, stable: bool = True) -> Extremes:
    """Sort every array along a batch dimension.

    Args:
        dim: the batch dimension.
        descending: largest values first.
        stable: keep the order of equal values.

    Returns:
        `(values, indices)`; NaN counts as the largest value.

    Raises:
        IndexError: `dim` is not a batch dimension.
        RuntimeError: entries of a lazy stack are ragged.
    """
    indices = td.argsort(dim, descending, stable)

    def ordered(array: Array, axis: int) -> Any:
        return np.take_along_axis(array, _order(array, axis, descending, stable), axis)

    return Extremes(_along(td, "sort", dim, ordered), indices)


def argsort(td: Container, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """The indices that sort every array along a batch dimension; see `sort`."""
    return _along(td, "argsort", dim, lambda array, axis: _order(array, axis, descending, stable))


def softmax(td: Container, dim: int, dtype: DTypeLike | None = None) -> Any:
    """Softmax of every array along a batch dimension.

    Args:
        dim: the batch dimension.
        dtype: dtype of the computation and of the result; float64 for integers unless given.

    Raises:
        IndexError: `dim` is not a batch dimension.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict({"a": np.zeros(4)}, batch_size=[4]).softmax(0)["a"]
        array([0.25, 0.25, 0.25, 0.25])
    """
    wanted = None if dtype is None else as_dtype(dtype)

    def call(array: Array, axis: int) -> Any:
        return formulas.softmax(array if wanted is None else array.astype(wanted), axis)

    return _along(td, "softmax", dim, call)


def nan_to_num(
    td: Container, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Any:
    """Replace NaN and infinities in every array; see `numpy.nan_to_num`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict(a=np.array([np.nan, 1.0])).nan_to_num()["a"]
        array([0., 1.])
    """
    return map_kept(td, lambda leaf: as_array(np.nan_to_num(leaf, nan=nan, posinf=posinf, neginf=neginf)))


def _order(array: Array, axis: int, descending: bool, stable: bool) -> Array:
    if not descending:
        return np.argsort(array, axis, stable=stable)
    # Sorting the reversed array and reversing again keeps the order of equal values.
    order = np.argsort(np.flip(array, axis), axis, stable=stable)
    return np.flip(array.shape[axis] - 1 - order, axis)


@implements(np.sort)
def _numpy_sort(a: Container, axis: int | None = -1, kind: object = None, *, stable: object = None) -> Any:
    return sort(a.flatten(), 0).values if axis is None else sort(a, axis).values


@implements(np.argsort)
def _numpy_argsort(a: Container, axis: int | None = -1, kind: object = None, *, stable: object = None) -> Any:
    return argsort(a.flatten(), 0) if axis is None else argsort(a, axis)
