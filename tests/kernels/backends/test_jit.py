import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lite.kernels
from lite.kernels.backends import jit

COMPILED = lite.kernels.backend() == "numba"


def test_importing_the_kernels_does_not_import_numba():
    program = "import sys, lite.kernels; assert not {'numba', 'lite.kernels.cpu'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.skipif(not COMPILED, reason="Numba does not run the kernels")
def test_nan_keeps_its_meaning_where_sums_may_be_reordered():
    import numba

    from lite.kernels.cpu.vectors import blocks

    @numba.njit
    def total(values):  # Python cannot call what is no entry
        return blocks.sums_of_exp(values, np.float32(0), np.float32(1))[0]

    values = np.zeros(100, np.float32)
    values[60] = np.nan
    assert np.isnan(total(values))


@pytest.mark.processes
@pytest.mark.skipif(not COMPILED, reason="Numba does not run the kernels")
def test_a_changed_helper_is_compiled_anew(tmp_path):
    """Numba looks at the kernel's own file only; names in the cache tell the others."""
    package = tmp_path / "lite" / "kernels"
    shutil.copytree(Path(jit.__file__).parent, package / "backends", ignore=shutil.ignore_patterns("__*__"))
    shutil.copy(Path(jit.__file__).parents[1] / "_install.py", package)
    (package / "cpu").mkdir()
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()  # before an installed lite, which a folder alone does not hide
    (package / "cpu" / "kernel.py").write_text(
        "from lite.kernels.backends.jit import jit\nfrom lite.kernels.cpu.helper import helper\n"
        "@jit(entry=True)\ndef kernel(x):\n    return helper(x)\n"
    )
    program = "from lite.kernels.cpu.kernel import kernel; print(kernel(1.0))"
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    results = []
    for factor in (2, 2, 3):
        (package / "cpu" / "helper.py").write_text(
            f"from lite.kernels.backends.jit import jit\n@jit\ndef helper(x):\n    return {factor} * x\n"
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
