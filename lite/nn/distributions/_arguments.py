"""Parameters of distributions: float arrays of one dtype and shape, checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.dtypes import get_default_dtype, is_floating
from lite._arrays.types import raw


def as_float(value: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """An array of floats: floats keep their dtype, all else becomes `dtype`, or the default one."""
    if value is None:
        raise TypeError("expected an array or a number, got None")
    value = raw(value)
    own = getattr(value, "dtype", None)
    if own is not None and (own == dtype or (dtype is None and is_floating(own))):
        return value
    wanted = get_default_dtype() if dtype is None else dtype
    return np.asarray(value, wanted) if own is None else value.astype(wanted)


def float_arrays(*values: Any) -> list[Any]:
    """The values as arrays of one float dtype, broadcast to one shape; Python numbers follow the arrays."""
    first = values[0]
    if type(first) is np.ndarray and first.dtype.kind == "f":
        dtype, shape = first.dtype, first.shape
        for value in values:
            if type(value) is not np.ndarray or value.dtype is not dtype or value.shape != shape:
                break
        else:
            return list(values)
    given = [raw(value) for value in values]
    dtypes = {v.dtype for v in given if hasattr(v, "dtype") and is_floating(v.dtype)}
    dtype = dtypes.pop() if len(dtypes) == 1 else None
    if dtypes:  # more than one
        dtype = np.result_type(*dtypes, dtype) if dtype is not None else np.result_type(*dtypes)
    arrays = [as_float(value, dtype or get_default_dtype()) for value in given]
    shape = arrays[0].shape
    if all(array.shape == shape for array in arrays):
        return arrays
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return [array if array.shape == shape else np.broadcast_to(array, shape) for array in arrays]


def limits(dtype: np.dtype[Any]) -> Any:
    """What `np.finfo` says, of extension floats such as bfloat16 too."""
    if dtype.kind != "V":
        return np.finfo(dtype)
    import ml_dtypes

    return ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]


def require(passed: Any, message: str, values: Any, error: type[Exception] = ValueError) -> None:
    """Raise `error` unless all of `passed` is True; `message` is followed by an offending value.

    Only plain arrays are looked at: inside of vmap there is no single answer.
    """
    if type(passed) is np.ndarray:
        if np.count_nonzero(passed) == passed.size:  # a third of the time of all()
            return
    elif not isinstance(passed, np.bool_) or passed:
        return
    bad = np.broadcast_to(values, passed.shape)[~passed]
    raise error(f"{message}, got {bad.reshape(-1)[0]}")


def sum_rightmost(values: Any, dims: int) -> Any:
    """Sum over the last `dims` dimensions."""
    return values.sum(tuple(range(-dims, 0))) if dims else values
