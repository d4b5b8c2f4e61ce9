"""What a wrapper asks of its model: rows of one task together, samples and seeds with their prompt."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from helpers.models.prompts import Make
from helpers.models.scripted_decoder import VOCABULARY, ScriptedDecoder

from lite.models import GenerationConfig, OnnxDecoder, embedded_model_path, full_logits, generate, score
from lite.models.generation.batching import BatchSizes
from lite.models.generation.calls import ModelCalls
from lite.models.generation.pool import Pool

ROWS = [np.array([39, 72]), np.array([39, 68, 75, 75, 78]), np.array([39, 72])]
SEEDS = np.zeros(5, np.uint64)


def test_samples_and_seeds_stay_with_their_prompt(scripted_model: Make) -> None:
    cases: list[BatchSizes | None] = [None, BatchSizes(1, 2)]
    for sizes in cases:
        config = GenerationConfig(max_new_tokens=5, do_sample=True, temperature=4.0)
        seeds = np.arange(6, dtype=np.uint64)
        calls = ModelCalls(scripted_model(), num_samples=2, sizes=sizes)
        got = calls.generate(ROWS, config, seeds)
        want = generate(scripted_model(), ROWS, config, seeds=seeds, num_samples=2)
        assert [r.tokens.tolist() for r in got] == [r.tokens.tolist() for r in want], sizes
        assert len({tuple(r.tokens.tolist()) for r in got}) > 1, sizes


def test_scores_and_logits_are_those_of_the_model(scripted_model: Make) -> None:
    cases: list[BatchSizes | None] = [None, BatchSizes(1, 2)]
    for sizes in cases:
        calls = ModelCalls(scripted_model(), sizes=sizes)
        np.testing.assert_equal(calls.score(ROWS), score(scripted_model(), ROWS))
        np.testing.assert_equal(calls.full_logits(ROWS), full_logits(scripted_model(), ROWS))


def test_a_bad_row_runs_nothing(scripted_model: Make) -> None:
    model = scripted_model()
    calls = ModelCalls(model, sizes=BatchSizes(1, None))
    with pytest.raises(ValueError, match="at least one token"):
        calls.generate([ROWS[0], np.array([], np.int64)], GenerationConfig(max_new_tokens=1), SEEDS)
    assert model.prefilled == []


def test_errors_name_the_row_of_the_call() -> None:
    cases: list[dict[str, Any]] = [{}, {"sizes": BatchSizes(1, None)}, {"sessions": 2}]
    for options in cases:
        decoder = OnnxDecoder(embedded_model_path(), num_threads=1)
        calls, rows = ModelCalls(decoder, **options), [*ROWS, np.array([], np.int64), ROWS[0]]
        with pytest.raises(ValueError, match="prompt 3: ids must hold at least one token"):
            calls.generate(rows, GenerationConfig(max_new_tokens=1), SEEDS)
        with pytest.raises(ValueError, match="row 3: ids must hold at least one token"):
            calls.score(rows)
        with pytest.raises(ValueError, match="prompt 3: ids must hold at least one token"):
            calls.score_choices(rows, [[np.array([5])]] * 5)


def test_calls_of_one_model_share_its_pool(scripted_model: Make) -> None:
    model = scripted_model()
    first, second, other = ModelCalls(model), ModelCalls(model), ModelCalls(scripted_model())
    assert first.pool is second.pool
    assert first.pool is not other.pool


def test_sizes_that_are_no_integers(scripted_model: Make) -> None:
    for name in ("max_rows", "prefix_cache"):
        with pytest.raises(TypeError, match=f"{name} must be an integer, got 1000000.0"):
            ModelCalls(scripted_model(), **{name: 1e6})


@pytest.mark.parametrize("least", [1, 2])
def test_a_function_of_the_user_may_call_the_same_model(scripted_model: Make, least: int) -> None:
    """It does not wait for the run that it is part of, nor for company that waits for that run."""
    calls = ModelCalls(scripted_model(), sizes=BatchSizes(least, None), timeout=0.1)
    inner: list[Any] = []

    def scored(ids: Any, scores: Any) -> None:
        inner.extend(calls.score([ids]))

    config = GenerationConfig(max_new_tokens=3, logits_processor=(scored,))
    outer = threading.Thread(target=calls.generate, args=(ROWS[:1], config, SEEDS), daemon=True)
    outer.start()
    outer.join(20)
    assert not outer.is_alive()
    assert [len(scores) for scores in inner] == [2, 3, 4]


def test_what_is_kept_is_bounded_whatever_sessions_others_have(rng: np.random.Generator) -> None:
    class Model(ScriptedDecoder):
        def sibling(self) -> Model:
            return Model()

    model = Model()
    calls = ModelCalls(model, prefix_cache=300)  # 10 bytes per token
    Pool.of(model, 3)
    config, prompt = GenerationConfig(max_new_tokens=2), rng.integers(0, VOCABULARY, 20)

    def beside(first: Any, rows: Any) -> list[Any]:
        with ThreadPoolExecutor(1) as thread:  # the first decoder is taken meanwhile
            return [thread.submit(calls.generate, [prompt], config, SEEDS).result() for _ in rows]

    calls.generate([prompt], config, SEEDS)
    calls.pool.run(beside, range(1), most=1)
    assert 0 < calls.prefix_cache_state()["nbytes"] <= 300
