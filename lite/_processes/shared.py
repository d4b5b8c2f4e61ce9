"""Arrays in shared memory, and TensorDicts of them that are sent to other processes.

Code for mapped files and processes is imported on the first call, so that `import lite` stays fast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array, ArrayHolder, host_array, is_array, raw
from lite._files import blocks
from lite._tree.protocol import Container, T
from lite._tree.walks import leaves, like_leaf, nodes


def share_memory_(td: T) -> T:
    """Move all arrays to shared memory, and lock; returns self.

    Processes that are started afterwards, or receive self through a queue, pipe or pool of
    `multiprocessing` or `concurrent.futures`, share the arrays: all see the writes of one. Sending copies
    nothing, so the sender must live until self is received: a process that ends waits for that, up to 5
    seconds, and a later receiver gets a ConnectionError. The same holds for views of self, such as `td[0]`.
    The memory is freed when no process holds an array in it. Objects are copied. Arrays that were read from
    self before keep the old memory.

    Raises:
        RuntimeError: an array is memory-mapped, and therefore shared already.
        TypeError: an array on a GPU, or inside a `vmap`.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"count": np.zeros(2)}, [2]).share_memory_()
        >>> td.is_shared(), td.is_locked
        (True, True)
    """
    from lite._files.mapping import source_of

    moving: dict[int, Array] = {}
    for leaf in map(raw, leaves(td)):
        array = leaf if isinstance(leaf, np.ndarray) else host_array(leaf)
        if not blocks.is_shared(array):
            if source_of(array) is not None:
                raise RuntimeError(
                    "share_memory_ and memory-mapped arrays exclude each other: mapped arrays are "
                    "shared already; clone() gives arrays in memory."
                )
            moving[id(leaf)] = array
    for name, shared in zip(list(moving), blocks.copies(list(moving.values())), strict=True):
        moving[name] = shared
    _replace(td, moving)
    return td.lock_()


def is_shared(td: Container) -> bool:
    """Whether every array, or its base, lies in memory of `share_memory_`.

    For mapped files see `is_memmap`.
    """
    found = False
    for array in map(raw, leaves(td)):
        if not blocks.is_shared(array):
            return False
        found = True
    return found


def _replace(td: Any, moved: dict[int, Array]) -> None:
    """Put the shared arrays in place, and have containers send handles."""
    for node in nodes(td):
        if node._parts() is not None:
            continue
        blocks.send_by_handle(type(node))
        for key, entry in list(node._items()):
            shared = moved.get(id(raw(entry))) if is_array(entry) else None
            if isinstance(entry, ArrayHolder) and shared is not None:
                entry.data = shared
            elif shared is not None:
                node._data[key] = like_leaf(entry, shared)
