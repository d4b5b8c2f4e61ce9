"""The tokens that rows of logits were drawn from, as offsets and ids."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import contiguous

Support = tuple[ArrayLike, ArrayLike]
"""Tokens that rows were drawn from: `ids[offsets[r]:offsets[r + 1]]` for row r, all where these are none."""


def checked_support(
    support: Any, rows: int, size: int, name: str = "support"
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Offsets and ids of `rows` rows; none has an id twice, and all are of a vocabulary of `size`.

    Raises:
        TypeError, ValueError, IndexError: they are not; `name` is what it is called there.
    """
    if not isinstance(support, tuple | list) or len(support) != 2:
        raise TypeError(f"{name} must be a pair (offsets, ids), got {type(support).__name__}")
    offsets, ids = (np.asarray(part) for part in support)
    for what, part in (("offsets", offsets), ("ids", ids)):
        if part.dtype.kind not in "iu" and part.size:
            raise TypeError(f"{what} of {name} must be integers, got {part.dtype}")
        if part.ndim != 1:
            raise ValueError(f"{what} of {name} must have one dimension, got shape {part.shape}")
    if len(offsets) != rows + 1:
        raise ValueError(
            f"offsets of {name} must be {rows + 1}, one more than there are rows, got {len(offsets)}"
        )
    if offsets[0] != 0 or offsets[-1] != len(ids) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(
            f"offsets of {name} must ascend from 0 to the number of ids, {len(ids)}; got {offsets}"
        )
    offsets = contiguous(offsets, np.int64)
    outside = (ids < 0) | (ids >= size)
    if outside.any():
        at = int(outside.argmax())
        row = int(np.searchsorted(offsets, at, "right")) - 1
        raise IndexError(
            f"ids of {name} has {ids[at]} for row {row}, which is outside the vocabulary of {size}"
        )
    ascends = ids[1:] > ids[:-1]
    ascends[offsets[(offsets > 0) & (offsets < len(ids))] - 1] = True  # from row to row
    if not ascends.all():
        owner = np.repeat(np.arange(rows), np.diff(offsets))
        ordered = ids[np.lexsort((ids, owner))]
        twice = (ordered[1:] == ordered[:-1]) & (owner[1:] == owner[:-1])
        if twice.any():
            at = int(twice.argmax())
            raise ValueError(f"ids of {name} has {ordered[at]} twice for row {owner[at]}")
    return offsets, contiguous(ids, np.int32)
