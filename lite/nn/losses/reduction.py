"""Distances between values, and reductions of losses per element to one number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from lite._arrays.formulas import smooth_l1
from lite._arrays.types import Array, is_symbolic

REDUCTIONS = ("mean", "sum", "none")
_DISTANCES: dict[str, Callable[[Any], Any]] = {"l2": lambda d: d * d, "l1": np.abs, "smooth_l1": smooth_l1}


def require_reduction(reduction: str | None) -> str:
    """The reduction, "mean" if none is given; ValueError for another name."""
    if reduction is None:
        return "mean"
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}.")
    return reduction


def distance_loss(v1: Array, v2: Array, loss_function: str, strict_shape: bool = True) -> Array:
    """The distance of two arrays, element by element.

    Args:
        v1: floating array.
        v2: floating array.
        loss_function: "l2", the square of the difference; "l1", its absolute value; "smooth_l1", half the
            square up to a difference of 1, and its absolute value minus 0.5 beyond (Huber).
        strict_shape: False lets the shapes broadcast.

    Raises:
        NotImplementedError: another `loss_function`.
        RuntimeError: the shapes differ.

    Source:
        torchrl.objectives.distance_loss.

    Example:
        >>> import numpy as np
        >>> from lite.nn.losses import distance_loss
        >>> distance_loss(np.array([0.0, 3.0]), np.zeros(2), "smooth_l1")
        array([0. , 2.5])
    """
    if strict_shape and tuple(v1.shape) != tuple(v2.shape):
        raise RuntimeError(f"values and targets must have one shape, got {v1.shape} and {v2.shape}.")
    if loss_function not in _DISTANCES:
        raise NotImplementedError(f"loss_function must be 'l2', 'l1' or 'smooth_l1', got {loss_function!r}.")
    return _DISTANCES[loss_function](v1 - v2)


def require_loss_function(name: str | None) -> str:
    """The name of a distance; ValueError for another."""
    if name not in _DISTANCES:
        raise ValueError(f"loss_function must be 'l2', 'l1' or 'smooth_l1', got {name!r}.")
    return name


def expanded(mask: Array, loss: Array, name: str = "mask") -> Array:
    """A mask or weights broadcast to the shape of a loss; trailing dimensions of size 1 are added or removed.

    Raises:
        ValueError: the mask does not broadcast to the loss.
    """
    given = mask.shape
    while mask.ndim > loss.ndim and mask.shape[-1] == 1:
        mask = mask[..., 0]
    if mask.ndim < loss.ndim:
        mask = mask.reshape(mask.shape + (1,) * (loss.ndim - mask.ndim))
    if mask.ndim > loss.ndim or any(m not in (1, n) for m, n in zip(mask.shape, loss.shape, strict=True)):
        raise ValueError(f"the {name} of shape {given} does not fit a loss of shape {tuple(loss.shape)}.")
    return np.broadcast_to(mask, loss.shape)


def reduced(loss: Array, reduction: str, mask: Array | None = None, weights: Array | None = None) -> Array:
    """The mean or sum of a loss per element; with "none" the loss, which is 0 where `mask` is False.

    Masked elements may be NaN. The mean is over the others, weighted by `weights`.

    Raises:
        ValueError: mask or weights do not have the shape of the loss, or the loss is empty.
    """
    if weights is not None:
        if mask is not None:
            weights = expanded(weights, loss, "priority weights")
        elif weights.shape != loss.shape:
            raise ValueError(
                f"priority weights must have the loss's shape {loss.shape}, got {weights.shape}."
            )
        weights = weights.astype(loss.dtype, copy=False)
    if mask is not None:
        mask = expanded(mask, loss)
        # np.where, as a product of 0 and NaN is NaN, in the loss and in its gradient.
        loss = np.where(mask, loss, loss.dtype.type(0))
    if weights is not None:
        loss = loss * weights
    if reduction == "none":
        return loss
    if reduction == "sum":
        return loss.sum()
    if weights is not None:
        return loss.sum() / (weights if mask is None else weights * mask).sum()
    if mask is not None:
        count = np.count_nonzero(mask)
        return loss.sum() / (np.maximum(count, 1).as_number() if is_symbolic(count) else max(int(count), 1))
    if not loss.size:
        raise ValueError("the loss of an empty batch has no mean.")
    return loss.mean()


def clipped_value_loss(
    old_value: Array, value: Array, clip_value: float, target: Array, loss: Array, loss_function: str
) -> tuple[Any, Any]:
    """The loss of values clipped to a range around old values, and the fraction of clipped values.

    Source:
        Schulman et al. (2017), as in OpenAI's baselines; torchrl's `clip_value`.
    """
    if tuple(old_value.shape) != tuple(value.shape):
        raise RuntimeError(f"old and new values must have one shape, got {old_value.shape}, {value.shape}.")
    change = value - old_value
    kept = np.clip(change, -clip_value, clip_value)
    clipped = distance_loss(target, old_value + kept, loss_function)
    return np.maximum(loss, clipped), (change != kept).astype(value.dtype).mean()


def squeezed(loss: Array) -> Array:
    """A loss without a last dimension of 1."""
    return loss[..., 0] if loss.ndim and loss.shape[-1] == 1 else loss
