"""`share_memory_` and `is_shared`: arrays in memory that processes share."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array, ArrayHolder, is_array, raw
from lite._processes.sharing import SharedBlock, block_of, send_by_handle
from lite._tree.protocol import Container, T
from lite._tree.walks import leaves

_ALIGNMENT = 64  # a cache line; enough for any dtype


def share_memory_(td: T) -> T:
    """Move all arrays to memory that processes share, and lock; returns self.

    Processes that are started afterwards, or get self through a queue, pipe or pool of
    `multiprocessing` or `concurrent.futures`, have the same arrays: writes of one are seen by all.
    Nothing is copied on the way. The same goes for views of self, such as `td[0]`. The memory is free
    again when no process holds an array in it. Objects are copied, and arrays that were taken out of
    self before keep the old memory.

    Raises:
        RuntimeError: an array is memory-mapped, and so shared already.
        TypeError: an array on a GPU.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> td = TensorDict({"count": np.zeros(2)}, [2]).share_memory_()
        >>> td.is_shared(), td.is_locked
        (True, True)
    """
    from lite._files.mapping import source_of

    moving: dict[int, Array] = {}
    for array in map(raw, leaves(td)):
        if not isinstance(array, np.ndarray):
            raise TypeError(
                f'a {type(array).__name__} cannot be shared with processes; move it first: td.to("cpu").'
            )
        if block_of(array) is None:
            if source_of(array) is not None:
                raise RuntimeError(
                    "share_memory_ and memory-mapped arrays exclude each other: mapped arrays are "
                    "shared already; clone() gives arrays in memory."
                )
            moving[id(array)] = array
    if moving:
        starts = np.cumsum([0, *[-(-a.nbytes // _ALIGNMENT) * _ALIGNMENT for a in moving.values()]])
        memory = np.asarray(SharedBlock.new(max(int(starts[-1]), 1)))  # empty arrays are views, too
        for start, (name, array) in zip(starts.tolist(), list(moving.items()), strict=False):
            shared = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
            shared[...] = array
            moving[name] = shared
    _replace(td, moving)
    return td.lock_()


def is_shared(td: Container) -> bool:
    """Whether every array lies in memory that `share_memory_` made; views of such arrays do, too.

    Mapped files are another matter, see `is_memmap`.
    """
    found = False
    for array in map(raw, leaves(td)):
        if block_of(array) is None:
            return False
        found = True
    return found


def _replace(node: Any, moved: dict[int, Array]) -> None:
    """Put the shared arrays in place, and have containers send handles."""
    stacked = node._parts()
    if stacked is not None:
        for part in stacked[0]:
            _replace(part, moved)
        return
    send_by_handle(type(node))
    for key, entry in list(node._items()):
        if is_array(entry):
            shared = moved.get(id(raw(entry)))
            if isinstance(entry, ArrayHolder) and shared is not None:
                entry.data = shared
            elif shared is not None:
                node._data[key] = shared
        else:
            child = node._as_node(entry)
            if child is not None:
                _replace(child, moved)
