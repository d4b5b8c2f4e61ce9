"""Pickling containers with slots: weak references are left out and rebuilt by locking again."""

from __future__ import annotations

from typing import Any

from lite._core import TensorDictCore

_TRANSIENT = frozenset({"__weakref__", "_before", "_contexts", "_lock_parents"})


class PickleMixin(TensorDictCore):
    """`pickle` keeps entries, batch size, device, names and lock state."""

    __slots__ = ()

    def __getstate__(self) -> dict[str, Any]:
        names = [name for cls in type(self).__mro__ for name in cls.__dict__.get("__slots__", ())]
        return {name: getattr(self, name) for name in names if name not in _TRANSIENT and hasattr(self, name)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, name, value)
        self._lock_parents = []
        if self._locked:
            self._locked = False
            self.lock_()
