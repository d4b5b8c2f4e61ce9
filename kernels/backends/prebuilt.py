"""Libraries of kernels that were compiled beforehand (see `prebuild`): found, checked and loaded.

A library is a shared object that needs no other and nothing of Python's: what it is to call in this process
it gets as addresses when it is loaded. Its kernels become builtin functions; Numba is not imported.
"""

import ctypes
import functools
import importlib.util
import json
import os
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from lite.kernels.backends import sources

_PACKAGE = "tensordict_lite_kernels"
_INSIDE = Path(__file__).parents[1] / "libraries"  # in wheels for one platform (prebuild/wheel.py)
_FORMAT = 1  # of manifests
_LARGEST_MANIFEST, _LARGEST_LIBRARY, _MOST_LIBRARIES = 1 << 16, 1 << 26, 16

# Letters of numbers in signatures (prebuild/signatures.py) by kind and size.
_LETTERS = {"b1": "?", "f4": "f", "f8": "d", "i4": "i", "i8": "q", "u8": "Q", "u2": "H", "u1": "B"}

_DIGEST = 12  # characters

_loading = threading.Lock()
_loaded: list[ctypes.CDLL] = []  # whose kernels are in use until the process ends


class Refused(Exception):
    """Raised for a folder or library that cannot be used; the text has the reason."""


class _Method(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


class Library(NamedTuple):
    """One that this processor can run, of these sources.

    Attributes:
        path: path of the file.
        level: what it was compiled for, such as "x86-64-v3".
        digest: digest of the sources.
        methods: addresses of what describes its kernels to CPython, by name.
    """

    path: Path
    level: str
    digest: str
    methods: Mapping[str, int] = MappingProxyType({})

    def entry(self, name: str, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel `name`, such as "sum_tree.search"; `otherwise` is called with types that it lacks."""

        def interpreted(*args: Any) -> Any:
            _warn_interpreted(name, ", ".join(map(_type_name, args)))
            return otherwise(*args)

        if name not in self.methods:
            return interpreted
        builtin = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
        made = builtin(("PyCFunction_NewEx", ctypes.pythonapi))(self.methods[name], interpreted, None)
        return made


def find(level: str | None = None, reasons: list[str] | None = None) -> Library | None:
    """The library for the highest level that the processor has, or for `level`; None if there is none.

    Args:
        level: such as "x86-64-v3".
        reasons: gets a line for each folder and library that was found and cannot be used.
    """
    said = [] if reasons is None else reasons
    for folder in _folders():
        try:
            listed = _manifest(folder)
        except Refused as reason:
            said.append(f"{folder}: {reason}")
            continue
        for row in listed:
            if level not in (None, row.target):
                continue
            try:
                with _loading:
                    return _load(folder / row.file, row)
            except Refused as reason:
                said.append(f"{folder / row.file}: {reason}")
    return None


def _folders() -> list[Path]:
    """The folder that LITE_KERNELS_PATH names, that in lite, and the package's, which is not imported."""
    named = os.environ.get("LITE_KERNELS_PATH")
    found = [Path(named).absolute()] if named else []
    if _INSIDE.is_dir():
        found.append(_INSIDE)
    try:
        package = importlib.util.find_spec(_PACKAGE)
    except (ImportError, ValueError):
        package = None
    if package is not None and package.submodule_search_locations:
        found += map(Path, package.submodule_search_locations)
    return found


class _Row(NamedTuple):
    """The entry of a library in a manifest."""

    level: int
    target: str
    file: str
    size: int


def _manifest(folder: Path) -> list[_Row]:
    """The libraries of a folder, the highest levels first."""
    try:
        with open(folder / "manifest.json", "rb") as file:
            text = file.read(_LARGEST_MANIFEST + 1)
        if len(text) > _LARGEST_MANIFEST:
            raise Refused(f"manifest.json has more than {_LARGEST_MANIFEST} bytes")
        manifest = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"manifest.json cannot be read ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise Refused(f"manifest.json is not of format {_FORMAT}")
    if (digest := manifest.get("digest")) != sources.digest():
        raise Refused(f"compiled from other sources: {str(digest)[:64]!r}, here are {sources.digest()!r}")
    rows = manifest.get("libraries")
    if not isinstance(rows, list) or len(rows) > _MOST_LIBRARIES:
        raise Refused(f"manifest.json must list at most {_MOST_LIBRARIES} libraries")
    return sorted(map(_row, rows), reverse=True)


def _row(given: Any) -> _Row:
    match given:
        case {"level": int(level), "target": str(target), "file": str(file), "size": int(size)} if (
            0 <= level < 100
        ):
            plain = file.replace(".", "").replace("-", "").replace("_", "")
            if not (plain.isalnum() and plain.isascii()) or file.startswith("."):
                raise Refused(f"manifest.json names a file that is not in its folder: {file[:64]!r}")
            return _Row(level, target, file, size)
    raise Refused(f"manifest.json does not say level, target, file and size: {str(given)[:64]}")


def _load(path: Path, row: _Row) -> Library:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise Refused(f"missing ({error.strerror})") from error
    if size != row.size or size > _LARGEST_LIBRARY:
        raise Refused(f"it has {size} bytes, and not the {row.size} of the manifest")
    try:
        library = ctypes.CDLL(str(path))
        if not library.lite_fits(row.level):
            raise Refused(f"this processor is not of the level {row.target}")
        digest = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(library, "lite_digest")), _DIGEST)
        if digest.decode("ascii", "replace") != sources.digest():
            raise Refused(f"compiled from other sources, {digest!r}")
        process = _process()
        if not library.lite_prepare(process, ctypes.c_uint64(len(process))):
            raise Refused("it expects something else of the process")
        count = ctypes.c_int64.in_dll(library, "lite_count").value
        methods = (_Method * count).in_dll(library, "lite_methods")
    except (OSError, AttributeError, ValueError) as error:
        raise Refused(str(error)) from error
    found = {method.name.decode(): ctypes.addressof(method) for method in methods}
    _loaded.append(library)
    return Library(path, row.target, sources.digest(), found)


