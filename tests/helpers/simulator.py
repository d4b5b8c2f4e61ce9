"""Test files that meet arrays in CUDA memory: on a GPU where there is one, else in Numba's CUDA simulator.

The simulator replaces Numba's compiler when Numba is imported, so these files have a process of their own.
"""

import ctypes
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest


@functools.cache
def gpu_found() -> bool:
    """Whether Numba can use a GPU; asked in another process, because CUDA does not survive a fork."""
    try:
        ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return False  # no driver, which Numba need not be imported for
    question = "from numba import cuda; raise SystemExit(not cuda.is_available())"
    return subprocess.run([sys.executable, "-c", question], capture_output=True).returncode == 0


def run(*files: Path | str, at_least: int, on_gpu: bool = True) -> None:
    """Run tests, by file or name, on device arrays: `at_least` so many, all pass, none is skipped.

    Without `on_gpu` they run in the simulator whatever there is. The simulator's results are compared with
    those of kernels that run on NumPy, which need not be compiled for it.
    """
    pytest.importorskip("numba", reason="the CUDA simulator is Numba's")
    environment = {**os.environ, "LITE_TEST_KERNELS": "cuda"}
    if not (on_gpu and gpu_found()):
        environment |= {"NUMBA_ENABLE_CUDASIM": "1", "LITE_KERNELS": "numpy"}
    command = [sys.executable, "-m", "pytest", "-q", "--all", "-n0", "-p", "no:cacheprovider"]
    command += map(str, files)
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.strip().splitlines()[-1]
    assert " passed" in summary
    assert "skipped" not in summary
    assert int(summary.split()[0]) >= at_least
