"""`summary`: a table of the entries of a TensorDict with their sizes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lite._arrays.types import Path
from lite._show.rows import rows, size_text
from lite._tree.keys import to_key
from lite._tree.protocol import Container
from lite._tree.walks import leaves


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
    found = list(_lines(td, ()))
    cells = [("key", "kind", "shape", "dtype", "bytes"), *(line for line, _ in found)]
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
    total = size_text(sum(nbytes for _, nbytes in found))
    name = type(td).__name__
    plural = "" if arrays == 1 else "s"
    end = f"{name}, batch_size={td.batch_size}: {arrays} array{plural}, {total}"
    return "\n".join([lines[0], rule, *lines[1:], rule, end])


def _lines(td: Any, above: Path) -> Iterator[tuple[tuple[str, ...], int]]:
    """The cells of every entry at any depth, and its bytes."""
    for row in rows(td):
        path = (*above, row.key)
        node = td._as_node(row.entry)
        if node is not None and (list(node._keys()) or not node.is_empty()):
            yield from _lines(node, path)
            continue
        nbytes = 0 if node is not None else row.nbytes
        shown = "" if nbytes is None else str(nbytes)
        yield (f"{to_key(path)}{row.label}", row.kind, str(row.shape), row.dtype, shown), nbytes or 0
