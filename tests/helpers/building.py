"""What pip builds of this checkout, made from a copy of it."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def copy_of_the_checkout(folder: Path) -> Path:
    """`folder`, with everything in it that is built."""
    skipped = shutil.ignore_patterns("__pycache__", ".[!b]*", "bench", "build", "*.egg-info")
    shutil.copytree(ROOT, folder, symlinks=True, ignore=skipped)
    return folder


def build(kind: str, source: Path, output: Path) -> Path:
    """The one file that the backend builds of `source`: kind is "wheel" or "sdist"."""
    output.mkdir()
    build = f"import sys; sys.path.insert(0, '.build'); import backend; backend.build_{kind}({str(output)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (built,) = output.iterdir()
    return built
