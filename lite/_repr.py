"""The text form of a TensorDict: one line per array, nested blocks, sorted fields."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache
from textwrap import indent
from typing import Any

import numpy as np

from lite._collection import Array, ArrayHolder, Shape, is_array
from lite._core import TensorDictCore
from lite._device import device_of
from lite._nontensor import NonTensorBase
from lite._printoptions import print_options
from lite._ragged import stand_in
from lite._sharing import block_of


class ReprMixin(TensorDictCore):
    """`repr` and `str`."""

    __slots__ = ()

    def __repr__(self) -> str:
        stacked = self._parts()
        if stacked is None:
            lines = {key: _entry(entry, self.device) for key, entry in self._items()}
            return _block(type(self).__name__, [f"fields={{{_fields(lines)}}}"], self, [])
        parts, dim = stacked
        shared = list(self._keys())
        lines = {key: entry_text(self, key) for key in shared}
        fields = [f"fields={{{_fields(lines)}}}", f"exclusive_fields={{\n{_exclusive(parts, shared)}}}"]
        return _block(type(self).__name__, fields, self, [f"stack_dim={dim}"])


def _block(name: str, fields: list[str], td: Any, more: list[str]) -> str:
    body = ",\n".join([_indented(line) for line in [*fields, *state_lines(td), *more]])
    return f"{name}(\n{body})"


def state_lines(td: Any) -> list[str]:
    """Batch size, device and sharing of a container, as far as the print options show them."""
    options = print_options()
    lines = [
        (options.show_batch_size, f"batch_size={td.batch_size}"),
        (options.show_device, f"device={td.device}"),
        (options.show_is_shared, f"is_shared={td.is_shared()}"),
    ]
    return [line for shown, line in lines if shown]


def ordered(lines: dict[str, str], separator: str = ": ") -> list[str]:
    """`key: text` for every entry, in the order of the print options."""
    order = print_options().sort_keys
    if order == "alphabetical":
        return sorted(f"{key}{separator}{text}" for key, text in lines.items())
    keys = list(lines) if order == "insertion" else sorted(lines, key=order)  # type: ignore[arg-type]
    return [f"{key}{separator}{lines[key]}" for key in keys]


def _fields(lines: dict[str, str]) -> str:
    return "\n" + ",\n".join([_indented(line) for line in ordered(lines)])


def _indented(text: str) -> str:
    # textwrap.indent looks at every line; most texts are one.
    return "    " + text if text.isprintable() else indent(text, "    ")


@lru_cache(maxsize=64)
def _dtype_text(dtype: np.dtype[Any]) -> str:
    # NumPy works the name out in Python, anew each time.
    return str(dtype)


def _entry(entry: Any, device: str | None) -> str:
    if is_array(entry):
        return _array(tuple(entry.shape), entry, entry)
    return entry._repr_on(device) if isinstance(entry, NonTensorBase) else repr(entry)


def _array(shape: Shape, value: Any, whole: Any) -> str:
    """An array's line; `whole` is the array itself where that is at hand, `value` shows its kind."""
    options = print_options()
    items = [
        (options.show_shape, f"shape={shape}"),
        (options.show_field_device, f"device={device_of(value)}"),
        (options.show_dtype, f"dtype={_dtype_text(value.dtype)}"),
        (options.show_field_is_shared, f"is_shared={block_of(value) is not None}"),
        (options.show_grad, f"requires_grad={getattr(whole, 'requires_grad', False)}"),
    ]
    shown = [text for wanted, text in items if wanted]
    if whole is not None and isinstance(whole, np.ndarray):
        if options.show_is_contiguous:
            shown.append(f"is_contiguous={whole.flags.c_contiguous}")
        if options.show_is_view:
            shown.append(f"is_view={isinstance(whole.base, np.ndarray)}")
        if options.show_storage_size:
            shown.append(f"storage_size={_storage(whole).nbytes}")
        if options.plain and whole.size:
            shown.append(_statistics(whole))
    kind = type(whole).__name__ if isinstance(whole, ArrayHolder) else "Array"
    return f"{kind}({', '.join(shown)})"


def _storage(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def _statistics(array: Array) -> str:
    if array.dtype.kind in "biu":
        return f"min={array.min()}, max={array.max()}"
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    with np.errstate(all="ignore"):
        std = wide.std(ddof=1) if wide.size > 1 else math.nan
        return f"mean={wide.mean():.4g}, std={std:.4g}"


def entry_text(td: Any, key: str) -> str:
    """One entry of a lazy stack, without stacking its arrays, which may be ragged."""
    found = stand_in(td, key)
    if is_array(found):
        shape = td._item_shape(key)
        ragged = -1 in shape or not _shows_contents()
        return _array(shape, found, None if ragged else td._get_str(key))
    try:
        return _entry(td._get_str(key), td.device)
    except RuntimeError:  # objects that differ in shape, or in kind
        return f"{type(found).__name__}(batch_size={td._item_shape(key)}, device={td.device})"


def _shows_contents() -> bool:
    """Whether some option needs the array itself, for which a lazy stack has to stack it."""
    o = print_options()
    return o.plain or o.show_is_contiguous or o.show_is_view or o.show_storage_size


def _exclusive(parts: Iterable[Any], shared: list[str]) -> str:
    blocks = []
    for i, part in enumerate(parts):
        lines = {key: entry_text(part, key) for key in part._keys() if key not in shared}
        if lines:
            blocks.append(indent(f"{i} ->{_fields(lines)}", "    "))
    return ",\n".join(blocks)
