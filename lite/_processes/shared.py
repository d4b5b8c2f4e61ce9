"""Arrays in memory that processes share, and how a TensorDict in it is sent to another process.

What maps files and what starts processes is imported on the first call, as it would lengthen `import
lite`.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
import weakref
from typing import Any

import numpy as np

from lite._arrays.types import Array, ArrayHolder, Shape, is_array, raw
from lite._tree.protocol import Container, T
from lite._tree.walks import as_of, leaves, nodes

_ALIGNMENT = 64  # a cache line; enough for any dtype
_blocks: weakref.WeakValueDictionary[str, SharedBlock] = weakref.WeakValueDictionary()


def share_memory_(td: T) -> T:
    """Move all arrays to memory that processes share, and lock; returns self.

    Processes that are started afterwards, or get self through a queue, pipe or pool of
    `multiprocessing` or `concurrent.futures`, have the same arrays: writes of one are seen by all.
    Nothing is copied on the way, so the sender must live until it is received: a process that ends waits
    for that, up to 5 seconds, and who receives later gets a ConnectionError. The same goes for views of
    self, such as `td[0]`. The memory is free again when no process holds an array in it. Objects are
    copied, and arrays that were taken out of self before keep the old memory.

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


def _replace(td: Any, moved: dict[int, Array]) -> None:
    """Put the shared arrays in place, and have containers send handles."""
    for node in nodes(td):
        if node._parts() is not None:
            continue
        send_by_handle(type(node))
        for key, entry in list(node._items()):
            shared = moved.get(id(raw(entry))) if is_array(entry) else None
            if isinstance(entry, ArrayHolder) and shared is not None:
                entry.data = shared
            elif shared is not None:
                node._data[key] = as_of(entry, shared)


# -- blocks ----------------------------------------------------------------------------------------


class SharedBlock:
    """Memory over a file without a name: it is gone when no process has it mapped any more.

    Args:
        size: bytes, not 0.
        name: identifies the block among all processes.
        descriptor: the open file (not on Windows, where the name is enough).
    """

    __slots__ = ("__array_interface__", "__weakref__", "_descriptor", "_memory", "name")

    def __init__(self, size: int, name: str, descriptor: int) -> None:
        self.name, self._descriptor = name, descriptor
        tag: dict[str, Any] = {"tagname": name} if os.name == "nt" else {}
        self._memory = np.frombuffer(mmap.mmap(descriptor, size, **tag), np.uint8)
        self.__array_interface__ = self._memory.__array_interface__
        _blocks[name] = self
        _wait_at_exit()

    @classmethod
    def new(cls, size: int) -> SharedBlock:
        """A block of zeros."""
        name = f"lite-{os.urandom(16).hex()}"
        descriptor = -1
        if os.name != "nt":
            descriptor = _nameless_file(name)
            os.ftruncate(descriptor, size)
        return cls(size, name, descriptor)

    @property
    def address(self) -> int:
        return self._memory.ctypes.data

    def __del__(self) -> None:
        if getattr(self, "_descriptor", -1) >= 0:
            os.close(self._descriptor)

    def __reduce__(self) -> Any:
        from multiprocessing.reduction import DupFd

        _wait_at_exit()  # also here, as a forked process has blocks that it has not made
        handle = None if self._descriptor < 0 else DupFd(self._descriptor)
        return _attached, (self._memory.size, self.name, handle)


def _nameless_file(name: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _attached(size: int, name: str, handle: Any) -> SharedBlock:
    known = _blocks.get(name)  # this process made the block, or has been sent it before
    descriptor = -1
    if handle is not None:
        # Also where the block is known, as the sender keeps what nobody fetches.
        try:
            descriptor = handle.detach()
        except (OSError, EOFError) as error:
            if known is None:
                raise ConnectionError(
                    "the process that sent this TensorDict ended before it was received, and its shared "
                    "memory is gone: receive before joining or ending that process, or let it send a copy, "
                    "td.clone()."
                ) from error
    if known is None:
        return SharedBlock(size, name, descriptor)
    if descriptor >= 0:
        os.close(descriptor)
    return known


_PATIENCE = 5.0  # seconds
_waits = -1  # the process that waits at its end


def _wait_at_exit() -> None:
    """Let this process end when the blocks that it sent have been fetched, for they are fetched from it."""
    global _waits
    if _waits != os.getpid() and os.name != "nt":
        from multiprocessing import util

        _waits = os.getpid()
        # After queues were told to send what they hold (10), before the socket is removed (0).
        util.Finalize(None, _wait_until_fetched, exitpriority=1)


def _wait_until_fetched() -> None:
    from multiprocessing import active_children, parent_process, resource_sharer

    # No public names tell what is still to be sent or fetched; without these the process ends at once.
    sharer = getattr(resource_sharer, "_resource_sharer", None)
    parent, deadline = parent_process(), time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        queued = any(thread.name.startswith("QueueFeeder") for thread in threading.enumerate())
        receivers = active_children() if parent is None else parent.is_alive()
        if not receivers or not (queued or getattr(sharer, "_cache", None)):
            return
        time.sleep(0.005)


def block_of(array: Any) -> SharedBlock | None:
    """The block that an array lies in; None for memory of this process alone."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, SharedBlock) else None


class _Leaf:
    """An array in a block on its way to another process; what comes out there is the array."""

    __slots__ = ("array", "block")

    def __init__(self, array: Array, block: SharedBlock) -> None:
        self.array, self.block = array, block

    def __reduce__(self) -> Any:
        array = self.array
        offset = array.ctypes.data - self.block.address
        writeable = array.flags.writeable
        return _leaf, (self.block, offset, array.shape, array.dtype, array.strides, writeable)


def _leaf(
    block: SharedBlock, offset: int, shape: Shape, dtype: np.dtype[Any], strides: Shape, writeable: bool
) -> Array:
    memory: Any = np.asarray(block)
    array: Array = np.ndarray(shape, dtype, memory, offset, strides)
    array.flags.writeable = writeable
    return array


def send_by_handle(kind: type) -> None:
    """Let what `multiprocessing` sends of a class of containers refer to blocks instead of copying them.

    `pickle` itself copies, as ever: a file cannot refer to memory.
    """
    from multiprocessing.reduction import ForkingPickler

    ForkingPickler.register(kind, _reduced)


def _reduced(td: Any) -> Any:
    state = td.__getstate__()
    for key, entry in state["_data"].items():
        block = block_of(entry)
        if block is not None:
            state["_data"][key] = _Leaf(entry, block)
    return _restored, (type(td), state)


def _restored(kind: Any, state: dict[str, Any]) -> Any:
    send_by_handle(kind)
    td = kind.__new__(kind)
    td.__setstate__(state)
    return td
