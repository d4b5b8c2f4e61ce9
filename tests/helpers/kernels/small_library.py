"""A library of a few kernels, compiled once and kept for as long as its sources stay the same."""

import functools
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from lite.kernels.backends import sources

KERNELS = ("sum_tree.search", "sum_tree.update", "layers.layer_norm")
PREBUILD = Path(__file__).parents[3] / "kernels" / "prebuild"


@functools.cache
def folder() -> Path:
    """The folder of the library and its manifest; skips the test that asks where nothing can be compiled."""
    pytest.importorskip("numba")
    from lite.kernels.prebuild import library
    from lite.kernels.prebuild.targets import TARGETS

    target = next((target for target in TARGETS.values() if target.native), None)
    if target is None:
        pytest.skip("kernels are compiled beforehand for Linux on x86-64 and 64-bit ARM")
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no C compiler")
    of = hashlib.sha256(sources.digest().encode())
    for path in sorted((*PREBUILD.glob("*.py"), *PREBUILD.glob("*.c"), Path(__file__))):
        of.update(path.read_bytes())
    made = Path(tempfile.gettempdir()) / f"lite-kernels-{of.hexdigest()[:16]}"
    if not made.is_dir():
        with tempfile.TemporaryDirectory(dir=made.parent) as scratch:
            library.build_all([target], Path(scratch) / "made", names=KERNELS)
            try:
                os.rename(Path(scratch) / "made", made)
            except OSError:  # another process was first
                assert made.is_dir()
    return made
