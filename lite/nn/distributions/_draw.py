"""Random numbers: which generator draws, and arrays of a shape and dtype from it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
from numpy.typing import NDArray

from lite._transforms.vmap.running import generator_for

if TYPE_CHECKING:  # touching numpy.random imports it, which costs more than the rest of lite.nn
    Rng = np.random.Generator | int | None

_NATIVE = (np.dtype(np.float32), np.dtype(np.float64))
_shared: list[Any] = []


def generator_of(rng: Rng = None) -> np.random.Generator:
    """The generator itself, one that a seed starts, or the one of the process, for unseeded draws."""
    if rng is None:
        if not _shared:
            _shared.append(np.random.default_rng())  # 20 microseconds, not to be paid at each draw
        rng = _shared[0]
    generator: np.random.Generator = generator_for(np.random.default_rng(rng))
    return generator


if hasattr(os, "register_at_fork"):  # a forked process must not repeat its parent's draws
    os.register_at_fork(after_in_child=_shared.clear)


def as_shape(shape: SupportsIndex | Iterable[SupportsIndex] | None) -> tuple[int, ...]:
    """A sample shape as a tuple: None is empty, an integer one dimension."""
    if shape is None:
        return ()
    if isinstance(shape, Iterable):
        return tuple(n.__index__() for n in shape)
    return (shape.__index__(),)


def standard_normal(rng: Rng, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Draws of the standard normal distribution."""
    native: Any = dtype if dtype in _NATIVE else np.float64
    return generator_of(rng).standard_normal(shape, native).astype(dtype, copy=False)


def uniform(rng: Rng, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Draws of the uniform distribution on [0, 1)."""
    native: Any = dtype if dtype in _NATIVE else np.float64
    return generator_of(rng).random(shape, native).astype(dtype, copy=False)
