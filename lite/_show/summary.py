"""`summary`: what every entry of a TensorDict weighs, as a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from lite._arrays.types import Path, is_array
from lite._containers.ragged import stand_in
from lite._tree.keys import to_key
from lite._tree.protocol import Container
from lite._tree.walks import leaves


class _Row(NamedTuple):
    key: str
    kind: str
    shape: str
    dtype: str
    nbytes: int | None


def summary(td: Container) -> str:
    """A table with one line per entry: kind, shape, dtype and bytes, and the sum at the end.

    Bytes are those of the elements an entry shows, also where arrays share memory; Python objects
    have none. Entries of a lazy stack that not all parts have are listed with the part.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"obs": np.zeros((3, 4)), "info": {"step": np.arange(3)}}, batch_size=[3])
        >>> print(td.summary())
        key               kind   shape   dtype    bytes
        -----------------------------------------------
        obs               Array  (3, 4)  float64     96
        ('info', 'step')  Array  (3,)    int64       24
        -----------------------------------------------
        TensorDict, batch_size=(3,): 2 arrays, 120 B
    """
    rows = list(_rows(td, ()))
    head = _Row("key", "kind", "shape", "dtype", None)
    cells = [[*row[:4], "" if row.nbytes is None else str(row.nbytes)] for row in rows]
    cells = [[*head[:4], "bytes"], *cells]
    widths = [max(len(line[i]) for line in cells) for i in range(5)]
    lines = [
        "  ".join(
            cell.rjust(width) if i == 4 else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    ]
    rule = "-" * (sum(widths) + 8)
    arrays = sum(1 for _ in leaves(td))
    total = size_text(sum(row.nbytes or 0 for row in rows))
    name = type(td).__name__
    plural = "" if arrays == 1 else "s"
    end = f"{name}, batch_size={td.batch_size}: {arrays} array{plural}, {total}"
    return "\n".join([lines[0], rule, *lines[1:], rule, end])


def _rows(td: Any, above: Path) -> Iterator[_Row]:
    shared = list(td._keys())
    for key in shared:
        yield from _entry_rows(td, key, (*above, key), "")
    stacked = td._parts()
    for i, part in enumerate(stacked[0] if stacked is not None else ()):
        for key in part._keys():
            if key not in shared:
                yield from _entry_rows(part, key, (*above, key), f" (only in {i})")


def _entry_rows(td: Any, key: str, path: Path, where: str) -> Iterator[_Row]:
    label = f"{to_key(path)}{where}"
    found = stand_in(td, key)
    if is_array(found):
        nbytes = sum(leaf.nbytes for leaf in leaves(td.select(key)))
        yield _Row(label, "Array", str(td._item_shape(key)), str(found.dtype), nbytes)
        return
    try:
        node = td._as_node(td._get_str(key))
    except RuntimeError:  # parts that cannot be stacked
        node = None
    if node is None:
        yield _Row(label, type(found).__name__, str(td._item_shape(key)), "", None)
    elif node.is_empty() and not list(node._keys()):
        yield _Row(label, type(found).__name__, str(node.batch_size), "", 0)
    else:
        yield from _rows(node, path)


def size_text(nbytes: int) -> str:
    """Bytes for people: 120 B, 1.5 KiB, 2.0 GiB.

    Example:
        >>> size_text(1536)
        '1.5 KiB'
    """
    size = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{nbytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
