"""Between dense and lazy: `to_lazystack`, `densify`, `to_padded_tensor`."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Shape, is_array
from lite._containers.joining import STACK
from lite._ops.padding import grown
from lite._tree.keys import NestedKey, require_path
from lite._tree.nontensor import NonTensorBase, NonTensorData, NonTensorStack
from lite._tree.protocol import Container, kinds


def to_lazystack(td: Container, dim: int = 0) -> Any:
    """A lazy stack of the slices along a batch dimension, whose arrays are views.

    Raises:
        IndexError: `dim` is no batch dimension.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"a": np.zeros((2, 3))}, batch_size=[2])
        >>> type(td.to_lazystack()).__name__, len(td.to_lazystack().tensordicts)
        ('LazyStackedTensorDict', 2)
    """

    d = td._dim(dim)
    size, names = td.batch_size, td._names
    name = None if names is None else names[d]
    return kinds.lazy._make(list(td.unbind(d)), d, name, size[:d] + size[d + 1 :])


def densify(td: Container, padding_value: Any = 0.0, padding_side: str = "right") -> Any:
    """T with lazy stacks in it made dense; ragged arrays are padded along their first dimension."""
    entries: dict[str, Any] = {}
    for key, entry in td._items():
        node = td._as_node(entry)
        entries[key] = entry if node is None else td._rewrap(entry, node.densify(padding_value, padding_side))
    return td._with(entries)


def to_padded_tensor(td: Container, padding: Any = 0.0, mask_key: NestedKey | None = None) -> Any:
    """A dense TensorDict: ragged batches and arrays are padded at their ends.

    Args:
        padding: fills arrays; objects are padded with None.
        mask_key: key of a bool array over the batch that tells elements from padding.

    Raises:
        RuntimeError: `mask_key` without a ragged batch, or arrays of different dtypes' kinds or
            numbers of dimensions.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, lazy_stack
        >>> rows = lazy_stack([TensorDict({"a": np.ones(n)}, batch_size=[n]) for n in (1, 2)])
        >>> out = rows.to_padded_tensor(mask_key="mask")
        >>> out["a"], out["mask"]
        (array([[1., 0.],
               [1., 1.]]), array([[ True, False],
               [ True,  True]]))
    """
    if mask_key is not None and -1 not in td.batch_size:
        raise RuntimeError(
            "mask_key should only be provided if the heterogenous dimension is part of the batch-size."
        )
    out = _padded(td, padding)
    if mask_key is not None:
        out._set_path(require_path(mask_key), _mask(td, out.batch_size), False)
    return out


def _padded(td: Any, padding: Any) -> Any:
    stacked = td._parts()
    if stacked is None:
        entries = {}
        for key, entry in td._items():
            node = td._as_node(entry)
            entries[key] = entry if node is None else td._rewrap(entry, _padded(node, padding))
        return td._with(entries)
    parts, dim = stacked
    dense = [_padded(part, padding) for part in parts]
    if not dense:
        return td.contiguous()
    out = STACK.nodes(_unified(dense, padding), dim)
    out._names = td._names
    return out


def _unified(tds: list[Any], padding: Any) -> list[Any]:
    """Dense TensorDicts padded to one batch size and one shape per key; keys that all have."""
    size = _largest([td.batch_size for td in tds])
    keys = [key for key in tds[0]._keys() if all(td._get_str(key) is not None for td in tds[1:])]
    columns = {key: _unified_column([td._get_str(key) for td in tds], size, padding, key) for key in keys}
    return [
        td._make({key: columns[key][i] for key in keys}, size, td.device, td._names)
        for i, td in enumerate(tds)
    ]


def _unified_column(column: list[Any], size: Shape, padding: Any, key: str) -> list[Any]:
    nodes = [Container._as_node(entry) for entry in column]
    if all(node is not None for node in nodes):
        unified = _unified(nodes, padding)
        return [nodes[i]._rewrap(entry, unified[i]) for i, entry in enumerate(column)]
    if all(is_array(entry) for entry in column):
        shape = _largest([entry.shape for entry in column], key)
        return [entry if entry.shape == shape else _grown_to(entry, shape, padding) for entry in column]
    if all(isinstance(entry, NonTensorBase) for entry in column):
        return [_objects(entry, size) for entry in column]
    raise RuntimeError(f"the entries {key!r} are of different kinds: {[type(e).__name__ for e in column]}.")


def _objects(entry: Any, size: Shape) -> Any:
    if entry.batch_size == size:
        return entry
    if isinstance(entry, NonTensorData):
        return entry._rebatch(size)
    return NonTensorStack._wrap(_grown_to(entry._objects(), size, None))


def _grown_to(array: Any, shape: Shape, value: Any) -> Any:
    after = [n - m for n, m in zip(shape, array.shape, strict=True)]
    return grown(array, [0] * len(shape), after, value)


def _largest(shapes: list[Shape], key: str = "") -> Shape:
    if len({len(shape) for shape in shapes}) > 1:
        raise RuntimeError(f"entries {key!r} of shapes {shapes} have no common padded shape.")
    return tuple(max(n) for n in zip(*shapes, strict=True))


def _mask(td: Any, size: Shape) -> Any:
    stacked = td._parts()
    if stacked is None:
        return _grown_to(np.ones(td.batch_size, np.bool_), size, False)
    parts, dim = stacked
    inner = size[:dim] + size[dim + 1 :]
    return np.stack([_mask(part, inner) for part in parts], dim)
