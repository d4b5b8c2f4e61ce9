"""The text form of a TensorDict: one line per array, nested blocks, sorted fields."""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import indent
from typing import Any

from lite._collection import Shape, is_array
from lite._core import TensorDictCore
from lite._device import device_of
from lite._nontensor import NonTensorBase


class ReprMixin(TensorDictCore):
    """`repr` and `str`."""

    __slots__ = ()

    def __repr__(self) -> str:
        stacked = self._parts()
        if stacked is None:
            lines = [f"{key}: {_entry(entry, self.device)}" for key, entry in self._items()]
            return _block(type(self).__name__, [f"fields={{{_fields(lines)}}}"], self, [])
        parts, dim = stacked
        shared = list(self._keys())
        lines = [f"{key}: {entry_text(self, key)}" for key in shared]
        fields = [f"fields={{{_fields(lines)}}}", f"exclusive_fields={{\n{_exclusive(parts, shared)}}}"]
        return _block(type(self).__name__, fields, self, [f"stack_dim={dim}"])


def _block(name: str, fields: list[str], td: Any, more: list[str]) -> str:
    lines = [*fields, f"batch_size={td.batch_size}", f"device={td.device}", "is_shared=False", *more]
    body = ",\n".join(indent(line, "    ") for line in lines)
    return f"{name}(\n{body})"


def _fields(lines: Iterable[str]) -> str:
    return "\n" + indent(",\n".join(sorted(lines)), "    ")


def _entry(entry: Any, device: str | None) -> str:
    if is_array(entry):
        return _array(tuple(entry.shape), entry)
    return entry._repr_on(device) if isinstance(entry, NonTensorBase) else repr(entry)


def _array(shape: Shape, value: Any) -> str:
    return f"Array(shape={shape}, device={device_of(value)}, dtype={value.dtype}, is_shared=False)"


def entry_text(td: Any, key: str) -> str:
    """One entry of a lazy stack, without stacking its arrays, which may be ragged."""
    found = td._peek(key)
    if is_array(found):
        return _array(td._item_shape(key), found)
    try:
        return _entry(td._get_str(key), td.device)
    except RuntimeError:  # objects that differ in shape, or in kind
        return f"{type(found).__name__}(batch_size={td._item_shape(key)}, device={td.device})"


def _exclusive(parts: Any, shared: list[str]) -> str:
    blocks = []
    for i, part in enumerate(parts):
        lines = [f"{key}: {entry_text(part, key)}" for key in part._keys() if key not in shared]
        if lines:
            blocks.append(indent(f"{i} ->{_fields(lines)}", "    "))
    return ",\n".join(blocks)
