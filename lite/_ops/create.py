"""New TensorDicts with the keys and shapes of another one or of a schema, and filling of arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.device import to_library_of, unwrap, with_value, wrap, write_leaf
from lite._arrays.dtypes import as_dtype
from lite._arrays.types import Array, Shape, has_namespace, is_array
from lite._tree.keys import NestedKey, require_path
from lite._tree.methods import ArgsMethod, described
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorData
from lite._tree.numpy_protocol import implements
from lite._tree.protocol import Container, T, class_registry
from lite._tree.shape import as_shape
from lite._tree.unbatched import UnbatchedTensor
from lite._tree.walks import leaves, map_kept, map_tree, nodes

Like = TypeVar("Like", bound=Any)


def _like(
    td: Like, make: Callable[[Shape, np.dtype[Any]], Array], dtype: DTypeLike | None, device: str | None
) -> Like:
    wanted = None if dtype is None else as_dtype(dtype)
    out = map_kept(
        td, lambda leaf: to_library_of(leaf, make(leaf.shape, leaf.dtype if wanted is None else wanted))
    )
    return out if device is None else out.to(device)


@implements(np.zeros_like)
def zeros_like(td: Like, dtype: DTypeLike | None = None, *, device: str | None = None) -> Like:
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
def ones_like(td: Like, dtype: DTypeLike | None = None, *, device: str | None = None) -> Like:
    """Ones in the shape of every array; see `zeros_like`.

    Example:
        >>> import lite
        >>> lite.ones_like(lite.TensorDict(a=[5, 2]))["a"]
        array([1, 1])
    """
    return _like(td, np.ones, dtype, device)


@implements(np.empty_like)
def empty_like(td: Like, dtype: DTypeLike | None = None, *, device: str | None = None) -> Like:
    """Uninitialised arrays in the shape of every array; see `zeros_like`.

    Example:
        >>> import lite
        >>> lite.empty_like(lite.TensorDict(a=[5, 2]))["a"].shape
        (2,)
    """
    return _like(td, np.empty, dtype, device)


@implements(np.full_like)
def full_like(
    td: Like, fill_value: object, dtype: DTypeLike | None = None, *, device: str | None = None
) -> Like:
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
    device: str | None = None,
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
    device: str | None = None,
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


implements(np.copy)(lambda a, order="K", subok=False: a.clone())


def _drawn(draw: Callable[..., Any]) -> Callable[[Shape, np.dtype[Any]], Array]:
    def make(shape: Shape, dtype: np.dtype[Any]) -> Array:
        if dtype.kind not in "fV":
            raise TypeError(f"random numbers need a floating dtype, got {dtype}; pass dtype=.")
        native = dtype if dtype in (np.float32, np.float64) else np.dtype(np.float32)
        return np.asarray(draw(shape, native), dtype=dtype)

    return make


def _newly(name: str, make: Callable[..., Array], what: str) -> ArgsMethod:
    """A method that makes arrays of another batch size."""

    def method(
        td: Container,
        *size: Any,
        dtype: DTypeLike | None = None,
        device: str | None = None,
        empty_lazy: bool = False,
    ) -> Any:
        kind = None if dtype is None else as_dtype(dtype)
        out = _resized(td, as_shape(size, "size"), make, kind, empty_lazy)
        return out if device is None else out.to(device)

    return described(method, name, f"{what} with another batch size{_NEW}")


_NEW = """; feature dimensions and dtypes are kept.

    Args:
        size: the batch size, as one sequence or as numbers.
        dtype: dtype of all arrays.
        device: see `TensorDict`.
        empty_lazy: if the new batch size has the stack dimension of a lazy stack, keep the stack lazy, with
            parts without leaves; else it becomes dense.

    Raises:
        RuntimeError: a lazy stack that is to become dense is ragged.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> TensorDict({"a": np.ones((2, 3))}, batch_size=[2]).new_zeros(5)["a"].shape
        (5, 3)
    """
new_zeros = _newly("new_zeros", np.zeros, "Zeros")
new_ones = _newly("new_ones", np.ones, "Ones")
new_empty = _newly("new_empty", np.empty, "Uninitialised arrays")


def new_full(
    td: Container,
    size: int | Sequence[int],
    fill_value: object,
    *,
    dtype: DTypeLike | None = None,
    device: str | None = None,
    empty_lazy: bool = False,
) -> Any:
    """One value with another batch size; see `new_zeros`."""
    full: Any = _newly("new_full", lambda shape, kind: np.full(shape, fill_value, kind), "One value")
    return full(td, size, dtype=dtype, device=device, empty_lazy=empty_lazy)


def zero_(td: T) -> T:
    """Set every array to zero, in place; allowed when locked."""
    _fill(td, 0)
    return td


def fill_(td: T, key: object, value: object) -> T:
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
    _fill(node, value)
    return td


def _fill(td: Container, value: object) -> None:
    for leaf in leaves(td):
        if type(leaf) is not np.ndarray and has_namespace(leaf):
            break  # replacing entries needs their nodes
        write_leaf(leaf, ..., value)
    else:
        return
    for node in nodes(td):
        for key, entry in list(node._items()) if node._parts() is None else ():
            if has_namespace(entry):
                node._put(key, with_value(entry, ..., value))
            elif is_array(entry):
                write_leaf(entry, ..., value)


def _resized(
    td: Container, shape: Shape, make: Callable[..., Array], dtype: np.dtype[Any] | None, empty_lazy: bool
) -> Any:
    """A tree of new arrays, in whose shapes `shape` replaces the batch size of `td`."""
    ndim = td.ndim

    def array(leaf: Any, node: Container) -> Any:
        if isinstance(leaf, UnbatchedTensor):
            return leaf._rebatch(shape + node.batch_size[ndim:])
        made = make(shape + tuple(leaf.shape[ndim:]), leaf.dtype if dtype is None else dtype)
        return unwrap(to_library_of(wrap(leaf), made))

    return _with_batch_size(td, array, lambda size: shape + size[ndim:], empty_lazy)


def _with_batch_size(
    td: Container,
    array: Callable[[Any, Container], Any],
    resized: Callable[[Shape], Shape],
    empty_lazy: bool = False,
) -> Any:
    """A TensorDict of another batch size, dense or with empty lazy stacks, without per-element objects."""

    def payload(entry: object, node: Container) -> Any:
        size = resized(node.batch_size)
        if isinstance(entry, NonTensorData):
            return entry._rebatch(size)
        return class_registry.dense._make({}, size, node.device)

    def node(old: Any, entries: dict[str, Any]) -> Any:
        size, names = resized(old.batch_size), old._names
        if names is not None:  # names are aligned on the right, as feature dimensions are
            more = len(size) - len(names)
            names = check_names([None] * more + names[max(0, -more) :], len(size))
        return old._make(entries, size, old.device, names)

    def stack(old: Any) -> Any:
        return _empty_stack(old, resized(old.batch_size)) if empty_lazy else old.contiguous()

    return map_tree(td, array, payload, node, stack)


def _empty_stack(stack: Any, size: Shape) -> Any:
    """A lazy stack of another size, of copies of the first part without leaves; dense without a stack dim."""
    parts, dim = stack._parts()
    if not parts or len(size) <= dim or -1 in size:
        return stack.contiguous()
    inner, ndim = size[:dim] + size[dim + 1 :], stack.ndim - 1

    def part() -> Any:
        return _with_batch_size(parts[0], lambda leaf, node: None, lambda own: inner + own[ndim:], True)

    return stack._from_parts([part() for _ in range(size[dim])])


_STORAGES = (None, "memmap", "h5", "zarr", "shared", "redis", "dragonfly")


def from_schema(
    cls: type[Any],
    /,
    schema: Mapping[NestedKey, tuple[Sequence[int], DTypeLike]],
    *,
    batch_size: Sequence[int] | int | None = None,
    storage: str | None = None,
    device: str | None = None,
    **kwargs: object,
) -> Any:
    """Zeros for every entry of a schema.

    Args:
        schema: for every key the shape of one element and the dtype.
        batch_size: the batch size.
        storage: None for arrays in memory, "memmap" for files in the folder `prefix`, which take no space
            until they are written to, "shared" for memory that processes share (see `share_memory_`).
        device: see `TensorDict`.
        kwargs: arguments of `memmap_like`, with "memmap".

    Raises:
        ValueError: an unknown storage.
        NotImplementedError: a storage that tensordict has and lite does not.

    Example:
        >>> from lite import TensorDict
        >>> td = TensorDict.from_schema({"a": ((3,), "float32"), ("n", "b"): ((), int)}, batch_size=[2])
        >>> td["a"].shape, td["n", "b"].dtype
        ((2, 3), dtype('int64'))
    """

    if storage not in _STORAGES:
        raise ValueError(f"Unknown storage backend {storage!r}. Expected one of {_STORAGES}.")
    if storage not in (None, "memmap", "shared"):
        raise NotImplementedError(f"storage={storage!r} is not available; use None, 'memmap' or 'shared'.")
    if kwargs and storage != "memmap":
        raise TypeError(f"from_schema got unexpected arguments {sorted(kwargs)}.")
    out = class_registry.dense({}, batch_size, device)
    for key, (shape, dtype) in schema.items():
        full, kind = out.batch_size + tuple(int(n) for n in shape), as_dtype(dtype)
        zeros = np.zeros(full, kind) if storage is None else np.broadcast_to(np.zeros((), kind), full)
        out._set_path(require_path(key), zeros, False)
    if storage == "memmap":
        return out.memmap_like(**kwargs)
    return out.share_memory_() if storage == "shared" else out


def new_tensor(
    td: Container, data: object, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Any:
    """A TensorDict with self's keys whose entries are copies of `data`, in the dtypes of self.

    Args:
        data: an array, which every entry becomes and whose shape is the batch size; or a
            TensorDict with self's keys.
        dtype: dtype of all entries.
        device: see `TensorDict`.

    Raises:
        KeyError: a TensorDict `data` lacks a key.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    node = td._as_node(data)
    if node is None:
        array = np.asarray(data)
        shape = as_shape((array.shape,), "data")
        out = _with_batch_size(
            td, lambda leaf, _: array.astype(leaf.dtype if wanted is None else wanted), lambda _: shape
        )
        out.names = None
    else:
        out = node.empty().update(
            td.apply(
                lambda leaf, new: new.astype(leaf.dtype if wanted is None else wanted),
                node,
                batch_size=node.batch_size,
                filter_empty=False,
            )
        )
    return out if device is None else out.to(device)


def copy_at_(
    td: T, tensordict: object, idx: object, non_blocking: bool = False, *, fast: bool | None = True
) -> T:
    """Copy the entries of a TensorDict into self's arrays at a batch index; returns self.

    Args:
        tensordict: the rows to write; it has self's keys.
        idx: an index into the batch.
        non_blocking: accepted for compatibility.
        fast: accept only dense TensorDicts of arrays whose batch size is the indexed one.

    Raises:
        RuntimeError: `fast` with other arguments.
        KeyError: self lacks an entry.
    """
    node = td._as_node(tensordict)
    if fast:
        plain = node is not None and _plain(td) and _plain(node)
        if not plain or td._index(idx).batch_size != node.batch_size:
            raise RuntimeError(
                "copy_at_(fast=True) takes dense TensorDicts of arrays whose batch size is that of "
                "self[idx]; use fast=False or update_at_."
            )
    return td.update_at_(tensordict, idx)


def _plain(td: Container) -> bool:
    """Whether all entries are arrays or dense TensorDicts, at any depth."""
    return all(
        node._parts() is None
        and all(is_array(entry) or td._as_node(entry) is not None for _, entry in node._items())
        for node in nodes(td)
    )
