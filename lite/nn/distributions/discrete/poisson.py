"""Poisson: the number of independent events in an interval."""

from __future__ import annotations

import numpy as np

from lite._arrays.formulas import log_gamma
from lite._arrays.special import replaced, xlogy
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.arrays import Numbers, ShapeLike, drawn, require
from lite.nn.distributions.discrete.probs_or_logits import fails
from lite.nn.distributions.distribution import Elementwise
from lite.nn.distributions.support import IntegerInterval


class Poisson(Elementwise):
    """Poisson distributions, one for each count; counts are floats.

    Args:
        rate: mean counts, not negative.
        validate_args: False leaves `rate` unchecked.

    Raises:
        ValueError: a `rate` is negative.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Poisson
        >>> dist = Poisson(np.array([0.0, 2.5]))
        >>> dist.mode, dist.log_prob(np.array([0.0, 1.0])).round(4)
        (array([0., 2.]), array([ 0.    , -1.5837]))

    Source:
        torch.distributions.Poisson.
    """

    _batched = ("rate",)
    support = IntegerInterval(0, np.inf)

    def __init__(self, rate: Numbers, validate_args: bool | None = None) -> None:
        (self.rate,) = self._parameters(validate_args, rate)
        if validate_args is not False:
            require(self.rate >= 0, "rate must not be negative", self.rate)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw counts; see `Distribution.sample`."""
        counts = drawn(rng, "poisson", sample_shape, self.rate.astype(np.float64))
        return counts.astype(self.rate.dtype)

    @staticmethod
    def _log_density(k: Array, rate: Array) -> Array:
        return replaced(fails(k), -np.inf, xlogy(k, rate) - rate - log_gamma(k + 1))

    @property
    def mean(self) -> Array:
        """`rate`, which is the variance, too."""
        return self.rate

    variance = mean

    @property
    def mode(self) -> Array:
        """The rate, rounded down."""
        return np.floor(self.rate)

    deterministic_sample = mode
