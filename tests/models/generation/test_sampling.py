"""Rows of one call draw under options of their own."""

from __future__ import annotations

import numpy as np
from helpers.models.real_models import MODELS

from lite.models import GenerationConfig, OnnxDecoder, generate

CONFIGS = [
    GenerationConfig(max_new_tokens=6),
    GenerationConfig(max_new_tokens=9, do_sample=True, temperature=1.3, top_k=20),
    GenerationConfig(max_new_tokens=3, do_sample=True, top_p=0.8, repetition_penalty=1.4),
]


def test_each_prompt_has_its_options() -> None:
    decoder = OnnxDecoder(MODELS / "genai-llama-fp32", num_threads=1)
    prompts, seeds = [[3, 4, 5], [6, 7], [8, 9, 10, 11]], np.array([1, 2, 3], np.uint64)
    together = generate(decoder, prompts, CONFIGS, seeds=seeds)
    for i, response in enumerate(together):
        (alone,) = generate(decoder, prompts[i : i + 1], CONFIGS[i], seeds=seeds[i : i + 1])
        np.testing.assert_array_equal(response.tokens, alone.tokens)
        np.testing.assert_allclose(response.log_probs, alone.log_probs, atol=1e-4)
