"""Bernoulli, and counts of failures or successes until something happens: geometric, negative binomial."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lite._arrays.dtypes import is_floating
from lite._arrays.formulas import sigmoid, softplus
from lite._arrays.special import log_beta, replaced, xlog1py
from lite._arrays.types import Array, as_array, computed
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import (
    Distribution,
    Numbers,
    ShapeLike,
    as_float,
    as_shape,
    as_value,
    drawn,
    float_arrays,
    in_double,
    limits,
    require,
    standard_exponential,
    uniform,
)
from lite.nn.distributions.support import IntegerInterval


class ProbsOrLogits(Distribution):
    """Holds `probs` or `logits`, whichever is given, and computes the other on first access."""

    _batched: ClassVar[tuple[str, ...]] = ("probs", "logits")

    total_count: Any

    def _take(self, probs: Numbers | None, logits: Numbers | None) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is None:
            self.logits = as_float(logits)
            self.batch_shape = self.logits.shape
        else:
            self.probs = as_float(probs)
            self.batch_shape = self.probs.shape
        self.event_shape = ()

    def _take_counts(self, total_count: Numbers, probs: Numbers | None, logits: Numbers | None) -> None:
        """Parameters with a number of trials, which gets their dtype and shape."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given: Any = computed(logits if probs is None else probs)
        own = getattr(given, "dtype", None)
        if own is not None and is_floating(own):
            total_count = as_float(total_count, own)
        self.total_count, given = float_arrays(total_count, given)
        self._take(None if probs is None else given, given if probs is None else None)

    @cached_property
    def probs(self) -> Array:
        """Probabilities of a 1."""
        return sigmoid(self.logits)

    @cached_property
    def logits(self) -> Array:
        """log(p / (1 - p)), finite also for a `p` of 0 or 1."""
        edge = limits(self.probs.dtype).eps
        p = np.clip(self.probs, edge, 1 - edge)
        return np.log(p) - np.log1p(-p)


def log_likelihood(ones: Array, zeros: Array, logits: Array) -> Array:
    """ones log p + zeros log(1 - p), where a term with count 0 is 0, also for infinite logits."""
    with np.errstate(invalid="ignore"):
        at_one, at_zero = ones * softplus(-logits), zeros * softplus(logits)
    none = at_one.dtype.type(0)
    return -(np.where(ones == 0, none, at_one) + np.where(zeros == 0, none, at_zero))


def fails(value: Array) -> Array:
    """Mask of values that are not counts: negative or not integers."""
    return (value < 0) | (np.floor(value) < value)  # a remainder takes eight times as long


_COUNTS = IntegerInterval(0, np.inf)


