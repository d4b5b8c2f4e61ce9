"""`lite warmup`: compile and cache all kernels."""

from __future__ import annotations

import argparse
import json
import time

from lite.kernels import warmup


def run(args: argparse.Namespace) -> int:
    """Compile every kernel for the usual dtypes, so that later processes start from the cache."""
    start = time.perf_counter()
    warmup()
    seconds = time.perf_counter() - start
    text = f"kernels compiled and cached in {seconds:.1f} s"
    print(json.dumps({"seconds": seconds}) if args.json else text)
    return 0
