"""What scoring takes beside the entry: temperatures, and records of the tokens that rows were drawn from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey
from lite.models.text.nesting import flatten, rows_of
from lite.models.text.rows import TokenRows

SCORE_OPTIONS = frozenset({"temperature", "supports_key"})

Support = tuple[NDArray[np.int64], NDArray[np.int64]]


def read_sampled(
    td: Any, options: Mapping[str, Any], rows: TokenRows
) -> tuple[list[float] | None, list[Support] | None]:
    """A temperature and a support of each row, as `lite.models.score` takes them, or None for the raw model.

    Args:
        td: of any batch shape; records are its entries ``(supports_key, "kept_offsets")`` and
            ``(supports_key, "kept_ids")`` (a `Sampling` has them): rows of any lengths, or arrays. Offsets of
            an array (*batch, n + 1) are of the last n columns of the rows, padding included; what lies behind
            the last offset in a row of ids is filler.
        options: "temperature", a number or one of each element of the batch, and "supports_key".
        rows: the rows to score.

    Raises:
        ValueError: there is no record at the key, or it does not fit the rows.
        TypeError: the temperature is no number.
    """
    shape = tuple(td.batch_size)
    temperature, key = options.get("temperature"), options.get("supports_key")
    return (
        None if temperature is None else _temperatures(temperature, shape, len(rows.ids)),
        None if key is None else _supports(td, key, rows, len(shape)),
    )


def _temperatures(temperature: Any, shape: tuple[int, ...], count: int) -> list[float]:
    given = np.asarray(temperature)
    if given.dtype.kind not in "fiu":
        raise TypeError(f"temperature must be a number, or numbers of shape {shape}, got {temperature!r}")
    if given.shape not in ((), shape):
        raise ValueError(f"temperature must be one number or have the batch size {shape}, got {given.shape}")
    return [float(value) for value in np.broadcast_to(given, shape).reshape(count)]


def _supports(td: Any, key: NestedKey, rows: TokenRows, ndim: int) -> list[Support]:
    above = (key,) if isinstance(key, str) else tuple(key)
    parts = [td.get((*above, name), None, as_list=True) for name in ("kept_offsets", "kept_ids")]
    if any(part is None for part in parts):
        raise ValueError(
            f"Expected the entries {(*above, 'kept_offsets')!r} and {(*above, 'kept_ids')!r} of recorded"
            f" supports, but found keys: {sorted(map(str, td.keys(True)))}"
        )
    padded = not (isinstance(parts[0], list) and ndim)
    offsets, ids = (rows_of(part, ndim) for part in parts)
    if len(offsets) != len(rows.ids) or len(ids) != len(rows.ids):
        raise ValueError(f"{key!r} must hold one record per row, got {len(offsets)} for {len(rows.ids)} rows")
    out = []
    for i, (steps, kept) in enumerate(zip(offsets, ids, strict=True)):
        if padded and steps.ndim == 1 and len(steps):
            steps, kept = _real(steps, kept, rows.mask[i], f"{key!r}, row {i}")
        out.append((steps, kept))
    return out


def _real(steps: NDArray[Any], kept: NDArray[Any], mask: NDArray[np.bool_], what: str) -> Support:
    """The record of a padded row's real tokens alone."""
    if len(steps) - 1 > len(mask):
        raise ValueError(f"{what} is of {len(steps) - 1} columns, but the row has {len(mask)}")
    real = mask[len(mask) - (len(steps) - 1) :]
    counts = np.diff(steps)
    if counts[~real].any():
        raise ValueError(f"{what} holds kept ids of padding")
    return np.concatenate([steps[:1], steps[1:][real]]), kept[: steps[-1]]


def per_row(choices: Any, ndim: int, count: int) -> list[list[Any]]:
    """The choices of each of `count` rows, texts or ids: one list for all, or lists nested to the batch.

    Raises:
        ValueError: there are none, or not one list for each row.

    Example:
        >>> per_row(["yes", "no"], 1, 2)
        [['yes', 'no'], ['yes', 'no']]
        >>> per_row([["yes", "no"], [[5], [6, 7]]], 1, 2)
        [['yes', 'no'], [[5], [6, 7]]]
    """
    if isinstance(choices, str) or not len(choices):
        raise ValueError(f"choices must be a list of at least one choice, got {choices!r}")
    if _is_choice(choices[0]):
        return [list(choices)] * count
    lists = flatten(choices, ndim)
    if len(lists) != count or not all(isinstance(own, list | tuple | np.ndarray) for own in lists):
        raise ValueError(
            f"choices must be one list of texts or of ids, or {count} such lists in the shape of the batch; "
            f"got {choices!r}"
        )
    return [list(own) for own in lists]


def _is_choice(value: Any) -> bool:
    """Whether it is a text, or the ids of one."""
    if isinstance(value, str):
        return True
    return (
        isinstance(value, list | tuple | np.ndarray)
        and len(value) > 0
        and np.ndim(value[0]) == 0
        and (not isinstance(value[0], str))
    )
