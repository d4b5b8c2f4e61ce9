"""Counts: binomial of ones, multinomial of each class among a number of draws, and Poisson's."""

from __future__ import annotations

import numpy as np

from lite._arrays.formulas import log_gamma
from lite._arrays.special import log_beta, replaced, xlogy
from lite._arrays.types import Array
from lite._transforms.vmap.running import everything
from lite.nn._modules.initial import Rng
from lite.nn.distributions.discrete.categorical import Categorical
from lite.nn.distributions.discrete.geometric import ProbsOrLogits, fails, log_likelihood
from lite.nn.distributions.distribution import (
    Distribution,
    Elementwise,
    Numbers,
    ShapeLike,
    as_value,
    drawn,
    in_double,
    multinomial,
    require,
)
from lite.nn.distributions.support import Counts, IntegerInterval, Support

_COUNTS = IntegerInterval(0, np.inf)


class Binomial(ProbsOrLogits):
    """How many of a number of trials succeed; counts are floats.

    Args:
        total_count: numbers of trials: whole, not negative.
        probs: probabilities of success; broadcast against `total_count`.
        logits: the same as ``log(p / (1 - p))``.
        validate_args: False leaves `total_count` and `probs` unchecked.

    Raises:
        ValueError: both or none of `probs` and `logits` are given, a probability is outside [0, 1], or a
            `total_count` is not a number of trials.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Binomial
        >>> dist = Binomial(4, probs=np.array([0.25, 0.5]))
        >>> dist.mean, dist.log_prob(np.array([1.0, 5.0])).round(4)
        (array([1., 2.]), array([-0.863,   -inf]))

    Source:
        torch.distributions.Binomial.
    """

    has_rsample = False
    has_enumerate_support = True
    _batched = ("total_count", *ProbsOrLogits._batched)

    def __init__(
        self,
        total_count: Numbers = 1,
        probs: Numbers | None = None,
        logits: Numbers | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._take_counts(total_count, probs, logits)
        if self._is_checked(validate_args):
            message = "total_count must be a whole number that is not negative"
            require(_COUNTS.check(self.total_count), message, self.total_count)
            if probs is not None:
                require((self.probs >= 0) & (self.probs <= 1), "probs must lie in [0, 1]", self.probs)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw counts in the dtype of the parameters; see `Distribution.sample`."""
        n, p = self.total_count.astype(np.int64), self.probs.astype(np.float64)
        return drawn(rng, "binomial", sample_shape, n, p).astype(self.total_count.dtype)

    def log_prob(self, value: Numbers) -> Array:
        """Logarithm of the probability of counts; -inf for values outside the support."""

        def probability(k: Array, n: Array, logits: Array) -> Array:
            rest = np.maximum(n - k, 0)
            ways = -np.log(n + 1) - log_beta(rest + 1, k + 1)
            return np.where(fails(k) | (k > n), -np.inf, log_likelihood(k, rest, logits) + ways)

        value = as_value(value, self.total_count.dtype)
        return in_double(probability, value, self.total_count, self.logits)

    def entropy(self) -> Array:
        """Entropy of each count.

        Raises:
            NotImplementedError: the numbers of trials differ.
        """
        log_prob = self.log_prob(self.enumerate_support(False))
        return in_double(lambda x: -(np.exp(x) * np.where(x > -np.inf, x, 0)).sum(0), log_prob)

    def enumerate_support(self, expand: bool = True) -> Array:
        """0 to `total_count`; see `Distribution.enumerate_support`.

        Raises:
            NotImplementedError: the numbers of trials differ.
        """
        numbers = everything(self.total_count)
        total = int(numbers.max(initial=0))
        if (numbers != total).any():
            raise NotImplementedError(f"total_count must be one number, got {numbers.min()} to {total}")
        values = np.arange(total + 1).astype(self.total_count.dtype)
        values = values.reshape(-1, *(1,) * len(self.batch_shape))
        return np.broadcast_to(values, (total + 1, *self.batch_shape)) if expand else values

    @property
    def mean(self) -> Array:
        """total_count p."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Array:
        """The most probable count."""
        return np.minimum(np.floor((self.total_count + 1) * self.probs), self.total_count)

    deterministic_sample = mode

    @property
    def variance(self) -> Array:
        """total_count p (1 - p)."""
        return self.mean * (1 - self.probs)

    @property
    def support(self) -> Support:
        """0 to `total_count`."""
        return IntegerInterval(0, self.total_count)


class Multinomial(Distribution):
    """How many of a number of draws are of each of V classes; counts are floats.

    Args:
        total_count: the number of draws.
        probs: probabilities of the classes, (*batch, V); they are divided by their sum.
        logits: floats (*batch, V), log-probs up to a constant per row.
        validate_args: False leaves `total_count` unchecked.

    Raises:
        ValueError: both or none of `probs` and `logits` are given, or they have no dimension of classes; or
            `total_count` is negative.
        NotImplementedError: `total_count` is not an int; the whole batch has one number of draws.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Multinomial
        >>> dist = Multinomial(4, probs=np.array([0.25, 0.25, 0.5]))
        >>> dist.mean, dist.log_prob(np.array([1.0, 1.0, 2.0])).round(4)
        (array([1., 1., 2.]), np.float64(-1.674))

    Source:
        torch.distributions.Multinomial.
    """

    has_rsample = False
    _batched = ("_categorical",)

    def __init__(
        self,
        total_count: int = 1,
        probs: Numbers | None = None,
        logits: Numbers | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int | np.integer):
            raise NotImplementedError(f"total_count must be one int, got a {type(total_count).__name__}")
        if total_count < 0 and self._is_checked(validate_args):
            raise ValueError(f"total_count must not be negative, got {total_count}")
        self.total_count = int(total_count)
        self._categorical = Categorical(probs=probs, logits=logits)
        super().__init__(self._categorical.batch_shape, (self._categorical.support.high + 1,))  # type: ignore[attr-defined]

    @property
    def probs(self) -> Array:
        """Probabilities of the classes."""
        return self._categorical.probs

    @property
    def logits(self) -> Array:
        """Log-probs of the classes."""
        return self._categorical.logits

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw counts in the dtype of the parameters; see `Distribution.sample`."""
        wide = self.probs.astype(np.float64)
        shares = wide / wide.sum(-1, keepdims=True)
        return multinomial(rng, self.total_count, sample_shape, shares).astype(self.probs.dtype)

    def log_prob(self, value: Numbers) -> Array:
        """Logarithm of the probability of counts (..., V); -inf for counts outside the support."""

        def probability(k: Array, logits: Array) -> Array:
            powers = np.where(k == 0, 0.0, k * logits).sum(-1)
            out = log_gamma(k.sum(-1) + 1) - log_gamma(k + 1).sum(-1) + powers
            return np.where(fails(k).any(-1) | (k.sum(-1) != self.total_count), -np.inf, out)

        return in_double(probability, as_value(value, self.logits.dtype), self.logits)

    def entropy(self) -> Array:
        """Entropy of the counts of each row."""
        counts = np.arange(1.0, self.total_count + 1)
        one = Binomial(self.total_count, probs=self.probs, validate_args=False)
        trials = counts.reshape(-1, *(1,) * self.probs.ndim)

        def entropy(log_probs: Array, each: Array) -> Array:
            repeated = (np.exp(log_probs) * log_gamma(trials + 1)).sum((0, -1))
            return self.total_count * each - log_gamma(np.asarray(self.total_count + 1.0)) + repeated

        log_probs = one.log_prob(trials.astype(self.probs.dtype))
        return in_double(entropy, log_probs, self._categorical.entropy())

    @property
    def mean(self) -> Array:
        """total_count p of each class."""
        return self.probs * self.total_count

    deterministic_sample = mean

    @property
    def variance(self) -> Array:
        """total_count p (1 - p) of each class."""
        return self.mean * (1 - self.probs)

    @property
    def support(self) -> Support:
        """Counts with the sum `total_count`."""
        return Counts(self.total_count)


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
        if self._is_checked(validate_args):
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
