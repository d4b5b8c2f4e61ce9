"""Tokens of a decoder on a GPU are drawn there: the graph is a stand-in, the kernels run in the simulator.

Stand-ins hold the host's memory, so that no real GPU can run this file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same
from helpers.kernels_under_test import SIMULATED
from helpers.models import decoder_graphs
from helpers.models.responses import assert_same_responses
from helpers.models.stand_in_gpu import HostRuntime, gpu, on_a_stream, on_gpu

from lite.models import Generated, GenerationConfig, generate, score, score_choices, score_details
from lite.models.decoder import device_logits
from lite.models.generation import sampling

if not SIMULATED:
    pytest.skip("needs NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)

__all__ = ["gpu"]  # a fixture

PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9]]
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "filters": {"temperature": 1.4, "top_k": 9, "top_p": 0.9, "min_p": 0.02},
    "typical": {"temperature": 1.5, "typical_p": 0.7},
    "details": {"temperature": 1.2, "top_p": 0.8, "logprobs": 2, "kept_ids": True, "entropy": True},
    "penalties": {"temperature": 0.8, "repetition_penalty": 1.3},
    "biases": {"temperature": 1.1, "logit_bias": {3: 2.0, 5: -1.0}, "bad_words_ids": [[7], [8, 2]]},
}
GRAPHS = ["half logits", "slots, single row", "pair"]


def both(graph: str, gpu: HostRuntime, configs: Any, **call: Any) -> tuple[list[Generated], int]:
    """Responses that are those of the CPU; how often logits were copied to the host."""
    other, _, _ = decoder_graphs.make(graph)
    decoder, _ = on_gpu(graph, other.config)
    gpu.calls.clear()
    seeds = np.arange(len(PROMPTS) * call.get("num_samples", 1), dtype=np.uint64)
    ours, theirs = (generate(d, PROMPTS, configs, seeds=seeds, **call) for d in (decoder, other))
    assert_same_responses(ours, theirs, atol=5e-3)
    return ours, gpu.calls.count("fetch")


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_no_logits_are_copied_to_the_host(gpu: HostRuntime, options: dict[str, Any]) -> None:
    config = GenerationConfig.from_kwargs({"max_new_tokens": 4, "eos_token_id": 11, **options})
    _, fetched = both("positions", gpu, config)
    assert fetched == 0


@pytest.mark.parametrize("graph", GRAPHS)
def test_whatever_the_graph(gpu: HostRuntime, graph: str) -> None:
    """Responses of different length, so that rows leave, are filled again and run in another order."""
    configs = [
        GenerationConfig(max_new_tokens=n, do_sample=True, temperature=1.3, repetition_penalty=p)
        for n, p in ((3, 1.0), (8, 1.2), (5, 1.0))
    ]
    _, fetched = both(graph, gpu, configs, num_samples=2, max_rows=4)
    assert fetched == 0


def test_guesses_are_drawn_alike(gpu: HostRuntime) -> None:
    guessing = {"prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 1, "logit_bias": {3: 9.0, 4: 9.0}}
    config = GenerationConfig.from_kwargs({"max_new_tokens": 12, "temperature": 0.7, **guessing})
    responses, fetched = both("slots", gpu, config)
    assert sum(response.accepted for response in responses)
    assert fetched == 0


def test_an_assistant_guesses_on_the_gpu(gpu: HostRuntime) -> None:
    config = GenerationConfig(max_new_tokens=12, num_assistant_tokens=3)
    assistant, _ = on_gpu("positions", decoder_graphs.make("positions")[0].config)
    responses, fetched = both("positions", gpu, config, assistant_model=assistant)
    assert sum(response.accepted for response in responses)
    assert fetched == 0


def test_masks_go_to_the_gpu(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grammar's, which a stand-in for it gives; only some rows have one."""

    class Matcher:
        def __init__(self, *args: Any) -> None: ...

        def allowed(self, ids: np.ndarray) -> np.ndarray:
            return np.array([0b1010101 << len(ids) % 3], np.int32)

    monkeypatch.setattr("lite.models.generation.processors.Matcher", Matcher)
    plain = GenerationConfig(max_new_tokens=5, do_sample=True)
    ruled = replace(plain, grammar=object(), eos_token_ids=(22,))  # type: ignore[arg-type]
    responses, fetched = both("slots", gpu, [ruled, plain, ruled])
    assert fetched == 0
    for response in responses[::2]:
        for i, token in enumerate(response.tokens.tolist()):
            assert 0b1010101 << i % 3 >> token & 1


