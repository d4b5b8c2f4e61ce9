"""Integers that operators read of arrays: shapes, axes, sizes; in a trace they may stand for dynamic ones."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from lite._arrays.types import Array, is_symbolic
from lite.nn._import.limits import TooLarge, most_elements

MAX_ELEMENTS = 1 << 34  # of one result, on any machine: a graph may ask for any


def integers(x: Array) -> tuple[int, ...]:
    """The integers of an array, flat.

    Raises:
        NotImplementedError: the array has no numbers, as a graph that is traced computes them.
    """
    if type(x) is np.ndarray and x.dtype.kind == "i":  # nearly always: an eighth of the time
        return tuple(x.reshape(-1).tolist())
    if is_symbolic(x):
        raise NotImplementedError("cannot be traced: a shape, axis or place that follows from numbers.")
    return tuple(n if isinstance(n, int) else int(n) for n in np.asarray(x).reshape(-1).tolist())


def of_input_or(given: Sequence[int] | None, x: Array | None) -> tuple[int, ...] | None:
    """Integers that older versions of an operator have as an attribute, and newer ones as an input."""
    return tuple(given) if given is not None else None if x is None else integers(x)


def checked(shape: Iterable[int]) -> tuple[int, ...]:
    """A shape.

    Raises:
        ValueError: a size is negative.
        TooLarge: the array would be larger than any that fits.
    """
    sizes = tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"an array of shape {sizes} cannot be made")
    if math.prod(map(int, sizes)) > most_elements(_installed_elements()):
        raise TooLarge(f"an array of shape {sizes} cannot be made")
    return sizes


@functools.cache
def _installed_elements() -> int:
    """Numbers of 4 bytes for which the machine has memory, as far as it tells."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # no POSIX
        return MAX_ELEMENTS
    return min(MAX_ELEMENTS, max(memory // 4, 1 << 20))


def array_of(sizes: Sequence[int]) -> Any:
    """Sizes as an array of int64; of objects, if some are dynamic ones of a trace."""
    if all(type(n) is int for n in sizes):
        return np.array(sizes, np.int64)
    out = np.empty(len(sizes), object)
    out[:] = sizes
    return out


@functools.lru_cache(1024)  # a graph has few, and asks for each at every run
def axes_of(axes: Iterable[int], ndim: int) -> tuple[int, ...]:
    """Axes counted from the front.

    Raises:
        ValueError: there is no such axis, or one is named twice.
    """
    found = tuple(axis + ndim if axis < 0 else axis for axis in axes)
    if any(not 0 <= axis < ndim for axis in found) or len(set(found)) != len(found):
        raise ValueError(f"axes {tuple(axes)} of an array of {ndim} dimensions")
    return found
