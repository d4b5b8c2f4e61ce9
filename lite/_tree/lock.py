"""Locking: freezes the key set of a tree. A locked node has weak references to its locked parents."""

from __future__ import annotations

import gc
import weakref
from typing import Any, TypeVar

T = TypeVar("T", bound=Any)

LOCK_ERROR = (
    "Cannot modify locked TensorDict. For in-place modification, consider using the `set_()` method "
    "and make sure the key is present."
)
_UNLOCK_ERROR = "Cannot unlock a tensordict that is part of a locked graph. Unlock the root tensordict first."


def lock_(td: T) -> T:
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
    td._before = td.is_locked
    if not td._locked:
        lock_nested(td, None)
    return td


def require_unlocked(td: Any) -> None:
    """Raise RuntimeError if a container or any node in it is locked."""
    if td._locked:
        raise RuntimeError(LOCK_ERROR)
    for child in td._lock_children():
        require_unlocked(child)


def lock_nested(td: Any, parent: object) -> None:
    """Lock a node of `parent` and all nodes in it."""
    if parent is not None:
        alive = td._lock_parents and [ref for ref in td._lock_parents if ref() is not None]
        td._lock_parents = [*alive, weakref.ref(parent)]
    if not td._locked:
        td._locked = True
        for child in td._lock_children():
            lock_nested(child, td)


def unlock_(td: T) -> T:
    """Allow keys to be added and removed again, here and in all nested TensorDicts; returns self.

    Raises:
        RuntimeError: if a locked parent that is still alive holds this TensorDict.
    """
    td._before = td.is_locked
    for node in _unlockable(td):  # nested nodes can be locked although self is not
        node._locked = False
        node._lock_parents = ()
    return td


def _unlockable(td: Any) -> list[Any]:
    """The container and all nodes in it; RuntimeError if a locked container outside holds one of them."""
    if td._lock_parents and _has_locked_parent(td):
        gc.collect()  # a parent that is alive only through a reference cycle must not keep the lock
        if _has_locked_parent(td):
            raise RuntimeError(_UNLOCK_ERROR)
    nodes: list[Any] = [td]
    for node in nodes:  # grows during the iteration
        nodes += node._lock_children()
    if len(nodes) > 1:
        inside = set(map(id, nodes))
        for node in nodes[1:]:
            for ref in node._lock_parents:
                parent = ref()
                if id(parent) not in inside and parent is not None and parent._locked:
                    raise RuntimeError(_UNLOCK_ERROR)
    return nodes


def _has_locked_parent(node: Any) -> bool:
    return any(parent is not None and parent._locked for parent in (ref() for ref in node._lock_parents))
