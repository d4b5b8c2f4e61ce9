"""Loops over rows: what memory they touch, and which instructions they become."""

import os
import platform
import subprocess
import sys

import pytest

from lite.kernels.backends.choice import backend

pytestmark = pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")

GUARDED = """
import ctypes, mmap
import numpy as np
from lite.kernels import masked_log_softmax, token_log_probs
import lite.kernels.log_softmax

libc, page = ctypes.CDLL(None), mmap.PAGESIZE
lite.kernels.log_softmax._CACHED = 0

def at_the_end(values):
    memory = mmap.mmap(-1, 3 * page)
    bytes_ = np.frombuffer(memory, np.uint8)
    for k in (0, 2):
        assert not libc.mprotect(ctypes.c_void_p(bytes_.ctypes.data + k * page), page, 0)
    part = bytes_[2 * page - values.nbytes : 2 * page].view(values.dtype)
    part[:] = values
    return part

for dtype in (np.float32, np.float64, np.float16):
    for size in (1, 17, 64, 130):
        x, keep = at_the_end(np.zeros(size, dtype)), at_the_end(np.ones(size, np.bool_))
        out = at_the_end(np.zeros(size, np.float64 if dtype == np.float64 else np.float32))
        for mask in (None, keep):
            masked_log_softmax(x, mask, out=out)
            assert abs(out + np.log(size)).max() < 1e-5
            assert abs(token_log_probs(x, 0, mask) + np.log(size)) < 1e-5
print("unharmed")
"""


@pytest.mark.grid
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="protects pages by Linux' mprotect")
def test_nothing_is_touched_beyond_the_end():
    run = subprocess.run([sys.executable, "-c", GUARDED], capture_output=True, text=True, timeout=300)
    assert run.stdout == "unharmed\n", run.stderr


ASSEMBLY = """
import numba
import numpy as np
from lite.kernels.cpu import log_softmax
from lite.kernels.cpu.vectors import blocks

x, keep = np.zeros(100, np.float32), np.ones(100, np.bool_)
sums = numba.njit(lambda x, keep: blocks.sum_of_exp(x, 0.0, 1.0, False, keep))
shifted = numba.njit(lambda x, keep: log_softmax._shifted(x, 0.0, 1.0, 0.0, False, keep, True, x))
for function, instruction in ((sums, "prefetch"), (shifted, "prefetch"), (shifted, "movnt")):
    function(x, keep)
    (assembly,) = function.inspect_asm().values()
    print(assembly.count(instruction))
"""


@pytest.mark.simulator
@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="looks for instructions of x86")
def test_memory_is_fetched_ahead_and_written_past_the_caches(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path), "NUMBA_OPT": "3"}
    run = subprocess.run(
        [sys.executable, "-c", ASSEMBLY],
        env=environment, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert min(map(int, run.stdout.split())) >= 4
