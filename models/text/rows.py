"""Rows of token ids with a mask: the one form that every input of a wrapper is brought to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class TokenRows(NamedTuple):
    """Token ids in a rectangle, and which of them are real.

    Attributes:
        ids: int64 (B, L).
        mask: bool (B, L), False on padding. Lengths follow from it, never from ids.
    """

    ids: NDArray[np.int64]
    mask: NDArray[np.bool_]

    @classmethod
    def left_padded(cls, rows: Sequence[ArrayLike], pad_id: int, *, width: int = 0) -> TokenRows:
        """Rows of any lengths, padded on the left to the longest (or to ``width`` if that is more).

        Example:
            >>> TokenRows.left_padded([[1], [2, 3]], pad_id=0).ids.tolist()
            [[0, 1], [2, 3]]
        """
        return cls._padded(rows, pad_id, width, left=True)

    @classmethod
    def right_padded(cls, rows: Sequence[ArrayLike], pad_id: int) -> TokenRows:
        """Rows of any lengths, padded on the right to the longest."""
        return cls._padded(rows, pad_id, 0, left=False)

    @classmethod
    def _padded(cls, rows: Sequence[ArrayLike], pad_id: int, width: int, *, left: bool) -> TokenRows:
        arrays = [token_row(row, f"row {i}") for i, row in enumerate(rows)]
        width = max([width, *map(len, arrays)])
        ids = np.full((len(arrays), width), pad_id, np.int64)
        mask = np.zeros((len(arrays), width), np.bool_)
        for i, row in enumerate(arrays):
            real = slice(width - len(row), width) if left else slice(0, len(row))
            ids[i, real] = row
            mask[i, real] = True
        return cls(ids, mask)

    @property
    def rows(self) -> list[NDArray[np.int64]]:
        """The real ids of each row."""
        return [ids[mask] for ids, mask in zip(self.ids, self.mask, strict=True)]

    def repeat(self, count: int) -> TokenRows:
        """Each row ``count`` times in a row; a view of these for one."""
        if count == 1:
            return self
        return TokenRows(self.ids.repeat(count, 0), self.mask.repeat(count, 0))

    def join(self, other: TokenRows) -> TokenRows:
        """The other rows appended to these, along the second dimension."""
        return TokenRows(np.concatenate([self.ids, other.ids], 1), np.concatenate([self.mask, other.mask], 1))

    def spread(self, values: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
        """One value per real id, laid out as the ids are, with zeros on padding: (B, L)."""
        out = np.zeros(self.ids.shape, dtype)
        for row, mask, given in zip(out, self.mask, values, strict=True):
            row[mask] = given
        return out


def token_row(ids: ArrayLike, what: str = "ids") -> NDArray[np.int64]:
    """One row of token ids as int64 (L,); TypeError or ValueError naming ``what`` for anything else."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise ValueError(f"{what} must be a row of token ids of shape (L,), got shape {array.shape}")
    if array.size and array.dtype.kind not in "iu":
        raise TypeError(f"{what} must hold integers, got dtype {array.dtype}")
    return array.astype(np.int64)


def infer_mask(ids: NDArray[np.int64], pad_id: int | None, *, pad_is_eos: bool) -> NDArray[np.bool_]:
    """The mask of the ids of a padded array that are not padding, if none was given, bool (B, L).

    With a pad id of its own, all but the pad ids. Where padding and end share an id, a run of it at
    the start of a row is padding, and of a run at the end the first is the end token and the rest is
    padding: ends inside a conversation stay real. Pass a mask where that is not what you mean.

    Example:
        >>> infer_mask(np.array([[9, 1, 9, 2, 9, 9]]), 9, pad_is_eos=True).tolist()
        [[False, True, True, True, True, False]]
    """
    if pad_id is None:
        return np.ones(ids.shape, np.bool_)
    other: NDArray[np.bool_] = ids != pad_id
    if not pad_is_eos:
        return other
    started = np.logical_or.accumulate(other, axis=1)
    not_over = np.logical_or.accumulate(other[:, ::-1], axis=1)[:, ::-1]
    first_end = started & ~not_over
    first_end[:, 1:] &= not_over[:, :-1]
    return started & (not_over | first_end)
