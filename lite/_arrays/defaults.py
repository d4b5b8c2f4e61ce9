"""Process-wide defaults: the float dtype of Python numbers, and what `get` does on a missing key."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

_default_dtype: np.dtype[Any] = np.dtype(np.float32)
_get_defaults_to_none: bool = True


def get_default_dtype() -> np.dtype[Any]:
    """Return the dtype that Python floats and lists of floats become (float32 unless changed).

    Example:
        >>> import lite
        >>> lite.get_default_dtype()
        dtype('float32')
    """
    return _default_dtype


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
    global _default_dtype
    resolved = np.dtype(dtype)
    if resolved.kind != "f":
        raise TypeError(f"dtype must be a floating dtype, got {resolved}.")
    _default_dtype = resolved


def get_defaults_to_none() -> bool:
    """Return whether `TensorDict.get` of a missing key gives None (the default) or raises KeyError."""
    return _get_defaults_to_none


def set_get_defaults_to_none(set_to_none: bool = True) -> None:
    """Choose whether `TensorDict.get(key)` of a missing key returns None or raises KeyError.

    Example:
        >>> import lite
        >>> lite.TensorDict().get("missing") is None
        True
    """
    global _get_defaults_to_none
    _get_defaults_to_none = bool(set_to_none)


@contextmanager
def default_dtype(dtype: DTypeLike) -> Iterator[None]:
    """Use another default float dtype inside a `with` block.

    Example:
        >>> import lite
        >>> with lite.default_dtype("float64"):
        ...     lite.TensorDict(a=[0.5])["a"].dtype
        dtype('float64')
    """
    previous = _default_dtype
    set_default_dtype(dtype)
    try:
        yield
    finally:
        set_default_dtype(previous)
