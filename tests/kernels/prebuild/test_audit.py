"""What libraries need of the process, read from their files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from helpers.kernels import elf, small_library

from lite.kernels.prebuild.audit import demands


def test_what_a_file_says(tmp_path: Path) -> None:
    file = tmp_path / "some.so"
    file.write_bytes(elf.library(["f", "g"], ["libc.so.6", "libm.so.6"], ["exp", "memcpy"]))
    assert demands(file) == ("x86_64", ["libc.so.6", "libm.so.6"], ["exp", "memcpy"])
    file.write_bytes(elf.library(machine=183))
    assert demands(file) == ("aarch64", [], [])


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
    for damage, error in [
        (lambda code: b"", "is damaged"),
        (lambda code: b"MZ" + code[2:], "is no shared library"),
        (lambda code: code[:-10], "is damaged"),
        (lambda code: code[:60] + b"\1\0" + code[62:], "names no symbols"),
    ]:
        file = tmp_path / "some.so"
        file.write_bytes(damage(elf.library()))  # type: ignore[operator]
        with pytest.raises(ValueError, match=error):
            demands(file)
