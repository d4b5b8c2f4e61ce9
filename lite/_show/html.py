"""`_repr_html_`: a TensorDict as a foldable tree, for notebooks."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import raw
from lite._show.page import escape
from lite._show.rows import Row, bytes_of, rows, size_text
from lite._tree.nontensor import NonTensorStack
from lite._tree.protocol import Container

_MOST_ROWS = 200
_LONGEST_TEXT = 80
_MOST_VALUES = 6
_MOST_OBJECTS = 20
_MOST_STACKED = 1 << 20  # bytes
_HEADINGS = ("key", "kind", "shape", "dtype", "device", "bytes", "values")
_HEAD = "<tr>" + "".join(f"<th>{name}</th>" for name in _HEADINGS) + "</tr>"
_OPEN_LEVELS = 2
_STYLE = (
    "<style>.lite-td{font-family:monospace;font-size:90%;overflow-x:auto}.lite-td details{margin-left:1em}"
    ".lite-td summary{cursor:pointer;margin-left:-1em}.lite-td table{border-collapse:collapse;margin:0}"
    # Named twice, to weigh as much as JupyterLab's rule that moves all cells to the right.
    ".lite-td.lite-td td,.lite-td.lite-td th{text-align:left;padding:0 1em 0 0;border:0}"
    ".lite-td td,.lite-td th{vertical-align:top;white-space:nowrap}"
    ".lite-td th{font-weight:normal;opacity:.65}"
    ".lite-td td:first-child{white-space:normal;overflow-wrap:break-word;max-width:24em}"
    ".lite-td td:last-child{white-space:normal;overflow-wrap:anywhere;min-width:16em}"
    ".lite-td .lite-key{font-weight:bold}.lite-td .lite-note{opacity:.65}</style>"
)


def _repr_html_(td: Container) -> str:
    """A tree with shapes, dtypes, bytes and the first values; nested TensorDicts fold."""
    return html_of(td, td)


def html_of(shown: Any, td: Any) -> str:
    """The HTML of a container; `shown` is it, or the tensorclass around it."""
    return f'{_STYLE}<div class="lite-td">{_node(type(shown).__name__, "", td, 0)}</div>'


def _node(kind: str, key: str, td: Any, level: int) -> str:
    facts = [f"batch_size={td.batch_size}", f"device={td.device}"]
    if td._names is not None:
        facts.append(f"names={td._names}")
    stacked = td._parts()
    if stacked is not None:
        facts.append(f"stack_dim={stacked[1]}")
    if td.is_locked:
        facts.append("locked")
    facts.append(size_text(bytes_of(td)))
    label = f'<span class="lite-key">{escape(key)}</span>: ' if key else ""
    note = f'<span class="lite-note">{escape(", ".join(facts))}</span>'
    unfolded = " open" if level < _OPEN_LEVELS else ""
    return f"<details{unfolded}><summary>{label}{escape(kind)} {note}</summary>{_body(td, level)}</details>"


def _body(td: Any, level: int) -> str:
    lines: list[str] = []
    nodes: list[str] = []
    for count, row in enumerate(rows(td)):
        if count == _MOST_ROWS:
            lines.append(
                f'<tr><td class="lite-note" colspan="{len(_HEADINGS)}">more entries are not shown</td></tr>'
            )
            break
        key = row.key + row.label
        node = td._as_node(row.entry)
        if node is not None:
            nodes.append(_node(type(row.entry).__name__, key, node, level + 1))
        else:
            texts = "".join(f"<td>{escape(cell)}</td>" for cell in _cells(td, row))
            lines.append(f'<tr><td class="lite-key">{escape(key)}</td>{texts}</tr>')
    return (f"<table>{_HEAD}{''.join(lines)}</table>" if lines else "") + "".join(nodes)


def _cells(td: Any, row: Row) -> tuple[str, ...]:
    """The cells after the key."""
    if row.nbytes is not None:
        return row.kind, str(row.shape), row.dtype, row.device, size_text(row.nbytes), _numbers(td, row)
    if row.entry is None:
        return row.kind, str(row.shape), "", "", "", ""
    return type(row.entry).__name__, str(row.entry.batch_size), "", "", "", _objects(row.entry)


def _numbers(td: Any, row: Row) -> str:
    """The first numbers of an array in host memory; empty for a lazy stack that is ragged or large."""
    stacked = td._parts()
    if stacked is not None and (-1 in row.shape or (row.nbytes or 0) > _MOST_STACKED):
        return ""
    holder = td if row.part is None else stacked[0][row.part]
    array = raw(holder._get_entry(row.key))
    if not isinstance(array, np.ndarray):
        return ""
    first = array.flat[: _MOST_VALUES + 1]  # not reshape, which may copy all of it
    rounded = array.dtype.kind not in "biu"
    shown = [f"{value:.4g}" if rounded else str(value) for value in first[:_MOST_VALUES].tolist()]
    return " ".join([*shown, "..."] if len(first) > _MOST_VALUES else shown)


def _objects(entry: Any) -> str:
    """The object of the whole batch, or the objects of the first rows; long texts are cut."""
    every = entry._objects() if isinstance(entry, NonTensorStack) else None
    many = every is not None and every.size > _MOST_OBJECTS
    text = str(every.flat[:_MOST_OBJECTS].tolist() if many and every is not None else entry._export())
    return text[:_LONGEST_TEXT] + "..." if many or len(text) > _LONGEST_TEXT else text
