"""Hooks by number, and the handles that remove them."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

from lite._arrays.public import belong_to

_ids = itertools.count()

# A new object after each assignment to a name of any module, and each hook that comes or goes, so that a
# check for them costs nothing. It is not a counter, as two threads could write the same number.
assignments = [object()]


class RemovableHandle:
    """The handle of a registered hook: `remove()`, or the end of a `with` block, removes the hook.

    Example:
        >>> from lite import nn
        >>> m = nn.Identity()
        >>> with m.register_forward_hook(lambda module, args, output: output + 1):
        ...     m(1)
        2
        >>> m(1)
        1
    """

    def __init__(self, hooks: OrderedDict[int, Any]) -> None:
        self.id = next(_ids)
        # A handle must not keep the module alive through its hooks.
        self._hooks = weakref.ref(hooks)

    def remove(self) -> None:
        """Remove the hook; does nothing the second time."""
        hooks = self._hooks()
        if hooks is not None:
            assignments[0] = object()
            hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(hooks: OrderedDict[int, Any], hook: object, prepend: bool = False) -> RemovableHandle:
    """Put a hook at the end (or the front) of an ordered dict and return its handle."""
    handle = RemovableHandle(hooks)
    assignments[0] = object()
    hooks[handle.id] = hook
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


belong_to("lite.nn", RemovableHandle)  # which exports it
