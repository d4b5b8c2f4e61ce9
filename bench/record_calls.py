"""A plugin of pytest that writes calls of compiled kernels to the file LITE_CALLS: `pytest -p record_calls`.

The file has a line of JSON for each call: the kernel, what it is given (as `replay_calls.c` reads it, in
base64), and what it returned and left in its arrays.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from lite.kernels.backends.prebuilt import Library

LETTERS = "?fdiqQH"  # numbers of arrays, as replay_calls.c knows them
MOST_CALLS, MOST_BYTES = 10, 1 << 18  # for the same kernel and types; in the arrays of a call
_KINDS = {"b1": "?", "f4": "f", "f8": "d", "i4": "i", "i8": "q", "u8": "Q", "u2": "H"}
_SCALARS = {np.float64: "D", np.float32: "F", np.int64: "Q", np.bool_: "B"}


class Arguments:
    """The arguments of a call as bytes, and their arrays, each once."""

    def __init__(self, arguments: tuple[Any, ...]) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.types = ""
        self.data = struct.pack("<q", len(arguments)) + b"".join(map(self._bytes, arguments))

    def _bytes(self, value: Any) -> bytes:
        if isinstance(value, np.ndarray):
            return self._array(value)
        if value is None:
            letter, rest = "-", b""
        elif isinstance(value, bool):
            letter, rest = "?", struct.pack("<q", value)
        elif type(value) is int:
            letter, rest = "q", struct.pack("<q", value)
        elif type(value) is float:
            letter, rest = "d", struct.pack("<d", value)
        elif type(value) in _SCALARS:
            letter, rest = _SCALARS[type(value)], value.tobytes().ljust(8, b"\0")
        else:
            self.types += "("
            inside = b"".join(map(self._bytes, value))
            self.types += ")"
            return b"(" + struct.pack("<q", len(value)) + inside
        self.types += letter
        return letter.encode() + rest

    def _array(self, array: np.ndarray[Any, Any]) -> bytes:
        letter = _KINDS[f"{array.dtype.kind}{array.dtype.itemsize}"]
        flags = 0x1 * array.flags.c_contiguous | 0x400 * array.flags.writeable
        self.types += f"{letter}{array.ndim}"
        same = [k for k, other in enumerate(self.arrays) if _place(other) == _place(array)]
        number = same[0] if same else len(self.arrays)
        # Kernels place what they need within an array by its address.
        head = struct.pack(
            f"<{5 + array.ndim}q", number, array.ctypes.data % 64, LETTERS.index(letter), array.ndim, flags,
            *array.shape,
        )  # fmt: skip
        if same:
            return b"a" + head
        self.arrays.append(array)
        return b"a" + head + array.tobytes()


def _place(array: np.ndarray[Any, Any]) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes


def pytest_configure() -> None:
    entry, seen, one_at_a_time = Library.entry, Counter[tuple[str, str]](), threading.Lock()
    file = open(os.environ["LITE_CALLS"], "w", encoding="utf-8")  # noqa: SIM115

    def recorded(library: Library, name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        interpreted = False

        def python(*args: Any) -> Any:
            nonlocal interpreted
            interpreted = True
            return otherwise(*args)

        kernel = entry(library, name, python)

        def call(*args: Any) -> Any:
            nonlocal interpreted
            with one_at_a_time:  # threads work on parts of the same arrays
                given = Arguments(args)
                interpreted = False
                result = kernel(*args)
                left = b"".join(array.tobytes() for array in given.arrays)
            seen[name, given.types] += 1
            small = len(left) <= MOST_BYTES
            if small and not interpreted and seen[name, given.types] <= MOST_CALLS:
                kinds = [(array.dtype.str, array.size) for array in given.arrays]
                row = {"kernel": name, "types": given.types, "given": _text(given.data)}
                file.write(
                    json.dumps(row | {"returned": result, "left": _text(left), "arrays": kinds}) + "\n"
                )
            return result

        return call

    Library.entry = recorded  # type: ignore[method-assign]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
