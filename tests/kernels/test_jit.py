import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lite.kernels
from lite.kernels import _jit

INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") != "0"


def test_importing_the_kernels_does_not_import_numba():
    program = "import sys, lite.kernels; assert not {'numba', 'lite.kernels.cpu'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")
def test_without_a_cache_folder_kernels_warn_and_work():
    _jit._warn_no_cache.cache_clear()
    namespace = {"jit": _jit.jit}
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):  # Numba cannot cache what comes from no file
        exec("@jit(entry=True)\ndef double(x):\n    return 2 * x", namespace)
    assert namespace["double"](21) == 42


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")
def test_nan_keeps_its_meaning_where_sums_may_be_reordered():
    import numba

    from lite.kernels.cpu.vectors import blocks

    @numba.njit
    def total(values):  # Python cannot call what is no entry
        return blocks.sums_of_exp(values, np.float32(0), np.float32(1))[0]

    values = np.zeros(100, np.float32)
    values[60] = np.nan
    assert np.isnan(total(values))


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
        flags = Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return None
    return (
        "zmm" if {"avx512f", "avx512vl"} <= set(flags) else "ymm" if {"avx2", "fma"} <= set(flags) else None
    )


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_over_a_block_use_the_widest_registers(dtype, tmp_path):
    """In a process of its own with an empty cache: what comes from the cache has no assembly to look at."""
    registers = _widest_registers()
    if registers is None:
        pytest.skip("needs an x86 processor with AVX2")
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", ASSEMBLY, dtype, registers],
        env=environment, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    for line in run.stdout.splitlines():
        name, wide, every = line.split()
        assert int(wide) >= 4, f"{name}: {wide} of {every} vector operations on {registers}"
        assert 2 * int(wide) > int(every), f"{name}: {wide} of {every} vector operations on {registers}"
    assert len(run.stdout.splitlines()) == 3


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")
def test_a_changed_helper_is_compiled_anew(tmp_path):
    """Numba looks at the kernel's own file only; names in the cache tell the others."""
    package = tmp_path / "kernels"
    (package / "cpu").mkdir(parents=True)
    source = Path(_jit.__file__).read_text()
    (package / "_jit.py").write_text(source)
    (package / "kernel.py").write_text(
        "from _jit import jit\nfrom cpu.helper import helper\n"
        "@jit(entry=True)\ndef kernel(x):\n    return helper(x)\n"
    )
    program = "from kernel import kernel; print(kernel(1.0))"
    environment = os.environ | {"PYTHONPATH": str(package), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    results = []
    for factor in (2, 2, 3):
        (package / "cpu" / "helper.py").write_text(
            f"from _jit import jit\n@jit\ndef helper(x):\n    return {factor} * x\n"
        )
        run = subprocess.run(
            [sys.executable, "-B", "-c", program],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        results.append(float(run.stdout))
    assert results == [2, 2, 3]


def test_public_names():
    assert lite.kernels.__all__ == sorted(lite.kernels.__all__)
    assert all(hasattr(lite.kernels, name) for name in lite.kernels.__all__)
