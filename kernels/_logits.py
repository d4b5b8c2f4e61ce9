"""Checks of logits, and of the tokens that their rows were drawn from."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import (
    Array,
    as_array,
    contiguous,
    is_bfloat16,
    moveaxis,
    native,
    on_host,
    require_float,
    rows_of,
)

SMALLEST = 2.0**-126  # of normal float32 numbers
_HOTTEST = 2.0**100  # all tokens are equally probable there; the inverse of 2**127 is subnormal in float32

Support = tuple[ArrayLike, ArrayLike]
"""Tokens that rows were drawn from: `ids[offsets[r]:offsets[r + 1]]` for row r, all tokens if empty."""


class Logits:
    """Checked logits with their mask and temperature, vocabulary last, as compiled rows read them.

    Attributes:
        array: in native byte order.
        shape: shape of the rows.
        counted: booleans of that shape, False for masked positions; None: all count.
        keep: booleans of the shape of `array`, False for masked tokens; None: all may be drawn.
        dtype: dtype of results: float64 for float64 logits, else float32.
        inverse: 1 / temperature: one number, or float64 on the host, one for each row.

    Args:
        gpu: where all arrays are, None for the host.
    """

    def __init__(
        self, logits: ArrayLike, mask: ArrayLike | None, temperature: ArrayLike, axis: int = -1,
        gpu: Any = None,
    ) -> None:  # fmt: skip
        given: Array = native(as_array("logits", logits))
        self.gpu = gpu
        require_float("logits", given.dtype)
        if not given.ndim:
            raise ValueError("logits must have an axis for the vocabulary, got the shape ()")
        if not -given.ndim <= axis < given.ndim:
            raise ValueError(f"axis {axis} is out of range for logits of shape {given.shape}")
        self.axis = axis
        self.array: Array = given if axis in (-1, given.ndim - 1) else moveaxis(given, axis, -1)
        self.shape, self.size = self.array.shape[:-1], self.array.shape[-1]
        self.dtype = np.dtype(np.float64 if given.dtype == np.float64 else np.float32)
        self.inverse = inverse_temperature(temperature, self.shape, gpu)
        self.counted: Array | None = None
        self.keep: Array | None = None
        if mask is not None:
            self._mask(as_array("mask", mask), given.shape)

    def _mask(self, flags: Array, shape: tuple[int, ...]) -> None:
        if flags.dtype != np.bool_:
            raise TypeError(f"mask must be boolean, got {flags.dtype}")
        if flags.shape == self.shape:
            self.counted = flags
        elif flags.shape == shape:
            self.keep = moveaxis(flags, self.axis, -1)
        else:
            raise ValueError(
                f"mask must have the shape of the positions {self.shape} or of logits {shape}, "
                f"got {flags.shape}"
            )

    def check_out(self, out: Array, writable: bool = True) -> None:
        """Raise unless the log-softmax fits into `out`."""
        shape = moveaxis(self.array, -1, self.axis).shape
        if out.dtype != self.dtype:
            raise TypeError(f"out must be an array of {self.dtype}, got {out.dtype}")
        if out.shape != shape or not writable:
            kind = "a writable" if writable else "a read-only"
            raise ValueError(
                f"out must be a writable array of the shape of logits {shape}, got {kind} {out.shape}"
            )

    def operands(self, flags: NDArray[Any] | None = None) -> tuple[Any, ...]:
        """The first arguments of the functions in `cpu.log_softmax`; `flags` in place of `counted`."""
        narrow = self.array.dtype.itemsize == 2
        flat, starts = rows_of(self.array.view(np.uint16) if narrow else self.array)
        keep, keep_starts = np.empty(0, np.bool_), np.empty(0, np.int64)
        if self.keep is not None:
            keep, keep_starts = rows_of(self.keep)
        flags = self.counted if flags is None else flags
        counted = contiguous(np.ones(self.shape) if flags is None else flags, np.bool_).reshape(-1)
        bfloat16 = is_bfloat16(self.array.dtype)
        inverses = np.broadcast_to(np.float64(self.inverse), self.shape).reshape(-1)
        return flat, bfloat16, starts, self.size, keep, keep_starts, counted, contiguous(inverses, np.float64)


def inverse_temperature(temperature: Any, shape: tuple[int, ...], gpu: Any = None) -> Any:
    """1 / temperature: one number, or float64 on the host, one for each row of `shape`."""
    one = isinstance(temperature, (int, float, np.number))
    if not one and isinstance(temperature, (str, bytes)):
        raise TypeError(f"temperature must be a number, got {type(temperature).__name__}")
    given = temperature if one else on_host("temperature", temperature, gpu)
    if not one and given.dtype.kind not in "fiu":
        raise TypeError(f"temperature must be a number, or numbers, got {given.dtype}")
    if not one and given.shape not in ((), shape):
        raise ValueError(
            f"temperature must be one number or one of each row, of shape {shape}, got {given.shape}"
        )
    fits = (given >= SMALLEST) & (given <= _HOTTEST)
    if not (fits if one else fits.all()):
        bad = given if one or not given.ndim else given[~fits][0]
        raise ValueError(f"temperature must be positive and finite (from 2**-126 to 2**100), got {bad}")
    return 1.0 / float(given) if one or not given.ndim else 1.0 / given.astype(np.float64)


def token_array(tokens: ArrayLike, shape: tuple[int, ...]) -> Array:
    """`tokens` as integers, one for each row of logits of `shape`."""
    ids = as_array("tokens", tokens)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"tokens must be integers, got {ids.dtype}")
    if ids.shape != shape[:-1]:
        raise ValueError(
            f"tokens must have the shape of logits without the last axis: got tokens {ids.shape}, "
            f"logits {shape}"
        )
    return ids


def checked_support(
    support: Any, rows: int, size: int, name: str = "support"
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Offsets and ids of `rows` rows, checked: no row has an id twice, and all ids are below `size`.

    Args:
        support: the pair (offsets, ids).
        rows: how many rows there must be.
        size: size of the vocabulary.
        name: name of the argument, for messages.

    Raises:
        TypeError: it is not a pair of integer arrays.
        ValueError: offsets do not ascend from 0 to the number of ids, or a row has an id twice.
        IndexError: an id is outside of the vocabulary.
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
