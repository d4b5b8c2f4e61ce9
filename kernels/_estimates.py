"""What the returns and advantages check alike, and how they call the compiled recursions."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import is_float, to_numpy
from lite.kernels._sequences import Operand, Sequences


def number_array(name: str, value: ArrayLike) -> NDArray[Any]:
    """`value` as an array of real numbers."""
    array = to_numpy(name, value)
    if not is_float(array.dtype) and array.dtype.kind not in "biu":
        raise TypeError(f"{name} must be of real numbers of at most 64 bits, got {array.dtype}")
    return array


def flag_array(name: str, value: ArrayLike) -> NDArray[np.bool_]:
    """`value` as booleans."""
    array = to_numpy(name, value)
    if array.dtype.kind not in "biu":
        raise TypeError(f"{name} must be boolean or integer, got {array.dtype}")
    return array if array.dtype == np.bool_ else array != 0


def same_shape(reference: str, shape: tuple[int, ...], **arrays: NDArray[Any]) -> None:
    """Raise ValueError for an array that has not the shape of the one named `reference`."""
    for name, array in arrays.items():
        if array.shape != shape:
            raise ValueError(
                f"{name} must have the shape of {reference}: got {name} {array.shape}, {reference} {shape}"
            )


def with_features(name: str, flags: NDArray[np.bool_], shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """`flags` with axes added for the features that only the rewards have."""
    if flags.shape != shape[: flags.ndim]:
        raise ValueError(
            f"reward must have the shape of {name}, and feature axes after it: got reward {shape}, "
            f"{name} {flags.shape}"
        )
    return flags.reshape(flags.shape + (1,) * (len(shape) - flags.ndim))


def sequences_of(flags: NDArray[np.bool_], shape: tuple[int, ...], time_dim: int) -> Sequences:
    """The walk over arrays of `shape`, time being axis `time_dim` of `flags`."""
    if not -flags.ndim <= time_dim < flags.ndim:
        raise ValueError(f"time_dim {time_dim} is out of range for done of shape {flags.shape}")
    return Sequences(shape, time_dim % flags.ndim)


def factor(name: str, value: ArrayLike, walk: Sequences) -> Operand:
    """A discount or a mixing factor, one for all steps or one for each, as an operand."""
    array = number_array(name, value)
    if array.size and not ((array >= 0) & (array <= 1)).all():  # NaN is out of range, too
        raise ValueError(f"{name} must be in [0, 1], got {array.min()} to {array.max()}")
    try:
        return walk.operand(array, np.float64)
    except ValueError:
        raise ValueError(
            f"{name} must be a number or broadcast to the rewards: got {array.shape}, reward {walk.shape}"
        ) from None


def result_dtype(array: NDArray[Any]) -> np.dtype[Any]:
    """The floating type of a result that goes with `array`; float32 with integers."""
    return array.dtype.newbyteorder("=") if is_float(array.dtype) else np.dtype(np.float32)


def as_result(out: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    with np.errstate(over="ignore"):  # too large for a narrow type is infinite, as in a wide one
        return out.astype(dtype, copy=False)
