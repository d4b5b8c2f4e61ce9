"""The classes of arrays: of NumPy, of JAX, on a GPU, in a holder, and inside a transformation.

NumPy's masked arrays are refused, as leaves have no mask, and the mask would be lost in silence.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

# Of ndarrays and of HostArrays, which have their interface, as jax.Array is also the type of tracers.
Array: TypeAlias = NDArray[Any]
IntOrInts: TypeAlias = int | Sequence[int]
Axes: TypeAlias = IntOrInts | None  # None: all
DtypeLike: TypeAlias = DTypeLike | None
Function: TypeAlias = Callable[..., Any]  # of NumPy, or one that takes its place
Operand: TypeAlias = ArrayLike | None  # of a function of NumPy; None where it is left out
Shape: TypeAlias = tuple[int, ...]
Names: TypeAlias = list[str | None] | None
Path: TypeAlias = tuple[str, ...]
Size: TypeAlias = Sequence[int] | int | None  # a batch size as users give it
Device: TypeAlias = object  # by its name, or an object of another library; None: no device


class ArrayHolder:
    """A leaf that holds its array in `data` and computes like it, with plain arrays as results.

    A holder keeps its identity while its array changes, as a module's Parameter must. Plain TensorDicts have
    none, so loops test for the exact type of arrays first.
    """

    __slots__ = ()
    data: Any

    def __setitem__(self, index: Any, value: object) -> None:
        self.data[index] = raw(value)

    def computing(self) -> Array:
        """The array to compute with: `data`, or a traced array."""
        return self.data

    def accumulate_grad(self, gradient: Array) -> None:
        """Add to the gradient."""
        raise NotImplementedError

    def clear_grad(self, set_to_none: bool) -> None:
        """Remove the gradient, or set it to zeros."""
        raise NotImplementedError


class HostArray:
    """A leaf that implements NumPy's protocols without being an ndarray, such as the arrays inside `vmap`."""

    __slots__ = ()
    layered: ClassVar[bool] = True  # whether it wraps an array with more dimensions
    symbolic: ClassVar[bool] = False  # whether it has only a shape and a dtype, no values
    level: int  # the level of its transformation; inner ones have higher levels

    def __setitem__(self, index: Any, value: object) -> None:
        raise NotImplementedError

    def look_up(self, table: Array) -> Any:
        """`table[self]` for an ndarray `table`, whose own indexing would not call this class."""
        raise NotImplementedError

    def pick(self, table: Array, index: Any) -> Any:
        """`table[index]` with self in the index, where indexing by `table` would not call this class."""
        raise NotImplementedError

    def index_batch(self, td: Any, index: Any) -> Any:
        """`td[index]` for a TensorDict, with self in the index."""
        raise NotImplementedError

    def detach(self) -> Any:
        """The values without gradient."""
        return self

    def as_number(self) -> Any:
        """An array without dimensions as arrays beside it see a number of Python: they keep their dtype."""
        raise NotImplementedError

    def numpy(self) -> Array:
        """Raise TypeError, as it cannot be converted to a NumPy array."""
        return np.asarray(self)

    def elementwise(self, function: Function, *args: Any) -> Any:
        """An elementwise `function` of the wrapped array, or of the arrays wrapped in `args`.

        The function must broadcast its arguments.
        """
        raise NotImplementedError

    def __reduce__(self) -> Any:
        # Copied, as pickle protocol 5 keeps read-only arrays read-only.
        return np.asarray, (host_array(self).copy(),)


class Unbatched:
    """A leaf whose shape is independent of the batch size of its container."""

    __slots__ = ()


HOST_LEAVES = (np.ndarray, ArrayHolder, HostArray)


def raw(value: object) -> Any:
    """The array, also of a holder."""
    return value.data if isinstance(value, ArrayHolder) else value


def computed(value: object) -> Any:
    """The array to compute with: `computing` of a holder, else the value itself."""
    return value.computing() if isinstance(value, ArrayHolder) else value


