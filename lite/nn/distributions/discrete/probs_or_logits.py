"""Distributions of zeros and ones, or of counts of them: with the probability of a 1, or its logit."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lite._arrays.dtypes import is_floating
from lite._arrays.formulas import sigmoid, softplus
from lite._arrays.types import Array, computed
from lite.nn.distributions.distribution import Distribution, Numbers, as_float, float_arrays, limits


class ProbsOrLogits(Distribution):
    """Holds `probs` or `logits`, whichever is given, and computes the other on first access."""

    _batched: ClassVar[tuple[str, ...]] = ("probs", "logits")

    total_count: Any

    def _take(self, probs: Numbers | None, logits: Numbers | None) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is None:
            self.logits = as_float(logits)
            self.batch_shape = self.logits.shape
        else:
            self.probs = as_float(probs)
            self.batch_shape = self.probs.shape
        self.event_shape = ()

    def _take_counts(self, total_count: Numbers, probs: Numbers | None, logits: Numbers | None) -> None:
        """Parameters with a number of trials, which gets their dtype and shape."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        given: Any = computed(logits if probs is None else probs)
        own = getattr(given, "dtype", None)
        if own is not None and is_floating(own):
            total_count = as_float(total_count, own)
        self.total_count, given = float_arrays(total_count, given)
        self._take(None if probs is None else given, given if probs is None else None)

    @cached_property
    def probs(self) -> Array:
        """Probabilities of a 1."""
        return sigmoid(self.logits)

    @cached_property
    def logits(self) -> Array:
        """log(p / (1 - p)), finite also for a `p` of 0 or 1."""
        edge = limits(self.probs.dtype).eps
        p = np.clip(self.probs, edge, 1 - edge)
        return np.log(p) - np.log1p(-p)


def log_likelihood(ones: Array, zeros: Array, logits: Array) -> Array:
    """ones log p + zeros log(1 - p), where a term with count 0 is 0, also for infinite logits."""
    with np.errstate(invalid="ignore"):
        at_one, at_zero = ones * softplus(-logits), zeros * softplus(logits)
    none = at_one.dtype.type(0)
    return -(np.where(ones == 0, none, at_one) + np.where(zeros == 0, none, at_zero))


def fails(value: Array) -> Array:
    """Mask of values that are not counts: negative or not integers."""
    return (value < 0) | (np.floor(value) < value)  # a remainder takes eight times as long
