"""VonMises: a normal distribution's like on the circle."""

from __future__ import annotations

import math

import numpy as np

from lite._arrays.special import bessel_ratio, log_i0
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import Elementwise, Numbers, ShapeLike, drawn, in_double
from lite.nn.distributions.support import Real


class VonMises(Elementwise):
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

    _batched = ("loc", "concentration")
    _positive = ("concentration",)
    support = Real()

    def __init__(self, loc: Numbers, concentration: Numbers, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = self._parameters(validate_args, loc, concentration)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw angles from [-π, π); see `Distribution.sample`."""
        wide = [array.astype(np.float64) for array in (self.loc, self.concentration)]
        return drawn(rng, "vonmises", sample_shape, *wide).astype(self.loc.dtype)

    @staticmethod
    def _log_density(x: Array, loc: Array, concentration: Array) -> Array:
        return concentration * np.cos(x - loc) - (math.log(2 * math.pi) + log_i0(concentration))

    @property
    def mean(self) -> Array:
        """`loc`, which is the mode, too."""
        return self.loc

    mode = deterministic_sample = mean

    @property
    def variance(self) -> Array:
        """The circular variance: 1 less the mean of cos(x - loc)."""
        return in_double(lambda concentration: 1 - bessel_ratio(concentration), self.concentration)
