"""MixtureSameFamily: mixtures of distributions of one family."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lite._arrays.formulas import log_softmax, log_sum_exp
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.discrete.categorical import Categorical
from lite.nn.distributions.distribution import Distribution, ShapeLike, as_shape, as_value, generator_of
from lite.nn.distributions.support import Support


class MixtureSameFamily(Distribution):
    """Mixtures of K components, which are the last batch dimension of one distribution.

    Args:
        mixture_distribution: the weights of the components: a `Categorical` over K classes of batch shape
            `batch` or ().
        component_distribution: the components, with the batch shape (*batch, K).
        validate_args: without effect: both distributions have checked their parameters.

    Raises:
        ValueError: an argument has another class, or shapes do not match.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Categorical, MixtureSameFamily, Normal
        >>> parts = Normal(np.array([-1.0, 1.0]), 0.1)
        >>> dist = MixtureSameFamily(Categorical(probs=np.array([0.25, 0.75])), parts)
        >>> dist.mean, dist.cdf(0.0).round(4), dist.sample((3,), rng=0).shape
        (np.float64(0.5), np.float64(0.25), (3,))

    Source:
        torch.distributions.MixtureSameFamily.
    """

    has_rsample = False

    def __init__(
        self,
        mixture_distribution: Categorical,
        component_distribution: Distribution,
        validate_args: bool | None = None,
    ) -> None:
        mixture, component = mixture_distribution, component_distribution
        if not isinstance(mixture, Categorical) or mixture.event_shape:
            raise ValueError(f"mixture_distribution must be a Categorical, got a {type(mixture).__name__}")
        if not isinstance(component, Distribution):
            raise ValueError(f"component_distribution must be a Distribution, got {type(component).__name__}")
        batch = component.batch_shape[:-1]
        classes = mixture.logits.shape[-1]
        if component.batch_shape[-1:] != (classes,) or mixture.batch_shape not in ((), batch):
            raise ValueError(
                "component_distribution must have a batch of mixture_distribution's, "
                f"{(*mixture.batch_shape, classes)}, got {component.batch_shape}"
            )
        self.mixture_distribution = mixture
        self.component_distribution = component
        super().__init__(batch, component.event_shape)

    def expand(self, batch_shape: ShapeLike) -> Self:
        """Mixtures with a larger batch; see `Distribution.expand`."""
        out = super().expand(batch_shape)
        component = self.component_distribution
        out.component_distribution = component.expand((*out.batch_shape, *component.batch_shape[-1:]))
        out.mixture_distribution = self.mixture_distribution.expand(out.batch_shape)
        return out

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self.component_distribution._dtype

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw values; see `Distribution.sample`."""
        shape, generator = as_shape(sample_shape), generator_of(rng)
        chosen = self.mixture_distribution.expand(self.batch_shape).sample(shape, rng=generator)
        values = self.component_distribution.sample(shape, rng=generator)
        dims = len(self.event_shape)
        chosen = chosen.reshape(*chosen.shape, *(1,) * (1 + dims))
        axis = -1 - dims
        return np.take_along_axis(values, chosen, axis).squeeze(axis)

    def log_prob(self, value: Array) -> Array:
        """Logarithm of the density, or of the probability, of values."""
        log_probs = self.component_distribution.log_prob(self._with_component_dim(value))
        return log_sum_exp(log_probs + log_softmax(self.mixture_distribution.logits, -1), -1, False)

    def cdf(self, value: Array) -> Array:
        """Probability of values up to this one."""
        probs = self.component_distribution.cdf(self._with_component_dim(value))
        return (probs * self.mixture_distribution.probs).sum(-1)

    def _with_component_dim(self, value: Array) -> Array:
        """A value with a dimension of size 1 for the components."""
        value = as_value(value, self._dtype)
        return np.expand_dims(value, -1 - len(self.event_shape))

    def _weighted(self, values: Array) -> Array:
        """The mean over the components."""
        dims = len(self.event_shape)
        probs = self.mixture_distribution.probs
        return (probs.reshape(*probs.shape, *(1,) * dims) * values).sum(-1 - dims)

    @property
    def mean(self) -> Array:
        """The weighted mean of the components' means."""
        return self._weighted(self.component_distribution.mean)

    deterministic_sample = mean

    @property
    def variance(self) -> Array:
        """The mean of the components' variances plus the variance of their means."""
        means = self.component_distribution.mean
        deviation = means - np.expand_dims(self.mean, -1 - len(self.event_shape))
        return self._weighted(self.component_distribution.variance) + self._weighted(deviation * deviation)

    @property
    def support(self) -> Support:
        """The support of the components."""
        return self.component_distribution.support

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.mixture_distribution!r}, {self.component_distribution!r})"
