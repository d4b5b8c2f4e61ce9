"""Rows of one call draw under options of their own, and what is told of what they drew."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import simulator
from helpers.models.real_models import open_model
from helpers.models.responses import assert_same_responses
from helpers.models.table_model import TableModel

from lite.models import Generated, GenerationConfig, generate, stream
from lite.models.generation.processors import Processors

# -- what is told of tokens ----------------------------------------------------------------------

ASKED = {"sampled_log_probs": True, "kept_ids": True, "entropy": True, "logprobs": 3}
FILTERS = [
    {}, {"temperature": 0.6}, {"temperature": 1.4, "top_k": 5}, {"top_p": 0.7, "temperature": 0.8},
    {"min_p": 0.2}, {"typical_p": 0.5, "temperature": 1.2},
    {"bad_words_ids": [[1], [2, 3]], "no_repeat_ngram_size": 2, "top_k": 6},
    {"min_new_tokens": 4, "eos_token_id": [0, 3]},
]  # fmt: skip


def log_softmax(scores: np.ndarray) -> np.ndarray:
    shifted = scores - scores.max()
    return shifted - np.log(np.exp(shifted).sum())


def known(model: TableModel, prompt: list[int], response: Generated) -> list[tuple[int, np.ndarray]]:
    """Each token of a response, and the logits before it."""
    ids = [*prompt, *response.tokens.tolist()]
    return [(ids[t], model.logits(ids[:t]).astype(np.float64)) for t in range(len(prompt), len(ids))]


@pytest.mark.depth
def test_identities() -> None:
    for options in FILTERS:
        model, prompts = TableModel.random(3, vocab_size=15), [[1, 2, 3], [4, 5]]
        config = GenerationConfig.from_kwargs({"do_sample": True, "max_new_tokens": 8, **ASKED, **options})
        seeds = np.arange(6, dtype=np.uint64)
        for i, response in enumerate(generate(model, prompts, config, num_samples=3, seeds=seeds)):
            details = response.details
            assert details is not None, options
            for t, (token, logits) in enumerate(known(model, prompts[i // 3], response)):
                warm, cold = log_softmax(logits / config.temperature), log_softmax(logits)
                kept = details.kept_ids[details.kept_offsets[t] : details.kept_offsets[t + 1]]
                kept = kept if len(kept) else np.arange(15)
                mass = np.log(np.exp(warm[kept]).sum())
                assert token in kept, options
                np.testing.assert_allclose(details.kept_log_mass[t], mass, atol=1e-6, err_msg=str(options))
                np.testing.assert_allclose(
                    details.sampled_log_probs[t], warm[token] - details.kept_log_mass[t], atol=1e-6
                )
                np.testing.assert_allclose(details.entropy[t], -(np.exp(cold) * cold).sum(), atol=1e-6)
                np.testing.assert_allclose(response.log_probs[t], cold[token], atol=2e-6)
                best = np.argsort(-cold, kind="stable")[:3]
                assert details.top_ids[t].tolist() == best.tolist(), options
                np.testing.assert_allclose(details.top_log_probs[t], cold[best], atol=1e-6)


def test_greedy_tokens_are_certain() -> None:
    cases: list[dict[str, Any]] = [{}, {"repetition_penalty": 1.5, "logit_bias": {4: 2.0}}]
    for options in cases:
        config = GenerationConfig.from_kwargs({"max_new_tokens": 9, **ASKED, **options})
        (response,) = generate(TableModel.random(3), [[1, 2]], config)
        assert not response.details.sampled_log_probs.any(), options
        assert not response.details.kept_log_mass.any(), options


def test_each_response_is_told_what_its_options_ask_for() -> None:
    model, prompt = TableModel.random(4), [1, 2]
    configs = [
        GenerationConfig(max_new_tokens=3),
        GenerationConfig(max_new_tokens=5, logprobs=2),
        GenerationConfig(max_new_tokens=4, do_sample=True, top_k=4, kept_ids=True, logprobs=20),
        GenerationConfig(max_new_tokens=0, **ASKED),
    ]
    seeds = np.arange(4, dtype=np.uint64)
    none, some, more, empty = generate(model, [prompt] * 4, configs, seeds=seeds)
    assert none.details is None
    assert some.details.kept_ids is None
    assert some.details.top_ids.shape == (5, 2)
    assert more.details.top_ids.shape == (4, 12)  # all that there are
    assert more.details.kept_offsets.tolist() == [0, 4, 8, 12, 16]
    assert [len(part) for part in (empty.details.entropy, empty.details.kept_ids)] == [0, 0]
    for i, response in enumerate([none, some, more]):
        (alone,) = generate(model, [prompt], configs[i], seeds=seeds[i : i + 1])
        np.testing.assert_array_equal(response.tokens, alone.tokens)
        if alone.details is not None:
            np.testing.assert_array_equal(response.details.sampled_log_probs, alone.details.sampled_log_probs)


def test_steps_tell_it_too() -> None:
    for step in stream(TableModel.random(4), [[1, 2], [3]], GenerationConfig(max_new_tokens=3, logprobs=1)):
        np.testing.assert_array_equal(step.details.top_ids[:, 0], step.tokens)


# -- changed scores ------------------------------------------------------------------------------


def test_rows_with_and_without_processors() -> None:
    """Biases and whole scores in one draw; each row is what it is alone, and its log-probs the model's."""

    def reversed_(ids: Any, scores: Any) -> Any:
        return -scores

    common: dict[str, Any] = {
        "max_new_tokens": 8, "temperature": 0.9, "kept_ids": True, "sampled_log_probs": True,
    }  # fmt: skip
    options: list[dict[str, Any]] = [
        {},
        {"repetition_penalty": 1.8},
        {"logit_bias": {3: 4.0}},
        {"logit_bias": {3: 4.0}, "repetition_penalty": 1.8},
        {"logits_processor": reversed_, "repetition_penalty": 1.3},
        {"presence_penalty": 2.0, "repetition_penalty": 1.3, "no_repeat_ngram_size": 2},
        {"frequency_penalty": 1.0, "bad_words_ids": [[2]]},
    ]
    model, prompt = TableModel.random(6), [1, 2, 3]
    configs = [GenerationConfig.from_kwargs({**common, **own}) for own in options]
    seeds = np.arange(len(configs), dtype=np.uint64)
    together = generate(model, [prompt] * len(configs), configs, seeds=seeds)
    for i, response in enumerate(together):
        (alone,) = generate(model, [prompt], configs[i], seeds=seeds[i : i + 1])
        np.testing.assert_array_equal(response.tokens, alone.tokens)
        own = Processors(configs[i], len(prompt), model.vocab_size)
        for t, (token, logits) in enumerate(known(model, prompt, response)):
            np.testing.assert_allclose(response.log_probs[t], log_softmax(logits)[token], atol=2e-6)
            ids = np.concatenate([prompt, response.tokens[:t]])
            scores = logits.astype(np.float32)
            scores[~own.apply(scores, ids)] = -np.inf
            expected = log_softmax(scores.astype(np.float64) / 0.9)[token]
            np.testing.assert_allclose(response.details.sampled_log_probs[t], expected, atol=2e-6)


