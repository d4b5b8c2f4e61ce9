"""Poisson: how often something happens in a given time."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.formulas import log_gamma
from lite._arrays.special import xlogy
from lite.nn._modules.initial import Rng
from lite.nn.distributions.arrays import as_float, as_value, drawn, in_double, require
from lite.nn.distributions.discrete.probs_or_logits import fails
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.support import IntegerInterval, Support


class Poisson(Distribution):
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

    has_rsample = False
    _batched = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        self.rate = as_float(rate)
        if validate_args is not False:
            require(self.rate >= 0, "rate must not be negative", self.rate)
        super().__init__(self.rate.shape)

    def sample(self, sample_shape: Any = (), *, rng: Rng = None) -> Any:
        """Draw counts in the dtype of the parameters; see `Distribution.sample`."""
        counts = drawn(rng, "poisson", sample_shape, self.rate.astype(np.float64))
        return counts.astype(self.rate.dtype)

    def log_prob(self, value: Any) -> Any:
        """Logarithm of the probability of counts; -inf for values outside the support."""

        def probability(k: Any, rate: Any) -> Any:
            return np.where(fails(k), -np.inf, xlogy(k, rate) - rate - log_gamma(k + 1))

        return in_double(probability, as_value(value, self.rate.dtype), self.rate)

    @property
    def mean(self) -> Any:
        """`rate`."""
        return self.rate

    variance = mean

    @property
    def mode(self) -> Any:
        """The largest whole number up to `rate`."""
        return np.floor(self.rate)

    deterministic_sample = mode

    @property
    def support(self) -> Support:
        """Whole numbers from 0 on."""
        return IntegerInterval(0, np.inf)
