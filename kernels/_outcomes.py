"""Draws of tokens from rows of logits: their uniform numbers and outcomes."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

DRAWN, NOTHING, UNKNOWN, OUTSIDE = 0, 1, 2, 3  # a token; no token left; NaN; a bias outside the vocabulary
WHY = {
    NOTHING: "logits[{}] has no token left that may be drawn",
    UNKNOWN: "logits[{}] contains NaN",
    OUTSIDE: "bias has ids outside the vocabulary for logits[{}]",
}

_GOLDEN, _ROUNDS = np.uint64(0x9E3779B97F4A7C15), 2
_FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)


def check(outcomes: NDArray[Any]) -> None:
    """Raise ValueError for the first row from which nothing was drawn."""
    if outcomes.any():
        row = int(outcomes.argmax())
        raise ValueError(WHY[int(outcomes[row])].format(row))


def uniform(seeds: Any, steps: Any) -> Any:
    """Numbers in [0, 1) from seeds and steps, which are uint64; also compiled, for scalars.

    The finaliser of SplitMix64 (Steele, Lea and Flood, 2014), of the seed and then with the step.
    """
    x = seeds + _GOLDEN
    for turn in range(_ROUNDS):
        if turn > 0:
            x = x + steps * _GOLDEN
        x = (x ^ (x >> _SHIFTS[0])) * _FACTORS[0]
        x = (x ^ (x >> _SHIFTS[1])) * _FACTORS[1]
        x = x ^ (x >> _SHIFTS[2])
    return (x >> _SHIFTS[3]) * 2.0**-53
