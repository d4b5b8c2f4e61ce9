"""New parameters of layers, and the distributions that fill them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from lite import get_default_dtype
from lite._arrays.dtypes import as_dtype
from lite.nn._modules.meta import Device, MetaArray, check_device
from lite.nn._modules.parameter import Parameter

# A string: accessing numpy.random imports it, which takes longer than importing the rest of lite.nn.
Rng: TypeAlias = "np.random.Generator | int | None"


def reset(module: Any, rng: Rng) -> None:
    """Call `reset_parameters`, with a generator if the method takes one; methods for torch do not."""
    if rng is None:
        module.reset_parameters()
    else:
        module.reset_parameters(rng)


def empty_parameter(
    shape: tuple[int, ...], device: Device | None = None, dtype: DTypeLike | None = None
) -> Parameter:
    """A parameter without values yet; without data on the device "meta"."""
    return Parameter(empty_array(shape, device, dtype))


def empty_array(shape: tuple[int, ...], device: Device | None = None, dtype: DTypeLike | None = None) -> Any:
    """An array without values yet, of the default float dtype if none is given."""
    resolved = get_default_dtype() if dtype is None else as_dtype(dtype)
    make = MetaArray if check_device(device) == "meta" else np.empty
    try:
        return make(shape, resolved)
    except TypeError as error:  # the shape of observations in place of their size, or 64.0
        raise TypeError(f"the sizes of a layer must be integers, got the shape {shape}.") from error


def fill(array: Any, value: float) -> None:
    """Set all entries, if there is data."""
    if isinstance(array, np.ndarray):
        array[...] = value


def fill_uniform(array: Any, bound: float, rng: np.random.Generator) -> None:
    """Draw all entries, also the imaginary parts, from U(-bound, bound), if there is data."""
    if not isinstance(array, np.ndarray):
        return
    values: Any = rng.uniform(-bound, bound, array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.uniform(-bound, bound, array.shape)
    array[...] = values


def fill_normal(array: Any, rng: np.random.Generator) -> None:
    """Draw all entries from the standard normal distribution, if there is data."""
    if isinstance(array, np.ndarray):
        array[...] = rng.standard_normal(array.shape)
