"""Pickling containers with slots: weak references are left out and rebuilt by locking again.

Arrays are pickled by NumPy, which under protocol 5 hands contiguous ones to `buffer_callback` without a
copy. It copies those of extension dtypes (bfloat16), so these travel as their bits. Arrays in mapped files
are not copied at all: the pickle says where they are.
"""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

import numpy as np

from lite._arrays.device import is_device_leaf
from lite._arrays.types import Array
from lite._tree.protocol import TensorDictCore

_TRANSIENT = frozenset({"__weakref__", "_before", "_contexts", "_lock_parents", "_origin", "_source"})


class PickleMixin(TensorDictCore):
    """`pickle` keeps entries, batch size, device, names and lock state.

    Arrays mapped to a file (see `memmap`, `load_memmap`), and views of them, are pickled as path, position
    and shape, so that sending them to another process costs bytes, and both see the same memory. Unpickling
    raises FileNotFoundError if the file is gone, ValueError if it has been replaced. To keep the values
    themselves pickle `td.clone()`.
    """

    __slots__ = ()

    def __getstate__(self) -> dict[str, Any]:
        cls = type(self)
        # A property may have taken the place of a base's slot.
        names = [
            name
            for base in cls.__mro__
            for name in base.__dict__.get("__slots__", ())
            if name not in _TRANSIENT and isinstance(getattr(cls, name), MemberDescriptorType)
        ]
        state = {name: getattr(self, name) for name in names if hasattr(self, name)}
        source = getattr(self, "_source", None)
        if isinstance(source, str):
            state["_source"] = source
        if "_data" in state:
            state["_data"] = {key: _portable(entry) for key, entry in state["_data"].items()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._lock_parents = []
        if self._locked:
            self._locked = False
            self.lock_()


class _Bits:
    """An array of an extension dtype on its way into a pickle; what comes out is the array."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __reduce__(self) -> Any:
        array = self.array
        return _from_bits, (array.view(f"u{array.dtype.itemsize}"), array.dtype)


def _from_bits(bits: Array, dtype: np.dtype[Any]) -> Array:
    return bits.view(dtype)


def _portable(entry: Any) -> Any:
    owner = entry
    while isinstance(owner, np.ndarray):
        owner = owner.base
    if hasattr(owner, "reference") and type(entry) is np.ndarray and entry.size:
        reference = owner.reference(entry)
        if reference is not None:
            return reference
    if type(entry) is np.ndarray and entry.dtype.isbuiltin == 2 and entry.flags.forc:
        return _Bits(entry)
    if is_device_leaf(entry) and not hasattr(type(entry), "__array_ufunc__"):
        raise TypeError(
            f'a {type(entry).__name__} in GPU memory cannot be pickled; move it first: td.to("cpu").'
        )
    return entry
