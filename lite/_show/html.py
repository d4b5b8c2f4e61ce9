"""`_repr_html_`: a TensorDict as a tree that folds, for notebooks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lite._arrays.device import device_of
from lite._arrays.types import is_array
from lite._containers.ragged import stand_in
from lite._show.summary import size_text
from lite._tree.nontensor import NonTensorBase
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


def escape(text: str) -> str:
    """HTML-safe text; the module is imported here, for notebooks only, to keep `import lite` short."""
    from html import escape as standard

    return standard(text)


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
    rows: list[str] = []
    nodes: list[str] = []
    for count, (key, cells, entry) in enumerate(_described(td)):
        if count == _MOST_ROWS:
            rows.append('<tr><td class="lite-note">more entries are not shown</td></tr>')
            break
        if cells is None:
            nodes.append(_node(type(entry).__name__, key, td._as_node(entry), level + 1))
        else:
            texts = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            rows.append(f'<tr><td class="lite-key">{escape(key)}</td>{texts}</tr>')
    return (f"<table>{''.join(rows)}</table>" if rows else "") + "".join(nodes)


def _described(td: Any) -> Iterator[tuple[str, tuple[str, ...] | None, Any]]:
    """(key, cells, entry) of every entry; no cells for those that are nodes of the tree themselves."""
    shared = list(td._keys())
    for key in shared:
        yield (key, *_cells(td, key))
    stacked = td._parts()
    for i, part in enumerate(stacked[0] if stacked is not None else ()):
        for key in part._keys():
            if key not in shared:
                yield (f"{key} (only in {i})", *_cells(part, key))


def _cells(td: Any, key: str) -> tuple[tuple[str, ...] | None, Any]:
    found = stand_in(td, key)
    if is_array(found):
        nbytes = sum(leaf.nbytes for leaf in leaves(td.select(key)))
        shape = td._item_shape(key)
        return ("Array", str(shape), str(found.dtype), device_of(found), size_text(nbytes)), None
    try:
        entry = td._get_str(key)
    except RuntimeError:  # parts that cannot be stacked have no common text
        return (type(found).__name__, str(td._item_shape(key)), "", "", ""), None
    if not isinstance(entry, NonTensorBase):
        return None, entry
    text = str(entry._export())
    if len(text) > _LONGEST_TEXT:
        text = text[:_LONGEST_TEXT] + "..."
    return (type(entry).__name__, str(entry.batch_size), text, "", ""), None
