"""TransformedDistribution: samples of a distribution after transforms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from lite._arrays.types import Array, as_array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import (
    Distribution,
    Numbers,
    ShapeLike,
    as_shape,
    as_value,
    sum_rightmost,
)
from lite.nn.distributions.independent import Independent
from lite.nn.distributions.support import IndependentSupport, Support
from lite.nn.distributions.transforms import ComposeTransform, Transform


class TransformedDistribution(Distribution):
    """The values of a distribution after one or more maps.

    Args:
        base_distribution: the distribution of the samples.
        transforms: a map, or several, the first one first.
        validate_args: has no effect here: the base has checked its parameters.

    Attributes:
        base_dist: the distribution, expanded to the shape of the result.
        transforms: the maps, as a list.

    Raises:
        ValueError: `transforms` are not transforms, or need more dimensions than the base has.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Independent, Normal, TanhTransform, TransformedDistribution
        >>> base = Independent(Normal(np.zeros((3, 2)), 1.0), 1)
        >>> dist = TransformedDistribution(base, [TanhTransform(cache_size=1)])
        >>> action = dist.sample(rng=0)
        >>> action.shape, dist.log_prob(action).shape, bool((np.abs(action) < 1).all())
        ((3, 2), (3,), True)

    Source:
        torch.distributions.TransformedDistribution.
    """

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        given = [transforms] if isinstance(transforms, Transform) else transforms
        if not isinstance(given, list | tuple) or not all(isinstance(t, Transform) for t in given):
            raise ValueError(f"transforms must be a Transform or a list of Transforms, got {transforms!r}")
        self.transforms = list(given)
        base = base_distribution
        whole = ComposeTransform(self.transforms)
        takes, gives = whole.domain.event_dim, whole.codomain.event_dim
        shape, dims = (*base.batch_shape, *base.event_shape), len(base.event_shape)
        if len(shape) < takes:
            raise ValueError(f"transforms need {takes} dimensions of base_distribution, got shape {shape}")
        after = whole.forward_shape(shape)
        before = whole.inverse_shape(after)
        if before != shape:
            base = base.expand(before[: len(before) - dims])
        if takes > dims:
            base = Independent(base, takes - dims)
        self.base_dist = base
        cut = len(after) - max(gives, dims + gives - takes)
        super().__init__(after[:cut], after[cut:])

    def expand(self, batch_shape: ShapeLike) -> Self:
        """The distributions for a larger batch; see `Distribution.expand`."""
        out = super().expand(batch_shape)
        shape = (*as_shape(batch_shape), *self.event_shape)
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        out.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return out

    @property
    def _dtype(self) -> np.dtype[Any]:
        return self.base_dist._dtype

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """As the base."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw values; see `Distribution.sample`."""
        return self._mapped(self.base_dist.sample(sample_shape, rng=rng))

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw values; see `Distribution.rsample`."""
        return self._mapped(self.base_dist.rsample(sample_shape, rng=rng))

    def _mapped(self, x: Array) -> Array:
        with np.errstate(all="ignore"):
            for transform in self.transforms:
                x = transform(x)
        return x

    def log_prob(self, value: Numbers) -> Array:
        """Logarithm of the density; -inf for values that the transforms cannot return."""
        y = as_value(value, self._dtype)
        dims = len(self.event_shape)
        given = _all_rightmost(y == y, dims)  # NaN scores NaN
        total: Any = 0
        inside: Any = np.True_
        with np.errstate(all="ignore"):
            for transform in reversed(self.transforms):
                found = transform.codomain.check(y)
                inside = inside & _all_rightmost(found, dims - transform.codomain.event_dim)
                x = transform.inv(y)
                dims += transform.domain.event_dim - transform.codomain.event_dim
                derivative = transform.log_abs_det_jacobian(x, y)
                total = total - sum_rightmost(derivative, dims - transform.domain.event_dim)
                y = x
            base = self.base_dist.log_prob(y)
            out = total + sum_rightmost(base, dims - len(self.base_dist.event_shape))
        return np.where(given & ~inside, out.dtype.type(-np.inf), out)

    def cdf(self, value: Numbers) -> Array:
        """Probability of numbers up to `value`, for maps that rise or fall."""
        y = as_value(value, self._dtype)
        with np.errstate(all="ignore"):
            for transform in reversed(self.transforms):
                y = transform.inv(_nearest(y, transform.codomain))
            return self._rising(self.base_dist.cdf(y))

    def icdf(self, value: Numbers) -> Array:
        """The number up to which the probability is `value`."""
        with np.errstate(all="ignore"):
            x = self.base_dist.icdf(self._rising(as_value(value, self._dtype)))
            for transform in self.transforms:
                x = transform(x)
        return x

    def _rising(self, p: Array) -> Array:
        """A probability of lying below as that of lying above, where the maps fall."""
        sign = ComposeTransform(self.transforms).sign
        return p if isinstance(sign, int) and sign == 1 else sign * (p - 0.5) + 0.5

    @property
    def support(self) -> Support:
        """The support after the last transform."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return IndependentSupport(support, more) if more > 0 else support

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist!r}, {self.transforms})"


def _all_rightmost(flags: Array, dims: int) -> Array:
    return as_array(flags.all(tuple(range(-dims, 0)))) if dims else flags


def _nearest(y: Array, support: Support) -> Array:
    """Clip numbers to an interval."""
    while isinstance(support, IndependentSupport):
        support = support.base
    return np.clip(y, getattr(support, "low", None), getattr(support, "high", None))