def stored(value: object) -> Any:
    """The leaf without gradient: the array of a holder, the values of a traced result."""
    array = raw(value)
    return array.detach() if isinstance(array, HostArray) else array


def as_array(value: object) -> Array:
    """`numpy.asarray`, except that objects with NumPy's protocols stay unchanged."""
    return value if isinstance(value, HostArray) else np.asarray(value)  # type: ignore[return-value]


def without_number(value: Any) -> Any:
    """An array in place of a number, which NumPy's functions give of arrays without dimensions."""
    return np.copy(value) if isinstance(value, np.generic) or getattr(value, "is_number", False) else value


def has_namespace(value: object) -> bool:
    """True for an array, also a traced one, of a library with a namespace of functions (JAX).

    Such arrays have the array API's `__array_namespace__` and none of NumPy's protocols.
    """
    kind: Any = type(value)
    return kind is not np.ndarray and _is_namespaced(kind)


@functools.lru_cache(1024)
def _is_namespaced(kind: type) -> bool:
    return (
        hasattr(kind, "__array_namespace__")
        and not hasattr(kind, "__array_ufunc__")
        and not issubclass(kind, np.generic)
    )


def is_array(value: object) -> bool:
    """True for a leaf: an array of NumPy or JAX, a holder, or an array with the CUDA array interface."""
    return (
        isinstance(value, HOST_LEAVES)
        or has_namespace(value)
        or hasattr(value, "__cuda_array_interface__")
        or hasattr(type(value), "__cuda_ndarray__")  # Numba's simulator has no array interface
    )


def host_array(entry: Any, key: str | None = None) -> Array:
    """The NumPy array of a leaf, to write its bytes; the values of a traced result.

    Raises:
        TypeError: the leaf is on a device, or is inside a `vmap` or a graph that is being traced.
        NotImplementedError: the leaf is unbatched, which no format supports.
    """
    array = stored(entry)
    if has_namespace(array):
        return np.asarray(array)
    name = "an array" if key is None else f"the array at key {key!r}"
    if isinstance(array, Unbatched):
        raise NotImplementedError(
            f"UnbatchedTensor entries cannot be written to files, but {name} is one; leave it out first: "
            f"td.exclude({'key' if key is None else repr(key)})."
        )
    if isinstance(array, HostArray):
        kind = "a graph that is being traced" if array.symbolic else "a vmap"
        raise TypeError(f"{name} is inside {kind}, which must end before its values are known.")
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} is on a device; move it first: td.to('cpu').")
    return array


class MaskedArrayError(TypeError):
    """Raised when a masked array is stored or written; `path` is the path of its entry, as far as it is
    known.
    """

    def __init__(self, path: Path = ()) -> None:
        key = path[0] if len(path) == 1 else path
        what = f"the value of {key!r} is a masked array" if path else "the value is a masked array"
        super().__init__(
            f"{what}, whose mask would be lost; store its filled(...), and its mask as an entry of its own."
        )
        self.path = path

    def prefixed(self, key: str) -> MaskedArrayError:
        """The error with `key` in front of its path."""
        return MaskedArrayError((key, *self.path))


def is_symbolic(value: object) -> bool:
    """True for an array of a graph that is being traced, which has no numbers."""
    return isinstance(value, HostArray) and value.symbolic


def note_replaced(array: object, value: object) -> None:
    """Tell the graph of `value` that a container takes it in the place of an ndarray."""
    symbol: Any = stored(value)
    if is_symbolic(symbol) and type(array) is np.ndarray:
        symbol.graph.note_replaced(array)


def is_interpreted(value: object) -> bool:
    """True for an array of `vmap`, `grad` or a graph, for which NumPy's functions are run by rules."""
    return isinstance(value, HostArray)


def refuse_masked(value: object) -> None:
    """Raise TypeError for a masked array, of numbers or of objects."""
    masked = sys.modules.get("numpy.ma")  # imported by NumPy for the first masked array
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise MaskedArrayError()
