"""Batches of sequences of unequal lengths: padded to rectangles, packed in a line, and back.

Each function is one copy by flat indices; nothing loops over tokens or rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import to_numpy
from lite.kernels._integer import integer


class Padded(NamedTuple):
    """Sequences as the rows of one array."""

    values: NDArray[Any]
    """(batch, time, *features)."""
    mask: NDArray[np.bool_]
    """(batch, time), True where `values` holds an entry of a sequence."""


class Packed(NamedTuple):
    """Sequences one after the other."""

    values: NDArray[Any]
    """(total, *features)."""
    cu_seqlens: NDArray[np.int32]
    """(batch + 1,): where each sequence starts, and the total; see `cu_seqlens`."""


def cu_seqlens(lengths: ArrayLike) -> NDArray[np.int32]:
    """Where sequences of these lengths start when they lie one after the other, and their total length.

    The form that attention kernels for variable lengths take.

    Args:
        lengths: integers `(batch,)`; or booleans `(batch, time)`, of which each row's True are counted.

    Returns:
        int32 `(batch + 1,)`, from 0 up to the total; sequence i is `[out[i], out[i + 1])`.

    Raises:
        TypeError: neither integers nor booleans, CUDA memory.
        ValueError: another shape, a negative length, a total beyond int32.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import cu_seqlens
        >>> cu_seqlens([2, 0, 3])
        array([0, 2, 2, 5], dtype=int32)
        >>> cu_seqlens(np.array([[True, False], [True, True]]))
        array([0, 1, 3], dtype=int32)
    """
    given = to_numpy("lengths", lengths)
    if given.dtype == np.bool_:
        if given.ndim != 2:
            raise ValueError(f"lengths of booleans must have the shape (batch, time), got {given.shape}")
        given = np.count_nonzero(given, axis=1)
    if given.ndim != 1:
        raise ValueError(f"lengths must have the shape (batch,), got {given.shape}")
    if given.dtype.kind not in "iu" and given.size:
        raise TypeError(f"lengths must be integers or booleans, got {given.dtype}")
    if given.size and given.min() < 0:
        raise ValueError(f"lengths must be at least 0, got {given.min()}")
    out = np.zeros(given.size + 1, np.int64)
    np.cumsum(given, out=out[1:])
    if out[-1] > np.iinfo(np.int32).max:
        raise ValueError(f"lengths must sum to less than 2**31, got {out[-1]}")
    return out.astype(np.int32)


def pad_sequences(
    sequences: Sequence[ArrayLike] | ArrayLike, starts: ArrayLike | None = None, *, padding_value: Any = 0,
    side: str = "right", length: int | None = None,
) -> Padded:  # fmt: skip
    """Sequences of unequal lengths as the rows of one array.

    Args:
        sequences: arrays `(length, *features)` that differ in their lengths only; or with `starts` one
            array `(total, *features)` that holds them one after the other.
        starts: `Packed.cu_seqlens` of `sequences`, integers `(batch + 1,)`.
        padding_value: what the rest of each row is filled with.
        side: where the padding goes: "right", or "left" as generation wants it.
        length: length of the rows; None: of the longest sequence.

    Returns:
        `Padded(values, mask)`: `(batch, length, *features)` in the type of the sequences (their common one
        if they differ), and booleans `(batch, length)`.

    Raises:
        TypeError: CUDA memory, `starts` that are not integers.
        ValueError: other shapes, no sequence at all, one that is longer than `length`, another `side`.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import pad_sequences
        >>> pad_sequences([np.array([1, 2, 3]), np.array([4])], side="left").values.tolist()
        [[1, 2, 3], [0, 0, 4]]
    """
    if starts is None:
        parts = [to_numpy("sequences", part) for part in sequences]  # type: ignore[union-attr]
        if not parts:
            raise ValueError("sequences must hold at least one array, got none")
        shapes = [part.shape for part in parts]
        if not parts[0].ndim or any(shape[1:] != shapes[0][1:] or not shape for shape in shapes):
            raise ValueError(
                f"sequences must have shapes (length, *features) of the same features, got {shapes}"
            )
        flat, lengths = np.concatenate(parts), np.array([shape[0] for shape in shapes])
    else:
        flat = to_numpy("sequences", sequences)  # type: ignore[arg-type]
        lengths = _lengths(starts, flat.shape)
    asked = integer("length", length) if length is not None else int(lengths.max(initial=0))
    if lengths.max(initial=0) > asked:
        raise ValueError(
            f"length must be at least that of the longest sequence, {lengths.max()}, got {length}"
        )
    mask = _filled(lengths, asked, side)
    return Padded(_scatter(flat, mask, padding_value), mask)


def unpad(values: ArrayLike, mask: ArrayLike) -> Packed:
    """The entries that a mask admits, row by row in a line: the inverse of `pad_sequences`.

    Args:
        values: `(batch, time, *features)`.
        mask: booleans `(batch, time)`; what is False may lie anywhere in a row.

    Returns:
        `Packed(values, cu_seqlens)`: `(total, *features)` and int32 `(batch + 1,)`. The sequences apart are
        `np.split(values, cu_seqlens[1:-1])`.

    Raises:
        TypeError: a mask that is not boolean, CUDA memory.
        ValueError: shapes that do not fit.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import unpad
        >>> padded, mask = np.array([[1, 2], [0, 4]]), np.array([[True, True], [False, True]])
        >>> tokens, starts = unpad(padded, mask)
        >>> tokens.tolist(), starts.tolist()
        ([1, 2, 4], [0, 2, 3])
    """
    array, flags = _masked(values, mask)
    return Packed(array[flags], cu_seqlens(flags))


def left_to_right_pad(
    values: ArrayLike, mask: ArrayLike, *, padding_value: Any = 0, side: str = "right"
) -> Padded:
    """Move what a mask admits to the start of each row, in order, whatever lay before or between.

    Args:
        values: `(batch, time, *features)`, such as prompts padded on the left.
        mask: booleans `(batch, time)`.
        padding_value: what the rest of each row is filled with.
        side: "right" for padding on the right; "left" moves the entries to the end of each row instead.

    Returns:
        `Padded(values, mask)` of the shapes and types that were given.

    Raises:
        TypeError: a mask that is not boolean, CUDA memory.
        ValueError: shapes that do not fit, another `side`.

    Example:
        >>> import numpy as np
        >>> from lite.kernels import left_to_right_pad
        >>> prompt, mask = np.array([[0, 0, 5, 6]]), np.array([[False, False, True, True]])
        >>> left_to_right_pad(prompt, mask, padding_value=-1).values.tolist()
        [[5, 6, -1, -1]]
    """
    array, flags = _masked(values, mask)
    moved = _filled(np.count_nonzero(flags, axis=1), flags.shape[1], side)
    return Padded(_scatter(array[flags], moved, padding_value), moved)


def _lengths(starts: ArrayLike, shape: tuple[int, ...]) -> NDArray[Any]:
    bounds = to_numpy("starts", starts)
    if bounds.dtype.kind not in "iu":
        raise TypeError(f"starts must be integers, got {bounds.dtype}")
    if bounds.ndim != 1 or not bounds.size or not shape:
        raise ValueError(
            f"starts must have the shape (batch + 1,) and sequences (total, *features), got {bounds.shape} "
            f"and {shape}"
        )
    lengths = np.diff(bounds.astype(np.int64))
    if bounds[0] != 0 or bounds[-1] != shape[0] or (lengths < 0).any():
        raise ValueError(f"starts must rise from 0 to the total {shape[0]}, got {bounds.tolist()}")
    return lengths


def _masked(values: ArrayLike, mask: ArrayLike) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    array, flags = to_numpy("values", values), to_numpy("mask", mask)
    if flags.dtype != np.bool_:
        raise TypeError(f"mask must be boolean, got {flags.dtype}")
    if flags.ndim != 2 or array.shape[:2] != flags.shape:
        raise ValueError(
            f"mask must have the shape (batch, time) that values begin with, got mask {flags.shape}, "
            f"values {array.shape}"
        )
    return array, flags


def _filled(lengths: NDArray[Any], time: int, side: str) -> NDArray[np.bool_]:
    """(batch, time), True for the first (or last) entries of each row, as many as its length."""
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', got {side!r}")
    steps = np.arange(time)
    if side == "left":
        steps = steps[::-1]
    return steps < lengths[:, None]


def _scatter(flat: NDArray[Any], mask: NDArray[np.bool_], padding_value: Any) -> NDArray[Any]:
    """An array whose entries at `mask`, in order, are `flat`."""
    out = np.full(mask.shape + flat.shape[1:], padding_value, flat.dtype)
    out[mask] = flat
    return out
