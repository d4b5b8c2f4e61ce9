"""Pickling containers with slots: weak references are left out and rebuilt by locking again."""

from __future__ import annotations

from types import MemberDescriptorType
from typing import Any

from lite._core import TensorDictCore

_TRANSIENT = frozenset({"__weakref__", "_before", "_contexts", "_lock_parents", "_origin", "_source"})


class PickleMixin(TensorDictCore):
    """`pickle` keeps entries, batch size, device, names and lock state."""

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
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._lock_parents = []
        if self._locked:
            self._locked = False
            self.lock_()
