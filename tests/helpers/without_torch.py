"""Run a program in a process that cannot import torch, wherever torch is installed."""

import subprocess
import sys
from pathlib import Path

_START = "import runpy, sys; sys.modules['torch'] = None; runpy.run_path(sys.argv[0], run_name='__main__')"


def run(program: Path, *arguments: str) -> str:
    """What it prints."""
    code = f"import sys; sys.argv = sys.argv[1:]; {_START}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(program), *arguments], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
