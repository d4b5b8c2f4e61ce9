"""`__getstate__` and `__setstate__` of containers with slots. Weak references to parents are not pickled.

NumPy pickles arrays; under protocol 5 it hands contiguous ones to `buffer_callback` without a copy. It would
copy arrays of extension dtypes (bfloat16), so their bits are pickled. A memory-mapped array is pickled as the
path of its file.
"""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

import numpy as np

from lite._arrays.device import is_device_leaf
from lite._arrays.types import Array
from lite._tree.protocol import Container

_TRANSIENT = frozenset({"__weakref__", "_before", "_contexts", "_lock_parents", "_origin", "_source"})


def getstate(td: Container) -> dict[str, Any]:
    """The slots of a container by name, without caches and references to parents."""
    cls = type(td)
    # A subclass may have replaced a slot of its base by a property.
    names = [
        name
        for base in cls.__mro__
        for name in base.__dict__.get("__slots__", ())
        if name not in _TRANSIENT and isinstance(getattr(cls, name), MemberDescriptorType)
    ]
    state = {name: getattr(td, name) for name in names if hasattr(td, name)}
    source = getattr(td, "_source", None)
    if isinstance(source, str):
        state["_source"] = source
    if isinstance(source, np.ndarray):
        state["_consolidated"] = True
    if "_data" in state:
        state["_data"] = {key: _portable(entry) for key, entry in state["_data"].items()}
    return state


def setstate(td: Container, state: dict[str, Any]) -> None:
    """Fill a new container; a locked one is locked again, which sets the references to parents."""
    consolidated = state.pop("_consolidated", False)
    for name, value in state.items():
        setattr(td, name, value)
    td._lock_parents = []
    if td._locked:
        td._locked = False
        if consolidated:
            td.consolidate(inplace=True)
        td.lock_()


class _Bits:
    """The pickled form of an array of an extension dtype; unpickling gives the array."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def __reduce__(self) -> Any:
        array = self.array
        return _from_bits, (array.view(f"u{array.dtype.itemsize}"), array.dtype)


def _from_bits(bits: Array, dtype: np.dtype[Any]) -> Array:
    return bits.view(dtype)


def _portable(entry: Any) -> Any:
    """The entry, or what is pickled in its place. Raises TypeError for arrays in GPU memory."""
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
