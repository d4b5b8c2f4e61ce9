"""Categorical distributions of which some classes are excluded."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite._arrays.types import as_array, computed
from lite.nn._modules.initial import Rng
from lite.nn.distributions.discrete.categorical import Categorical
from lite.nn.distributions.discrete.one_hot_categorical import OneHotMixin, one_hot
from lite.nn.distributions.distribution import ShapeLike


class MaskedCategorical(Categorical):
    """Draws one of those of V classes that a mask, or a list of indices, admits.

    Args:
        logits: floats (*batch, V), log-probs up to a constant per row.
        probs: floats (*batch, V), non-negative; masked classes count as 0, the rest is divided by its sum.
        mask: booleans that broadcast to (*batch, V), True for allowed classes.
        indices: integers that broadcast to (*batch, K), the classes that are admitted.
        neg_inf: logits of masked classes. With a finite number they can still be drawn.
        padding_value: an entry of `indices` that is ignored.
        use_cross_entropy: has no effect here.
        padding_side: kept as an attribute.

    Attributes:
        num_samples: V.

    Raises:
        ValueError: both or none of `probs` and `logits`, or of `mask` and `indices`, are given.
        TypeError: `mask` is not boolean, or `indices` are not integers.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import MaskedCategorical
        >>> dist = MaskedCategorical(probs=np.full(4, 0.25), mask=np.array([True, False, True, False]))
        >>> dist.log_prob(np.arange(4)).round(4), sorted(set(dist.sample((50,), rng=0).tolist()))
        (array([-0.6931,    -inf, -0.6931,    -inf]), [0, 2])

    Source:
        torchrl.modules.MaskedCategorical.
    """

    def __init__(
        self,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        *,
        mask: ArrayLike | None = None,
        indices: ArrayLike | None = None,
        neg_inf: float = float("-inf"),
        padding_value: int | None = None,
        use_cross_entropy: bool = True,
        padding_side: str = "left",
    ) -> None:
        if (mask is None) == (indices is None):
            raise ValueError("Either `mask` or `indices` must be specified, but not both.")
        # checks the number of arguments and their dtype
        given = Categorical(probs=probs, logits=logits)
        if probs is None:
            table = as_array(computed(logits))
        else:
            with np.errstate(divide="ignore"):
                table = np.log(given.probs)
        self.neg_inf = neg_inf
        self.padding_value = 0 if padding_value is None else padding_value
        self.padding_side = padding_side
        self.use_cross_entropy = use_cross_entropy
        self.num_samples = table.shape[-1]
        self._mask: NDArray[np.bool_] | None = None
        self._indices: NDArray[Any] | None = None
        if mask is not None:
            flags = as_array(mask)
            if flags.dtype != np.bool_:
                raise TypeError(f"mask must be boolean, got {flags.dtype}")
            admitted = np.broadcast_to(flags, np.broadcast_shapes(flags.shape, table.shape))
            self._mask = flags
        else:
            classes = as_array(indices)
            if classes.dtype.kind not in "iu":
                raise TypeError(f"indices must be integers, got {classes.dtype}")
            lead = np.broadcast_shapes(table.shape[:-1], classes.shape[:-1])
            classes = np.broadcast_to(classes, (*lead, classes.shape[-1]))
            admitted = np.broadcast_to(
                np.True_ if padding_value is None else classes != padding_value, classes.shape
            )
            self._indices = classes = np.where(admitted, classes, 0)
            table = np.take_along_axis(np.broadcast_to(table, (*lead, table.shape[-1])), classes, -1)
        self._admitted = admitted
        # probabilities of masked classes are set to 0 before the rest is normalised
        fixed = table if probs is None else Categorical(logits=np.where(admitted, table, -np.inf)).logits
        super().__init__(logits=np.where(admitted, fixed, fixed.dtype.type(neg_inf)))

    @property
    def mask(self) -> NDArray[np.bool_]:
        """The mask.

        Raises:
            ValueError: the distribution was made from indices.
        """
        if self._mask is None:
            raise ValueError("a distribution created from indices has no mask")
        return self._mask

    @property
    def _values(self) -> int:
        return self.num_samples

    @property
    def mode(self) -> NDArray[np.int64]:
        """The most probable class, int64 (*batch)."""
        return self._class_at(super().mode)

    def _class_at(self, position: NDArray[np.int64]) -> NDArray[np.int64]:
        """From a position in the table to a class."""
        if self._indices is None:
            return position
        table = np.broadcast_to(self._indices, (*position.shape, self._indices.shape[-1]))
        return np.take_along_axis(table, position[..., None], -1)[..., 0].astype(np.int64, copy=False)

    def sample(self, sample_shape: ShapeLike = (), *, rng: Rng = None) -> NDArray[np.int64]:
        """Draw classes, int64 (*sample_shape, *batch); see `Distribution.sample`."""
        return self._class_at(super().sample(sample_shape, rng=rng))

    def log_prob(self, value: ArrayLike) -> NDArray[Any]:
        """Log-prob of classes; `neg_inf` for those that are excluded.

        Raises:
            IndexError: a class is not one of the V.
        """
        if self._indices is None:
            out = super().log_prob(value)
            return np.where(np.isfinite(out), out, out.dtype.type(self.neg_inf))
        ids = as_array(value)
        found = (ids[..., None] == self._indices) & self._admitted
        out = super().log_prob(found.argmax(-1))
        return np.where(found.any(-1), out, out.dtype.type(self.neg_inf))

    def entropy(self) -> NDArray[Any]:
        """Entropy in nats over the allowed classes, (*batch); 0 if there are none."""
        out = Categorical(logits=np.where(self._admitted, self.logits, -np.inf)).entropy()
        return np.where(self._admitted.any(-1), out, out.dtype.type(0))


class MaskedOneHotCategorical(OneHotMixin, MaskedCategorical):
    """Draws one-hot vectors of those of V classes that a mask, or a list of indices, admits.

    Args:
        logits: as for `MaskedCategorical`.
        probs: as for `MaskedCategorical`.
        mask: as for `MaskedCategorical`.
        indices: as for `MaskedCategorical`.
        neg_inf: as for `MaskedCategorical`.
        padding_value: as for `MaskedCategorical`.

    Raises:
        ValueError: both or none of `probs` and `logits`, or of `mask` and `indices`, are given.
        TypeError: `mask` is not boolean, or `indices` are not integers.

    Example:
        >>> import numpy as np
        >>> from lite.nn.distributions import MaskedOneHotCategorical
        >>> dist = MaskedOneHotCategorical(probs=np.ones(3), mask=np.array([False, True, True]))
        >>> dist.log_prob(np.eye(3)).round(4)
        array([   -inf, -0.6931, -0.6931])

    Source:
        torchrl.modules.MaskedOneHotCategorical.
    """

    def __init__(
        self,
        logits: ArrayLike | None = None,
        probs: ArrayLike | None = None,
        mask: ArrayLike | None = None,
        indices: ArrayLike | None = None,
        neg_inf: float = float("-inf"),
        padding_value: int | None = None,
    ) -> None:
        super().__init__(
            logits, probs, mask=mask, indices=indices, neg_inf=neg_inf, padding_value=padding_value
        )
        self._as_one_hot(self.num_samples)

    @property
    def mode(self) -> NDArray[np.int64]:
        """Vectors with a 1 for the most probable class; with a mask, for several if equally probable."""
        if self._indices is None:
            return OneHotMixin.mode.fget(self)  # type: ignore[attr-defined]
        return one_hot(MaskedCategorical.mode.fget(self), self.num_samples)  # type: ignore[attr-defined]

    @property
    def mean(self) -> NDArray[Any]:
        """The probabilities of all V classes."""
        if self._indices is None:
            return OneHotMixin.mean.fget(self)  # type: ignore[attr-defined]
        return as_array(
            (self.probs[..., None] * one_hot(self._indices, self.num_samples)).sum(-2, dtype=self.probs.dtype)
        )
