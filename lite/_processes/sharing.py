"""A block of memory that processes share, and how a TensorDict in one is sent to another process."""

from __future__ import annotations

import mmap
import os
import weakref
from typing import Any

import numpy as np

from lite._arrays.types import Array, Shape

_blocks: weakref.WeakValueDictionary[str, SharedBlock] = weakref.WeakValueDictionary()


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
    return known or SharedBlock(size, name, -1 if handle is None else handle.detach())


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
