"""Compiled code on disk: warmup fills it, read-only places are no reason to fail."""

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import lite.kernels as k

pytestmark = pytest.mark.skipif(k.backend() != "numba", reason="Numba does not run the kernels")
numba = pytest.importorskip("numba")
Dispatcher = pytest.importorskip("numba.core.dispatcher").Dispatcher

from lite.kernels import _layers, _optimizers  # noqa: E402
from lite.kernels.cpu import (  # noqa: E402
    flat_rows,
    layers,
    log_softmax,
    multistep_return,
    optimizers,
    returns,
    sample_tokens,
    sum_tree,
    token_log_probs,
)

ENTRIES = [
    (returns, "lambda_returns"), (returns, "fixed_lambda_returns"), (returns, "advantages"),
    (returns, "short_lambda_returns"), (returns, "short_advantages"),
    (multistep_return, "sequences"), (log_softmax, "rows"), (log_softmax, "log_softmax"),
    (sample_tokens, "rows"), (flat_rows, "flat_row"), (token_log_probs, "scores"), (layers, "gelu"),
    (layers, "gelu_by_tanh"), (layers, "silu"), (layers, "layer_norm"),
    (sum_tree, "update"), (sum_tree, "search"), (optimizers, "adam"), (optimizers, "sgd"),
    (optimizers, "rmsprop"), (optimizers, "lerp"),
]  # fmt: skip


def call_everything() -> None:
    """Every public function that compiles, with the types that warmup promises."""
    done, ids = np.zeros((2, 3), bool), np.zeros(2, np.int64)
    for dtype in (np.float16, np.float32, np.float64, np.int64):
        r = np.ones((2, 3), dtype)
        r.flags.writeable = dtype is not np.float32
        k.multistep_return(r, done, gamma=0.9, n_steps=2)
        k.reward_to_go(r, done, gamma=0.9)
        k.discounted_return(r, done, np.zeros(2), gamma=np.full((2, 3), 0.9))
        k.td0_return(r, r, done, gamma=0.9)
        k.td1_return(r, r, done, gamma=0.9, rolling=False)
        k.td_lambda_return(r, r, done, done, gamma=0.9, lmbda=0.9, time_dim=0)
        k.gae(r, r, r, done, gamma=0.9, lmbda=0.9)
        k.vtrace(r, r, r, r, r, done, done, gamma=0.9)
        k.gae(r[:, ::2], r[:, ::2], r[:, ::2], done[:, ::2], gamma=0.9, lmbda=0.9, time_dim=0)
    for dtype in (np.float16, np.float32, np.float64):
        x, mask = np.zeros((2, 5), dtype), np.ones((2, 5), bool)
        x.flags.writeable = dtype is not np.float32
        for m in (None, mask, mask[:, 0]):
            k.token_log_probs(x, ids, m, temperature=0.7)
            k.token_log_probs_and_entropy(x, ids, m)
            if m is not mask:
                k.token_log_probs(x, ids, m, support=([0, 2, 2], [0, 3]))
                k.token_scores(x, ids, m, temperature=np.array([0.5, 2.0]))
            k.masked_log_softmax(x, m)
            k.entropy(x, m)
            k.log_softmax_stats(x, m)
        k.sample_tokens(
            x, ids, temperature=0.5, top_k=2, top_p=0.9, min_p=0.1, repetition_penalty=1.1, mask=mask,
            previous=[[1], [2]],
        )  # fmt: skip
        for asked in ({}, {"scores": x}, {"typical_p": 0.9}, {"bias": ([0, 1, 1], [3], [1.0])}):
            k.sample_tokens(x, np.random.default_rng(0), **asked)
            k.sample_tokens(x, ids, **asked, details=True, kept_ids=True, top_n=2)
    for dtype in (np.float32, np.float64):
        index, one = np.zeros((2, 2), np.int32), np.float64(1)
        index.flags.writeable = dtype is not np.float32
        tree = k.sum_tree(5, dtype)
        k.update_sum_tree(tree, index, one)
        k.update_min_tree(k.min_tree(5, dtype), index, np.broadcast_to(one, (2, 2)))
        k.search_sum_tree(tree, np.zeros((2, 2), np.float32))
        for rows in (np.zeros((5, 3), dtype), np.zeros((5, 6), dtype)[:, ::2]):
            for name, arrays in (("adam", 5), ("sgd", 3), ("rmsprop", 5), ("lerp", 2)):
                leaf = [row.reshape(-1) for row in rows[:arrays].copy()]
                _optimizers.advance(name, [leaf, [leaf[0], leaf[1], *[leaf[0][:0]] * (arrays - 2)]], leaf[0])
    for x in (np.zeros((2, 3), np.float32), np.broadcast_to(np.zeros(3, np.float32), (2, 3))):
        for name in ("gelu", "gelu_by_tanh", "silu"):
            _layers.pointwise(name, x)
        _layers.layer_norm(x, x[0], None, 3, 1e-5)


@pytest.fixture
def signatures(monkeypatch):
    """What kernels are called with, as types that each are compiled for; nothing is compiled or computed."""
    seen: set[tuple[Any, ...]] = set()

    def watch(module: Any, name: str) -> None:
        def record(*args: Any) -> Any:
            seen.add((module.__name__, name, *map(numba.typeof, args)))
            return -1 if module is sum_tree else args[-2]  # to who draws tokens: the first row is flat

        monkeypatch.setattr(module, name, record)

    for module, name in ENTRIES:
        watch(module, name)
    return seen


def test_warmup_compiles_what_calls_need(signatures):
    k.warmup()
    warm = set(signatures)
    assert {tuple(signature[:2]) for signature in warm} == {(m.__name__, name) for m, name in ENTRIES}
    call_everything()
    assert signatures == warm


def test_all_kernels_are_watched():
    dispatchers = {
        (module, name)
        for module in (
            returns,
            multistep_return,
            log_softmax,
            sample_tokens,
            flat_rows,
            token_log_probs,
            layers,
            sum_tree,
            optimizers,
        )
        for name, found in vars(module).items()
        if isinstance(found, Dispatcher) and not found.targetoptions["no_cpython_wrapper"]
    }
    assert dispatchers == set(ENTRIES)


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environment, capture_output=True, text=True, timeout=500,
    )  # fmt: skip


CACHED = """
import numpy as np
import lite.kernels as k
from lite.kernels.cpu import returns

done = np.zeros((2, 3), bool)
assert k.reward_to_go(np.ones((2, 3), np.float32), done).tolist() == [[3, 2, 1]] * 2
print(sum(returns.short_lambda_returns.stats.cache_misses.values()))
"""


def test_what_one_process_compiled_the_next_one_reads(tmp_path):
    """From the folder that the environment names."""
    cache = tmp_path / "cache"
    assert run(CACHED, NUMBA_CACHE_DIR=str(cache)).stdout.strip() == "1"
    files = {path: path.stat().st_mtime_ns for path in cache.rglob("*.nbc")}
    assert files
    assert run(CACHED, NUMBA_CACHE_DIR=str(cache)).stdout.strip() == "0"
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*.nbc")} == files


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
