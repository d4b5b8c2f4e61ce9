"""`_repr_html_`: a TensorDict as a tree that folds, for notebooks."""

from __future__ import annotations

from typing import Any

from lite._show.page import escape
from lite._show.rows import Row, rows, size_text
from lite._tree.protocol import Container
from lite._tree.walks import leaves

_MOST_ROWS = 200
_LONGEST_TEXT = 80
_OPEN_LEVELS = 2
_STYLE = (
    "<style>.lite-td{font-family:monospace;font-size:90%}.lite-td details{margin-left:1em}"
    ".lite-td summary{cursor:pointer;margin-left:-1em}.lite-td table{border-collapse:collapse;margin:0}"
    ".lite-td td,.lite-td th{text-align:left;padding:0 1em 0 0;border:0}"
    ".lite-td .lite-key{font-weight:bold}.lite-td .lite-note{opacity:.65}</style>"
)


def _repr_html_(td: Container) -> str:
    """A tree with shapes, dtypes and bytes; nested TensorDicts fold."""
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
    facts.append(size_text(sum(leaf.nbytes for leaf in leaves(td))))
    label = f'<span class="lite-key">{escape(key)}</span>: ' if key else ""
    note = f'<span class="lite-note">{escape(", ".join(facts))}</span>'
    unfolded = " open" if level < _OPEN_LEVELS else ""
    return f"<details{unfolded}><summary>{label}{escape(kind)} {note}</summary>{_body(td, level)}</details>"


def _body(td: Any, level: int) -> str:
    lines: list[str] = []
    nodes: list[str] = []
    for count, row in enumerate(rows(td)):
        if count == _MOST_ROWS:
            lines.append('<tr><td class="lite-note">more entries are not shown</td></tr>')
            break
        key = row.key + row.label
        node = td._as_node(row.entry)
        if node is not None:
            nodes.append(_node(type(row.entry).__name__, key, node, level + 1))
        else:
            texts = "".join(f"<td>{escape(cell)}</td>" for cell in _cells(row))
            lines.append(f'<tr><td class="lite-key">{escape(key)}</td>{texts}</tr>')
    return (f"<table>{''.join(lines)}</table>" if lines else "") + "".join(nodes)


def _cells(row: Row) -> tuple[str, ...]:
    if row.nbytes is not None:
        return row.kind, str(row.shape), row.dtype, row.device, size_text(row.nbytes)
    if row.entry is None:
        return row.kind, str(row.shape), "", "", ""
    text = str(row.entry._export())
    if len(text) > _LONGEST_TEXT:
        text = text[:_LONGEST_TEXT] + "..."
    return type(row.entry).__name__, str(row.entry.batch_size), text, "", ""