def _process() -> bytes:
    """The data about this process that a library gets, in the order of `process` in prebuild/entries.c."""
    python, c = ctypes.pythonapi, _c_library()
    functions = (
        python.PyEval_SaveThread, python.PyEval_RestoreThread, python.PyLong_AsLongLongAndOverflow,
        python.PyFloat_AsDouble, python.PyLong_FromLongLong, python.PyType_IsSubtype, python.PyTuple_Size,
        python.PyTuple_GetItem, python.PyObject_Vectorcall, python.Py_IncRef, python.PyErr_SetString,
    )  # fmt: skip
    objects = (
        RuntimeError, None, True, False, np.ndarray, tuple, int, float, np.float64, np.float32, np.int64,
        np.bool_,
    )  # fmt: skip
    of_c = (c.exp, c.log, c.log1p, c.memcpy, c.memmove, c.memset)
    addresses = [*map(_address, functions), *map(id, objects), *map(_address, of_c), object.__basicsize__]
    letters = bytearray(32)
    for dtype in map(np.dtype, "?fdilqILQHB"):
        letters[dtype.num] = ord(_LETTERS.get(f"{dtype.kind}{dtype.itemsize}", "\0"))
    return bytes(np.array(addresses, np.uint64)) + bytes(letters)


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _c_library() -> ctypes.CDLL:
    """The C library of this process, and its mathematics, which may be a library of its own."""
    if os.name == "nt":
        return ctypes.CDLL("ucrtbase")
    process = ctypes.CDLL(None)
    return process if hasattr(process, "exp") else ctypes.CDLL("libm.so.6")


def _type_name(value: Any) -> str:
    if isinstance(value, np.ndarray):
        order = "" if value.flags.c_contiguous else " not in C order"
        access = "" if value.flags.writeable else " read-only"
        return f"{value.dtype}[{', '.join(':' * value.ndim)}]{order}{access}"
    return type(value).__name__


@functools.cache
def _warn_interpreted(name: str, types: str) -> None:
    warnings.warn(
        f"the compiled kernel {name} was not made for ({types}): it runs in plain Python, which is slow",
        RuntimeWarning,
        stacklevel=3,
    )
