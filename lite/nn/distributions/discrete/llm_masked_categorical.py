"""LLMMaskedCategorical: next-token distributions of a batch of rows, some positions or tokens excluded."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._arrays.formulas import softmax
from lite._arrays.types import Array, as_array, computed
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import value_of, with_node
from lite.nn._modules.initial import Rng
from lite.nn.distributions.arrays import ShapeLike
from lite.nn.distributions.discrete.categorical import Categorical
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.support import IntegerInterval, Support


class LLMMaskedCategorical(Distribution):
    """Distributions over tokens at every position of a batch, with a mask.

    A mask of positions (*batch, T) says where tokens count: elsewhere log-probs and entropies are 0. A mask
    of tokens (*batch, T, V) says which tokens can be drawn where. `log_prob` makes no array of the size of
    the logits; the masked logits that the other methods need are kept until `clear_cache`.

    Args:
        logits: floats (*batch, T, V).
        mask: booleans (*batch, T) or (*batch, T, V), True for what counts.
        ignore_index: a token with log-prob 0, for positions that have none.

    Attributes:
        batch_shape: ``(*batch, T)``.
        event_shape: ``(V,)``, though a sample is one integer per position.

    Raises:
        ValueError: the mask has neither shape.
        TypeError: the mask is not boolean, or the logits are not floats.

    Example:
        >>> import numpy as np
        >>> logits = np.log(np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], np.float32))
        >>> dist = LLMMaskedCategorical(logits, np.array([True, False]))
        >>> np.exp(dist.log_prob(np.array([1, 2])))
        array([0.25, 1.  ], dtype=float32)
        >>> dist.sample((5,), rng=0).shape
        (5, 2)

    Source:
        torchrl.modules.distributions.LLMMaskedCategorical.
    """

    has_rsample = False
    _batched = ("logits", "mask", "masked_logits", "masked_dist")

    def __init__(self, logits: ArrayLike, mask: ArrayLike, ignore_index: int = -100) -> None:
        values, flags = as_array(computed(logits)), np.asarray(mask)
        if flags.shape not in (values.shape[:-1], values.shape):
            raise ValueError(
                f"Mask shape {flags.shape} must be either logits batch shape {values.shape[:-1]} (to mask "
                f"positions) or logits shape {values.shape} (to mask tokens)"
            )
        if flags.dtype != np.bool_:
            raise TypeError(f"mask must be boolean, got {flags.dtype}")
        if not np.issubdtype(values.dtype, np.floating):
            raise TypeError(f"logits must be floats, got {values.dtype}")
        self.logits = values
        self.mask = flags
        self.ignore_index = ignore_index
        self.position_level_masking = flags.shape == values.shape[:-1]
        self.batch_shape = values.shape[:-1]
        self.event_shape = values.shape[-1:]

    @property
    def probs(self) -> NDArray[Any]:
        """Softmax of the logits, without the mask."""
        return Categorical(logits=self.logits).probs

    @cached_property
    def masked_logits(self) -> NDArray[Any]:
        """The logits, with the lowest finite number where the mask is False."""
        mask = self.mask[..., None] if self.position_level_masking else self.mask
        return np.where(mask, self.logits, self._lowest)

    @cached_property
    def masked_dist(self) -> Categorical:
        """The distribution that is sampled: of the masked logits, NaN read as 0 and infinities as +-1e4."""
        logits = self.masked_logits
        if not np.isfinite(logits).all():
            logits = np.nan_to_num(logits, nan=0.0, posinf=1e4, neginf=-1e4)
        return Categorical(logits=logits)

    def clear_cache(self) -> None:
        """Drop `masked_logits` and `masked_dist`; they are made again when needed."""
        for name in ("masked_logits", "masked_dist"):
            self.__dict__.pop(name, None)

    @property
    def mode(self) -> NDArray[np.int64]:
        """The most probable token of each position, int64 (*batch, T); 0 where the position is masked."""
        if self.position_level_masking:
            return np.where(self.mask, self.logits.argmax(-1), 0).astype(np.int64)
        return np.asarray(self.masked_logits.argmax(-1), np.int64)

    @property
    def deterministic_sample(self) -> NDArray[np.int64]:
        """The mode."""
        return self.mode

    @property
    def support(self) -> Support:
        """0 to V-1."""
        return IntegerInterval(0, self.logits.shape[-1] - 1)

    def log_prob(self, value: ArrayLike) -> NDArray[Any]:
        """Log-prob of a token at each position.

        Args:
            value: integers (*batch, T). Values at masked positions are ignored.

        Returns:
            Shape (*batch, T), float32 (float64 for float64 logits). 0 at masked positions and for
            ``ignore_index``. With a mask of tokens, a masked token scores the lowest finite number of the
            logits' dtype; where all are masked, all are equally probable.

        Raises:
            ValueError: ``value`` has another shape.
            TypeError: it does not hold integers.
            IndexError: a token is outside the vocabulary.
        """
        from lite.kernels import token_log_probs  # lite.kernels loads on use

        ids = np.asarray(value)
        logits = value_of(self.logits)
        out = token_log_probs(logits, ids, self.mask, ignore_index=self.ignore_index)
        counted = ids != self.ignore_index
        if not self.position_level_masking:
            token = np.where(counted, ids, 0)[..., None]
            excluded = ~np.take_along_axis(self.mask, token, -1)[..., 0]
            out[counted & excluded] = self._lowest
            out[counted & ~self.mask.any(-1)] = -np.log(logits.shape[-1])
            counted &= ~excluded
        given: Any = self.logits
        if type(given) is not TracedArray:
            return out
        return with_node(out, (self.logits, lambda g: self._shares(g, logits, ids, counted)))

    def _shares(self, g: Array, logits: Array, ids: Array, counted: Array) -> Array:
        """The gradient of the logits from that of the log-probs of unmasked tokens."""
        if self.position_level_masking:
            counted = counted & self.mask
        else:
            logits = np.where(self.mask, logits, -np.inf)
        chosen = ids[..., None] == np.arange(logits.shape[-1])
        with np.errstate(invalid="ignore"):  # where all tokens are masked, and none counts
            shares = (chosen - softmax(logits, -1)) * g[..., None]
        return np.where(counted[..., None], shares, 0)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> NDArray[np.int64]:
        """Draw tokens that the mask admits, int64 (*sample_shape, *batch, T).

        Args:
            sample_shape: how many to draw at each position.
            rng: generator or seed; by default the generator that the process shares.
        """
        return self.masked_dist.sample(sample_shape, rng=rng)

    def entropy(self) -> NDArray[Any]:
        """Entropy in nats of the masked distribution, (*batch, T); 0 where everything is masked."""
        out = self.masked_dist.entropy()
        admitted = self.mask if self.position_level_masking else self.mask.any(-1)
        return np.where(admitted, out, out.dtype.type(0))

    @property
    def _lowest(self) -> Array:
        return np.finfo(self.logits.dtype).min
