"""Many threads on one batching wrapper, with cancels, failures and flushes at random.

LITE_STRESS_SECONDS says how long each case takes (two seconds if it is not set).
"""

from __future__ import annotations

import os
import random
import resource
import sys
import threading
import time
from collections import Counter
from concurrent.futures import CancelledError, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.models.prompts import Make, token_td
from helpers.waiting import LONG, until

from lite.models import OnnxDecoder, OnnxWrapper, embedded_model_path

SECONDS = float(os.environ.get("LITE_STRESS_SECONDS", "2"))
THREADS = 32
FAILS, BAD, CANCELS = 0.03, 0.05, 0.02  # how often
PROMPTS = [[10 + i, 20 + j, 30 + i * j % 7] for i in range(8) for j in range(8)]
LENGTHS = [1, 2, 5]  # of responses; calls with different ones do not share a run


class InjectedError(Exception):
    """Of a run; `prompts` are those of its batch."""

    prompts: set[tuple[int, ...]]


def noting(run: Any) -> Any:
    """What runs batches; errors say which rows were in theirs."""

    def run_batch(task: Any, rows: Any) -> Any:
        try:
            return run(task, rows)
        except InjectedError as error:
            error.prompts = {tuple(row.ids.tolist()) for row in rows}
            raise

    return run_batch


def failing(prefill: Any) -> Any:
    """`prefill_rows` that fails now and then, before anything is run or after."""
    chance = random.Random(1)

    def prefill_rows(self: Any, rows: Any, prompts: Any) -> Any:
        luck = chance.random()
        if luck < FAILS / 2:
            raise InjectedError
        logits = prefill(self, rows, prompts)
        if luck < FAILS:
            raise InjectedError
        return logits

    return prefill_rows


class Callers:
    """Threads that call a wrapper until the time is over; each looks at what it gets."""

    def __init__(self, wrapper: OnnxWrapper, expected: dict[Any, Any]) -> None:
        self.wrapper = wrapper
        self.expected = expected
        self.seen: Counter[str] = Counter()
        self.end = time.monotonic() + SECONDS

    def run(self, number: int) -> None:
        chance = random.Random(number)
        while time.monotonic() < self.end:
            luck = chance.random()
            if luck < CANCELS:
                flush = luck < CANCELS / 2
                self.seen["flush" if flush else "cancel"] += 1
                self.wrapper.cleanup_batching(flush=flush)
                continue
            prompts = [chance.choice(PROMPTS) for _ in range(chance.randint(1, 4))]
            bad = chance.random() < BAD
            if bad:
                prompts.append([10**6])
            self.seen[self.outcome(prompts, bad, chance.choice(LENGTHS))] += 1

    def outcome(self, prompts: list[list[int]], bad: bool, length: int) -> str:
        batch = None
        try:
            out = self.wrapper(token_td(*prompts), max_new_tokens=length)
        except CancelledError:
            return "cancelled"
        except InjectedError as error:
            batch = error.prompts
        except ValueError:
            if not bad:
                raise
            return "bad"
        if batch is not None:
            assert any(tuple(prompt) in batch for prompt in prompts)
            return "failed"
        assert not bad
        tokens = out.get(("tokens", "response"), as_list=True)
        log_probs = out.get(("log_probs", "response"), as_list=True)
        for prompt, row, scores in zip(prompts, tokens, log_probs, strict=True):
            want, want_scores = self.expected[tuple(prompt), length]
            assert np.asarray(row).tolist() == want, prompt
            np.testing.assert_allclose(scores, want_scores, atol=1e-4)
        return "served"


def resident() -> int:
    """Bytes in memory."""
    if sys.platform == "linux":
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
    return 0


def make_wrapper(kind: str, scripted_model: Make, **options: Any) -> OnnxWrapper:
    model = scripted_model() if kind == "scripted" else OnnxDecoder(embedded_model_path(), num_threads=1)
    return OnnxWrapper(
        model, input_mode="tokens", inplace=False, generate_kwargs={"do_sample": False}, **options
    )


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["scripted", "embedded"])
def test_every_caller_gets_its_own_rows_or_its_own_error(
    kind: str, scripted_model: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "embedded":
        pytest.importorskip("onnxruntime")
    alone = make_wrapper(kind, scripted_model)
    expected = {}
    for length in LENGTHS:
        for prompt in PROMPTS:
            out = alone(token_td(prompt), max_new_tokens=length)
            entries = [out[name, "response"][0] for name in ("tokens", "log_probs")]
            expected[tuple(prompt), length] = [np.asarray(entry).tolist() for entry in entries]
    sizes = {"min_batch_size": 6, "max_batch_size": 16}  # memory follows the largest batch there was
    wrapper = make_wrapper(kind, scripted_model, sessions=2, batching_timeout=0.02, **sizes)
    monkeypatch.setattr(type(wrapper.model), "prefill_rows", failing(type(wrapper.model).prefill_rows))
    if kind == "scripted":
        monkeypatch.setattr(type(wrapper.model), "check_ids", refusing(type(wrapper.model).check_ids))
    batcher: Any = wrapper._calls.batcher
    batcher._run = noting(batcher._run)
    callers, before = Callers(wrapper, expected), threading.active_count()
    memory: list[int] = []
    with ThreadPoolExecutor(THREADS) as threads:
        running = [threads.submit(callers.run, number) for number in range(THREADS)]
        for share in (0.4, 0.98):  # once everything has happened, and shortly before the end
            time.sleep(max(0.0, callers.end - SECONDS * (1 - share) - time.monotonic()))
            memory.append(resident())
        for thread in running:
            thread.result(LONG)
    state = wrapper.get_batching_state()
    assert (state["queue_size"], state["processing"]) == (0, False)
    until(lambda: threading.active_count() <= before)
    wanted = {"served", "failed", "bad", "cancel", "flush", *(["cancelled"] if SECONDS > 20 else [])}
    assert wanted <= set(callers.seen), callers.seen
    assert memory[1] - memory[0] < 16 * 2**20, memory
    for model in wrapper._calls.pool._all:  # all rows were given back, also of runs that failed
        held: Any = model
        assert not (held.held if kind == "scripted" else held._held.any())
    print(dict(callers.seen), [f"{size / 2**20:.1f} MiB" for size in memory])


def refusing(check: Any) -> Any:
    """`check_ids` that knows the size of the vocabulary."""

    def check_ids(self: Any, ids: Any) -> Any:
        if max(ids) >= self.vocab_size:
            raise ValueError(f"ids must be below {self.vocab_size}")
        return check(self, ids)

    return check_ids
