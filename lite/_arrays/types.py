"""What an array is here: NumPy's, JAX's, one on a GPU, one behind a holder, one that an interpreter made.

NumPy's masked arrays are none: leaves have no mask, so that one would be lost without a word.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Shape: TypeAlias = tuple[int, ...]
Names: TypeAlias = list[str | None] | None
Path: TypeAlias = tuple[str, ...]


class ArrayHolder:
    """A leaf that holds its array in `data` and computes like it, with plain arrays as results.

    A holder keeps its identity while its array changes, which is what a module's parameter needs. No
    entry of a plain TensorDict is one, so loops ask for arrays by exact type first and never look here.
    """

    __slots__ = ()
    data: Any

    def __setitem__(self, index: Any, value: Any) -> None:
        self.data[index] = raw(value)

    def computing(self) -> Any:
        """The array to compute with: that in `data`, or one that remembers what is computed from it."""
        return self.data

    def accumulate_grad(self, gradient: Any) -> None:
        """Add to the derivative by what it holds."""
        raise NotImplementedError

    def clear_grad(self, set_to_none: bool) -> None:
        """Forget the derivative by what it holds, or set it to zeros."""
        raise NotImplementedError


class HostArray:
    """A leaf that is no ndarray but answers NumPy's protocols as one, such as the arrays inside `vmap`."""

    __slots__ = ()
    layered: ClassVar[bool] = True  # whether there is an array behind it that has more dimensions
    symbolic: ClassVar[bool] = False  # whether it has no numbers, only a shape and a dtype
    level: int  # the number of the transformation that it belongs to; inner ones have higher numbers

    def __setitem__(self, index: Any, value: Any) -> None:
        raise NotImplementedError

    def look_up(self, table: Any) -> Any:
        """`table[self]`, of an ndarray, which would not notice."""
        raise NotImplementedError

    def pick(self, table: Any, index: Any) -> Any:
        """`table[index]`, of an array that would not notice that this one is in the index."""
        raise NotImplementedError

    def index_batch(self, td: Any, index: Any) -> Any:
        """`td[index]` for a TensorDict and an index that this array is in."""
        raise NotImplementedError

    def detach(self) -> Any:
        """The same numbers without a derivative."""
        return self

    def numpy(self) -> Any:
        """Raises TypeError, as what has no numbers of its own is no array of NumPy."""
        return np.asarray(self)

    def elementwise(self, function: Callable[..., Any], *args: Any) -> Any:
        """`function` of what lies behind this array, or behind `args` where it takes several.

        It treats all numbers alike, and broadcasts its arguments.
        """
        raise NotImplementedError

    def __reduce__(self) -> Any:
        # A copy, as protocol 5 keeps read-only arrays read-only.
        return np.asarray, (host_array(self).copy(),)


class Unbatched:
    """A leaf whose shape has nothing to do with the batch of the container that holds it."""

    __slots__ = ()


HOST_LEAVES = (np.ndarray, ArrayHolder, HostArray)


def raw(value: Any) -> Any:
    """The array itself, behind a holder too."""
    return value.data if isinstance(value, ArrayHolder) else value


def computed(value: Any) -> Any:
    """What a value computes as: the array itself, behind a holder the one that it computes with."""
    return value.computing() if isinstance(value, ArrayHolder) else value


def stored(value: Any) -> Any:
    """What of a leaf is kept where no derivative can be: the array of a holder, the numbers of a result."""
    array = raw(value)
    return array.detach() if isinstance(array, HostArray) else array


def as_array(value: Any) -> Array:
    """`numpy.asarray`, but what answers NumPy's protocols as an array stays what it is."""
    return value if isinstance(value, HostArray) else np.asarray(value)  # type: ignore[return-value]


def has_namespace(value: Any) -> bool:
    """True for an array, also a traced one, of a library that computes by functions of its own (JAX).

    Such a library says so by the array API's `__array_namespace__`, and has none of NumPy's protocols.
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


def is_array(value: Any) -> bool:
    """True for a leaf: an array of NumPy or JAX, a holder of one, or one with the CUDA array interface."""
    return (
        isinstance(value, HOST_LEAVES)
        or has_namespace(value)
        or hasattr(value, "__cuda_array_interface__")
        or hasattr(type(value), "__cuda_ndarray__")  # Numba's simulator has no array interface
    )


def host_array(entry: Any, key: str | None = None) -> Array:
    """The NumPy array of a leaf, for what writes its bytes: of results of a gradient, their numbers.

    Raises:
        TypeError: it is on a device, or belongs to a `vmap` or a graph that is still being traced.
        NotImplementedError: it takes no part in the batch, which no format can say.
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
        raise TypeError(f"{name} is inside {kind}: its values are known when that has ended.")
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
        """The same error with `key` in front of its path."""
        return MaskedArrayError((key, *self.path))


def refuse_masked(value: Any) -> None:
    """Raise TypeError for a masked array, of numbers or of objects."""
    masked = sys.modules.get("numpy.ma")  # which NumPy imports for the first one
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise MaskedArrayError()
