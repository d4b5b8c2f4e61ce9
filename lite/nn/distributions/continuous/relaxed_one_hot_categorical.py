"""RelaxedOneHotCategorical: a differentiable distribution on the simplex near one-hot vectors."""

from __future__ import annotations

import math

import numpy as np

from lite._arrays.formulas import log_softmax, softmax
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.discrete.categorical import Categorical
from lite.nn.distributions.distribution import (
    Distribution,
    Numbers,
    ShapeLike,
    as_float,
    as_shape,
    as_value,
    in_double,
    inside_of_simplex,
    limits,
    require,
    standard_exponential,
)
from lite.nn.distributions.support import Simplex


class RelaxedOneHotCategorical(Distribution):
    """Draws vectors of V shares of 1: the softmax of logits and noise, which is one-hot at temperature 0.

    Other than one-hot vectors these have derivatives by the parameters.

    Args:
        temperature: positive number, or one for each row of the batch: how far from one-hot vectors.
        probs: floats (*batch, V), non-negative; they are divided by their sum.
        logits: floats (*batch, V), log-probs up to a constant per row.
        validate_args: False leaves `temperature` unchecked.

    Attributes:
        batch_shape: shape of the batch, ``(*batch,)``.
        event_shape: ``(V,)``.
        temperature: floats (*batch).

    Raises:
        ValueError: both or none of `probs` and `logits` are given, or a temperature is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import RelaxedOneHotCategorical
        >>> dist = RelaxedOneHotCategorical(0.5, probs=np.array([0.2, 0.8]))
        >>> dist.rsample(rng=0).round(4), dist.log_prob(np.array([0.5, 0.5])).round(4)
        (array([0.1232, 0.8768]), np.float64(-1.1394))

    Source:
        torch.distributions.RelaxedOneHotCategorical; Maddison et al. (2017), The concrete distribution
        (arXiv:1611.00712).
    """

    has_rsample = True
    _batched = ("_categorical", "temperature")

    def __init__(
        self,
        temperature: Numbers,
        probs: Numbers | None = None,
        logits: Numbers | None = None,
        validate_args: bool | None = None,
    ) -> None:
        categorical = Categorical(probs, logits)
        temperature = as_float(temperature, categorical.logits.dtype)
        if temperature.size == 1:
            temperature = temperature.reshape(())
        if self._is_checked(validate_args):
            require(temperature > 0, "temperature must be positive", temperature)
        shape = np.broadcast_shapes(categorical.batch_shape, temperature.shape)
        self.temperature = np.broadcast_to(temperature, shape)
        self._categorical = categorical.expand(shape)
        super().__init__(shape, categorical.logits.shape[-1:])

    @property
    def logits(self) -> Array:
        """Log-probs of the classes, (*batch, V)."""
        return self._categorical.logits

    @property
    def probs(self) -> Array:
        """Probabilities of the classes, (*batch, V)."""
        return self._categorical.probs

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw vectors of positive shares; see `Distribution.rsample`."""
        shape = (*as_shape(sample_shape), *self.batch_shape, *self.event_shape)
        noise = -np.log(standard_exponential(rng, shape, self.logits.dtype))
        return self._shares(self.logits + noise)

    def _shares(self, scores: Array) -> Array:
        return inside_of_simplex(softmax(scores / self.temperature[..., None], -1), self.logits.dtype)

    def log_prob(self, value: Numbers) -> Array:
        """Logarithm of the density of vectors (..., V); -inf for vectors outside the simplex."""

        def density(y: Array, logits: Array, temperature: Array) -> Array:
            x, others = np.log(np.maximum(y, limits(y.dtype).tiny)), y.shape[-1] - 1
            scores = log_softmax(logits - temperature[..., None] * x, -1)
            return (scores - x).sum(-1) + math.lgamma(others + 1) + others * np.log(temperature)

        value = as_value(value, self.logits.dtype)
        out = in_double(density, value, self.logits, self.temperature)
        outside = ~self.support.check(value) & ~np.isnan(value).any(-1)
        return np.where(outside, out.dtype.type(-np.inf), out)

    @property
    def deterministic_sample(self) -> Array:
        """The shares without noise: the softmax of the logits divided by the temperature."""
        return self._shares(self.logits)

    support = Simplex()
