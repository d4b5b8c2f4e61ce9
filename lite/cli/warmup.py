"""`lite warmup`: compile and cache all kernels."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from lite.kernels import backend, warmup
from lite.kernels.backends import portable

_WIDTH = 24


def run(args: argparse.Namespace) -> int:
    """Compile every kernel for the usual dtypes, so that later processes start from the cache."""
    if args.output is not None:
        return _elsewhere(args)
    start = time.perf_counter()
    warmup(progress=None if args.json or args.quiet else _tell)
    seconds = time.perf_counter() - start
    if not (args.json or args.quiet) and sys.stderr.isatty():
        print(f"\r\x1b[K[{'#' * _WIDTH}]", file=sys.stderr)
    text = f"kernels compiled and cached in {seconds:.1f} s"
    if backend() != "numba":
        text = f"nothing to compile: the kernels are run by {backend()}"
    print(json.dumps({"seconds": seconds, "backend": backend()}) if args.json else text)
    return 0


def _elsewhere(args: argparse.Namespace) -> int:
    """Compile for a portable processor level in another process, as Numba reads the processor once."""
    folder = Path(args.output)
    folder.mkdir(parents=True, exist_ok=True)
    passed_on = [f"--{name}" for name in ("json", "quiet") if getattr(args, name)]
    command = [sys.executable, "-m", "lite", "warmup", *passed_on]
    made = subprocess.run(command, env=portable.environment(folder), check=False)
    if made.returncode == 0 and not args.json:
        made_for = os.environ.get("NUMBA_CPU_NAME") or portable.level() or "this processor"
        print(f"for {made_for}; read where NUMBA_CACHE_DIR={folder.absolute()} is set")
    return made.returncode


def _tell(name: str, done: int, total: int) -> None:
    """A line for each kernel; on a terminal a bar in place of the line."""
    if sys.stderr.isatty():
        bar = "#" * (done * _WIDTH // total)
        print(f"\r\x1b[K[{bar:<{_WIDTH}}] {done + 1}/{total} {name}", end="", file=sys.stderr, flush=True)
    else:
        print(f"{done + 1}/{total} {name}", file=sys.stderr, flush=True)
