"""Categorical: one of V classes per position, also masked over the vocabulary of a language model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._arrays.formulas import log_softmax, softmax
from lite._arrays.types import Array, HostArray, as_array, computed, is_symbolic
from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import unbroadcast, value_of, with_node
from lite._transforms.vmap.running import everything, require_ids
from lite.nn._modules.initial import Rng
from lite.nn.distributions.distribution import Distribution, ShapeLike, as_shape, generator_of, require
from lite.nn.distributions.support import IntegerInterval, Support

_BLOCK = 2**18  # numbers that are worked on at once, so that temporaries stay small


class Categorical(Distribution):
    """Draws integers 0 .. V-1 with given probabilities.

    Args:
        probs: floats (*batch, V), non-negative; they are divided by their sum.
        logits: floats (*batch, V), log-probs up to a constant per row.

    Attributes:
        batch_shape: shape of the batch, ``(*batch,)``.
        event_shape: ``()``.
        has_rsample: False.

    Raises:
        ValueError: both or none of ``probs`` and ``logits`` are given, or there is no last axis; probs are
            negative, not finite, or sum to 0. Rows of logits may be NaN, or all -inf: log-probs are NaN then.
        TypeError: they are not floats.

    Example:
        >>> import numpy as np
        >>> dist = Categorical(probs=np.array([0.25, 0.75]))
        >>> dist.log_prob(1).round(4), int(dist.mode), dist.sample((2, 3)).shape
        (np.float64(-0.2877), 1, (2, 3))

    Source:
        torch.distributions.Categorical.
    """

    has_rsample = False
    has_enumerate_support = True
    _batched = ("probs", "logits")

    def __init__(self, probs: ArrayLike | None = None, logits: ArrayLike | None = None) -> None:
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, given = ("logits", logits) if probs is None else ("probs", probs)
        values = as_array(computed(given))
        if values.ndim < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if not np.issubdtype(values.dtype, np.floating):
            raise TypeError(f"{name} must be floats, got {values.dtype}")
        self.batch_shape = values.shape[:-1]
        self.event_shape: tuple[int, ...] = ()
        if name == "probs":
            total = values.sum(-1, keepdims=True)
            require((values >= 0) & np.isfinite(values), "probs must not be negative", values)
            require(total > 0, "probs of each row must have a positive sum", total)
            values = values / total
        self.__dict__[name] = values if name == "probs" else _log_softmax(values)

    @cached_property
    def logits(self) -> NDArray[Any]:
        """Log-probs, (*batch, V)."""
        tiny = np.finfo(self.probs.dtype).eps
        return np.log(np.clip(self.probs, tiny, 1 - tiny))

    @cached_property
    def probs(self) -> NDArray[Any]:
        """Probabilities, (*batch, V)."""
        return np.exp(self.logits)

    @property
    def mode(self) -> NDArray[np.int64]:
        """The most probable class, int64 (*batch); the first of several."""
        weights = self.probs if "probs" in self.__dict__ else self.logits
        return as_array(weights.argmax(-1)).astype(np.int64, copy=False)

    @property
    def deterministic_sample(self) -> NDArray[np.int64]:
        """The mode."""
        return self.mode

    @property
    def mean(self) -> NDArray[Any]:
        """NaN, (*batch): classes have no mean."""
        return np.full(self.batch_shape, np.nan, self.probs.dtype)

    @property
    def variance(self) -> NDArray[Any]:
        """NaN, (*batch)."""
        return np.full(self.batch_shape, np.nan, self.probs.dtype)

    def enumerate_support(self, expand: bool = True) -> NDArray[np.int64]:
        """The classes; see `Distribution.enumerate_support`."""
        values = np.arange(self._values).reshape(-1, *(1,) * len(self.batch_shape))
        return np.broadcast_to(values, (len(values), *self.batch_shape)) if expand else values

    @property
    def support(self) -> Support:
        """0 to V-1."""
        return IntegerInterval(0, self._values - 1)

    @property
    def _values(self) -> int:
        """How many different values are drawn."""
        return self._classes

    @property
    def _classes(self) -> int:
        table: NDArray[Any] = self.probs if "probs" in self.__dict__ else self.logits
        return int(table.shape[-1])

    def log_prob(self, value: ArrayLike) -> NDArray[Any]:
        """Log-prob of classes; ``value`` (integers) is broadcast against the batch.

        Raises:
            IndexError: a class is not one of the V.
        """
        ids = as_array(value)
        if ids.dtype.kind not in "iu":
            raise TypeError(f"value must be integers, got {ids.dtype}")
        classes = self.logits.shape[-1]
        require_ids(ids, classes, "value")
        shape = np.broadcast_shapes(ids.shape, self.batch_shape)
        logits = value_of(self.logits)
        table = np.broadcast_to(logits, (*shape, classes))
        places = np.broadcast_to(ids, shape)[..., None]
        out: NDArray[Any] = np.take_along_axis(table, places, -1)[..., 0]
        given: Any = self.logits
        if type(given) is not TracedArray:
            return out

        def vjp(g: Array) -> Array:
            chosen = places == np.arange(classes)
            return unbroadcast(np.where(chosen, g[..., None], g.dtype.type(0)), logits.shape)

        return with_node(out, (self.logits, vjp))

    def entropy(self) -> NDArray[Any]:
        """Entropy in nats, (*batch)."""
        if not isinstance(self.logits, np.ndarray):
            return self._recorded_entropy()
        out = np.empty_like(self.logits, order="C", shape=self.batch_shape)
        for part, logits in _blocks(out[..., None], self.logits):
            probs = np.exp(logits)
            part[:, 0] = -(probs * np.where(probs > 0, logits, 0)).sum(-1)
        return out

    def _recorded_entropy(self) -> Array:
        logits = value_of(self.logits)
        probs = np.exp(logits)
        finite = np.where(probs > 0, logits, 0)
        out = -(probs * finite).sum(-1)
        return with_node(out, (self.logits, lambda g: -g[..., None] * probs * (finite + 1)))

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> NDArray[np.int64]:
        """Draw classes, int64 (*sample_shape, *batch).

        Args:
            sample_shape: how many to draw for each element of the batch.
            rng: generator or seed; by default the generator that the process shares.

        Raises:
            RuntimeError: the probabilities of a row are NaN. A graph draws the first class of such a row.
        """
        shape = as_shape(sample_shape)
        probs = value_of(self.probs)
        rows = probs.reshape(-1, probs.shape[-1])
        uniform = generator_of(rng).random((math.prod(shape), rows.shape[0]))
        if is_symbolic(uniform + rows[..., 0]):
            up_to = np.cumsum(rows, -1, dtype=np.float64)
            points = _inside(uniform, up_to[:, -1])
            return (up_to <= points[..., None]).sum(-1).reshape((*shape, *self.batch_shape))
        out = np.empty_like(uniform + rows[..., 0], np.int64, order="C")  # mapped, if either is
        search = _search_each if len(uniform) > len(rows) else _search_at_once
        search(rows, uniform, out)
        return out.reshape((*shape, *self.batch_shape))


def _search_each(rows: NDArray[Any], uniform: NDArray[Any], out: NDArray[np.int64]) -> None:
    """The classes at which the sum of probabilities passes the numbers; for many draws from few rows."""
    for i, row in enumerate(rows):
        up_to = np.cumsum(row, dtype=np.float64)
        out[:, i] = np.searchsorted(up_to, _points(uniform[:, i], up_to[-1]), side="right")


def _search_at_once(rows: NDArray[Any], uniform: NDArray[Any], out: NDArray[np.int64]) -> None:
    """`_draw` for few draws from many rows."""
    for found, shares, probs in _blocks(out.T, uniform.T, rows):
        up_to = np.cumsum(probs, -1, dtype=np.float64)
        points = _points(shares, up_to[:, -1:])
        for draw in range(points.shape[1]):
            found[:, draw] = (up_to <= points[:, draw, None]).sum(-1)


def _points(uniform: NDArray[Any], total: Array) -> Array:
    """Shares of a total that is a number.

    Raises:
        RuntimeError: the total is NaN or infinite.
    """
    if not np.isfinite(everything(total)).all():
        raise RuntimeError(
            "there is nothing to draw in a row of NaN: its logits must not hold NaN or +inf, or be all -inf "
            f"(as where a mask admits no class), got probabilities that sum to {np.max(everything(total))}"
        )
    return _inside(uniform, total)


def _inside(uniform: Array, total: Array) -> Array:
    """Shares of a total, and just below it, so that a class of probability 0 is never found."""
    below = total * (1 - np.finfo(np.float64).eps / 2)  # the next number: np.nextafter is in no graph
    return np.minimum(uniform * total, below)


def _blocks(*tables: NDArray[Any]) -> Iterator[tuple[NDArray[Any], ...]]:
    """Arrays (*batch, n_i) as parts (rows, n_i), a few rows at a time; views, if contiguous or matrices."""
    flat = [table if table.ndim == 2 else table.reshape(-1, table.shape[-1]) for table in tables]
    step = max(1, _BLOCK // max(1, *(table.shape[-1] for table in tables)))
    for start in range(0, len(flat[0]), step):
        yield tuple(table[start : start + step] for table in flat)


def _log_softmax(values: NDArray[Any]) -> NDArray[Any]:
    """Logits less the logarithm of the sum of their exponentials; NaN in rows with NaN, +inf or only -inf."""
    if isinstance(values, HostArray) and values.symbolic:
        return log_softmax(values, -1)  # there is nothing to write into, part by part
    if not isinstance(values, np.ndarray):
        return _recorded_log_softmax(values)
    out = np.empty_like(values, order="C")
    for scaled, rows in _blocks(out, values):
        # the difference comes first: large logits would swallow the logarithm
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            np.subtract(rows, rows.max(-1, keepdims=True), out=scaled)
            scaled -= np.log(np.exp(scaled).sum(-1, keepdims=True))
    return out


def _recorded_log_softmax(values: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        out = log_softmax(value_of(values), -1)
    return with_node(out, (values, lambda g: g - np.exp(out) * g.sum(-1, keepdims=True)))


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
