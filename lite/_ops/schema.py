"""New TensorDicts from a description, from other data, and writes of whole rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.dtypes import as_dtype
from lite._arrays.types import is_array
from lite._tree.keys import NestedKey, require_path
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.protocol import Container, T, kinds
from lite._tree.shape import as_shape

_STORAGES = (None, "memmap", "h5", "zarr", "shared", "redis", "dragonfly")


def from_schema(
    cls: type[Any],
    /,
    schema: Mapping[NestedKey, tuple[Sequence[int], DTypeLike]],
    *,
    batch_size: Any = None,
    storage: str | None = None,
    device: str | None = None,
    **kwargs: Any,
) -> Any:
    """Zeros for every entry of a description.

    Args:
        schema: for every key the shape of one element and the dtype.
        batch_size: the batch size.
        storage: None for arrays in memory, "memmap" for files below `prefix`.
        device: see `TensorDict`.
        kwargs: arguments of `memmap_`, with "memmap".

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
    if storage not in (None, "memmap"):
        raise NotImplementedError(f"storage={storage!r} is not available; use None or 'memmap'.")
    out = kinds.dense({}, batch_size, device)
    for key, (shape, dtype) in schema.items():
        full = out.batch_size + tuple(int(n) for n in shape)
        out._set_path(require_path(key), np.zeros(full, as_dtype(dtype)), False)
    if storage is None:
        if kwargs:
            raise TypeError(f"from_schema got unexpected arguments {sorted(kwargs)}.")
        return out
    return out.memmap_(**kwargs)


def new_tensor(td: Container, data: Any, *, dtype: DTypeLike | None = None, device: Any = None) -> Any:
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
        out = _filled(td, array, wanted)
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


def copy_at_(td: T, tensordict: Any, idx: Any, non_blocking: bool = False, *, fast: bool | None = True) -> T:
    """Copy the entries of a TensorDict into self's arrays at a batch index; returns self.

    Args:
        tensordict: the rows to write; it has self's keys.
        idx: an index into the batch.
        non_blocking: accepted for compatibility.
        fast: accept only what needs no conversion: dense TensorDicts of arrays, rows of exactly
            the indexed batch size.

    Raises:
        RuntimeError: `fast` and the arguments are not of that kind.
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


def _plain(td: Any) -> bool:
    if td._parts() is not None:
        return False
    nodes = [td._as_node(entry) for _, entry in td._items() if not is_array(entry)]
    return all(node is not None and _plain(node) for node in nodes)


def _filled(td: Any, array: Any, dtype: np.dtype[Any] | None) -> Any:
    out = td._blank() if td._parts() is None else td.contiguous()._blank()
    out._names = None
    out.batch_size = as_shape((array.shape,), "data")
    for key, entry in td._items():
        node = td._as_node(entry)
        if node is not None:
            out._put(key, td._rewrap(entry, _filled(node, array, dtype)))
        elif isinstance(entry, NonTensorData):
            out._put(key, entry._rebatch(array.shape))
        elif not isinstance(entry, NonTensorBase):
            out._put(key, array.astype(entry.dtype if dtype is None else dtype))
    return out
