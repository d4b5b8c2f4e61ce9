"""VonMises: a normal distribution's like on the circle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lite._arrays.special import bessel_ratio, log_i0
from lite.nn._modules.initial import Rng
from lite.nn.distributions.arrays import as_value, drawn, float_arrays, in_double, require
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.support import Real, Support


class VonMises(Distribution):
    """Von Mises distributions over angles in radians, one for each number.

    Args:
        loc: mean angles.
        concentration: how near angles are to `loc`, positive; broadcast against `loc`.
        validate_args: False leaves `concentration` unchecked.

    Raises:
        ValueError: a `concentration` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import VonMises
        >>> dist = VonMises(np.zeros(2), 4.0)
        >>> dist.log_prob(np.array([0.0, np.pi])).round(4), dist.variance.round(4)
        (array([-0.2628, -8.2628]), array([0.1365, 0.1365]))

    Source:
        torch.distributions.VonMises.
    """

    has_rsample = False
    _batched = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = float_arrays(loc, concentration)
        if validate_args is not False:
            require(self.concentration > 0, "concentration must be positive", self.concentration)
        super().__init__(self.loc.shape)

    def sample(self, sample_shape: Any = (), *, rng: Rng = None) -> Any:
        """Draw angles from -π to π; see `Distribution.sample`."""
        wide = [array.astype(np.float64) for array in (self.loc, self.concentration)]
        return drawn(rng, "vonmises", sample_shape, *wide).astype(self.loc.dtype)

    def log_prob(self, value: Any) -> Any:
        """Logarithm of the density of each angle."""

        def density(x: Any, loc: Any, concentration: Any) -> Any:
            norm = math.log(2 * math.pi) + log_i0(concentration)
            return concentration * np.cos(x - loc) - norm

        return in_double(density, as_value(value, self.loc.dtype), self.loc, self.concentration)

    @property
    def mean(self) -> Any:
        """`loc`."""
        return self.loc

    mode = deterministic_sample = mean

    @property
    def variance(self) -> Any:
        """The circular variance: 1 less the mean cosine of the distance from `loc`."""
        return in_double(lambda concentration: 1 - bessel_ratio(concentration), self.concentration)

    @property
    def support(self) -> Support:
        """All real numbers."""
        return Real()
