"""Shared memory of processes: an unnamed file, which is sent to other processes by a handle."""

from __future__ import annotations

import mmap
import os
import threading
import time
import weakref
from typing import Any

import numpy as np

from lite._arrays.types import Array, Shape

_ALIGNMENT = 64  # a cache line; enough for any dtype
_blocks: weakref.WeakValueDictionary[str, SharedBlock] = weakref.WeakValueDictionary()


class SharedBlock:
    """Memory over an unnamed file, which exists as long as a process has it mapped.

    Args:
        size: bytes, not 0.
        name: identifies the block among all processes.
        descriptor: the open file (not on Windows, where the name is enough).
        mapped: whether its arrays count as memory-mapped, as after `memmap_()` without a folder.
    """

    __slots__ = ("__array_interface__", "__weakref__", "_descriptor", "_memory", "mapped", "name")
    path = ""  # as in `FileMap`: the file has no path

    def __init__(self, size: int, name: str, descriptor: int, mapped: bool) -> None:
        self.name, self._descriptor, self.mapped = name, descriptor, mapped
        tag: dict[str, Any] = {"tagname": name} if os.name == "nt" else {}
        self._memory = np.frombuffer(mmap.mmap(descriptor, size, **tag), np.uint8)
        self.__array_interface__ = self._memory.__array_interface__
        _blocks[name] = self
        _wait_at_exit()

    @classmethod
    def new(cls, size: int, mapped: bool = False) -> SharedBlock:
        """A block of zeros."""
        name = f"lite-{os.urandom(16).hex()}"
        descriptor = -1
        if os.name != "nt":
            descriptor = _nameless_file(name)
            os.ftruncate(descriptor, size)
        return cls(size, name, descriptor, mapped)

    @property
    def address(self) -> int:
        return self._memory.ctypes.data

    def reference(self, array: Array) -> None:
        """None, as other processes cannot open the memory by a path."""

    def __del__(self, end: Any = os.close) -> None:  # the name `os` may be gone when Python ends
        if getattr(self, "_descriptor", -1) >= 0:
            end(self._descriptor)

    def __reduce__(self) -> Any:
        _wait_at_exit()  # also here, as a forked process has blocks that it has not made
        handle = None if self._descriptor < 0 else _handle(self._descriptor)
        return _attached, (self._memory.size, self.name, handle, self.mapped)


def _nameless_file(name: str) -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


_unsent: set[int] = set()  # copies of descriptors that other processes have not fetched yet


def _handle(descriptor: int) -> Any:
    """A handle by which another process fetches an open file from this one."""
    from multiprocessing import context, reduction, resource_sharer

    if context.get_spawning_popen() is not None:  # the child inherits it
        return reduction.DupFd(descriptor)
    copy = os.dup(descriptor)
    _unsent.add(copy)

    def send(connection: Any, receiver: int) -> None:
        reduction.send_handle(connection, copy, receiver)

    def close() -> None:  # called behind `send`, or by a forked process, which has nothing to send
        os.close(copy)
        _unsent.discard(copy)

    # DupFd would not tell when the descriptor is sent.
    handle = resource_sharer.DupFd.__new__(resource_sharer.DupFd)
    handle._id = resource_sharer._resource_sharer.register(send, close)  # type: ignore[attr-defined]
    return handle


def _attached(size: int, name: str, handle: Any, mapped: bool) -> SharedBlock:
    known = _blocks.get(name)  # this process created the block or received it before
    descriptor = -1
    if handle is not None:
        # The handle is fetched even if the block is known, as the sender keeps handles that are not fetched.
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
        return SharedBlock(size, name, descriptor, mapped)
    if descriptor >= 0:
        os.close(descriptor)
    return known


_PATIENCE = 5.0  # seconds
_waits = -1  # the process that waits at its exit


def _wait_at_exit() -> None:
    """Delay the exit of this process until other processes have fetched the blocks that it sent."""
    global _waits
    if _waits != os.getpid() and os.name != "nt":
        from multiprocessing import util

        _waits = os.getpid()
        # After queues flush their items (priority 10), before the socket is removed (0).
        util.Finalize(None, _wait_until_fetched, exitpriority=1)


def _wait_until_fetched() -> None:
    from multiprocessing import active_children, parent_process

    parent, deadline = parent_process(), time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        # No public name tells what queues have still to send.
        queued = any(thread.name.startswith("QueueFeeder") for thread in threading.enumerate())
        receivers = active_children() if parent is None else parent.is_alive()
        if not receivers or not (queued or _unsent):
            return
        time.sleep(0.005)


def copies(arrays: list[Array], *, filled: bool = True, mapped: bool = False) -> list[Array]:
    """Copies of arrays, or zeros, in one block; `mapped` as in `SharedBlock`."""
    if not arrays:
        return []
    starts = np.cumsum([0, *[-(-a.nbytes // _ALIGNMENT) * _ALIGNMENT for a in arrays]]).tolist()
    memory = np.asarray(SharedBlock.new(max(starts[-1], 1), mapped))  # empty arrays are views too
    out = []
    for start, array in zip(starts, arrays, strict=False):
        copy: Array = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        if filled:
            copy[...] = array
        out.append(copy)
    return out


def block_of(array: object) -> SharedBlock | None:
    """The block of an array; None if its memory is not shared."""
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, SharedBlock) else None


def is_shared(array: object) -> bool:
    """Whether an array lies in memory that `share_memory_` allocated."""
    block = block_of(array)
    return block is not None and not block.mapped


class _Leaf:
    """The pickled form of an array in a block; unpickling it in another process gives the array."""

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
    """Make `multiprocessing` send containers of a class as references to blocks instead of copies.

    `pickle` itself still copies, as a file cannot refer to memory.
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
