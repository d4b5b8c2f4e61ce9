"""Runs tests/cuda/test_device_leaves.py under Numba's CUDA simulator, which needs a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent / "cuda" / "test_device_leaves.py"


def test_device_leaves_under_the_simulator() -> None:
    pytest.importorskip("numba", reason="the CUDA simulator is Numba's")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS)]
    done = subprocess.run(
        command, env=environment, cwd=TESTS.parents[2], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.strip().splitlines()[-1]
    assert " passed" in summary
    assert "skipped" not in summary
    assert int(summary.split()[0]) >= 50
