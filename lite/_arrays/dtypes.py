"""Dtypes: the default dtype, dtypes of ml_dtypes, numeric dtypes, and the names that torch uses.

The file formats name dtypes as torch does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.settings import Setting
from lite._arrays.types import Array

Dtype: TypeAlias = np.dtype[Any]

_default: Setting[Dtype] = Setting("lite.default_dtype", np.dtype(np.float32), per_thread=False)

_PLAIN = {
    "torch.bool": "?", "torch.uint8": "u1", "torch.uint16": "<u2", "torch.uint32": "<u4",
    "torch.uint64": "<u8", "torch.int8": "i1", "torch.int16": "<i2", "torch.int32": "<i4",
    "torch.int64": "<i8", "torch.float16": "<f2", "torch.float32": "<f4", "torch.float64": "<f8",
    "torch.complex64": "<c8", "torch.complex128": "<c16",
}  # fmt: skip
# NumPy has these through ml_dtypes, under the same names.
_EXTENSION = frozenset(
    {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"}
)
_DTYPES: dict[str, Dtype] = {name: np.dtype(code) for name, code in _PLAIN.items()}
_NAMES: dict[Dtype, str] = {dtype: name for name, dtype in _DTYPES.items()}
# Those of nearly all leaves. To look a dtype up in a set takes half the time of comparing its kind.
NUMBERS = frozenset(_NAMES)


def get_default_dtype() -> Dtype:
    """Return the dtype that Python floats and lists of floats become (float32 unless changed).

    Example:
        >>> import lite
        >>> lite.get_default_dtype()
        dtype('float32')
    """
    return _default.default


def set_default_dtype(dtype: DTypeLike) -> None:
    """Set the dtype that Python floats, and lists and tuples of them, become in a TensorDict.

    NumPy arrays and NumPy scalars always keep their own dtype.

    Args:
        dtype: a floating dtype (float16, float32 or float64).

    Raises:
        TypeError: if `dtype` is not a floating dtype.

    Example:
        >>> import numpy as np, lite
        >>> lite.set_default_dtype(np.float64)
        >>> lite.TensorDict(a=1.5)["a"].dtype
        dtype('float64')
        >>> lite.set_default_dtype(np.float32)
    """
    resolved = np.dtype(dtype)
    if resolved.kind != "f":
        raise TypeError(f"dtype must be a floating dtype, got {resolved}.")
    _default.set(resolved)


@contextmanager
def default_dtype(dtype: DTypeLike) -> Iterator[None]:
    """Use another default float dtype inside a `with` block.

    Example:
        >>> import lite
        >>> with lite.default_dtype("float64"):
        ...     lite.TensorDict(a=[0.5])["a"].dtype
        dtype('float64')
    """
    before = get_default_dtype()
    set_default_dtype(dtype)
    try:
        yield
    finally:
        set_default_dtype(before)


def extension_dtype(name: str) -> Dtype:
    """A dtype of ml_dtypes, such as bfloat16, by name.

    Raises:
        ImportError: without the package; the error says how to install it.
        TypeError: neither NumPy nor ml_dtypes has the dtype.
    """
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(f"{name} needs the ml_dtypes package: pip install ml-dtypes") from error
    found = getattr(ml_dtypes, name, None) if name in _EXTENSION else None
    if found is None:
        raise TypeError(f"no NumPy dtype for {name}; cast to another dtype first.")
    return np.dtype(found)


def as_dtype(dtype: Any) -> Dtype:
    """A dtype from a dtype, a scalar type or a name, also of names that NumPy lacks, such as "bfloat16"."""
    return extension_dtype(dtype) if isinstance(dtype, str) and dtype == "bfloat16" else np.dtype(dtype)


def is_floating(dtype: Dtype) -> bool:
    """True for NumPy's floats and for extension floats such as bfloat16, whose kind is "V"."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def is_inexact(dtype: Dtype) -> bool:
    """True for floating and complex dtypes."""
    return dtype.kind == "c" or is_floating(dtype)


def is_numeric(dtype: Dtype) -> bool:
    """True for dtypes a leaf can have: NumPy's numbers, bool, and extension dtypes such as bfloat16."""
    return dtype.kind in "biufc" or (dtype.kind == "V" and dtype.names is None and dtype.type is not np.void)


@lru_cache(256)  # a quarter of the time for four equal dtypes
def compute_dtype(*dtypes: Dtype) -> tuple[Dtype, Dtype]:
    """Dtypes of an operation on parameters: (to compute in, of the result).

    Half-precision floats are storage formats here: NumPy multiplies float16 matrices without BLAS,
    about ten times slower than float32, so they compute in float32 and the result is cast back.
    Integers follow the floating operand instead of promoting it to float64.

    Raises:
        TypeError: a dtype is not of numbers, such as object, whose None would be cast to NaN.
    """
    for dtype in dtypes:
        if not is_numeric(dtype):
            raise TypeError(f"the arrays must be of numbers, got the dtype {dtype}.")
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


def float_dtypes(x: Array) -> tuple[Dtype, Dtype]:
    """Dtypes of a function of `x`: (to compute in, of the result); integers become default floats."""
    dtype = x.dtype
    if dtype.char in "fd":  # the most frequent case
        return dtype, dtype
    return compute_dtype(dtype, *(() if is_inexact(dtype) else (get_default_dtype(),)))


def floats(x: Any) -> tuple[Any, Dtype]:
    """`x` cast to the dtype to compute in, and the dtype of the result."""
    compute, result = float_dtypes(x)
    return (x if x.dtype == compute else x.astype(compute)), result


def inexact(x: Array) -> Array:
    """Integers and bools cast to float64, as by NumPy's true division; floats unchanged."""
    return x.astype(np.float64) if x.dtype.kind in "biu" else x


def dtype_name(dtype: Dtype) -> str:
    """The name of a dtype, whatever its byte order.

    Raises:
        ValueError: a dtype that the format does not have (such as longdouble).
    """
    name = _NAMES.get(dtype) or _NAMES.get(dtype.newbyteorder("<"))
    if name is None and dtype.name in _EXTENSION:
        name = f"torch.{dtype.name}"
    if name is None:
        raise ValueError(f"arrays of dtype {dtype} cannot be saved; the format has {sorted(_PLAIN)}.")
    return name


def dtype_of(name: object) -> Dtype:
    """The (little-endian) dtype of a name.

    Raises:
        ValueError: unknown name.
        ImportError: bfloat16 or float8 without ml_dtypes.
    """
    dtype = _DTYPES.get(name) if isinstance(name, str) else None
    if dtype is not None:
        return dtype
    short = name.removeprefix("torch.") if isinstance(name, str) else ""
    if short not in _EXTENSION:
        raise ValueError(f"unknown dtype {name!r}.")
    return extension_dtype(short)
