"""Object files of kernels: their signatures, and code for other processors than this machine's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.tiers import standing_for_all

pytest.importorskip("numba")

from lite.kernels.prebuild import kernel_object
from lite.kernels.prebuild.kernel_object import Part
from lite.kernels.prebuild.targets import TARGETS


def test_signatures_are_read() -> None:
    tree = (Part("f", 1), Part("q"), Part("-"), Part("?", 2))
    assert kernel_object.parsed("f[] q - ?[,]") == tree
    nested = Part("(", 0, (Part("d", 1), Part("(", 0, (Part("q"), Part("f")))))
    assert kernel_object.parsed("(d[] (q f)) H[]") == (nested, Part("H", 1))


def test_types_are_numbas() -> None:
    from numba import types

    assert kernel_object.numba_types(kernel_object.parsed("f[] (q ?[,]) -")) == (
        types.float32[::1], types.Tuple((types.int64, types.boolean[:, ::1])), types.none,
    )  # fmt: skip


def run(target: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lite.kernels.prebuild.kernel_object", target, *arguments],
        env=os.environ | environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


@pytest.mark.simulator
@pytest.mark.parametrize(
    ("target", "start"),
    standing_for_all(
        [
            ("armv8", b"\x7fELF\2\1\1".ljust(16, b"\0") + b"\1\0\xb7\0"),
            ("x86-64-v2", b"\x7fELF\2\1\1".ljust(16, b"\0") + b"\1\0\x3e\0"),
            ("windows-x86-64-v2", b"\x64\x86"),
            ("windows-armv8", b"\x64\xaa"),
            ("macos-x86-64-v2", b"\xcf\xfa\xed\xfe\7\0\0\1"),
            ("macos-armv8", b"\xcf\xfa\xed\xfe\x0c\0\0\1"),
        ]
    ),
)
def test_code_is_for_the_architecture_and_system_of_the_target(
    tmp_path: Path, target: str, start: bytes
) -> None:
    file = tmp_path / "kernels.o"
    environment = TARGETS[target].environment | {"LITE_KERNELS": "numba", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = run(target, str(file), "log_softmax.rows", **environment)  # which calls other kernels
    assert done.returncode == 0, done.stderr
    code = file.read_bytes()
    assert code.startswith(start)
    assert b"log_softmax.rows\0" in code


def test_numba_that_compiles_for_something_else_is_refused(tmp_path: Path) -> None:
    done = run("x86-64-v2", str(tmp_path / "kernels.o"), NUMBA_CPU_NAME="x86-64-v3", NUMBA_CPU_FEATURES="")
    assert done.returncode == 1
    assert "not set up to compile for x86-64-v2" in done.stderr
