"""Rows that describe the entries of a container: first the entries that all parts of a lazy stack share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from lite._arrays.device import device_of
from lite._arrays.types import Shape, is_array
from lite._containers.ragged import peek_first_part
from lite._tree.walks import leaves


class Row(NamedTuple):
    """The description of an entry; its arrays, which may be ragged, are not stacked.

    Attributes:
        key: its key.
        part: the only part of a lazy stack that has it; None for an entry of the container itself.
        kind: "Array", or the name of its class.
        shape: -1 where parts differ.
        dtype: dtype of an array, else "".
        device: device of an array, else "".
        nbytes: bytes of the elements of an array, even if arrays share memory; else None.
        entry: an entry that is not an array; None also if parts cannot be stacked.
    """

    key: str
    part: int | None
    kind: str
    shape: Shape
    dtype: str
    device: str
    nbytes: int | None
    entry: Any

    @property
    def label(self) -> str:
        """Which part of a lazy stack the entry is in, if it is not in all."""
        return "" if self.part is None else f" (only in {self.part})"


def places(td: Any) -> Iterator[tuple[Any, str, int | None]]:
    """Every direct entry as (container that has it, key, part): shared entries first, then those of parts."""
    shared = list(td._keys())
    for key in shared:
        yield td, key, None
    stacked = td._parts()
    for i, part in enumerate(stacked[0] if stacked is not None else ()):
        for key in part._keys():
            if key not in shared:
                yield part, key, i


def rows(td: Any) -> Iterator[Row]:
    """A row for every direct entry."""
    for holder, key, part in places(td):
        found = peek_first_part(holder, key)
        try:
            shape = holder.get_item_shape(key)
        except RuntimeError:  # an uninitialised lazy parameter has no shape
            shape = (-1,)
        if is_array(found):
            nbytes = bytes_of(holder.select(key))
            yield Row(key, part, "Array", shape, str(found.dtype), device_of(found), nbytes, None)
            continue
        try:
            entry = holder._get_entry(key)
        except RuntimeError:  # parts that cannot be stacked
            entry = None
        yield Row(key, part, type(found).__name__, shape, "", "", None, entry)


def bytes_of(td: Any) -> int:
    """Bytes of the elements of all arrays; an uninitialised lazy parameter counts 0."""
    total = 0
    for leaf in leaves(td):
        with suppress(ValueError):
            total += leaf.nbytes
    return total


def size_text(nbytes: int) -> str:
    """A number of bytes with a unit: 120 B, 1.5 KiB, 2.0 GiB.

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
