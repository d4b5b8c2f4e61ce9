"""Every option of generation, alone and beside every other one: scoring reproduces what was recorded."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

from lite.models import GenerationConfig, OnnxDecoder, Tokenizer, embedded_model_path, generate
from lite.models.decoder.scoring import full_logits, score_details
from lite.models.generation.grammar import Grammar

V = 677
EVEN = [[i] for i in range(0, V, 2)]
TOKENIZER = Tokenizer.from_pretrained(embedded_model_path())


def two_thirds(ids: Any, scores: Any) -> Any:
    """Rules a third of the ids out."""
    return np.where(np.arange(V) % 3 < 2, scores, -np.inf).astype(np.float32)


def flatter(ids: Any, scores: Any) -> None:
    scores *= 0.8


BASE = {
    "do_sample": True, "max_new_tokens": 6, "eos_token_id": 2, "sampled_log_probs": True, "kept_ids": True,
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "greedy": {"do_sample": False, "temperature": 0.0},
    "temperature": {"temperature": 0.7},
    "hot": {"temperature": 1.8},
    "top_k": {"top_k": 5},
    "top_p": {"top_p": 0.8},
    "min_p": {"min_p": 0.05},
    "typical_p": {"typical_p": 0.6},
    "repetition_penalty": {"repetition_penalty": 1.4},
    "presence_penalty": {"presence_penalty": 0.7},
    "frequency_penalty": {"frequency_penalty": -0.4},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 1},
    "bad_words_ids": {"bad_words_ids": EVEN},
    "suppress_tokens": {"suppress_tokens": [*range(1, V, 2)]},
    "min_new_tokens": {"min_new_tokens": 4, "eos_token_id": [*range(0, V, 5)]},
    "logit_bias": {"logit_bias": dict.fromkeys(range(0, V, 4), 1.5)},
    "logit_bias that bans": {"logit_bias": dict.fromkeys(range(0, V, 3), -np.inf)},
    "sequence_bias": {"sequence_bias": [[[i], -1.0] for i in range(0, V, 7)]},
    "sequence_bias that bans": {"sequence_bias": [[[i], -np.inf] for i in range(0, V, 7)]},
    "no-op": {"logits_processor": lambda ids, scores: None},
    "function that bans": {"logits_processor": two_thirds},
    "function that changes": {"logits_processor": flatter},
    "grammar": {"grammar": Grammar("regex", "[a-zA-Z0-9 ]*", TOKENIZER)},
    "num_beams": {"num_beams": 2},
    "prompt_lookup_num_tokens": {"prompt_lookup_num_tokens": 3, "max_matching_ngram_size": 1},
    "stop_sequences": {"stop_sequences": ["e"]},
    "eos_token_id": {"eos_token_id": [5, 11, 260]},
    "logprobs": {"logprobs": 4},
}
REWEIGHTED = {  # what scoring does not know of
    *("repetition_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "sequence_bias"),
    "function that changes",
}
PROMPTS = [list(range(40, 52)), [40, 41, 40, 41, 40]]


def cases() -> dict[tuple[str, ...], dict[str, Any]]:
    """Every option alone; and every two that do not name the same."""
    out: dict[tuple[str, ...], dict[str, Any]] = {(name,): one for name, one in OPTIONS.items()}
    for (name, one), (other, two) in combinations(OPTIONS.items(), 2):
        if one.keys().isdisjoint(two):
            out[name, other] = one | two
    return out


def log_sum(scores: Any) -> Any:
    return np.logaddexp.reduce(scores)


def weighed(logits: Any, ids: list[int], prompt: int, options: dict[str, Any]) -> Any:
    """What options make of logits, but for what they ban: formulas of transformers and OpenAI."""
    scores = logits.astype(np.float64)
    if "num_beams" in options:  # as transformers, on log-probs
        scores -= log_sum(scores)
    for i, value in options.get("logit_bias", {}).items():
        scores[i] += value if value > -np.inf else 0
    for (i,), value in options.get("sequence_bias", []):
        scores[i] += value if value > -np.inf else 0
    seen, penalty = np.unique(ids), options.get("repetition_penalty", 1)
    scores[seen] = np.where(scores[seen] < 0, scores[seen] * penalty, scores[seen] / penalty)
    tokens, counts = np.unique(np.array(ids[prompt:], np.int64), return_counts=True)
    scores[tokens] -= options.get("frequency_penalty", 0) * counts + options.get("presence_penalty", 0)
    return scores * 0.8 if options.get("logits_processor") is flatter else scores


@pytest.mark.grid
def test_scoring_reproduces_what_was_recorded() -> None:
    decoder = OnnxDecoder(embedded_model_path(), num_threads=1)
    named = cases()
    assert len(named) > 300
    configs = [GenerationConfig.from_kwargs(BASE | own) for own in named.values()]
    prompts = [PROMPTS[i % 2] for i in range(len(configs))]
    found = generate(
        decoder, prompts, configs, seeds=np.arange(len(configs), dtype=np.uint64), max_rows=32,
        decode_text=TOKENIZER.decode,
    )  # fmt: skip
    rows = [np.array([*prompt, *one.tokens]) for prompt, one in zip(prompts, found, strict=True)]
    warmths = [1.0 if config.greedy else config.temperature for config in configs]
    supports = [(one.details.kept_offsets, one.details.kept_ids) for one in found]
    scored = score_details(decoder, rows, temperature=warmths, supports=supports)
    logits = full_logits(decoder, rows)
    wrong: set[tuple[tuple[str, ...], str]] = set()

    def check(name: tuple[str, ...], what: str, got: Any, want: Any) -> None:
        if not np.allclose(got, want, atol=2e-4, rtol=0):
            wrong.add((name, what))

    for i, (name, options) in enumerate(named.items()):
        one, known, begin = found[i], found[i].details, len(prompts[i])
        check(name, "tokens", len(one.tokens) > 0, True)
        check(name, "log_probs", scored[i].log_probs[begin:], one.log_probs)
        check(name, "entropy", scored[i].entropy[begin:], known.entropy)
        certain = configs[i].greedy and configs[i].num_beams == 1  # at temperature 0 nothing has a share
        if not REWEIGHTED & set(name):
            check(name, "scored", scored[i].sampled_log_probs[begin:], known.sampled_log_probs)
            if not certain:
                check(name, "scored mass", scored[i].kept_log_mass[begin:], known.kept_log_mass)
        for t, token in enumerate(one.tokens):
            before = rows[i][: begin + t].tolist()
            scores = weighed(logits[i][begin + t], before, begin, options) / warmths[i]
            kept = known.kept_ids[known.kept_offsets[t] : known.kept_offsets[t + 1]]
            kept = kept if len(kept) else np.arange(V)
            check(name, "kept ids", np.isin(token, kept), True)
            check(name, "sampled", scores[token] - log_sum(scores[kept]), known.sampled_log_probs[t])
            if not certain and "function that changes" not in name:
                check(name, "mass", log_sum(scores[kept]) - log_sum(scores), known.kept_log_mass[t])
    assert not sorted(wrong)
