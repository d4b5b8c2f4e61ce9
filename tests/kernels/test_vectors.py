"""Formulas as LLVM's vectors: what they read, what comes of it, and which instructions they become."""

import os
import platform
import subprocess
import sys

import numpy as np
import pytest

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="nothing is compiled with NUMBA_DISABLE_JIT"
)
SIZES = [1, 15, 16, 17, 63, 64, 65, 200]


def compiled(name: str):
    import numba

    from lite.kernels.cpu.vectors import blocks

    function = getattr(blocks, name)
    if name in ("maximum", "odd"):
        return numba.njit(lambda x, bfloat16, keep: function(x, bfloat16, keep))
    return numba.njit(lambda x, a, b, bfloat16, keep: function(x, a, b, bfloat16, keep))


def read(values, bfloat16, keep):
    """The logits as float64."""
    x = values
    if values.dtype == np.uint16:
        x = (values.astype(np.uint32) << 16).view(np.float32) if bfloat16 else values.view(np.float16)
    return np.where(keep, x.astype(np.float64), -np.inf) if keep.size else x.astype(np.float64)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
def test_results_of_all_sizes(rng, kind):
    functions = {
        name: compiled(name) for name in ("maximum", "odd", "sum_of_exp", "sums_of_exp", "sums_apart")
    }
    for size in SIZES:
        for flags in (np.empty(0, np.bool_), rng.random(size) < 0.7):
            values = rng.normal(size=size).astype(kind if kind in ("float32", "float64") else np.float32)
            if kind == "float16":
                values = values.astype(np.float16).view(np.uint16)
            if kind == "bfloat16":
                values = (values.view(np.uint32) >> 16).astype(np.uint16)
            more = kind == "bfloat16", flags
            x = read(values, *more)
            top = x.max()
            assert functions["maximum"](values, *more) == top
            e, y = np.exp(x * 0.7), np.where(np.isfinite(x), x * 0.7 / np.log(2), 0.0)
            rtol = 1e-13 if kind == "float64" else 1e-6
            expected = e.sum(), (y * e).sum(), top
            got = functions["sums_of_exp"](values, 0.0, 0.7, *more)
            np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol * size)
            got = functions["sum_of_exp"](values, 0.0, 0.7, *more)
            np.testing.assert_allclose(got, (e.sum(), top), rtol=rtol, atol=1e-30)
            if np.isfinite(top):
                d = np.where(np.isfinite(x), x - top, 0.0)
                e = np.where((x < top) & np.isfinite(x), np.exp(d * 0.7), 0.0)
                got = functions["sums_apart"](values, top, 0.7, *more)
                expected = (x == top).sum(), e.sum(), (d * e).sum()
                np.testing.assert_allclose(got, expected, rtol=5 * rtol, atol=1e-30)


def test_odd_numbers_are_counted_where_the_mask_shows_them():
    values = np.zeros(100, np.float32)
    values[[3, 70, 99]], values[[0, 98]] = np.nan, np.inf
    keep = np.ones(100, np.bool_)
    odd = compiled("odd")
    assert odd(values, False, keep) == (3, 2)
    keep[[70, 98]] = False
    assert odd(values, False, keep) == (2, 1)
    assert compiled("maximum")(np.full(20, np.nan, np.float32), False, keep[:0]) == -np.inf


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


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="looks for instructions of x86")
def test_memory_is_fetched_ahead_and_written_past_the_caches(tmp_path):
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", ASSEMBLY],
        env=environment, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    assert min(map(int, run.stdout.split())) >= 4
