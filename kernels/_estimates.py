"""Checks shared by returns and advantages, and calls of the compiled recursions."""

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lite.kernels._arrays import Array, as_array, is_float
from lite.kernels._sequences import Sequences

if TYPE_CHECKING:
    from lite.kernels.cuda._gpu import Gpu

_SHORT = 4096  # values: the fixed cost of a call is negligible beyond
_FLAGS = np.dtype(np.bool_)


def short_time(time_dim: int, flags: tuple[Any, ...], *numbers: Any) -> int:
    """The number of steps if the arrays are small and compiled code can read them without conversion, else 0.

    They are NumPy's, C-ordered and writable; numbers are all float32 or all float64 and have the shape of the
    flags (and one feature); time is the last axis, or the one before an axis of length 1. For 0 the caller
    makes all checks and takes the general path.
    """
    done, first = flags[0], numbers[0]
    if type(first) is not np.ndarray or type(done) is not np.ndarray or not 0 < first.size <= _SHORT:
        return 0
    shape, kind = first.shape, first.dtype
    if kind.char not in "fd" or not kind.isnative or shape not in (done.shape, (*done.shape, 1)):
        return 0
    axes: tuple[int, ...] = done.shape
    for a in numbers:
        if not (type(a) is np.ndarray and a.dtype == kind and a.shape == shape and a.flags.carray):
            return 0
    for a in flags:
        if not (type(a) is np.ndarray and a.dtype == _FLAGS and a.shape == axes and a.flags.carray):
            return 0
    if axes and time_dim in (-1, len(axes) - 1):
        return axes[-1]
    return axes[-2] if len(axes) > 1 and axes[-1] == 1 and time_dim in (-2, len(axes) - 2) else 0


@functools.cache  # an import within a function takes as long as the recursion over a hundred steps
def compiled() -> Any:
    """The compiled recursions."""
    from lite.kernels.cpu import returns

    return returns


def is_factor(value: Any) -> bool:
    """Whether `value` is one of Python's numbers, and in [0, 1]."""
    return type(value) in (float, int) and 0 <= value <= 1


def number_array(name: str, value: ArrayLike) -> Array:
    """`value` as an array of real numbers."""
    array = as_array(name, value)
    if not is_float(array.dtype) and array.dtype.kind not in "biu":
        raise TypeError(f"{name} must be of real numbers of at most 64 bits, got {array.dtype}")
    return array


def flag_array(name: str, value: ArrayLike) -> Array:
    """`value` as booleans; on a GPU any integers, which its kernels read so."""
    array = as_array(name, value)
    if array.dtype.kind not in "biu":
        raise TypeError(f"{name} must be boolean or integer, got {array.dtype}")
    return array if array.dtype == np.bool_ or not isinstance(array, np.ndarray) else array != 0


def same_shape(shape: tuple[int, ...], **arrays: Array) -> None:
    """Raise ValueError for an array that has not the shape of the rewards."""
    for name, array in arrays.items():
        if array.shape != shape:
            raise ValueError(
                f"{name} must have the shape of reward: got {name} {array.shape}, reward {shape}"
            )


def with_features(name: str, flags: Array, shape: tuple[int, ...]) -> Array:
    """`flags` with axes added for the features that only the rewards have."""
    if flags.shape != shape[: flags.ndim]:
        raise ValueError(
            f"reward must have the shape of {name}, and feature axes after it: got reward {shape}, "
            f"{name} {flags.shape}"
        )
    return flags.reshape(flags.shape + (1,) * (len(shape) - flags.ndim))


def sequences_of(flags: Array, like: Array, time_dim: int, gpu: "Gpu | None") -> Any:
    """The walk over arrays of the shape of `like`, time being axis `time_dim` of `flags`."""
    if not -flags.ndim <= time_dim < flags.ndim:
        raise ValueError(f"time_dim {time_dim} is out of range for done of shape {flags.shape}")
    axis = time_dim % flags.ndim
    if gpu is None:
        return Sequences(like.shape, axis)
    from lite.kernels.cuda._sequences import Sequences as DeviceSequences

    return DeviceSequences(gpu, like, axis)


def factor(name: str, array: Array, walk: Any) -> Any:
    """A discount or a mixing factor, one for all steps or one for each, as an operand."""
    if not isinstance(array, np.ndarray):
        from lite.kernels.cuda._checks import check_range

        check_range(walk.gpu, name, array, 0.0, 1.0)
    elif array.size:
        lowest, highest = (array.min(), array.max()) if array.ndim else (array.item(),) * 2
        if not (lowest >= 0 and highest <= 1):  # NaN is out of range, too
            raise ValueError(f"{name} must be in [0, 1], got {lowest} to {highest}")
    try:
        return walk.operand(array, np.float64)
    except ValueError:
        raise ValueError(
            f"{name} must be a number or broadcast to the rewards: got {array.shape}, reward {walk.shape}"
        ) from None


def result_dtype(array: Array) -> np.dtype[Any]:
    """The floating type of a result that goes with `array`; float32 with integers."""
    return array.dtype.newbyteorder("=") if is_float(array.dtype) else np.dtype(np.float32)


def as_result(out: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """`out` in the type `dtype`, in which a GPU has written it, and in the usual order."""
    result: NDArray[Any] = out
    if isinstance(out, np.ndarray) and not (out.dtype == dtype and out.flags.c_contiguous):
        with np.errstate(over="ignore"):  # too large for a narrow type is infinite, as in a wide one
            result = np.ascontiguousarray(out, dtype).reshape(out.shape)
    return result
