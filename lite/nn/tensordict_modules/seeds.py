"""Where a probabilistic module's random numbers come from: the process, a generator, or an entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite._tree.keys import NestedKey
from lite._tree.nontensor import NonTensorBase, NonTensorData, unwrap


class DrawSource:
    """Gives the generator of a call.

    Args:
        generator: None for the generator that the process shares; a Generator, or the seed of one, for one
            that goes on from call to call; a key for an entry that holds either, looked up at each call. A
            seed in an entry is replaced by the next one when it has been used.

    Raises:
        TypeError: none of these.
    """

    def __init__(self, generator: np.random.Generator | int | NestedKey | None) -> None:
        self.generator: np.random.Generator | None = None
        self.key: NestedKey | None = None
        if isinstance(generator, str | tuple):
            self.key = generator
        elif isinstance(generator, np.random.Generator):
            self.generator = generator
        elif isinstance(generator, int | np.integer) and not isinstance(generator, bool):
            self.generator = np.random.default_rng(generator)
        elif generator is not None:
            raise TypeError(
                "generator must be a numpy.random.Generator, an int, a key or None, "
                f"got {type(generator).__name__}."
            )

    def resolve(self, tensordict: Any) -> tuple[np.random.Generator | None, Callable[[], None] | None]:
        """The generator to draw with, and what to call after the draws.

        Raises:
            TypeError: the entry is neither a generator nor a seed.
            ValueError: the entry holds several numbers.
        """
        if self.key is None:
            return self.generator, None
        entry = tensordict.get(self.key, None)
        value = unwrap(entry) if isinstance(entry, NonTensorBase) else entry
        if value is None or isinstance(value, np.random.Generator):
            return value, None
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
            if value.size != 1:
                raise ValueError(f"the entry {self.key!r} must hold one seed, got shape {value.shape}.")
        elif not isinstance(value, int) or isinstance(value, bool):
            kind = f"{value.dtype} array" if isinstance(value, np.ndarray) else type(value).__name__
            raise TypeError(
                f"the entry {self.key!r} must hold a numpy.random.Generator or a seed, got {kind}."
            )
        rng = np.random.default_rng(int(value.item() if isinstance(value, np.ndarray) else value))
        before = rng.bit_generator.state

        def advance() -> None:
            if rng.bit_generator.state == before:  # nothing was drawn
                return
            seed = int(rng.integers(2**62))
            is_array = isinstance(value, np.ndarray)
            following = np.full(value.shape, seed, np.int64) if is_array else NonTensorData(seed)
            tensordict.set(self.key, following)

        return rng, advance
