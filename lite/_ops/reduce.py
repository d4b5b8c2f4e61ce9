"""Run a reduction over the arrays of a tree: over batch dimensions, over features, or over all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.device import unwrap, wrap
from lite._arrays.reductions import Reducer
from lite._arrays.types import Array, Names, Shape, as_array, is_array
from lite._tree.collection import is_leaf_nontensor
from lite._tree.keys import require_path
from lite._tree.nontensor import NonTensorBase, NonTensorData
from lite._tree.protocol import MISSING
from lite._tree.walks import leaves

FEATURE = "feature"


class Extremes(NamedTuple):
    """Values, and where they were found: positions along the dimension(s) reduced."""

    values: Any
    indices: Any


@dataclass(slots=True)
class Scope:
    """Which dimensions of every array are reduced, and what becomes of batch size and names.

    Attributes:
        dims: batch dimensions; None for all dimensions of every array, features included.
        feature: reduce the feature dimensions instead.
        keepdim: keep reduced dimensions with size 1.
        lead: dimensions that the reducer puts before all others.
    """

    dims: tuple[int, ...] | None
    feature: bool = False
    keepdim: bool = False
    lead: Shape = ()

    def array(self, fn: Reducer, leaf: Array, ndim: int) -> Array:
        if not self.feature:
            return as_array(fn(leaf, self.dims, self.keepdim))
        size = math.prod(leaf.shape[ndim:])
        return as_array(fn(leaf.reshape((*leaf.shape[:ndim], size)), -1, False))

    def size(self, size: Shape) -> Shape:
        if self.feature:
            return self.lead + size
        if self.dims is None and not self.keepdim:
            return self.lead
        reduced = range(len(size)) if self.dims is None else self.dims
        if self.keepdim:
            return self.lead + tuple([1 if i in reduced else n for i, n in enumerate(size)])
        return self.lead + tuple([n for i, n in enumerate(size) if i not in reduced])

    def names(self, names: Names) -> Names:
        if names is None:
            return None
        first: list[str | None] = [None] * len(self.lead)
        if self.feature or self.keepdim:
            return first + names
        reduced = range(len(names)) if self.dims is None else self.dims
        rest = [name for i, name in enumerate(names) if i not in reduced]
        return first + rest if any(rest) else None


def scope_of(td: Any, dim: Any, keepdim: bool = False, lead: Shape = ()) -> Scope:
    """Read `dim`: not given or None, an int, several ints, or "feature".

    Raises:
        IndexError: a dimension is no batch dimension.
        TypeError: `dim` is none of these, or "feature" with `keepdim`.
        ValueError: a dimension is named twice.
    """
    if dim is MISSING or dim is None:
        return Scope(None, False, keepdim, lead)
    if type(dim) is int:
        return Scope((batch_dim(td, dim),), False, keepdim, lead)
    if isinstance(dim, str):
        if dim != FEATURE:
            raise TypeError(f"dim must be an int, a tuple of ints or 'feature', got {dim!r}.")
        if keepdim:
            raise TypeError("dim='feature' is incompatible with keepdim=True.")
        return Scope(None, True, False, lead)
    given = [dim] if isinstance(dim, int | np.integer) else list(dim) if isinstance(dim, Iterable) else []
    if not given or not all(isinstance(d, int | np.integer) for d in given):
        raise TypeError(f"dim must be an int, a tuple of ints or 'feature', got {dim!r}.")
    dims = tuple(batch_dim(td, int(d)) for d in given)
    if len(set(dims)) != len(dims):
        raise ValueError(f"dim names a dimension twice: {dim!r}.")
    return Scope(dims, False, keepdim, lead)


def batch_dim(td: Any, dim: int) -> int:
    ndim: int = td.ndim
    if not -ndim <= dim < ndim:
        raise IndexError(f"Incompatible dim {dim} for tensordict with batch dims {ndim}.")
    return dim % ndim


def reduced(td: Any, name: str, fn: Reducer, scope: Scope) -> Any:
    """A dense TensorDict of every array reduced; results are unlocked.

    Data shared by the batch is kept. One object per element has no reduction and is left out, unless the
    batch size stays as it is.
    """
    return _walk(dense(td, name), name, fn, scope)


def dense(td: Any, name: str) -> Any:
    """The TensorDict itself, or the dense form of a lazy stack.

    Raises:
        RuntimeError: parts of a lazy stack differ in shape, so that there is no dense form.
    """
    if td._parts() is None:
        return td
    try:
        return td.contiguous()
    except RuntimeError as error:
        raise RuntimeError(
            f"{name} requires this object to be cast to a regular TensorDict, which its ragged entries "
            "prevent."
        ) from error


def _walk(td: Any, name: str, fn: Reducer, scope: Scope) -> Any:
    size, ndim = td.batch_size, td.ndim
    shape = scope.size(size)
    dims, keepdim, feature = scope.dims, scope.keepdim, scope.feature
    entries: dict[str, Any] = {}
    for key, entry in td._items():
        if type(entry) is np.ndarray and not feature:
            out = fn(entry, dims, keepdim)
            entries[key] = out if type(out) is np.ndarray else as_array(out)
        elif is_array(entry):
            entries[key] = unwrap(scope.array(fn, wrap(entry), ndim))
        elif isinstance(entry, NonTensorData):
            entries[key] = entry._rebatch(shape)
        elif not isinstance(entry, NonTensorBase):
            node = dense(td._as_node(entry), name)
            entries[key] = td._rewrap(entry, _walk(node, name, fn, scope))
        elif shape == size:
            entries[key] = entry
    return td._make(entries, shape, td.device, scope.names(td._names))


def joined(td: Any, name: str, dim: Any) -> Array:
    """All arrays in one: flat without `dim`, by feature for "feature", else along (the first) `dim`.

    Raises:
        ValueError: there is no array.
        RuntimeError: shapes do not fit together.
    """
    if dim is MISSING or dim is None:
        pieces = [np.asarray(wrap(leaf)).reshape(-1) for leaf in leaves(td)]
        axis = 0
    else:
        found = list(_dense_leaves(td, name))
        if isinstance(dim, str):
            ndim = td.ndim
            pieces = [x.reshape((*x.shape[:ndim], math.prod(x.shape[ndim:]))) for x in found]
            axis = -1
        else:
            pieces, axis = found, dim if isinstance(dim, int) else dim[0]
    if not pieces:
        raise ValueError(f"{name}(reduce=True) needs at least one array, got a TensorDict without any.")
    try:
        return np.concatenate([np.asarray(wrap(piece)) for piece in pieces], axis)
    except ValueError as error:
        shapes = [piece.shape for piece in pieces]
        raise RuntimeError(
            f"{name}(reduce=True) joins arrays along dim {dim}, and shapes {shapes} do not fit."
        ) from error


def _dense_leaves(td: Any, name: str) -> Iterable[Array]:
    for _, entry in dense(td, name)._items():
        if is_array(entry):
            yield entry
        elif (node := td._as_node(entry)) is not None:
            yield from _dense_leaves(node, name)


def with_keys(td: Any, transform: Callable[[Any], Any]) -> Any:
    """The entries of `td` under the keys that `transform` gives."""
    out = td._blank()
    for key, entry in td.items(True, True, is_leaf=is_leaf_nontensor):
        out._set_path(require_path(transform(key)), entry, False)
    return out
