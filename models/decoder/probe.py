"""Properties of a graph that only a run shows: names of sizes and inputs do not prove that it is causal."""

from __future__ import annotations

import numpy as np

from lite.models.decoder.cache import KVCache

LOOK_AHEAD = 8  # tokens, so that a difference in what follows shows


def run_two_tokens(cache: KVCache) -> None:
    """Run two tokens of one row. Raises RuntimeError if the graph cannot."""
    cache.extend([0], [np.zeros(2, np.int64)], last=False)


def check_causal(cache: KVCache, context_length: int | None) -> None:
    """Raise ValueError if the logits of a token depend on what follows it. The cache has two empty rows.

    Rows that run together go through the same operations, so a causal graph gives the same logits but for
    rounding; a masked model of untrained weights, which is the hardest to tell, differs by a percent.
    """
    one, other = np.zeros((2, min(LOOK_AHEAD, context_length or LOOK_AHEAD)), np.int64)
    other[1:] = 1
    first, second = (logits[0] for logits in cache.extend([0, 1], [one, other], last=False))
    both = np.isfinite(first) & np.isfinite(second)  # some models rule tokens out by -inf
    first, second = first[both], second[both]
    if both.any() and np.abs(first - second).max() > 5e-3 * np.abs(first).max():
        raise ValueError(
            "the graph has no key/value cache, and its logits of a token depend on what follows that token: "
            "it is not a causal language model, but a masked one or an encoder"
        )
