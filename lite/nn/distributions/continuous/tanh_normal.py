"""TanhNormal: a normal distribution squashed between bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.continuous.normal import BoundedNormal, Normal, bounded_loc, scale_for
from lite.nn.distributions.continuous.tanh import TanhMap
from lite.nn.distributions.distribution import Numbers, ShapeLike, as_float, sum_rightmost

_NEWTON = 50  # steps; a dozen are enough unless the scale is near √½, where a second peak appears
_MIN_DERIVATIVE = 1e-9  # Newton's method stops at smaller derivatives


class TanhNormal(BoundedNormal):
    """``tanh`` of a normal distribution, scaled to lie between bounds; for actions of bounded range.

    Args:
        loc: means before tanh, (*batch, *event).
        scale: standard deviations before tanh: an array, a number, or a function of `loc`.
        upscale: bound of the means where `tanh_loc` is set.
        low: lower bounds of the values.
        high: upper bounds of the values.
        event_dims: number of dimensions of one value; by default one, or none for a `loc` without any.
        tanh_loc: replace the means by ``upscale * tanh(loc / upscale)``, moved to the middle of the bounds.
        safe_tanh: keep values away from the bounds, where tanh cannot be inverted.

    Raises:
        RuntimeError: a `high` is not above its `low`.
        ValueError: a `scale` is not positive.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import TanhNormal
        >>> dist = TanhNormal(np.zeros((3, 2)), 1.0, low=-2.0, high=4.0)
        >>> dist.deterministic_sample[0], dist.log_prob(np.ones((3, 2))).shape
        (array([1., 1.]), (3,))

    Source:
        torchrl.modules.TanhNormal; Haarnoja et al. (2018), Soft Actor-Critic (arXiv:1801.01290), appendix C.
    """

    has_rsample = True
    _batched = ("root_dist", "loc", "scale")

    def __init__(
        self,
        loc: Numbers,
        scale: Numbers | Callable[[Array], Numbers],
        upscale: Numbers = 5.0,
        low: Numbers = -1.0,
        high: Numbers = 1.0,
        event_dims: int | None = None,
        tanh_loc: bool = False,
        safe_tanh: bool = True,
    ) -> None:
        loc = as_float(loc)
        self.upscale = upscale
        self.tanh_loc = tanh_loc
        self._event_dims = min(1, loc.ndim) if event_dims is None else event_dims
        self._map = TanhMap(low, high, loc.dtype, safe_tanh, RuntimeError)
        self.low, self.high = self._map.low, self._map.high
        self.update(loc, scale)

    def update(self, loc: Numbers, scale: Numbers | Callable[[Array], Numbers]) -> None:
        """Replace the parameters."""
        loc = as_float(loc)
        if self.tanh_loc:
            loc = bounded_loc(loc, self.upscale)
            if not self._map.is_plain:
                loc = loc + self._map.middle
        self.root_dist = Normal(loc, scale_for(loc, scale))
        self.loc, self.scale = self.root_dist.loc, self.root_dist.scale
        self._set_shapes()

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """Draw values; see `Distribution.rsample`."""
        return self._map.forward(self.root_dist.rsample(sample_shape, rng=rng))

    def sample_and_log_prob(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> tuple[Any, Any]:
        """Draw values and score them without inverting tanh, which loses digits near the bounds.

        Returns:
            Values (*sample_shape, *batch, *event) without derivatives, and their log-probs
            (*sample_shape, *batch), which have derivatives by the parameters for fixed values.
        """
        z = self.root_dist.sample(sample_shape, rng=rng)
        return self._map.forward(z), self._log_prob_of(z)

    def rsample_and_log_prob(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> tuple[Any, Any]:
        """`sample_and_log_prob` with derivatives of the values, and through them of the log-probs."""
        z = self.root_dist.rsample(sample_shape, rng=rng)
        return self._map.forward(z), self._log_prob_of(z)

    def log_prob(self, value: Array) -> Array:
        """Logarithm of the density; beyond the bounds, that at the bounds."""
        return self._log_prob_of(self._map.inverse(value))

    def _log_prob_of(self, z: Array) -> Array:
        out = self.root_dist.log_prob(z) - self._map.log_derivative(z)
        return sum_rightmost(out, self._event_dims)

    def cdf(self, value: Array) -> Array:
        """Probability of numbers up to `value`, for `event_dims=0`."""
        self._require_elementwise("cdf")
        return self.root_dist.cdf(self._map.inverse(value))

    def icdf(self, value: Numbers) -> Array:
        """The number up to which the probability is `value`, for `event_dims=0`."""
        self._require_elementwise("icdf")
        return self._map.forward(self.root_dist.icdf(value))

    def _require_elementwise(self, name: str) -> None:
        if self._event_dims:
            raise NotImplementedError(f"{name} is of single numbers: make the distribution with event_dims=0")

    @property
    def mean(self) -> NoReturn:
        """Has no closed form."""
        raise NotImplementedError(
            "TanhNormal has no formula of its mean; estimate it: dist.sample((n,)).mean(0)."
        )

    @property
    def mode(self) -> NoReturn:
        """Has no closed form."""
        raise RuntimeError(
            "TanhNormal has no closed form of its mode; take deterministic_sample, the interaction type "
            "DETERMINISTIC, or get_mode(), which computes it."
        )

    def get_mode(self) -> Array:
        """The most probable values, (*batch, *event), computed step by step.

        Scales above √½ may give two peaks: the higher one, and of equal ones that towards `high`.

        Example:
            >>> import numpy as np
            >>> from lite.nn.distributions import TanhNormal
            >>> TanhNormal(np.array([0.1]), 0.5).get_mode().round(3)
            array([0.195])
        """
        # The density of y = tanh(z) is greatest where z = loc + 2 scale² tanh(z), on the side of loc. There
        # the difference of both sides is convex in z: Newton's method from beyond never leaves that side.
        wide = self.loc.astype(np.float64)
        side = np.where(wide < 0, -1.0, 1.0)
        loc, factor = np.abs(wide), 2.0 * self.scale.astype(np.float64) ** 2
        z = loc + factor
        for _ in range(_NEWTON):
            t = np.tanh(z)
            derivative = 1.0 - factor * (1.0 - t * t)
            step = (z - loc - factor * t) / np.maximum(derivative, _MIN_DERIVATIVE)
            z = np.where(derivative > _MIN_DERIVATIVE, z - step, z)
        return self._map.forward((side * z).astype(self.loc.dtype))

    @property
    def median(self) -> Array:
        """tanh of the means, between the bounds: the median of each number."""
        return self._map.forward(self.loc)

    deterministic_sample = median

    def __repr__(self) -> str:
        shape = f"{np.shape(self.loc)}"
        return f"TanhNormal(loc: {shape}, scale: {shape}, event_dims={self._event_dims})"
