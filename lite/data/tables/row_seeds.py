"""Seeds that belong to a row of data, wherever and in whatever company it is worked on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.kernels._integer import integer

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def row_seeds(seed: int, ids: Iterable[int | str], samples: int = 1) -> NDArray[np.uint64]:
    """Seeds of 64 bits that follow from the seed of a run and the id of a row, and from nothing else.

    So draws of a row are the same however rows are put into batches, spread over machines, or taken up
    again after an interruption.

    Args:
        seed: seed of the run, an integer.
        ids: ids of the rows, N integers or texts, each row its own.
        samples: how many seeds a row gets. The first ones do not depend on how many there are.

    Returns:
        uint64 (N, samples).

    Raises:
        TypeError: an id is neither an integer nor a text, or a number is not an integer.
        ValueError: `samples` is below 1.

    Source:
        BLAKE2 (RFC 7693) of seed and id; SplitMix64 (Steele, Lea, Flood, 2014) from there.

    Example:
        >>> from lite.data import row_seeds
        >>> bool((row_seeds(0, [7, 8])[1] == row_seeds(0, [8])[0]).all())
        True
        >>> row_seeds(0, ["a", "b"], samples=4).shape
        (2, 4)
    """
    seed, count = integer("seed", seed), integer("samples", samples, least=1)
    starts = np.array([_hashed(seed, name) for name in ids], np.uint64)
    with np.errstate(over="ignore"):
        state = starts[:, None] + _GOLDEN * np.arange(1, count + 1, dtype=np.uint64)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed: NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed


def _hashed(seed: int, name: Any) -> int:
    if isinstance(name, str):
        own = f"text {name}"
    elif isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        own = f"number {int(name)}"
    else:
        raise TypeError(f"ids of rows must be integers or texts, got {name!r} ({type(name).__name__})")
    text = f"{seed} {own}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")
