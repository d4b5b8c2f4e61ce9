"""Locking: the key set of a tree frozen, tracked by weak references from node to locked parent."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any, Self

LOCK_ERROR = (
    "Cannot modify locked TensorDict. For in-place modification, consider using the `set_()` method "
    "and make sure the key is present."
)
_UNLOCK_ERROR = "Cannot unlock a tensordict that is part of a locked graph. Unlock the root tensordict first."


class LockMixin:
    """`lock_`, `unlock_` and `is_locked`; a locked tree takes value writes but no new or removed keys."""

    __slots__ = ("__weakref__", "_before", "_lock_parents", "_locked")
    _before: bool | None
    _locked: bool
    _lock_parents: Sequence[weakref.ref[Any]]

    def _lock_children(self) -> list[Any]:
        raise NotImplementedError

    @property
    def is_locked(self) -> bool:
        """Whether the key set is frozen."""
        return self._locked

    @is_locked.setter
    def is_locked(self, value: bool) -> None:
        if value:
            self.lock_()
        else:
            self.unlock_()

    def lock_(self) -> Self:
        """Freeze the key set of this TensorDict and of all nested ones; returns self.

        Example:
            >>> from lite import TensorDict
            >>> td = TensorDict(a=1).lock_()
            >>> td.set("b", 2)
            Traceback (most recent call last):
            ...
            RuntimeError: Cannot modify locked TensorDict. For in-place modification, consider using the \
`set_()` method and make sure the key is present.
        """
        self._before = self.is_locked
        if not self._locked:
            self._lock(None)
        return self

    def _lock(self, parent: Any) -> None:
        if parent is not None:
            self._lock_parents = [*self._lock_parents, weakref.ref(parent)]
        if not self._locked:
            self._locked = True
            for child in self._lock_children():
                child._lock(self)

    def unlock_(self) -> Self:
        """Allow new and removed keys again, here and in all that is nested; returns self.

        Raises:
            RuntimeError: if a locked parent that is still alive holds this TensorDict.
        """
        self._before = self.is_locked
        for node in self._unlockable():  # what is below can be locked alone
            node._locked = False
            node._lock_parents = ()
        return self

    def _unlockable(self) -> list[Any]:
        """Self and all that is below; RuntimeError if a locked container from outside holds any of it."""
        if self._lock_parents and _has_locked_parent(self) and _collected_and_still_locked(self):
            raise RuntimeError(_UNLOCK_ERROR)
        nodes: list[Any] = [self]
        for node in nodes:  # grows while it is read
            nodes += node._lock_children()
        if len(nodes) > 1:
            inside = set(map(id, nodes))
            for node in nodes[1:]:
                for ref in node._lock_parents:
                    parent = ref()
                    if id(parent) not in inside and parent is not None and parent._locked:
                        raise RuntimeError(_UNLOCK_ERROR)
        return nodes


def _live_parents(node: Any) -> list[Any]:
    return [p for p in (ref() for ref in node._lock_parents) if p is not None]


def _has_locked_parent(node: Any) -> bool:
    return any(p._locked for p in _live_parents(node))


def _collected_and_still_locked(node: Any) -> bool:
    # A parent that only a reference cycle keeps alive must not hold the lock.
    gc.collect()
    return _has_locked_parent(node)
