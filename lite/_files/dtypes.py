"""dtypes by the names that the files use: torch's."""

from __future__ import annotations

from typing import Any

import numpy as np

_PLAIN = {
    "torch.bool": "?",
    "torch.uint8": "u1",
    "torch.uint16": "<u2",
    "torch.uint32": "<u4",
    "torch.uint64": "<u8",
    "torch.int8": "i1",
    "torch.int16": "<i2",
    "torch.int32": "<i4",
    "torch.int64": "<i8",
    "torch.float16": "<f2",
    "torch.float32": "<f4",
    "torch.float64": "<f8",
    "torch.complex64": "<c8",
    "torch.complex128": "<c16",
}
# NumPy has these through ml_dtypes, under the same names.
_EXTENSION = frozenset(
    {"bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"}
)
_DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(code) for name, code in _PLAIN.items()}
_NAMES: dict[np.dtype[Any], str] = {dtype: name for name, dtype in _DTYPES.items()}


def dtype_name(dtype: np.dtype[Any]) -> str:
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


def dtype_of(name: Any) -> np.dtype[Any]:
    """The (little-endian) dtype that a name stands for.

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
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(f"{short} needs the ml_dtypes package: pip install ml-dtypes") from error
    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, short))
    return found
