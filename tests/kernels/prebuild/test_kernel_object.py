"""Object files of kernels: their signatures, and code for other processors than this machine's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers.kernels import small_library
from helpers.tiers import standing_for_all

pytest.importorskip("numba")

from lite.kernels.backends import prebuilt
from lite.kernels.cpu import recurrent
from lite.kernels.prebuild import kernel_object, library
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
        types.float32[::1],
        types.Tuple((types.int64, types.boolean[:, ::1])),
        types.none,
    )


def run(target: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lite.kernels.prebuild.kernel_object", target, *arguments],
        env=os.environ | environment, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("target", "start"),
    standing_for_all(
        [
            ("armv8", b"\x7fELF\2\1\1".ljust(16, b"\0") + b"\1\0\xb7\0"),
            ("x86-64-v2", b"\x7fELF\2\1\1".ljust(16, b"\0") + b"\1\0\x3e\0"),
            ("windows-x86-64-v2", b"\x64\x86"),
            ("macos-armv8", b"\xcf\xfa\xed\xfe\x0c\0\0\1"),
        ]
    ),
)
def test_code_is_for_the_architecture_and_system_of_the_target(tmp_path, target, start):
    file = tmp_path / "kernels.o"
    environment = TARGETS[target].environment | {"LITE_KERNELS": "numba", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = run(target, str(file), "sum_tree.search", **environment)
    assert done.returncode == 0, done.stderr
    code = file.read_bytes()
    assert code.startswith(start)
    assert b"sum_tree.search\0" in code


PRETENDED = """
import sys
from pathlib import Path
from lite.kernels.backends import sources
from lite.kernels.prebuild import kernel_object
from lite.kernels.prebuild.targets import TARGETS

target = TARGETS[sys.argv[1]]
kernel_object._pretend(target)
program = kernel_object.program(sources.digest(), ["recurrent.gru"])
Path(sys.argv[2]).write_bytes(kernel_object._emit(program, target))
"""


@pytest.mark.simulator
def test_code_for_another_system_calls_the_same_kernels(tmp_path, monkeypatch):
    # Compiled for this machine as if it were another one, so that it can run.
    folder = small_library.folder()
    manifest = json.loads((folder / "manifest.json").read_text())
    target = TARGETS[manifest["libraries"][0]["target"]]
    kernels, entries, file = (tmp_path / name for name in ("kernels.o", "entries.o", target.file))
    environment = (
        os.environ | target.environment | {"LITE_KERNELS": "numba", "NUMBA_CACHE_DIR": str(tmp_path)}
    )
    subprocess.run([sys.executable, "-c", PRETENDED, target.name, str(kernels)], env=environment, check=True)
    command = library.compiler_for(target, None)
    subprocess.run([*command, *library._COMPILE, "-c", str(library._ENTRIES), "-o", str(entries)], check=True)
    link = library._LINK[target.system.platform]
    subprocess.run([*command, *link, str(kernels), str(entries), "-o", str(file)], check=True)
    manifest["libraries"] = [manifest["libraries"][0] | {"size": file.stat().st_size}]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setenv("LITE_KERNELS_PATH", str(tmp_path))
    found = prebuilt.find(target.name)
    assert found is not None
    rng = np.random.default_rng(0)
    given = [rng.normal(size=size).astype(np.float32) for size in (2 * 3 * 64, 16 * 48, 3 * 3 * 16)]
    results = []
    for kernel in (found.entry("recurrent.gru", recurrent.gru.py_func), recurrent.gru):
        gates, weight, states = (array.copy() for array in given)
        kernel(gates, weight, states, 3, 16, 0, 3)
        results.append((gates, states))
    for got, expected in zip(*results, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-5)


def test_numba_that_compiles_for_something_else_is_refused(tmp_path: Path) -> None:
    done = run("x86-64-v2", str(tmp_path / "kernels.o"), NUMBA_CPU_NAME="x86-64-v3", NUMBA_CPU_FEATURES="")
    assert done.returncode == 1
    assert "not set up to compile for x86-64-v2" in done.stderr
