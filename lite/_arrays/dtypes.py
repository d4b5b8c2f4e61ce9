"""Dtypes of parameters: which count as floating, bfloat16, and the dtype to compute in."""

from __future__ import annotations

from typing import Any

import numpy as np

Dtype = np.dtype[Any]


def is_floating(dtype: Dtype) -> bool:
    """True for NumPy's floats and for extension floats such as bfloat16 (kind 'V', no fields)."""
    return dtype.kind == "f" or (dtype.kind == "V" and dtype.names is None and dtype.type is not np.void)


def is_inexact(dtype: Dtype) -> bool:
    """True for floating and complex dtypes."""
    return dtype.kind == "c" or is_floating(dtype)


def is_numeric(dtype: Dtype) -> bool:
    """True for dtypes of numbers, Booleans among them."""
    return dtype.kind in "biu" or is_inexact(dtype)


def bfloat16() -> Dtype:
    """The bfloat16 dtype, or a RuntimeError that names the package which brings it."""
    try:
        import ml_dtypes
    except ImportError as err:
        raise RuntimeError("bfloat16 needs the ml_dtypes package: pip install ml_dtypes") from err
    dtype: Dtype = np.dtype(ml_dtypes.bfloat16)
    return dtype


def resolve_dtype(dtype: Any) -> Dtype:
    """Turn a dtype, a scalar type or a name (also "bfloat16") into a dtype."""
    if isinstance(dtype, str) and dtype == "bfloat16":
        return bfloat16()
    resolved: Dtype = np.dtype(dtype)
    return resolved


def compute_dtype(*dtypes: Dtype) -> tuple[Dtype, Dtype]:
    """Dtypes of an operation on parameters: (to compute in, of the result).

    Half-precision floats are storage formats here: NumPy multiplies float16 matrices without BLAS,
    about ten times slower than float32, so they compute in float32 and the result is cast back.
    Integers follow the floating operand instead of promoting it to float64.
    """
    inexact = [d for d in dtypes if is_inexact(d)]
    result = inexact[0]
    for dtype in inexact[1:]:
        result = result if result == dtype else _promote(result, dtype)
    narrow = result.itemsize < 4 and result.kind in "fV"
    return (np.dtype(np.float32) if narrow else result), result


def _promote(a: Dtype, b: Dtype) -> Dtype:
    try:
        return np.promote_types(a, b)
    except TypeError:  # NumPy knows no common dtype of float16 and an extension float of that width
        return np.dtype(np.float32)
