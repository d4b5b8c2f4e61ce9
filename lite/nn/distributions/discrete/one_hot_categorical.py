"""One of V classes as a vector with a single 1, also with straight-through gradients; ordinal classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._arrays.formulas import softmax
from lite._arrays.types import Array, as_array, computed, stored
from lite.nn._modules.initial import Rng
from lite.nn.distributions.discrete.categorical import Categorical
from lite.nn.distributions.distribution import Numbers, ShapeLike, as_float
from lite.nn.distributions.support import OneHot


def one_hot(classes: Array, num_classes: int) -> NDArray[np.int64]:
    """Vectors of zeros with a 1 at the place of a class."""
    out: NDArray[np.int64] = np.zeros_like(classes, np.int64, "C", shape=(*classes.shape, num_classes))
    np.put_along_axis(out, classes[..., None], 1, -1)
    return out


class OneHotMixin(Categorical):
    """Turns the classes of a categorical distribution into one-hot vectors, and back."""

    def _as_one_hot(self, num_samples: int) -> None:
        self.num_samples = num_samples
        self.event_shape = (num_samples,)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> NDArray[np.int64]:
        """Draw one-hot vectors, int64 (*sample_shape, *batch, V)."""
        return one_hot(super().sample(sample_shape, rng=rng), self.num_samples)

    def log_prob(self, value: ArrayLike) -> NDArray[Any]:
        """Log-prob of one-hot vectors (..., V): of the class of the largest number."""
        return super().log_prob(as_array(value).argmax(-1))

    def enumerate_support(self, expand: bool = True) -> NDArray[np.int64]:
        """The one-hot vectors; see `Distribution.enumerate_support`."""
        return one_hot(super().enumerate_support(expand), self.num_samples)

    @property
    def mode(self) -> NDArray[np.int64]:
        """Vectors with a 1 for the most probable class; for several if they are equally probable."""
        logits: NDArray[Any] = self.logits
        return as_array(logits == logits.max(-1, keepdims=True)).astype(np.int64)

    @property
    def mean(self) -> NDArray[Any]:
        """The probabilities."""
        return self.probs

    @property
    def variance(self) -> NDArray[Any]:
        """p (1 - p) of each class."""
        probs: NDArray[Any] = self.mean
        return as_array(probs * (1 - probs))

    support = OneHot()


class OneHotCategorical(OneHotMixin):
    """Draws one-hot vectors of V classes with given probabilities.

    Args:
        logits: floats (*batch, V), log-probs up to a constant per row. A last axis of size 1 is dropped.
        probs: floats (*batch, V), non-negative; they are divided by their sum.

    Raises:
        ValueError: both or none of `probs` and `logits` are given.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import OneHotCategorical
        >>> dist = OneHotCategorical(probs=np.array([0.25, 0.75]))
        >>> dist.mode, dist.log_prob(np.array([1, 0])).round(4)
        (array([0, 1]), np.float64(-1.3863))

    Source:
        tensordict.nn.distributions.OneHotCategorical.
    """

    def __init__(self, logits: ArrayLike | None = None, probs: ArrayLike | None = None) -> None:
        super().__init__(logits=_without_last(logits), probs=_without_last(probs))
        self._as_one_hot((self.logits if probs is None else self.probs).shape[-1])


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """A `OneHotCategorical` whose samples are floats with the derivatives of the probabilities.

    Args:
        probs: floats (*batch, V), non-negative; they are divided by their sum.
        logits: floats (*batch, V), log-probs up to a constant per row.

    Raises:
        ValueError: both or none of `probs` and `logits` are given.

    Source:
        torch.distributions.OneHotCategoricalStraightThrough; Bengio et al. (2013), Estimating or propagating
        gradients through stochastic neurons (arXiv:1308.3432).

    Example:
        >>> import numpy as np
        >>> import lite
        >>> from lite.nn.distributions import OneHotCategoricalStraightThrough
        >>> def first(probs):
        ...     return OneHotCategoricalStraightThrough(probs).rsample(rng=0)[0]
        >>> lite.value_and_grad(first)(np.array([0.25, 0.75]))
        (np.float64(0.0), array([ 0.75, -0.25]))
    """

    has_rsample = True

    def __init__(self, probs: ArrayLike | None = None, logits: ArrayLike | None = None) -> None:
        super().__init__(logits=logits, probs=probs)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> NDArray[Any]:
        """Draw one-hot vectors (*sample_shape, *batch, V) in the dtype of the parameters."""
        return super().sample(sample_shape, rng=rng).astype(self.probs.dtype)

    def rsample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> Any:
        """Draw the same vectors, with the derivatives of the probabilities."""
        probs = self.probs
        return self.sample(sample_shape, rng=rng) + (probs - stored(probs))

    @property
    def mode(self) -> NDArray[Any]:
        """A vector with a 1 for the most probable class, the first of several."""
        return one_hot(self.logits.argmax(-1), self.num_samples).astype(self.probs.dtype)


def _without_last(values: ArrayLike | None) -> Array | None:
    if values is None:
        return None
    array = as_array(computed(values))
    return array[..., 0] if array.ndim > 1 and array.shape[-1] == 1 else array


def rand_one_hot(values: ArrayLike, do_softmax: bool = True, *, rng: Rng = None) -> NDArray[np.int64]:
    """Draw a one-hot vector for each row.

    Args:
        values: floats (..., V): logits, or probabilities if `do_softmax` is False.
        do_softmax: take the softmax first.
        rng: generator or seed; by default the generator that the process shares.

    Example:
        >>> import numpy as np
        >>> from lite.nn import rand_one_hot
        >>> rand_one_hot(np.array([[0.0, 1.0], [1.0, 0.0]]), do_softmax=False)
        array([[0, 1],
               [1, 0]])

    Source:
        tensordict.nn.distributions.rand_one_hot.
    """
    probs = as_array(values)
    if do_softmax:
        probs = softmax(probs, -1)
    return OneHotCategorical(probs=probs).sample(rng=rng)


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
