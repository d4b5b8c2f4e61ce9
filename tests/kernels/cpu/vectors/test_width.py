"""Loops over a block use the widest registers of the processor."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lite.kernels.backends.choice import backend

ASSEMBLY = """
import re, sys
import numba
import numpy as np
from lite.kernels.cpu.vectors import blocks

dtype = np.dtype(sys.argv[1]).type
values = np.zeros(100, dtype)
kernels = {
    "maximum": numba.njit(lambda x: blocks.maximum(x)),
    "sums_of_exp": numba.njit(lambda x: blocks.sums_of_exp(x, dtype(0), dtype(1))),
    "sums_apart": numba.njit(lambda x: blocks.sums_apart(x, dtype(0), dtype(1))),
}
for name, kernel in kernels.items():  # the assembly has the functions that a kernel calls, too
    kernel(values)
    (assembly,) = kernel.inspect_asm().values()
    operations = [line for line in assembly.splitlines() if re.search(r"v(fmadd|maxp|pmax)", line)]
    wide = sum(sys.argv[2] in line for line in operations)
    print(name, wide, len(operations))
"""


def _widest_registers() -> str | None:
    try:
        flags = Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    except OSError:
        return None
    return (
        "zmm" if {"avx512f", "avx512vl"} <= set(flags) else "ymm" if {"avx2", "fma"} <= set(flags) else None
    )


@pytest.mark.simulator
@pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
def test_loops_over_a_block_use_the_widest_registers(tmp_path):
    """In a process of its own with an empty cache: what comes from the cache has no assembly to look at."""
    dtype = "float32"
    registers = _widest_registers()
    if registers is None:
        pytest.skip("needs an x86 processor with AVX2")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "3"}
    run = subprocess.run(
        [sys.executable, "-c", ASSEMBLY, dtype, registers],
        env=environment, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    for line in run.stdout.splitlines():
        name, wide, every = line.split()
        assert int(wide) >= 4, f"{name}: {wide} of {every} vector operations on {registers}"
        assert 2 * int(wide) > int(every), f"{name}: {wide} of {every} vector operations on {registers}"
    assert len(run.stdout.splitlines()) == 3