class Geometric(ProbsOrLogits):
    """How many trials fail before the first that succeeds; counts are floats.

    Args:
        probs: probabilities of success, above 0 and up to 1.
        logits: the same as ``log(p / (1 - p))``.
        validate_args: False leaves `probs` unchecked.

    Raises:
        ValueError: both or none of `probs` and `logits` are given, or a probability is outside (0, 1].

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Geometric
        >>> dist = Geometric(probs=np.array([0.5, 1.0]))
        >>> dist.mean, dist.log_prob(np.array([1.0, 0.0])).round(4)
        (array([1., 0.]), array([-1.3863,  0.    ]))

    Source:
        torch.distributions.Geometric.
    """

    has_rsample = False

    def __init__(
        self, probs: Numbers | None = None, logits: Numbers | None = None, validate_args: bool | None = None
    ) -> None:
        self._take(probs, logits)
        if probs is not None and self._is_checked(validate_args):
            require((self.probs > 0) & (self.probs <= 1), "probs must lie in (0, 1]", self.probs)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw counts in the dtype of the parameters; see `Distribution.sample`."""
        shape = (*as_shape(sample_shape), *self.batch_shape)
        waited = standard_exponential(rng, shape, np.dtype(np.float64))
        dtype = self.probs.dtype
        return in_double(lambda p, t: np.floor(-t / np.log1p(-p)), self.probs, waited, dtype=dtype)

    def log_prob(self, value: Numbers) -> Array:
        """Logarithm of the probability of counts; -inf for other numbers."""

        def probability(k: Array, p: Array) -> Array:
            return replaced(fails(k), -np.inf, xlog1py(k, -p) + np.log(p))

        return in_double(probability, as_value(value, self.probs.dtype), self.probs)

    def entropy(self) -> Array:
        """Entropy of each count."""
        return in_double(lambda p, logits: -log_likelihood(p, 1 - p, logits) / p, self.probs, self.logits)

    @property
    def mean(self) -> Array:
        """1 / p - 1."""
        return 1 / self.probs - 1

    @property
    def mode(self) -> Array:
        """Zeros."""
        return np.zeros_like(self.probs)

    deterministic_sample = mode

    @property
    def variance(self) -> Array:
        """(1 / p - 1) / p."""
        return (1 / self.probs - 1) / self.probs

    support = _COUNTS


class NegativeBinomial(ProbsOrLogits):
    """How many trials succeed before a given number has failed; counts are floats.

    Args:
        total_count: the number of failures to wait for; not negative, and not necessarily whole.
        probs: probabilities of success, from 0 and below 1; broadcast against `total_count`.
        logits: the same as ``log(p / (1 - p))``.
        validate_args: False leaves `total_count` and `probs` unchecked.

    Raises:
        ValueError: both or none of `probs` and `logits` are given, a probability is outside [0, 1), or a
            `total_count` is negative.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import NegativeBinomial
        >>> dist = NegativeBinomial(np.array([1.0, 5.0]), probs=0.5)
        >>> dist.mean, dist.log_prob(np.array([0.0, 2.0])).round(4)
        (array([1., 5.]), array([-0.6931, -2.144 ]))

    Source:
        torch.distributions.NegativeBinomial.
    """

    has_rsample = False
    _batched = ("total_count", *ProbsOrLogits._batched)

    def __init__(
        self,
        total_count: Numbers,
        probs: Numbers | None = None,
        logits: Numbers | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take_counts(total_count, probs, logits)
        if self._is_checked(validate_args):
            require(self.total_count >= 0, "total_count must not be negative", self.total_count)
            if probs is not None:
                require((self.probs >= 0) & (self.probs < 1), "probs must lie in [0, 1)", self.probs)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw counts in the dtype of the parameters; see `Distribution.sample`."""
        total, logits = (array.astype(np.float64) for array in (self.total_count, self.logits))
        some = np.where(total > 0, total, 1.0)  # the generator takes no 0, of which all draws are 0
        counts = drawn(rng, "negative_binomial", sample_shape, some, sigmoid(-logits))
        return np.where(total > 0, counts, 0).astype(self.total_count.dtype)

    def log_prob(self, value: Numbers) -> Array:
        """Logarithm of the probability of counts; -inf for other numbers."""

        def probability(k: Array, total: Array, logits: Array) -> Array:
            ways = np.where(total + k == 0, 0.0, -np.log(total + k) - log_beta(total, k + 1))
            return np.where(fails(k), -np.inf, log_likelihood(k, total, logits) + ways)

        value = as_value(value, self.total_count.dtype)
        return in_double(probability, value, self.total_count, self.logits)

    @property
    def mean(self) -> Array:
        """total_count p / (1 - p)."""
        return self.total_count * np.exp(self.logits)

    @property
    def mode(self) -> Array:
        """The most probable count."""
        return np.maximum(np.floor((self.total_count - 1) * np.exp(self.logits)), 0)

    deterministic_sample = mode

    @property
    def variance(self) -> Array:
        """mean / (1 - p)."""
        return self.mean / sigmoid(-self.logits)

    support = _COUNTS


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
        if probs is not None and self._is_checked(validate_args):
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
