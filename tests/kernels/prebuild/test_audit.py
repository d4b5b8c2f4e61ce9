"""What libraries need of the process, read from their files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from helpers.kernels import elf, foreign, small_library

from lite.kernels.prebuild.audit import demands


def test_what_a_file_says(tmp_path: Path) -> None:
    file = tmp_path / "some.so"
    file.write_bytes(elf.library(["f", "g"], ["libc.so.6", "libm.so.6"], ["exp", "memcpy"]))
    assert demands(file) == ("linux", "x86_64", ["libc.so.6", "libm.so.6"], ["exp", "memcpy"])
    file.write_bytes(elf.library(machine=183))
    assert demands(file) == ("linux", "aarch64", [], [])


def test_what_a_file_for_windows_says(tmp_path: Path) -> None:
    file = tmp_path / "some.dll"
    file.write_bytes(foreign.dll({"KERNEL32.dll": ["Sleep", 7], "b.dll": ["f"]}, {"late.dll": ["g"]}))
    libraries = ["KERNEL32.dll", "b.dll", "late.dll"]
    assert demands(file) == ("win32", "x86_64", libraries, ["Sleep", "7", "f", "g"])
    file.write_bytes(foreign.dll(machine=0xAA64))
    assert demands(file) == ("win32", "aarch64", [], [])


def test_what_a_file_for_macos_says(tmp_path: Path) -> None:
    file = tmp_path / "some.dylib"
    file.write_bytes(foreign.dylib(["/usr/lib/libSystem.B.dylib", "@rpath/b.dylib"], ["_exp"]))
    assert demands(file) == ("darwin", "aarch64", ["/usr/lib/libSystem.B.dylib", "@rpath/b.dylib"], ["_exp"])
    file.write_bytes(foreign.dylib(machine=0x01000007))
    assert demands(file) == ("darwin", "x86_64", [], [])


def test_a_library_of_kernels_needs_nothing() -> None:
    folder = small_library.folder()
    (row,) = json.loads((folder / "manifest.json").read_text())["libraries"]
    found = demands(folder / row["file"])
    assert (found.libraries, found.symbols) == ([], [])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other formats")
def test_numpy_s_own_library_needs_c() -> None:
    from numpy._core import _multiarray_umath

    found = demands(Path(_multiarray_umath.__file__))
    assert any(name.startswith("libc.") for name in found.libraries)
    assert {"PyErr_SetString", "memcpy"} <= set(found.symbols)


def test_files_that_are_refused(tmp_path: Path) -> None:
    so = elf.library()
    for code, error in [
        (b"", "is not a shared library"),
        (b"#!" + so[2:], "is not a shared library"),
        (so[:16] + b"\2" + so[17:], "is not a shared library"),
        (so[:-10], "is damaged"),
        (so[:60] + b"\1\0" + so[62:], "names no symbols"),
        (foreign.dll(flags=0), "is not a shared library"),
        (foreign.dll(exports=False), "names no symbols"),
        (foreign.dll({"a.dll": ["f"]})[:0x200], "is damaged"),
        (b"MZ", "is damaged"),
        (foreign.dylib(kind=2), "is not a shared library"),
        (foreign.dylib(symbols=False), "names no symbols"),
        (foreign.dylib(["a"])[:40], "is damaged"),
    ]:
        file = tmp_path / "some.so"
        file.write_bytes(code)
        with pytest.raises(ValueError, match=f"some.so {error}"):
            demands(file)
