"""The batch size of a dense TensorDict: how it is checked, changed and found."""

from __future__ import annotations

from typing import Any, TypeVar

from lite._arrays.types import Shape
from lite._tree.entry_errors import below, entry_error
from lite._tree.names import check_names
from lite._tree.nontensor import NonTensorData
from lite._tree.shape import parse_batch_size

T = TypeVar("T", bound=Any)


def set_batch_size(td: Any, value: Any) -> None:
    """Change the batch size, and that of nested TensorDicts that have fewer dimensions.

    Raises:
        RuntimeError: an entry does not start with the new batch size.
    """
    new = parse_batch_size(value)
    if new == td._batch_size:
        return
    _check_rebatch(td, new)
    for entry in td._data.values():
        node = td._as_node(entry)
        if node is not None and len(node.batch_size) < len(new):
            node.batch_size = new
    td._data = {
        key: entry._rebatch(new)
        if isinstance(entry, NonTensorData) and entry.batch_size[: len(new)] != new
        else entry
        for key, entry in td._data.items()
    }
    td._batch_size = new
    if td._names is not None:
        td._set_names(check_names([*td._names, *[None] * len(new)][: len(new)], len(new)))


def _check_rebatch(td: Any, new: Shape) -> None:
    for key, entry in td._data.items():
        node = td._as_node(entry)
        if isinstance(entry, NonTensorData) or (node is not None and node.is_empty()):
            continue
        if _is_dense(node) and len(node.batch_size) < len(new):
            with below(key):
                _check_rebatch(node, new)
            continue
        if tuple(entry.shape[: len(new)]) != new:
            kind = type(entry).__name__
            raise entry_error(
                RuntimeError,
                f"the {kind} {{key}} has shape {tuple(entry.shape)} which is incompatible with the "
                f"batch-size {new}.",
                (key,),
            )


def _is_dense(node: Any) -> bool:
    return node is not None and node._parts() is None


def auto_batch_size_(td: T, batch_dims: int | None = None, keep_compliant_size: bool = False) -> T:
    """Set the batch size to the longest leading shape that all direct entries share.

    Args:
        batch_dims: at most this many dimensions, also for nested TensorDicts.
        keep_compliant_size: leave nested batch sizes longer than the cap as they are.
    """
    shapes: list[Shape] = []
    for entry in td._data.values():
        node = td._as_node(entry)
        if _is_dense(node):
            if not (keep_compliant_size and batch_dims is not None and node.ndim >= batch_dims):
                node.auto_batch_size_(batch_dims, keep_compliant_size)
            shapes.append(node.batch_size)
        elif not isinstance(entry, NonTensorData) or entry.batch_size:
            shapes.append(tuple(entry.shape))
    if not shapes:
        td.batch_size = td._batch_size if batch_dims is None else td._batch_size[:batch_dims]
        return td
    common = _common_prefix(shapes)
    td.batch_size = common if batch_dims is None else common[:batch_dims]
    if batch_dims is not None and not keep_compliant_size:
        size = td._batch_size
        for key, entry in td._data.items():
            if isinstance(entry, NonTensorData) and len(entry.batch_size) > len(size):
                td._data[key] = entry._rebatch(size)
    return td


def _common_prefix(shapes: list[Shape]) -> Shape:
    if not shapes:
        return ()
    out = []
    for sizes in zip(*shapes, strict=False):
        if len(set(sizes)) > 1:
            break
        out.append(sizes[0])
    return tuple(out)
