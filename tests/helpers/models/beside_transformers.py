"""A decoder beside the model of transformers that it was exported from."""

from typing import Any

import numpy as np

from lite.models import Decoder, GenerationConfig, generate, score


def assert_same_tokens_and_log_probs(decoder: Decoder, model: Any, lengths: tuple[int, ...]) -> None:
    """Greedy responses to random prompts of these lengths, with log-probs, and scores of both together."""
    import torch

    rng = np.random.default_rng(0)
    prompts = [rng.integers(3, model.config.vocab_size, length) for length in lengths]
    responses = generate(decoder, prompts, GenerationConfig(max_new_tokens=6))
    rows = [np.concatenate([p, r.tokens]) for p, r in zip(prompts, responses, strict=True)]
    for prompt, response, row, scores in zip(prompts, responses, rows, score(decoder, rows), strict=True):
        with torch.no_grad():
            logits = model(torch.tensor(row[None])).logits[0].double()
        np.testing.assert_array_equal(logits[len(prompt) - 1 : -1].argmax(-1), response.tokens)
        wanted = logits.log_softmax(-1)[np.arange(len(row) - 1), row[1:]].numpy()
        np.testing.assert_allclose(scores[1:], wanted, atol=1e-4)
        np.testing.assert_allclose(response.log_probs, wanted[len(prompt) - 1 :], atol=1e-4)
