"""Compiled code on disk: warmup fills it, read-only places are no reason to fail."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="nothing is compiled with NUMBA_DISABLE_JIT"
)

# Every public function that compiles, with the types that warmup promises; then what was not in the cache.
CALLS = """
import numpy as np
import lite.kernels as k

done = np.zeros((2, 3), bool)
ids = np.zeros(2, np.int64)
for dtype in (np.float16, np.float32, np.float64, np.int64):
    r = np.ones((2, 3), dtype)
    k.multistep_return(r, done, gamma=0.9, n_steps=2)
    k.reward_to_go(r, done, gamma=0.9)
    k.discounted_return(r, done, gamma=np.full((2, 3), 0.9))
    k.td0_return(r, r, done, gamma=0.9)
    k.td1_return(r, r, done, gamma=0.9, rolling=False)
    k.td_lambda_return(r, r, done, done, gamma=0.9, lmbda=0.9, time_dim=0)
    k.gae(r, r, r, done, gamma=0.9, lmbda=0.9)
    k.vtrace(r, r, r, r, r, done, done, gamma=0.9)
for dtype in (np.float16, np.float32, np.float64):
    x, mask = np.zeros((2, 5), dtype), np.ones((2, 5), bool)
    for m in (None, mask, mask[:, 0]):
        k.token_log_probs(x, ids, m, temperature=0.7)
        k.token_log_probs_and_entropy(x, ids, m)
        k.masked_log_softmax(x, m)
        k.entropy(x, m)
        k.log_softmax_stats(x, m)
    k.sample_tokens(
        x, ids, temperature=0.5, top_k=2, top_p=0.9, min_p=0.1, repetition_penalty=1.1, mask=mask,
        previous=[[1], [2]],
    )
    k.sample_tokens(x, np.random.default_rng(0))
from numba.core.dispatcher import Dispatcher
import gc
compiled = [found for found in gc.get_objects() if isinstance(found, Dispatcher)]
missed = {found.py_func.__qualname__: dict(found.stats.cache_misses) for found in compiled}
missed = {name: misses for name, misses in missed.items() if misses}
assert not missed, missed
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment, capture_output=True, text=True, timeout=500,
    )  # fmt: skip


def test_after_warmup_nothing_is_compiled(tmp_path):
    cache = {"NUMBA_CACHE_DIR": str(tmp_path)}
    warm = run("import lite.kernels; lite.kernels.warmup()", **cache)
    assert warm.returncode == 0, warm.stderr
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    assert files
    calls = run(CALLS, **cache)
    assert calls.returncode == 0, calls.stderr
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")} == files


def test_where_nothing_is_writable_a_warning_says_so(tmp_path):
    """Numba looks for a folder beside the sources, and below the home: here neither can be made."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    program = """
import warnings
import numpy as np
from numba.core import caching

for locator in caching.CacheImpl._locator_classes:
    locator.ensure_cache_path = lambda self: (_ for _ in ()).throw(OSError("read-only"))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    from lite.kernels import gather_time, multistep_return
    out = multistep_return(np.ones(3), np.zeros(3, bool), gamma=0.5, n_steps=2)
assert out.reward.tolist() == [1.5, 1.5, 1.0]
messages = [str(w.message) for w in caught if issubclass(w.category, RuntimeWarning)]
assert len(messages) == 1 and "NUMBA_CACHE_DIR" in messages[0], messages
"""
    done = run(program, HOME=str(blocked), XDG_CACHE_HOME=str(blocked))
    assert done.returncode == 0, done.stderr


def test_the_cache_goes_where_the_environment_says(tmp_path):
    program = "import lite.kernels as k; k.reward_to_go([1.0, 2.0], [False, False])"
    done = run(program, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    assert any(Path(tmp_path / "cache").rglob("*.nbc"))
