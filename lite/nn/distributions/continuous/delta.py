"""Delta and TanhDelta: all probability at one value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn.distributions.continuous.tanh import TanhMap
from lite.nn.distributions.distribution import Distribution, Numbers, ShapeLike, as_float, as_shape
from lite.nn.distributions.support import Interval, Real, Support


class Delta(Distribution):
    """Always the same value.

    Args:
        param: the value, (*batch, *event).
        atol: absolute distance at which another value counts as this one.
        rtol: the same relative to `param`.
        batch_shape: shape of the batch.
        event_shape: shape of one value; if both are empty, the last dimension of `param` is the event.

    Raises:
        ValueError: the shapes are not those of `param`.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Delta
        >>> dist = Delta(np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> dist.log_prob(np.array([[1.0, 2.0], [3.0, 5.0]]))
        array([ inf, -inf])

    Source:
        tensordict.nn.distributions.Delta.
    """

    has_rsample = False
    _batched = ("param",)

    def __init__(
        self,
        param: Numbers,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        batch_shape: Sequence[int] | None = None,
        event_shape: Sequence[int] | None = None,
    ) -> None:
        self.update(param)
        self.atol = atol
        self.rtol = rtol
        shape = tuple(self.param.shape)
        batch, event = tuple(batch_shape or ()), tuple(event_shape or ())
        if not batch and not event:
            batch, event = shape[:-1], shape[-1:]
        if batch + event != shape:
            raise ValueError(f"batch_shape {batch} and event_shape {event} must make param's shape {shape}")
        super().__init__(batch, event)

    def update(self, param: Numbers) -> None:
        """Replace the value by one of the same shape."""
        self.param = as_float(param)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """The value, (*sample_shape, *batch, *event), in an array of its own."""
        return np.broadcast_to(self.param, (*as_shape(sample_shape), *self.param.shape)).copy()

    def log_prob(self, value: Array) -> Array:
        """inf where all of an event is `param`, within the tolerances; otherwise -inf."""
        near = np.abs(value - self.param) < self.atol + self.rtol * np.abs(self.param)
        same = near.all(tuple(range(-len(self.event_shape), 0)))
        return np.where(same, np.inf, -np.inf).astype(self.param.dtype, copy=False)

    @property
    def mean(self) -> Array:
        """`param`."""
        return self.param

    mode = median = deterministic_sample = mean

    @property
    def variance(self) -> Array:
        """Zeros."""
        return np.zeros_like(self.param)

    support = Real()


class TanhDelta(Distribution):
    """Always ``tanh(param)``, scaled to lie between bounds.

    Args:
        param: the value before tanh, (*batch, *event).
        low: lower bounds of the result.
        high: upper bounds of the result.
        event_dims: number of dimensions of one value.
        atol: absolute distance before tanh at which another value counts as this one.
        rtol: the same relative to `param`.
        safe: keep tanh away from the bounds, where it cannot be inverted.

    Raises:
        ValueError: a `high` is not above its `low`.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import TanhDelta
        >>> TanhDelta(np.array([0.0, 100.0])).mode.round(4)
        array([0., 1.])

    Source:
        torchrl.modules.TanhDelta. There too bounds other than -1 and 1 add their middle to `param`.
    """

    has_rsample = False
    _batched = ("base_dist",)

    def __init__(
        self,
        param: Numbers,
        low: Numbers = -1.0,
        high: Numbers = 1.0,
        event_dims: int = 1,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        safe: bool = True,
    ) -> None:
        param = as_float(param)
        self._map = TanhMap(low, high, param.dtype, safe, ValueError)
        self.low, self.high = self._map.low, self._map.high
        cut = param.ndim - event_dims
        super().__init__(param.shape[:cut], param.shape[cut:])
        self.base_dist = Delta(
            param + self._map.middle, atol, rtol, batch_shape=param.shape[:cut], event_shape=param.shape[cut:]
        )

    def update(self, param: Numbers) -> None:
        """Replace the value by one of the same shape."""
        self.base_dist.update(as_float(param) + self._map.middle)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Array:
        """The value, (*sample_shape, *batch, *event)."""
        return self._map.forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Array) -> Array:
        """inf where all of an event is the value, within the tolerances; otherwise -inf."""
        return self.base_dist.log_prob(self._map.inverse(value))

    @property
    def mode(self) -> Array:
        """The value."""
        return self._map.forward(self.base_dist.param)

    mean = median = deterministic_sample = mode

    @property
    def variance(self) -> Array:
        """Zeros."""
        return self.base_dist.variance

    @property
    def support(self) -> Support:
        """From `low` to `high`."""
        return Interval(self.low, self.high)