def test_nothing_left_to_draw() -> None:
    model = TableModel.random(0, vocab_size=4)
    config = GenerationConfig.from_kwargs({"no_repeat_ngram_size": 1})
    with pytest.raises(ValueError, match="has no token left that may be drawn"):
        generate(model, [[1]], config)
    assert not model.rows


@pytest.mark.depth
@pytest.mark.parametrize(
    ("options", "saving"),
    [({"temperature": 0.9, "top_p": 0.95}, {"prompt_lookup_num_tokens": 4}), ({}, {"max_rows": 2})],
)
def test_rows_that_are_replaced_and_guessed_tokens(options: dict[str, Any], saving: dict[str, Any]) -> None:
    """What changes scores and what is told of tokens are those of each token, in whatever run it is drawn."""
    decoder = open_model("genai-llama-fp32")
    prompts = [[3, 4, 5, 3, 4, 5, 3, 4], [6, 7, 6, 7, 6], [8, 9, 8, 9, 8, 9], [3, 3, 3], [5, 6, 5, 6]]
    seeds = np.arange(5, dtype=np.uint64)
    changes = {"no_repeat_ngram_size": 4, "presence_penalty": 0.3, "logit_bias": {3: 9.0, 4: 9.0, 6: 8.0}}
    own = {"max_new_tokens": 12, "max_matching_ngram_size": 1, **changes, **ASKED, **options}
    plain = generate(decoder, prompts, GenerationConfig.from_kwargs(own), seeds=seeds)
    if "max_rows" in saving:
        found = generate(decoder, prompts, GenerationConfig.from_kwargs(own), seeds=seeds, **saving)
    else:  # one by one, as guesses pay there
        config = GenerationConfig.from_kwargs({**own, **saving})
        found = [generate(decoder, prompts[i : i + 1], config, seeds=seeds[i : i + 1])[0] for i in range(5)]
        assert sum(one.drafted for one in found)
    assert_same_responses(found, plain, atol=1e-4)


FILE = Path(__file__).parents[2] / "cuda" / "test_device_draws.py"


def test_in_the_simulator() -> None:
    """Stand-ins hold the host's memory, which a GPU must not be given."""
    simulator.run(FILE, at_least=19, on_gpu=False)