def test_what_the_kernel_lacks_is_drawn_on_the_host(gpu: HostRuntime) -> None:
    """Exactly as if Numba could not launch kernels, for the rows beside it, too."""
    plain = {"max_new_tokens": 5, "temperature": 1.2}
    own = {"logits_processor": lambda ids, scores: -scores}
    configs = [GenerationConfig.from_kwargs({**plain, **more}) for more in ({}, own, {})]
    ours, fetched = both("positions", gpu, configs)
    assert fetched == 5  # one copy for each token
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "drawn_on_gpus", lambda: False)
        theirs, fetched = both("positions", gpu, configs)
    assert fetched == 5
    assert_same_responses(ours, theirs)


def test_errors_are_those_of_the_host(gpu: HostRuntime) -> None:
    config = GenerationConfig.from_kwargs(
        {"max_new_tokens": 3, "logit_bias": {1: 100.0}, "bad_words_ids": [[1, i] for i in range(23)]}
    )
    other, _, _ = decoder_graphs.make("slots")
    decoder, _ = on_gpu("slots", other.config)
    for one in (decoder, other):
        with pytest.raises(ValueError, match=r"logits\[0\] has no token left that may be drawn"):
            generate(one, [[2, 3]], config)
        assert not one.lengths.any()  # rows are given back
    assert "fetch" not in gpu.calls


@pytest.mark.parametrize("graph", ["slots", "half logits"])
def test_scores_are_computed_on_the_gpu(gpu: HostRuntime, graph: str) -> None:
    other, _, _ = decoder_graphs.make(graph)
    decoder, _ = on_gpu(graph, other.config)
    rows = [np.array([1, 2, 3, 4]), np.array([5]), np.array([6, 7, 8, 9, 10, 11])]
    supports = [(np.array([0, 2, 2]), np.array([3, 4])), None, (np.array([0, 1]), np.array([11]))]
    gpu.calls.clear()
    for options in ({}, {"temperature": 0.7, "supports": supports}):
        ours, theirs = (score(d, rows, **options) for d in (decoder, other))  # type: ignore[arg-type]
        assert_same(ours, theirs, atol=5e-3)
        known, expected = (score_details(d, rows, **options) for d in (decoder, other))  # type: ignore[arg-type]
        for parts, others in zip(known, expected, strict=True):
            assert_same(parts, others, atol=5e-3)
    assert "fetch" not in gpu.calls
    choices = [[3, 4, 5], [6, 2]]
    one, two = (score_choices(d, [[1, 2]], choices).log_probs for d in (decoder, other))
    np.testing.assert_allclose(one, two, atol=5e-3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(device_logits, "drawn_on_gpus", lambda: False)
        assert_same(score(decoder, rows), score(other, rows), atol=5e-3)
    assert "fetch" in gpu.calls


@pytest.mark.parametrize(
    ("graph", "options"), [("positions", {}), ("half logits", OPTIONS["details"])], ids=["plain", "details"]
)
def test_the_session_and_the_kernels_share_a_stream(gpu, monkeypatch, graph, options):
    """A run is queued and not waited for, and its draw is queued behind it; nothing waits for the device."""
    decoder, session = on_a_stream(graph, gpu, monkeypatch)
    handle = session.how["stream"].handle
    other, _, _ = decoder_graphs.make(graph)
    config = GenerationConfig.from_kwargs({"max_new_tokens": 6, "temperature": 1.1, **options})
    seeds = np.arange(6, dtype=np.uint64)
    ours, theirs = (generate(d, PROMPTS, config, seeds=seeds, num_samples=2) for d in (decoder, other))
    assert_same_responses(ours, theirs, atol=5e-3)
    assert not {"synchronise", "fetch"} & set(gpu.calls)
    assert f"kernels on {handle}" in gpu.calls
    assert_same(score(decoder, [[1, 2, 3]]), score(other, [[1, 2, 3]]), atol=5e-3)
    assert session.numbers.count(None) == len(session.numbers)


def test_steps_are_captured_and_replayed(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The eighth step of the same rows and those after it, prompts never."""
    decoder, session = on_a_stream("slots", gpu, monkeypatch, cuda_graphs=True)
    other, _, _ = decoder_graphs.make("slots")
    configs = [GenerationConfig(max_new_tokens=n, do_sample=True) for n in (15, 35, 25)]
    seeds = np.arange(3, dtype=np.uint64)
    for _ in range(2):
        ours, theirs = (generate(d, PROMPTS, configs, seeds=seeds) for d in (decoder, other))
        assert_same_responses(ours, theirs, atol=5e-3)
    assert session.replays > 30
    assert len(session.captured) == len(set(session.numbers) - {"-1"}) >= 3  # of three, two rows and one
    assert session.numbers[: len(PROMPTS)] == ["-1"] * len(PROMPTS)
    assert not {"synchronise", "fetch"} & set(gpu.calls)
