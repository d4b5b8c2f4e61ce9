import os
import subprocess
import sys

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
        exec("@jit\ndef double(x):\n    return 2 * x", namespace)
    assert namespace["double"](21) == 42


@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled with NUMBA_DISABLE_JIT")
def test_nan_keeps_its_meaning_where_sums_may_be_reordered():
    from lite.kernels.cpu import token_log_probs as cpu

    values = np.zeros(100, np.float32)
    values[60] = np.nan
    assert np.isnan(cpu._sums32(values, np.float32(0), np.float32(1))[1])


def test_warmup_compiles_all():
    lite.kernels.warmup()


def test_public_names():
    assert lite.kernels.__all__ == sorted(lite.kernels.__all__)
    assert all(hasattr(lite.kernels, name) for name in lite.kernels.__all__)
