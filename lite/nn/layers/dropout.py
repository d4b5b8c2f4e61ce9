"""Dropout: zeros at random while training."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._transforms.grad.tape import value_of, with_node
from lite._transforms.vmap.running import generator_for
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module


class Dropout(Module):
    """In training mode, set entries to zero with probability p and scale the others by 1 / (1 - p).

    Args:
        p: probability of a zero, in [0, 1].
        inplace: write the result into the input array.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy.

    Shapes:
        any; the output has that of the input.

    Raises:
        ValueError: p outside [0, 1].

    Source:
        Hinton et al. (2012), Improving neural networks by preventing co-adaptation (arXiv:1207.0580).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.Dropout(0.5, rng=0)
        >>> layer(np.ones(6)).tolist(), layer.eval()(np.ones(2)).tolist()
        ([2.0, 0.0, 0.0, 0.0, 2.0, 2.0], [1.0, 1.0])
    """

    def __init__(self, p: float = 0.5, inplace: bool = False, *, rng: Rng = None) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p must be a probability in [0, 1], got {p}")
        self.p = p
        self.inplace = inplace
        self._rng: Rng = rng

    def forward(self, input: Array) -> Array:
        """Drop entries in training mode; otherwise the input itself."""
        if not self.training or self.p == 0:
            return input
        out = dropout(input, self.p, generator(self))
        if self.inplace:
            input[...] = out
            return input
        return out

    def extra_repr(self) -> str:
        """p and inplace."""
        return f"p={self.p}, inplace={self.inplace}"


def dropout(x: Array, p: float, rng: np.random.Generator) -> Array:
    """Zeros with probability p, the other entries times 1 / (1 - p)."""
    keep = rng.random(x.shape) >= p
    factor, none = x.dtype.type(0.0 if p == 1 else 1.0 / (1.0 - p)), x.dtype.type(0)
    out = np.where(keep, value_of(x) * factor, none)
    return with_node(out, (x, lambda g: np.where(keep, g * factor, none)))


def generator(module: Any) -> np.random.Generator:
    """The generator of a module that draws in its calls, made from its `_rng` at the first one."""
    if not isinstance(module._rng, np.random.Generator):
        module._rng = np.random.default_rng(module._rng)
    return generator_for(module._rng)


belong_to("lite.nn", Dropout)
