"""The text form of a TensorDict: one line per array, nested blocks, sorted fields."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from lite._arrays.device import device_of
from lite._arrays.types import Array, ArrayHolder, Shape, Unbatched, is_array
from lite._containers.ragged import peek_first_part
from lite._files.blocks import is_shared
from lite._show.options import PrintOptions, print_options
from lite._show.rows import places
from lite._tree.nontensor import NonTensorBase
from lite._tree.protocol import Container


def repr(td: Container) -> str:
    stacked = td._parts()
    if stacked is None:
        options, device = print_options(), td.device
        brief = not options.shows_contents
        lines = {
            key: _line(options, entry.shape, entry.dtype, entry.base is not None and is_shared(entry))
            if brief and type(entry) is np.ndarray
            else _entry(entry, device)
            for key, entry in td._items()
        }
        return _block(type(td).__name__, [f"fields={{{_fields(lines)}}}"], td, [])
    shared: dict[str, str] = {}
    exclusive: dict[int, dict[str, str]] = {}
    for holder, key, part in places(td):
        texts = shared if part is None else exclusive.setdefault(part, {})
        texts[key] = entry_text(holder, key)
    blocks = ",\n".join(_indented(f"{i} ->{_fields(texts)}") for i, texts in exclusive.items())
    fields = [f"fields={{{_fields(shared)}}}", f"exclusive_fields={{\n{blocks}}}"]
    return _block(type(td).__name__, fields, td, [f"stack_dim={stacked[1]}"])


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
    # As textwrap.indent, which takes three times as long; most texts are one line.
    if "\n" not in text:
        return "    " + text
    lines = text.splitlines(True)
    if all(map(str.strip, lines)) and len(lines) == text.count("\n") + 1:
        return "    " + text.replace("\n", "\n    ")
    return "".join(["    " + line if line.strip() else line for line in lines])


@lru_cache(maxsize=256)
def _facts(
    options: PrintOptions, shape: Shape, device: str, dtype: np.dtype[Any], shared: bool, grad: bool
) -> tuple[str, ...]:
    """The text of an array besides its contents; cached, because many arrays share it.

    Formatting the name of a dtype alone takes NumPy longer than all the rest.
    """
    lines = [
        (options.show_shape, f"shape={shape}"),
        (options.show_field_device, f"device={device}"),
        (options.show_dtype, f"dtype={dtype}"),
        (options.show_field_is_shared, f"is_shared={shared}"),
        (options.show_grad, f"requires_grad={grad}"),
    ]
    return tuple([text for shown, text in lines if shown])


@lru_cache(maxsize=256)
def _line(options: PrintOptions, shape: Shape, dtype: np.dtype[Any], shared: bool) -> str:
    """The line of a NumPy array without contents."""
    return f"Array({', '.join(_facts(options, shape, 'cpu', dtype, shared, False))})"


def _entry(entry: Any, device: str | None) -> str:
    if is_array(entry):
        try:
            shape = tuple(entry.shape)
        except RuntimeError:  # an uninitialised lazy parameter has no shape
            shape = (-1,)
        return _array(shape, entry, entry)
    # Not `repr`, which is shadowed here; tensorclasses and buffers without data have their own.
    return entry._repr_on(device) if isinstance(entry, NonTensorBase) else str(entry.__repr__())


def _array(shape: Shape, value: Any, whole: Any) -> str:
    """The line of an array; `value` gives its kind, and `whole` is the array itself if it is available."""
    options = print_options()
    shared, grad = is_shared(value), getattr(whole, "requires_grad", False)
    shown = _facts(options, shape, device_of(value), value.dtype, shared, grad)
    if options.shows_contents and isinstance(whole, np.ndarray):
        shown += _contents(options, whole)
    kind = type(value).__name__ if isinstance(value, ArrayHolder | Unbatched) else "Array"
    return f"{kind}({', '.join(shown)})"


def _contents(options: PrintOptions, array: Array) -> tuple[str, ...]:
    """The options that need the contents of an array."""
    lines = []
    if options.show_is_contiguous:
        lines.append(f"is_contiguous={array.flags.c_contiguous}")
    if options.show_is_view:
        lines.append(f"is_view={isinstance(array.base, np.ndarray)}")
    if options.show_storage_size:
        lines.append(f"storage_size={_storage(array).nbytes}")
    if options.plain and array.size:
        lines.append(_statistics(array))
    return tuple(lines)


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
    found = peek_first_part(td, key)
    if is_array(found):
        shape = td.get_item_shape(key)
        ragged = -1 in shape or not print_options().shows_contents
        return _array(shape, found, None if ragged else td._get_entry(key))
    try:
        return _entry(td._get_entry(key), td.device)
    except RuntimeError:  # objects that differ in shape, or in kind
        return f"{type(found).__name__}(batch_size={td.get_item_shape(key)}, device={td.device})"
