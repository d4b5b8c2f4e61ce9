"""Bernoulli: 1 with a given probability, else 0."""

from __future__ import annotations

import numpy as np

from lite._arrays.types import Array, as_array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.arrays import Numbers, ShapeLike, as_shape, require, uniform
from lite.nn.distributions.discrete.probs_or_logits import ProbsOrLogits, log_likelihood
from lite.nn.distributions.support import IntegerInterval


class Bernoulli(ProbsOrLogits):
    """Independent draws of 1 with a given probability, else 0, as floats.

    Args:
        probs: probabilities of a 1.
        logits: the same as ``log(p / (1 - p))``.
        validate_args: False leaves `probs` unchecked.

    Raises:
        ValueError: both or none of `probs` and `logits` are given, or a probability is outside [0, 1].

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Bernoulli
        >>> dist = Bernoulli(probs=np.array([0.25, 0.75]))
        >>> dist.log_prob(np.array([0.0, 1.0])).round(4), dist.mode
        (array([-0.2877, -0.2877]), array([0., 1.]))

    Source:
        torch.distributions.Bernoulli.
    """

    has_rsample = False
    has_enumerate_support = True

    def __init__(
        self, probs: Numbers | None = None, logits: Numbers | None = None, validate_args: bool | None = None
    ) -> None:
        self._take(probs, logits)
        if probs is not None and validate_args is not False:
            require((self.probs >= 0) & (self.probs <= 1), "probs must lie in [0, 1]", self.probs)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw zeros and ones in the dtype of the parameters; see `Distribution.sample`."""
        share = uniform(rng, (*as_shape(sample_shape), *self.batch_shape), self.probs.dtype)
        return as_array(share < self.probs).astype(self.probs.dtype)

    def log_prob(self, value: Array) -> Array:
        """Log-probs of zeros and ones, or of shares between them; -inf for values outside."""
        out = log_likelihood(value, 1 - value, self.logits)
        return np.where(np.less(value, 0) | np.greater(value, 1), -np.inf, out)

    def entropy(self) -> Array:
        """Entropy of each draw."""
        return -log_likelihood(self.probs, 1 - self.probs, self.logits)

    @property
    def mean(self) -> Array:
        """`probs`."""
        return self.probs

    @property
    def mode(self) -> Array:
        """The more probable of 0 and 1; NaN if both have the same probability."""
        return np.where(self.probs == 0.5, self.probs.dtype.type(np.nan), self.deterministic_sample)

    @property
    def deterministic_sample(self) -> Array:
        """1 if it is at least as probable as 0, else 0."""
        return as_array(self.probs >= 0.5).astype(self.probs.dtype)

    @property
    def variance(self) -> Array:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    def enumerate_support(self, expand: bool = True) -> Array:
        """0 and 1; see `Distribution.enumerate_support`."""
        values = np.arange(2, dtype=self.probs.dtype).reshape(2, *(1,) * len(self.batch_shape))
        return np.broadcast_to(values, (2, *self.batch_shape)) if expand else values

    support = IntegerInterval(0, 1)
