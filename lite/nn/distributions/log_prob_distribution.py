"""LogProbDistribution: stored log-probs with the interface of a distribution."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._arrays.types import as_array, computed
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import Distribution, ShapeLike


class LogProbDistribution(Distribution):
    """A distribution of which only the log-probs of given tokens are stored.

    Args:
        log_probs: floats (*batch, T).
        mask: booleans (*batch, T), True for what counts; None for everything.

    Attributes:
        batch_shape: ``(*batch,)``; ``(T,)`` without a batch.
        event_shape: ``(T,)``; ``()`` without a batch.

    Raises:
        ValueError: the mask has another shape.

    Example:
        >>> import numpy as np
        >>> dist = LogProbDistribution(np.array([[-1.0, -2.0]]), np.array([[True, False]]))
        >>> dist.log_prob(np.array([[7, 8]]))
        array([[-1.,  0.]])

    Source:
        torchrl.modules.llm.policies.common.LogProbDistribution.
    """

    has_rsample = False
    _batched = ("log_probs", "mask")

    def __init__(self, log_probs: ArrayLike, mask: ArrayLike | None = None) -> None:
        self.log_probs = as_array(computed(log_probs))
        self.mask = None if mask is None else np.asarray(mask, np.bool_)
        if self.mask is not None and self.mask.shape != self.log_probs.shape:
            raise ValueError(f"mask shape {self.mask.shape} must match log_probs' {self.log_probs.shape}")
        shape = self.log_probs.shape
        self.batch_shape, self.event_shape = (shape[:-1], shape[-1:]) if len(shape) > 1 else (shape, ())

    def log_prob(self, value: ArrayLike) -> NDArray[Any]:
        """The log-probs, 0 where the mask is False; of ``value`` only the shape is looked at.

        Raises:
            ValueError: ``value`` has another shape.
        """
        shape = np.shape(value)
        if shape != self.log_probs.shape:
            raise ValueError(f"Value shape {shape} must match log_probs shape {self.log_probs.shape}")
        if self.mask is None:
            return self.log_probs.copy()
        return np.where(self.mask, self.log_probs, self.log_probs.dtype.type(0))

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> NoReturn:
        """Impossible: the other tokens' probabilities are not known."""
        raise NotImplementedError("Sampling not supported for LogProbDistribution: it has log-probs only")

    def entropy(self) -> NoReturn:
        """Impossible: the other tokens' probabilities are not known."""
        raise NotImplementedError("Entropy not supported for LogProbDistribution: it has log-probs only")
