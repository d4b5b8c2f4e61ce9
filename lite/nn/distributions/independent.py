"""Independent: some dimensions of the batch read as dimensions of one event."""

from __future__ import annotations

from typing import Any

from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import Distribution, ShapeLike, deterministic_sample, sum_rightmost
from lite.nn.distributions.support import IndependentSupport, Support


class Independent(Distribution):
    """The last dimensions of a distribution's batch as one event: log-probs and entropies are summed there.

    Args:
        base_distribution: a distribution.
        reinterpreted_batch_ndims: how many dimensions of its batch move to the event.

    Raises:
        ValueError: the batch has fewer dimensions.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Independent, Normal
        >>> dist = Independent(Normal(np.zeros((3, 4)), 1.0), 1)
        >>> dist.batch_shape, dist.event_shape, dist.log_prob(np.zeros((3, 4))).shape
        ((3,), (4,), (3,))

    Source:
        torch.distributions.Independent.
    """

    _batched = ("base_dist",)

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int) -> None:
        base, dims = base_distribution, reinterpreted_batch_ndims
        if not 0 <= dims <= len(base.batch_shape):
            raise ValueError(
                f"reinterpreted_batch_ndims must be from 0 to {len(base.batch_shape)}, the number of batch "
                f"dimensions of {base}, got {dims}"
            )
        self.base_dist = base
        self.reinterpreted_batch_ndims = dims
        cut = len(base.batch_shape) - dims
        super().__init__(base.batch_shape[:cut], base.batch_shape[cut:] + base.event_shape)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw values; see `Distribution.sample`."""
        return self.base_dist.sample(sample_shape, rng=rng)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw values; see `Distribution.rsample`."""
        return self.base_dist.rsample(sample_shape, rng=rng)

    def log_prob(self, value: Array) -> Array:
        """Log-probs, summed over the dimensions that moved."""
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Array:
        """Entropies, summed over the dimensions that moved."""
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    @property
    def mean(self) -> Array:
        """Mean of the base."""
        return self.base_dist.mean

    @property
    def mode(self) -> Array:
        """Mode of the base."""
        return self.base_dist.mode

    @property
    def median(self) -> Array:
        """Median of each number."""
        return self.base_dist.median

    @property
    def variance(self) -> Array:
        """Variance of each number."""
        return self.base_dist.variance

    @property
    def deterministic_sample(self) -> Any:
        """The deterministic sample of the base."""
        return deterministic_sample(self.base_dist)

    @property
    def support(self) -> Support:
        """Support of the base, with more dimensions in an event."""
        if not self.reinterpreted_batch_ndims:
            return self.base_dist.support
        return IndependentSupport(self.base_dist.support, self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.reinterpreted_batch_ndims})"
