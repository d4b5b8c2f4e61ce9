"""Ordinal: one of V classes that have an order."""

from __future__ import annotations

import numpy as np

from lite._arrays.types import Array
from lite.nn.distributions.arrays import Numbers, as_float
from lite.nn.distributions.discrete.categorical import Categorical
from lite.nn.distributions.discrete.one_hot_categorical import OneHotCategorical


class Ordinal(Categorical):
    """Draws one of V classes in order, such as the steps of a range that was cut in V.

    Each score says how probable it is to pass its class; the logit of class k is the sum of the log-probs of
    passing the classes up to k, and of not passing those after it.

    Args:
        scores: floats (*batch, V).

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import Ordinal
        >>> Ordinal(np.array([3.0, 0.0, -3.0])).probs.round(3)
        array([0.488, 0.488, 0.024])

    Source:
        torchrl.modules.Ordinal; Tang and Agrawal (2020), Discretizing Continuous Action Space for On-Policy
        Optimization (arXiv:1901.10500), section 5.
    """

    def __init__(self, scores: Numbers) -> None:
        super().__init__(logits=_logits(scores))


class OneHotOrdinal(OneHotCategorical):
    """`Ordinal` with one-hot vectors for classes.

    Args:
        scores: floats (*batch, V).

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import OneHotOrdinal
        >>> OneHotOrdinal(np.array([3.0, 1.0, -3.0])).mode
        array([0, 1, 0])

    Source:
        torchrl.modules.OneHotOrdinal.
    """

    def __init__(self, scores: Numbers) -> None:
        super().__init__(logits=_logits(scores))


def _logits(scores: Numbers) -> Array:
    # the log-odds of passing a class are its score: up to a constant, what is left are running sums
    return np.cumsum(as_float(scores), -1)
