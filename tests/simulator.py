"""Test files that run under Numba's CUDA simulator, which needs a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


def run(file: Path, *, at_least: int) -> None:
    """Run the tests of `file`: all pass, none is skipped, and there are `at_least` so many."""
    pytest.importorskip("numba", reason="the CUDA simulator is Numba's")
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(file)]
    done = subprocess.run(
        command, env=environment, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.strip().splitlines()[-1]
    assert " passed" in summary
    assert "skipped" not in summary
    assert int(summary.split()[0]) >= at_least
