"""All arrays of a TensorDict in one, and back: `pack` and `PackLayout`."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from lite._arrays.device import unwrap, wrap
from lite._arrays.dtypes import get_default_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array, Shape, Unbatched, as_array
from lite._tree.collection import is_leaf_nontensor
from lite._tree.keys import NestedKey, require_path
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import Container, class_registry
from lite._tree.walks import nodes, require_shared


@dataclass(frozen=True)
class PackLayout:
    """The layout of the array that `TensorDict.pack` makes. It compares by value and can be hashed.

    Attributes:
        keys: the keys of the arrays, in the order of their columns.
        shapes: the shape of each after the batch size of the TensorDict.
        dim: the dimension of the columns; `pack` counts it from the end.
        nested: key, further batch size and tensorclass (or None) of each nested TensorDict.
        device: device of the TensorDict.
        cls: the tensorclass that was packed, or None.
        offsets: the first column of each array.
        numel: the number of columns.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> flat, layout = TensorDict({"p": np.zeros(5), "v": np.ones((5, 3))}, [5]).pack()
        >>> layout.keys, layout.offsets, layout.numel, layout.unpack(flat[:2])["v"].shape
        (('p', 'v'), (0, 1), 4, (2, 3))
    """

    keys: tuple[NestedKey, ...]
    shapes: tuple[Shape, ...]
    dim: int = -1
    nested: tuple[tuple[NestedKey, Shape, type | None], ...] = ()
    device: str | None = None
    cls: type | None = None
    offsets: tuple[int, ...] = field(init=False)
    numel: int = field(init=False)

    def __post_init__(self) -> None:
        ends = tuple(accumulate(map(prod, self.shapes), initial=0))
        made = {
            "shapes": tuple(map(tuple, self.shapes)),
            "nested": tuple((key, tuple(size), cls) for key, size, cls in self.nested),
            "offsets": ends[:-1],
            "numel": ends[-1],
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def unpack(self, flat: Array) -> Any:
        """The TensorDict of an array, of views of it; its batch size is that of the array.

        Raises:
            IndexError: the array has no dimension `dim`.
            ValueError: it has another number of columns.
        """
        flat = as_array(wrap(flat))
        flat = np.moveaxis(flat, np.lib.array_utils.normalize_axis_index(self.dim, flat.ndim), -1)
        size = flat.shape[:-1]
        if flat.shape[-1] != self.numel:
            raise ValueError(f"flat must have {self.numel} columns, got {flat.shape[-1]}.")
        out: Any = class_registry.dense({}, size, self.device)
        for key, inner, _ in self.nested:
            out._set_path(require_path(key), class_registry.dense({}, (*size, *inner), self.device), False)
        for key, shape, start in zip(self.keys, self.shapes, self.offsets, strict=True):
            value = flat[..., start : start + prod(shape)].reshape(size + shape)
            out._set_path(require_path(key), value, False)
        for key, _, cls in reversed(self.nested):  # inner ones first
            if cls is not None:
                node = out._get_entry(require_path(key))
                out._set_path(require_path(key), cls._wrap_tensordict(node), False)  # type: ignore[attr-defined]
        return out if self.cls is None else self.cls._wrap_tensordict(out)  # type: ignore[attr-defined]


def pack(td: Container, dim: int = -1, *, layout: PackLayout | None = None) -> tuple[Array, PackLayout]:
    """All arrays as one, with a column for each number of a batch element, and the layout to unpack it.

    Args:
        dim: the position of the columns among the batch dimensions.
        layout: the order of the columns, instead of that of the sorted keys; keys and shapes must be its own.

    Returns:
        An array, `(*batch_size, columns)` for `dim=-1`, and the `PackLayout` that gives the TensorDict again.

    Raises:
        IndexError: `dim` is out of range.
        TypeError: non-tensor data, or arrays of different dtypes.
        KeyError, ValueError: other keys, shapes or `dim` than those of `layout`.
        RuntimeError: a lazy stack that is ragged, or whose parts have different keys.

    Example:
        >>> from lite import TensorDict
        >>> flat, layout = TensorDict({"a": [1, 2], "n": {"b": [[3, 4], [5, 6]]}}, [2]).pack()
        >>> flat
        array([[1, 3, 4],
               [2, 5, 6]])
        >>> layout.unpack(flat * 10)["n", "b"]
        array([[30, 40],
               [50, 60]])
    """
    ndim, size = td.ndim, td.batch_size
    if not -ndim - 1 <= dim <= ndim:
        raise IndexError(f"dim must be within {-ndim - 1} and {ndim}, got {dim}.")
    for node in nodes(td):
        require_shared(node, "pack")
    arrays, nested = {}, []
    dense = td.contiguous()
    for key in dense.keys(True, False, is_leaf_nontensor, sort=True):
        entry = dense._get_entry(require_path(key))
        if isinstance(entry, NonTensorBase | Unbatched):
            raise TypeError(f"{key!r} is not an array over the batch; leave it out, as by exclude({key!r}).")
        inner = Container._as_node(entry)
        if inner is None:
            arrays[key] = wrap(entry)
        else:
            nested.append((key, inner.batch_size[ndim:], None if inner is entry else type(entry)))
    at = dim if dim < 0 else dim - ndim - 1
    if layout is not None:
        if at != (layout.dim if layout.dim < 0 else layout.dim - ndim - 1):
            raise ValueError(f"dim must be that of layout, {layout.dim}, got {dim}.")
        if set(arrays) != set(layout.keys):
            raise KeyError(f"the keys are {list(arrays)}, those of layout {list(layout.keys)}.")
        arrays = {key: arrays[key] for key in layout.keys}
    made = PackLayout(
        tuple(arrays), tuple(a.shape[ndim:] for a in arrays.values()), at, tuple(nested), td.device
    )
    if layout is not None and made.shapes != layout.shapes:
        raise ValueError(f"the shapes behind the batch are {made.shapes}, those of layout {layout.shapes}.")
    dtypes = {key: array.dtype for key, array in arrays.items()}
    if len(set(dtypes.values())) > 1:
        raise TypeError(f"arrays must have one dtype, got {dtypes}; cast them first, as by float().")
    columns = [a.reshape(*size, n) for a, n in zip(arrays.values(), map(prod, made.shapes), strict=True)]
    flat = np.concatenate(columns, -1) if columns else np.zeros((*size, 0), get_default_dtype())
    flat = np.moveaxis(flat, -1, at)
    return (np.ascontiguousarray(flat) if type(flat) is np.ndarray else unwrap(flat)), made


belong_to("lite", PackLayout)
