"""New TensorDicts with the structure of another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.device import beside, unwrap, wrap, write_leaf
from lite._arrays.dtypes import as_dtype
from lite._arrays.types import Array, Shape
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.numpy_protocol import implements
from lite._tree.protocol import Container, T
from lite._tree.shape import as_shape
from lite._tree.walks import leaves, map_kept

Like = TypeVar("Like", bound=Any)


def _like(
    td: Like, make: Callable[[Shape, np.dtype[Any]], Array], dtype: DTypeLike | None, device: Any
) -> Like:
    wanted = None if dtype is None else as_dtype(dtype)
    out = map_kept(td, lambda leaf: beside(leaf, make(leaf.shape, leaf.dtype if wanted is None else wanted)))
    return out if device is None else out.to(device)


@implements(np.zeros_like)
def zeros_like(td: Like, dtype: DTypeLike | None = None, *, device: Any = None) -> Like:
    """Zeros in the shape of every array; names, lock state and non-tensor data are kept.

    Args:
        td: the TensorDict to imitate.
        dtype: dtype of every array, instead of its own.
        device: device of the result.

    Example:
        >>> import lite
        >>> lite.zeros_like(lite.TensorDict(a=[1, 2]))["a"]
        array([0, 0])
    """
    return _like(td, np.zeros, dtype, device)


@implements(np.ones_like)
def ones_like(td: Like, dtype: DTypeLike | None = None, *, device: Any = None) -> Like:
    """Ones in the shape of every array; see `zeros_like`.

    Example:
        >>> import lite
        >>> lite.ones_like(lite.TensorDict(a=[5, 2]))["a"]
        array([1, 1])
    """
    return _like(td, np.ones, dtype, device)


@implements(np.empty_like)
def empty_like(td: Like, dtype: DTypeLike | None = None, *, device: Any = None) -> Like:
    """Uninitialised arrays in the shape of every array; see `zeros_like`.

    Example:
        >>> import lite
        >>> lite.empty_like(lite.TensorDict(a=[5, 2]))["a"].shape
        (2,)
    """
    return _like(td, np.empty, dtype, device)


@implements(np.full_like)
def full_like(td: Like, fill_value: Any, dtype: DTypeLike | None = None, *, device: Any = None) -> Like:
    """One value in the shape of every array; see `zeros_like`.

    Example:
        >>> import lite
        >>> lite.full_like(lite.TensorDict(a=[1, 2]), 7)["a"]
        array([7, 7])
    """
    return _like(td, lambda shape, kind: np.full(shape, fill_value, kind), dtype, device)


def rand_like(
    td: Like,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    rng: np.random.Generator | None = None,
) -> Like:
    """Uniform numbers from [0, 1) in the shape of every array; see `zeros_like`.

    Args:
        td: the TensorDict to imitate.
        dtype: floating dtype of every array, instead of its own.
        device: device of the result.
        rng: source of random numbers (a fresh, unseeded one unless given).

    Raises:
        TypeError: an array is not of a floating dtype and none is given.

    Example:
        >>> import numpy as np, lite
        >>> x = lite.rand_like(lite.TensorDict(a=[1.0, 2.0]), rng=np.random.default_rng(0))["a"]
        >>> x.dtype, bool(((x >= 0) & (x < 1)).all())
        (dtype('float32'), True)
    """
    source = np.random.default_rng() if rng is None else rng
    return _like(td, _drawn(source.random), dtype, device)


def randn_like(
    td: Like,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    rng: np.random.Generator | None = None,
) -> Like:
    """Standard normal numbers in the shape of every array; see `rand_like`.

    Example:
        >>> import numpy as np, lite
        >>> lite.randn_like(lite.TensorDict(a=[1.0, 2.0]), rng=np.random.default_rng(0))["a"].shape
        (2,)
    """
    source = np.random.default_rng() if rng is None else rng
    return _like(td, _drawn(source.standard_normal), dtype, device)


def _drawn(draw: Callable[..., Any]) -> Callable[[Shape, np.dtype[Any]], Array]:
    def make(shape: Shape, dtype: np.dtype[Any]) -> Array:
        if dtype.kind not in "fV":
            raise TypeError(f"random numbers need a floating dtype, got {dtype}; pass dtype=.")
        native = dtype if dtype in (np.float32, np.float64) else np.dtype(np.float32)
        return np.asarray(draw(shape, native), dtype=dtype)

    return make


def _new(td: Container, size: tuple[Any, ...], make: Callable[..., Array], dtype: Any, device: Any) -> Any:
    out = _resized(td, as_shape(size, "size"), make, None if dtype is None else as_dtype(dtype))
    return out if device is None else out.to(device)


def new_zeros(td: Container, *size: Any, dtype: DTypeLike | None = None, device: Any = None) -> Any:
    """Zeros with another batch size; feature dimensions and dtypes are kept.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict({"a": np.ones((2, 3))}, batch_size=[2]).new_zeros(5)["a"].shape
        (5, 3)
    """
    return _new(td, size, np.zeros, dtype, device)


def new_ones(td: Container, *size: Any, dtype: DTypeLike | None = None, device: Any = None) -> Any:
    """Ones with another batch size; see `new_zeros`."""
    return _new(td, size, np.ones, dtype, device)


def new_empty(td: Container, *size: Any, dtype: DTypeLike | None = None, device: Any = None) -> Any:
    """Uninitialised arrays with another batch size; see `new_zeros`."""
    return _new(td, size, np.empty, dtype, device)


def new_full(
    td: Container, size: Any, fill_value: Any, *, dtype: DTypeLike | None = None, device: Any = None
) -> Any:
    """One value with another batch size; see `new_zeros`."""
    return _new(td, (size,), lambda shape, kind: np.full(shape, fill_value, kind), dtype, device)


def zero_(td: T) -> T:
    """Set every array to zero, in place; allowed when locked."""
    for leaf in leaves(td):
        write_leaf(leaf, ..., 0)
    return td


def fill_(td: T, key: Any, value: Any) -> T:
    """Fill the existing entry `key` with one value, in place; allowed when locked.

    Raises:
        KeyError: the key does not exist.

    Example:
        >>> from lite import TensorDict
        >>> TensorDict({"n": {"a": [1, 2]}}).fill_(("n", "a"), 7)["n", "a"]
        array([7, 7])
    """
    entry = td.get(key)
    node = td._as_node(entry)
    if node is None:
        return td.set_(key, value)
    for leaf in leaves(node):
        write_leaf(leaf, ..., value)
    return td


def _resized(td: Any, shape: Shape, make: Callable[..., Array], dtype: np.dtype[Any] | None) -> Any:
    """A new array for every array; one object per element has no place in another batch size."""
    if td._parts() is not None:
        td = td.contiguous()
    out = td._blank()
    ndim = td.ndim
    names = td.names
    out.names = None
    out.batch_size = shape
    # As feature dimensions stay on the right, so do the names.
    out.names = [None] * (len(shape) - ndim) + names[max(0, ndim - len(shape)) :]
    for key, entry in td._items():
        node = td._as_node(entry)
        if node is not None:
            inner = _resized(node, shape + node.batch_size[ndim:], make, dtype)
            out._put(key, td._rewrap(entry, inner))
        elif isinstance(entry, NonTensorData):
            out._put(key, entry._rebatch(shape))
        elif not isinstance(entry, NonTensorBase):
            made = make(shape + tuple(entry.shape[ndim:]), entry.dtype if dtype is None else dtype)
            out._put(key, unwrap(beside(wrap(entry), made)))
    return out
