"""Bernoulli: zero or one."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from lite._arrays.formulas import sigmoid, softplus
from lite._arrays.types import as_array
from lite.nn.distributions.arrays import as_float, as_shape, limits, require, uniform
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.support import IntegerInterval, Support

if TYPE_CHECKING:
    from lite.nn._modules.initial import Rng


class Bernoulli(Distribution):
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
    _batched = ("probs", "logits")

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is None:
            self.logits = as_float(logits)
            self.batch_shape = self.logits.shape
        else:
            self.probs = as_float(probs)
            self.batch_shape = self.probs.shape
            if validate_args is not False:
                require((self.probs >= 0) & (self.probs <= 1), "probs must lie in [0, 1]", self.probs)
        self.event_shape = ()

    @cached_property
    def probs(self) -> Any:
        """Probabilities of a 1."""
        return sigmoid(self.logits)

    @cached_property
    def logits(self) -> Any:
        """log(p / (1 - p)), finite also for a `p` of 0 or 1."""
        edge = limits(self.probs.dtype).eps
        p = np.clip(self.probs, edge, 1 - edge)
        return np.log(p) - np.log1p(-p)

    def sample(self, sample_shape: Any = (), *, rng: Rng = None) -> Any:
        """Draw zeros and ones in the dtype of the parameters; see `Distribution.sample`."""
        share = uniform(rng, (*as_shape(sample_shape), *self.batch_shape), self.probs.dtype)
        return as_array(share < self.probs).astype(self.probs.dtype)

    def log_prob(self, value: Any) -> Any:
        """Log-probs of zeros and ones."""
        return _log_likelihood(value, self.logits)

    def entropy(self) -> Any:
        """Entropy of each draw."""
        return -_log_likelihood(self.probs, self.logits)

    @property
    def mean(self) -> Any:
        """`probs`."""
        return self.probs

    @property
    def mode(self) -> Any:
        """The more probable of 0 and 1; NaN where they are equally so."""
        return np.where(self.probs == 0.5, self.probs.dtype.type(np.nan), self.deterministic_sample)

    @property
    def deterministic_sample(self) -> Any:
        """1 where it is at least as probable as 0."""
        return as_array(self.probs >= 0.5).astype(self.probs.dtype)

    @property
    def variance(self) -> Any:
        """p (1 - p)."""
        return self.probs * (1 - self.probs)

    def enumerate_support(self, expand: bool = True) -> Any:
        """0 and 1; see `Distribution.enumerate_support`."""
        values = np.arange(2, dtype=self.probs.dtype).reshape(2, *(1,) * len(self.batch_shape))
        return np.broadcast_to(values, (2, *self.batch_shape)) if expand else values

    @property
    def support(self) -> Support:
        """0 and 1."""
        return IntegerInterval(0, 1)


def _log_likelihood(value: Any, logits: Any) -> Any:
    """value log p + (1 - value) log(1 - p), where what has no share counts as 0, also for infinite logits."""
    with np.errstate(invalid="ignore"):
        one, zero = value * softplus(-logits), (1 - value) * softplus(logits)
    return -(np.where(value == 0, zero.dtype.type(0), one) + np.where(value == 1, zero.dtype.type(0), zero))
