"""Values less their mean, over their standard deviation: of all of them, or of each group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPREAD = 4  # numbers of groups for each value, at most, of which most may be empty


def standardized(
    values: NDArray[Any],
    groups: NDArray[Any] | None = None,
    mask: NDArray[np.bool_] | None = None,
    *,
    smallest: float,
    divide: bool = True,
    unbiased: bool = True,
) -> NDArray[Any]:
    """Values with mean 0 and standard deviation 1 in each group; one that has no deviation gets 0.

    NaN and infinity count for no mean, so they stay alone: they give NaN.

    Args:
        values: any shape.
        groups: which group each is of, anything that compares, of the shape of the values but for missing
            last dimensions. None: all are one group.
        mask: True where a value counts; it broadcasts to the values. The others are measured by those.
        smallest: what a deviation is taken to be at least.
        divide: whether by the deviation, too.
        unbiased: whether a sum of n squares is divided by n - 1.

    Raises:
        RuntimeError: the groups' shape is no beginning of the values'.
    """
    flat = values.reshape(-1).astype(np.float64)
    index, count = _numbered(groups, values.shape)
    finite = counts = np.isfinite(flat)
    if mask is not None:
        counts = finite & np.broadcast_to(mask, values.shape).reshape(-1)
    every = bool(counts.all())
    number = np.bincount(index, None if every else counts, count)
    mean = np.bincount(index, flat if every else np.where(counts, flat, 0.0), count) / np.maximum(number, 1)
    with np.errstate(invalid="ignore"):  # infinity less a mean, divided by nothing
        centered = flat - mean[index]
    if not every:
        centered[~finite] = np.nan
    if divide:
        shares = centered if every else np.where(counts, centered, 0.0)
        squares = np.bincount(index, shares * shares, count)
        deviation = np.sqrt(squares / np.maximum(number - unbiased, 1))
        centered /= np.maximum(deviation, smallest)[index]
    dtype = values.dtype if values.dtype.kind not in "biu" else np.dtype(np.float32)
    out: NDArray[Any] = centered.astype(dtype).reshape(values.shape)
    return out


def _numbered(groups: NDArray[Any] | None, shape: tuple[int, ...]) -> tuple[NDArray[np.intp], int]:
    """The group of each of the flat values, counted from 0, and how many there are: some may be empty."""
    if groups is None:
        return np.zeros(np.prod(shape, dtype=int), np.intp), 1
    ids = groups
    while ids.ndim > len(shape) and ids.shape[-1] == 1:
        ids = ids[..., 0]
    kept = shape[: ids.ndim]
    if any(n not in (1, m) for n, m in zip(ids.shape, kept, strict=False)) or ids.ndim > len(shape):
        raise RuntimeError(
            f"the groups must have the shape of the values, but for missing last dimensions: got "
            f"{groups.shape}, values {shape}."
        )
    ids = np.broadcast_to(ids.reshape(ids.shape + (1,) * (len(shape) - ids.ndim)), shape)
    if ids.dtype.kind == "i" and ids.size:
        low, high = int(ids.min()), int(ids.max())
        if high - low < _SPREAD * ids.size:  # numbers as they are: sorting took half of the time
            return ids.reshape(-1).astype(np.intp) - low, high - low + 1
    found, index = np.unique(ids.reshape(-1), return_inverse=True)
    return index.reshape(-1), len(found)
