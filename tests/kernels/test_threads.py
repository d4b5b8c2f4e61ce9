"""Kernels called from many Python threads, after fork, and with any number of their own threads."""

import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite.kernels import (
    _threads,
    get_num_threads,
    multistep_return,
    sample_tokens,
    set_num_threads,
    token_log_probs,
)
from lite.kernels._threads import for_rows, submit
from lite.kernels.backends.choice import backend

INTERPRETED = backend() == "numpy"
SCALE = 1 if INTERPRETED else 20  # compiled: enough work for several chunks


def test_the_environment_and_the_container_say_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/sys/fs/cgroup/cpu.max": "150000 100000"}
    monkeypatch.setattr(_threads.Path, "read_text", lambda path, **_: files[path.as_posix()])
    monkeypatch.setattr(_threads.os, "sched_getaffinity", lambda _: range(64), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("LITE_NUM_THREADS", "")
    assert _threads._default_threads() == 2
    files["/sys/fs/cgroup/cpu.max"] = "max 100000"
    assert _threads._default_threads() == 64
    monkeypatch.setenv("LITE_NUM_THREADS", "3")
    assert _threads._default_threads() == 3
    for value in ("0", "-1", "many"):
        monkeypatch.setenv("LITE_NUM_THREADS", value)
        raises(ValueError, f"LITE_NUM_THREADS must be .*, got '{value}'", _threads._default_threads)


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = get_num_threads()
    set_num_threads(request.param)
    yield request.param
    set_num_threads(before)


def calls(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    reward = rng.normal(size=(4 * SCALE, 25 * SCALE)).astype(np.float32)
    logits = rng.normal(size=(2 * SCALE, 500 * SCALE)).astype(np.float32)
    returns = multistep_return(reward, rng.random(reward.shape) < 0.1, gamma=0.9, n_steps=5)
    tokens, log_probs = sample_tokens(logits, np.arange(len(logits)), top_k=20, top_p=0.9)
    return [*returns, tokens, log_probs, token_log_probs(logits, tokens)]


@pytest.mark.depth
def test_eight_threads_at_once(threads):
    expected = [calls(seed) for seed in range(4)]
    with ThreadPoolExecutor(8) as pool:
        for got, want in zip(pool.map(calls, [*range(4)] * 2), expected * 2, strict=True):
            np.testing.assert_equal(got, want)


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_after_fork():
    """In a process of its own: a fork of this one would take pytest's threads with it."""
    program = """
import os, warnings
import numpy as np
import lite.kernels as k
warnings.simplefilter("ignore", DeprecationWarning)  # Python says that forking with threads is risky
k.set_num_threads(4)
logits = np.random.default_rng(0).normal(size=(64, 8000)).astype(np.float32)
tokens = np.arange(64)
expected = k.token_log_probs(logits, tokens)
children = []
for _ in range(3):
    if not (child := os.fork()):
        same = np.array_equal(k.token_log_probs(logits, tokens), expected)
        os._exit(0 if same else 1)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert codes == [0, 0, 0], codes
assert np.array_equal(k.token_log_probs(logits, tokens), expected)
"""
    environment = {k: v for k, v in os.environ.items() if k not in ("NUMBA_DISABLE_JIT", "LITE_KERNELS")}
    done = subprocess.run([sys.executable, "-c", program], env=environment, timeout=120, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_rows_are_covered_once(threads):
    seen = np.zeros(1003, np.int64)

    def run(start: int, stop: int) -> None:
        seen[start:stop] += 1

    for_rows(run, 1003, 10)
    np.testing.assert_array_equal(seen, 1)


def test_threads_that_outlive_the_main_one(threads, monkeypatch):
    """Pools take no work when the main thread has ended: who calls does it."""
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)
    seen = np.zeros(10, np.int64)
    for_rows(lambda start, stop: seen.__setitem__(slice(start, stop), seen[start:stop] + 1), 10, 1)
    np.testing.assert_array_equal(seen, 1)
    with ThreadPoolExecutor(1) as pool:
        assert submit(pool, pow, 2, 3).result() == 8
        raises(ZeroDivisionError, "", submit(pool, divmod, 1, 0).result)
        monkeypatch.setattr(pool, "submit", refusing)
        raises(RuntimeError, "can't start new thread", submit, pool, pow, 2, 3)


def refusing(*_: Any) -> None:
    raise RuntimeError("can't start new thread")


def test_an_error_in_a_chunk_is_raised(threads):
    def run(start: int, stop: int) -> None:
        if stop == 100:
            raise ZeroDivisionError

    raises(ZeroDivisionError, "", lambda: for_rows(run, 100, 10))


def test_the_number_of_threads_is_checked():
    raises(ValueError, "count must be at least 1, got 0", lambda: set_num_threads(0))
    raises(TypeError, "", lambda: set_num_threads(2.5))


def test_arrays_are_let_go_at_once():
    """Also by helpers that came too late, whose work waits in the pool to be dropped."""

    class Large:
        pass

    before = get_num_threads()
    set_num_threads(2)
    try:
        for _ in range(200):
            large = Large()
            gone = weakref.ref(large)

            def run(start: int, stop: int, large: Any = large) -> None: ...

            for_rows(run, 8, 1)
            del large, run
            assert gone() is None
    finally:
        set_num_threads(before)
