"""Run one function over leaves and write its results into them: all of them or none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from lite._arrays.device import on_leaves, unwrap, write_leaf
from lite._arrays.formulas import Pointwise
from lite._arrays.numbers import NUMBERS
from lite._arrays.types import Shape
from lite._ops.elementwise import aligned, columns_of, walk
from lite._ops.operands import as_operand
from lite._tree.protocol import MISSING
from lite._tree.walks import leaves


def elementwise_(td: Any, fn: Pointwise, others: Sequence[Any]) -> Any:
    """As `elementwise`, into the arrays of `td`; everything is checked before anything is written.

    Raises:
        RuntimeError: an operand has more batch dimensions or elements than `td`.
        TypeError: a result cannot be cast to the dtype of its array.
        ValueError: an array is read-only.
    """
    columns = columns_of(td, fn, others)
    calls: list[tuple[Any, ...]] = [] if columns is None else list(zip(*columns, strict=False))
    if columns is None:
        operands = [as_operand(other, td) for other in others]
        if None in operands:
            return NotImplemented
        same, resolved = aligned(td, operands)  # type: ignore[arg-type]
        if same is not td:
            raise RuntimeError(
                f"an in-place operation cannot change the batch size {td.batch_size} to {same.batch_size}."
            )

        def note(*args: Any) -> Any:
            calls.append(args)
            return args[0]

        met = walk(td, note, resolved, MISSING, None)
        for leaf, widened in zip(leaves(td), leaves(met), strict=True):
            if leaf.shape != widened.shape:
                raise RuntimeError(f"an operand with more features does not fit a leaf's shape {leaf.shape}.")
        calls = _without_device_leaves(fn, calls)
    _check_targets(fn, calls)
    if isinstance(fn, np.ufunc):
        for args in calls:
            fn(*args, out=args[0])
    else:
        results = [fn(*args) for args in calls]
        for args, result in zip(calls, results, strict=True):
            _check_cast(np.asarray(result).dtype, args[0].dtype)
        for args, result in zip(calls, results, strict=True):
            np.copyto(args[0], result, casting="same_kind")
    return td


def _without_device_leaves(fn: Pointwise, calls: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Write the results for device leaves, which their own operators compute; the other calls."""
    results = [
        (unwrap(args[0]), on_leaves(fn, *args)) for args in calls if not isinstance(args[0], np.ndarray)
    ]
    for leaf, result in results:
        write_leaf(leaf, ..., result)
    return [args for args in calls if isinstance(args[0], np.ndarray)]


def _check_targets(fn: Pointwise, calls: list[tuple[Any, ...]]) -> None:
    """Raise if one of the calls `fn(*args)` cannot be written to its first argument."""
    dtype = number = None
    for args in calls:
        leaf = args[0]
        if not leaf.flags.writeable:
            raise ValueError("an in-place operation needs writeable arrays, and an array is read-only.")
        if leaf.dtype is dtype and len(args) == 2 and args[1] is number:
            continue  # the number, and the dtype, of the leaf before
        kinds = [leaf.dtype]
        for arg in args[1:]:
            if type(arg) in NUMBERS:
                kinds.append(_KINDS[type(arg)])
                continue
            if arg.ndim and arg.shape != leaf.shape:
                _check_fits(arg.shape, leaf.shape)
            kinds.append(arg.dtype)
        if isinstance(fn, np.ufunc):
            _check_cast(_result_dtype(fn, tuple(kinds)), leaf.dtype)
        dtype = leaf.dtype
        number = args[1] if len(args) == 2 and (type(args[1]) in NUMBERS or not args[1].ndim) else None


def _check_fits(shape: Shape, target: Shape) -> None:
    try:
        fits = np.broadcast_shapes(shape, target) == target
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(f"an operand of shape {shape} does not fit a leaf's shape {target}.")


# What decides the dtype of a result where an argument is no array: for most numbers their type.
_KINDS: dict[type, Any] = {bool: np.dtype(np.bool_), int: int, float: float, complex: complex}


@lru_cache(maxsize=1024)
def _result_dtype(fn: np.ufunc, kinds: tuple[Any, ...]) -> np.dtype[Any]:
    dtype: np.dtype[Any] = fn.resolve_dtypes((*kinds, None))[-1]
    return dtype


def _check_cast(result: np.dtype[Any], target: np.dtype[Any]) -> None:
    if result is not target and not np.can_cast(result, target, "same_kind"):
        raise TypeError(f"cannot write a {result} result into a {target} array in place.")
