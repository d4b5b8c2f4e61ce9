"""Value norms: the running location and scale of returns, which normalize values or advantages."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import get_default_dtype
from lite._arrays.public import belong_to
from lite.nn._modules.module import Module
from lite.nn.values.entries import detached

Array = NDArray[Any]


class ValueNorm(Module):
    """Base of value norms; a subclass defines `update`, `normalize`, `denormalize` and `scale`.

    `advantage_norm` of `PPOLoss` and `A2CLoss` takes one. Its statistics are buffers: in state dicts under
    torchrl's names.

    Args:
        shape: the shape of one value, the trailing dimensions of returns; statistics are over all others.
        epsilon: the smallest variance.

    Source:
        torchrl.modules.ValueNorm.
    """

    def __init__(self, *, shape: int | tuple[int, ...] = 1, epsilon: float = 1e-5) -> None:
        super().__init__()
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.epsilon = epsilon

    def update(self, value_target: Array) -> None:
        """Count a batch of returns, (*, *shape), floats.

        Raises:
            ValueError: another shape.
        """
        raise NotImplementedError(f"{type(self).__name__} defines no update.")

    def normalize(self, value_target: Array) -> Array:
        """Returns minus their location, divided by their scale."""
        raise NotImplementedError(f"{type(self).__name__} defines no normalize.")

    def denormalize(self, normalised_value: Array) -> Array:
        """The inverse of `normalize`."""
        raise NotImplementedError(f"{type(self).__name__} defines no denormalize.")

    def scale(self) -> Array:
        """The divisor of `normalize`, of the shape of one value."""
        raise NotImplementedError(f"{type(self).__name__} defines no scale.")

    def _zeros(self, *names: str, shape: tuple[int, ...] | None = None) -> None:
        for name in names:
            self.register_buffer(name, np.zeros(self.shape if shape is None else shape, get_default_dtype()))

    def _rows(self, value_target: Array) -> Array:
        """The returns as constants, (n, *shape)."""
        values = np.asarray(detached(value_target))
        if values.shape[values.ndim - len(self.shape) :] != self.shape:
            raise ValueError(
                f"{type(self).__name__}: value_target must end with the shape {self.shape}, "
                f"got the shape {values.shape}."
            )
        return values.reshape(-1, *self.shape)


class _Moments(ValueNorm):
    """Norms of a mean and a deviation."""

    def _moments(self) -> tuple[Array, Array]:
        """Mean and variance so far."""
        raise NotImplementedError

    def normalize(self, value_target: Array) -> Array:
        """Returns minus their mean, divided by their deviation."""
        mean, variance = self._moments()
        return (value_target - mean) / np.sqrt(variance)

    def denormalize(self, normalised_value: Array) -> Array:
        """The inverse of `normalize`."""
        mean, variance = self._moments()
        return normalised_value * np.sqrt(variance) + mean

    def scale(self) -> Array:
        """The deviation, of the shape of one value."""
        return np.asarray(np.sqrt(self._moments()[1]))


class PopArtValueNorm(_Moments):
    """Bias-corrected moving averages of returns and of their squares.

    Args:
        shape: the shape of one value.
        beta: decay of the averages at each update.
        epsilon: the smallest variance.

    Source:
        van Hasselt et al. (2019), Multi-task deep reinforcement learning with PopArt (arXiv:1809.04474);
        torchrl.modules.PopArtValueNorm.

    Example:
        >>> import numpy as np
        >>> from lite.nn import PopArtValueNorm
        >>> norm = PopArtValueNorm(beta=0.9)
        >>> norm.update(np.array([[1.0], [3.0]]))
        >>> norm.normalize(np.array([[1.0], [3.0]])).round(3).tolist(), norm.scale().round(3)
        ([[-1.0], [1.0]], array([1.], dtype=float32))
    """

    def __init__(
        self, *, shape: int | tuple[int, ...] = 1, beta: float = 0.99999, epsilon: float = 1e-5
    ) -> None:
        super().__init__(shape=shape, epsilon=epsilon)
        self.beta = beta
        self._zeros("running_mean", "running_mean_sq")
        self._zeros("debiasing_term", shape=())

    def update(self, value_target: Array) -> None:
        """Count a batch of returns, (*, *shape), floats."""
        rows = self._rows(value_target)
        found = (self.running_mean, rows.mean(0)), (self.running_mean_sq, (rows * rows).mean(0))
        for kept, new in (*found, (self.debiasing_term, 1.0)):
            kept[...] = kept * self.beta + new * (1.0 - self.beta)

    def _moments(self) -> tuple[Array, Array]:
        share = np.maximum(self.debiasing_term, self.epsilon)
        mean = self.running_mean / share
        return mean, np.maximum(self.running_mean_sq / share - mean**2, self.epsilon)


class RunningValueNorm(_Moments):
    """Mean and variance of all returns so far.

    Args:
        shape: shape of one value.
        epsilon: the least variance.

    Source:
        Chan et al. (1979), Updating formulae and a pairwise algorithm for computing sample variances;
        torchrl.modules.RunningValueNorm.

    Example:
        >>> import numpy as np
        >>> from lite.nn import RunningValueNorm
        >>> norm = RunningValueNorm()
        >>> norm.update(np.array([[1.0], [3.0]])), norm.update(np.array([[5.0]]))
        (None, None)
        >>> norm.mean, norm.scale().round(3)
        (array([3.], dtype=float32), array([1.633], dtype=float32))
    """

    def __init__(self, *, shape: int | tuple[int, ...] = 1, epsilon: float = 1e-5) -> None:
        super().__init__(shape=shape, epsilon=epsilon)
        self._zeros("mean", "m2")
        self._zeros("count", shape=())

    def update(self, value_target: Array) -> None:
        """Count a batch of returns, (*, *shape), floats."""
        rows = self._rows(value_target)
        if not len(rows):
            return
        step, total = rows.mean(0) - self.mean, self.count + len(rows)
        self.m2 += rows.var(0) * len(rows) + step**2 * (self.count * len(rows) / total)
        self.mean += step * (len(rows) / total)
        self.count[...] = total

    def _moments(self) -> tuple[Array, Array]:
        return self.mean, np.maximum(self.m2 / np.maximum(self.count, 1), self.epsilon)


class PercentileValueNorm(ValueNorm):
    """Moving averages of two quantiles of returns; DreamerV3 divides returns by the range between them.

    Args:
        shape: the shape of one value.
        quantiles: the lower and the upper quantile.
        rate: the weight of a new batch in the averages.
        min_scale: the smallest range, so that small returns are not amplified.
        center: `normalize` subtracts the lower quantile, too.
        epsilon: without effect, as `min_scale` limits the span.

    Raises:
        ValueError: numbers out of range.

    Source:
        Hafner et al. (2023), Mastering diverse domains through world models (arXiv:2301.04104);
        torchrl.modules.PercentileValueNorm.

    Example:
        >>> import numpy as np
        >>> from lite.nn import PercentileValueNorm
        >>> norm = PercentileValueNorm(rate=1.0)
        >>> norm.update(np.arange(101.0)[:, None])
        >>> norm.scale(), norm.normalize(np.array([45.0]))
        (array([90.], dtype=float32), array([0.5]))
    """

    def __init__(
        self,
        *,
        shape: int | tuple[int, ...] = 1,
        quantiles: tuple[float, float] = (0.05, 0.95),
        rate: float = 0.01,
        min_scale: float = 1.0,
        center: bool = False,
        epsilon: float = 1e-5,
    ) -> None:
        super().__init__(shape=shape, epsilon=epsilon)
        low, high = map(float, quantiles)
        if not 0 <= low < high <= 1:
            raise ValueError(f"quantiles must be two numbers with 0 <= low < high <= 1, got {quantiles}.")
        if not 0 <= rate <= 1:
            raise ValueError(f"rate must be between 0 and 1, got {rate}.")
        if not min_scale > 0:
            raise ValueError(f"min_scale must be positive, got {min_scale}.")
        self.quantiles = (low, high)
        self.rate = rate
        self.min_scale = min_scale
        self.center = center
        self._zeros("low", "high")

    def update(self, value_target: Array) -> None:
        """Count a batch of returns, (*, *shape), floats."""
        rows = self._rows(value_target).astype(self.low.dtype)
        for kept, new in zip((self.low, self.high), np.quantile(rows, self.quantiles, axis=0), strict=True):
            kept += (new - kept) * self.rate

    def normalize(self, value_target: Array) -> Array:
        """Returns (with `center`, less their lower quantile), divided by their span."""
        return ((value_target - self.low) if self.center else value_target) / self.scale()

    def denormalize(self, normalised_value: Array) -> Array:
        """The inverse of `normalize`."""
        values = normalised_value * self.scale()
        return values + self.low if self.center else values

    def scale(self) -> Array:
        """The span, of the shape of one value."""
        return np.asarray(np.maximum(self.high - self.low, self.low.dtype.type(self.min_scale)))


def require_norm(advantage_norm: object) -> Any:
    """Raise TypeError unless it is None or has `update` and `scale`."""
    if advantage_norm is None or (hasattr(advantage_norm, "update") and hasattr(advantage_norm, "scale")):
        return advantage_norm
    raise TypeError(f"advantage_norm must be a ValueNorm or None, got {type(advantage_norm).__name__}.")


def update_where(norm: Any, value_target: Array, masks: list[Any]) -> None:
    """Count the returns of steps where all masks, (*batch) or (*batch, 1), are True."""
    kept: Any = None
    for mask in masks:
        while mask.ndim >= value_target.ndim and mask.shape[-1] == 1:
            mask = mask[..., 0]
        kept = mask if kept is None else kept & mask
    norm.update(value_target if kept is None else value_target[kept])


belong_to("lite.nn", PercentileValueNorm, PopArtValueNorm, RunningValueNorm, ValueNorm)
