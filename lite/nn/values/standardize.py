"""Standardization of values: of all together, or of each group."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPREAD = 4  # the largest range of integer ids for each value that is indexed without sorting


def standardized(
    values: NDArray[Any], groups: NDArray[Any] | None = None, mask: NDArray[np.bool_] | None = None, *,
    smallest: float, divide: bool = True, unbiased: bool = True,
) -> NDArray[Any]:  # fmt: skip
    """Values with mean 0 and standard deviation 1 in each group; 0 in a group without deviation.

    NaN and infinity are ignored by means and deviations, and give NaN.

    Args:
        values: any shape.
        groups: the group of each value, of any comparable type; trailing dimensions may be missing. None for
            one group.
        mask: True for values that means and deviations are computed from; broadcasts to the values. All
            values are standardized by these.
        smallest: the lower limit of deviations.
        divide: whether to divide by the deviation.
        unbiased: whether the variance of n values divides by n - 1.

    Raises:
        RuntimeError: the shape of the groups is not that of the values without trailing dimensions.
    """
    flat = values.reshape(-1).astype(np.float64)
    index, count = _numbered(groups, values.shape)
    finite = counts = np.isfinite(flat)
    if mask is not None:
        counts = finite & np.broadcast_to(mask, values.shape).reshape(-1)
    every = bool(counts.all())
    number = np.bincount(index, None if every else counts, count)
    mean = np.bincount(index, flat if every else np.where(counts, flat, 0.0), count) / np.maximum(number, 1)
    with np.errstate(invalid="ignore"):  # infinity minus infinity
        centered = flat - mean[index]
    if not every:
        centered[~finite] = np.nan
    if divide:
        shares = centered if every else np.where(counts, centered, 0.0)
        squares = np.bincount(index, shares * shares, count)
        deviation = np.sqrt(squares / np.maximum(number - unbiased, 1))
        centered /= np.maximum(deviation, smallest)[index]
    dtype = values.dtype if values.dtype.kind not in "biu" else np.dtype(np.float32)
    return centered.astype(dtype).reshape(values.shape)


def _numbered(groups: NDArray[Any] | None, shape: tuple[int, ...]) -> tuple[NDArray[np.intp], int]:
    """The index of each flat value's group, and the number of groups, some of which may be empty."""
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
        if high - low < _SPREAD * ids.size:  # ids are used as indices, as sorting took half of the time
            return ids.reshape(-1).astype(np.intp) - low, high - low + 1
    found, index = np.unique(ids.reshape(-1), return_inverse=True)
    return index.reshape(-1), len(found)
