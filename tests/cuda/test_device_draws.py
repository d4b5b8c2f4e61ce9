"""Tokens of a decoder on a GPU are drawn there: the graph is a stand-in, the kernels run in the simulator.

Stand-ins hold the host's memory, so that no real GPU can run this file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.kernels_under_test import SIMULATED
from helpers.models import decoder_graphs
from helpers.models.stand_in_gpu import HostRuntime, gpu, on_gpu

from lite.models import Generated, GenerationConfig, generate
from lite.models.generation import sampling

if not SIMULATED:
    pytest.skip("needs NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)

__all__ = ["gpu"]  # a fixture

PROMPTS = [[1, 2, 3], [4], [5, 6, 7, 8, 9]]
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {},
    "plain": {"do_sample": True},
    "filters": {"temperature": 1.4, "top_k": 9, "top_p": 0.9, "min_p": 0.02},
    "typical": {"temperature": 1.5, "typical_p": 0.7},
    "penalties": {"temperature": 0.8, "repetition_penalty": 1.3},
    "biases": {"temperature": 1.1, "logit_bias": {3: 2.0, 5: -1.0}, "bad_words_ids": [[7], [8, 2]]},
}
GRAPHS = ["positions", "half logits", "no mask", "slots", "slots, single row", "pair"]


def equal(ours: list[Generated], theirs: list[Generated]) -> None:
    for one, two in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.tokens, two.tokens)
        np.testing.assert_allclose(one.log_probs, two.log_probs, atol=5e-3)
        assert one.finish_reason == two.finish_reason


def both(graph: str, gpu: HostRuntime, configs: Any, **call: Any) -> tuple[list[Generated], int, int]:
    """Responses that are those of the CPU; runs of the steps that copied their logits, and later copies."""
    other, _, _ = decoder_graphs.make(graph)
    decoder, session = on_gpu(graph, other.config)
    session.to_host = 0
    gpu.calls.clear()
    seeds = np.arange(len(PROMPTS) * call.get("num_samples", 1), dtype=np.uint64)
    ours, theirs = (generate(d, PROMPTS, configs, seeds=seeds, **call) for d in (decoder, other))
    equal(ours, theirs)
    return ours, session.to_host, gpu.calls.count("fetch")


@pytest.mark.parametrize("options", OPTIONS.values(), ids=list(OPTIONS))
def test_no_step_copies_its_logits_to_the_host(gpu: HostRuntime, options: dict[str, Any]) -> None:
    config = GenerationConfig.from_kwargs({"max_new_tokens": 6, "eos_token_id": 11, **options})
    one = GenerationConfig.from_kwargs({"max_new_tokens": 1, **options})
    _, prompts, _ = both("positions", gpu, one)
    _, copied, fetched = both("positions", gpu, config)
    assert copied == prompts == 1  # the prompts' run
    assert fetched == 0


@pytest.mark.parametrize("graph", GRAPHS)
def test_whatever_the_graph(gpu: HostRuntime, graph: str) -> None:
    """Responses of different length, so that rows leave, are filled again and run in another order."""
    configs = [
        GenerationConfig(max_new_tokens=n, do_sample=True, temperature=1.3, repetition_penalty=p)
        for n, p in ((3, 1.0), (8, 1.2), (5, 1.0))
    ]
    *_, fetched = both(graph, gpu, configs, num_samples=2, max_rows=4)
    assert fetched == 0


def test_guesses_are_drawn_alike(gpu: HostRuntime) -> None:
    guessing = {"prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 1, "logit_bias": {3: 9.0, 4: 9.0}}
    config = GenerationConfig.from_kwargs({"max_new_tokens": 12, "temperature": 0.7, **guessing})
    responses, *_ = both("slots", gpu, config)
    assert sum(response.accepted for response in responses)


@pytest.mark.parametrize("graph", ["positions", "slots"])
def test_masks_go_to_the_gpu(gpu: HostRuntime, graph: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A grammar's, which a stand-in for it gives; only some rows have one."""

    class Matcher:
        def __init__(self, *args: Any) -> None: ...

        def allowed(self, ids: np.ndarray) -> np.ndarray:
            return np.array([0b1010101 << len(ids) % 3], np.int32)

    monkeypatch.setattr("lite.models.generation.processors.Matcher", Matcher)
    plain = GenerationConfig(max_new_tokens=5, do_sample=True)
    ruled = replace(plain, grammar=object(), eos_token_ids=(22,))  # type: ignore[arg-type]
    responses, _, fetched = both(graph, gpu, [ruled, plain, ruled])
    assert fetched == 0
    for response in responses[::2]:
        for i, token in enumerate(response.tokens.tolist()):
            assert 0b1010101 << i % 3 >> token & 1


@pytest.mark.parametrize(
    "own", [{"logprobs": 2}, {"entropy": True}, {"logits_processor": lambda ids, scores: -scores}]
)
def test_what_the_kernel_lacks_is_drawn_on_the_host(gpu: HostRuntime, own: dict[str, Any]) -> None:
    """Exactly as if Numba could not launch kernels, for the rows beside it, too."""
    plain = {"max_new_tokens": 5, "temperature": 1.2}
    configs = [GenerationConfig.from_kwargs({**plain, **more}) for more in ({}, own, {})]
    ours, _, fetched = both("positions", gpu, configs)
    assert fetched == 4  # one copy for each step
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "drawn_on_gpus", lambda: False)
        theirs, _, fetched = both("positions", gpu, configs)
    assert fetched == 4
    for one, two in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.tokens, two.tokens)
        np.testing.assert_array_equal(one.log_probs, two.log_probs)
        assert (one.details is None) == (two.details is None)


def test_errors_are_those_of_the_host(gpu: HostRuntime) -> None:
    config = GenerationConfig.from_kwargs(
        {"max_new_tokens": 3, "logit_bias": {1: 100.0}, "bad_words_ids": [[1, i] for i in range(23)]}
    )
    other, _, _ = decoder_graphs.make("slots")
    decoder, session = on_gpu("slots", other.config)
    for one in (decoder, other):
        with pytest.raises(ValueError, match=r"logits\[0\] has no token left that may be drawn"):
            generate(one, [[2, 3]], config)
        assert not one.lengths.any()  # rows are given back
    assert "fetch" not in gpu.calls
    assert session.to_host
