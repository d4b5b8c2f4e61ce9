"""New parameters of layers, those without a shape yet, and the distributions that fill them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from lite import get_default_dtype
from lite._arrays.dtypes import as_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import HostArray, raw
from lite.nn._modules.meta import Device, MetaArray, check_device
from lite.nn._modules.parameter import Parameter, check_requires_grad

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
    except (TypeError, ValueError) as error:  # the shape of observations in place of their size, or 64.0
        raise type(error)(f"sizes of a layer must be integers, at least 0; got the shape {shape}.") from error


_DATA: Any = (np.ndarray, HostArray)


def fill(array: Any, value: float) -> None:
    """Set all entries, if there is data."""
    if isinstance(array, _DATA):
        array[...] = value


def fill_uniform(array: Any, bound: float, rng: np.random.Generator) -> None:
    """Draw all entries, also the imaginary parts, from U(-bound, bound), if there is data."""
    if not isinstance(array, _DATA):
        return
    values: Any = rng.uniform(-bound, bound, array.shape)
    if array.dtype.kind == "c":
        values = values + 1j * rng.uniform(-bound, bound, array.shape)
    array[...] = values


def fill_normal(array: Any, rng: np.random.Generator) -> None:
    """Draw all entries from the standard normal distribution, if there is data."""
    if isinstance(array, _DATA):
        array[...] = rng.standard_normal(array.shape)


_WHEN = "call the module once, or load a state dict, before"


class UninitializedBuffer:
    """A buffer of a module that has a dtype but no shape yet.

    Args:
        requires_grad: accepted for compatibility.
        device: the device of the later array, "cpu" or "meta".
        dtype: its dtype; the default float dtype if not given.

    Raises:
        RuntimeError: from `shape`.
        ValueError: from any computation.

    Source:
        torch.nn.UninitializedBuffer.

    Example:
        >>> from lite import nn
        >>> nn.UninitializedBuffer(dtype="float64").materialize((2, 3)).shape
        (2, 3)
    """

    __slots__ = ("device", "dtype")

    def __init__(
        self, requires_grad: bool = False, device: Device | None = None, dtype: DTypeLike | None = None
    ) -> None:
        self.device = check_device(device)
        self.dtype: np.dtype[Any] = get_default_dtype() if dtype is None else as_dtype(dtype)

    def materialize(
        self, shape: Sequence[int], device: Device | None = None, dtype: DTypeLike | None = None
    ) -> Any:
        """A new uninitialised array, to be assigned instead of this buffer; in torch the buffer changes in
        place.
        """
        return empty_array(
            tuple(shape), self.device if device is None else device, self.dtype if dtype is None else dtype
        )

    def astype(self, dtype: DTypeLike | None, copy: bool = True) -> UninitializedBuffer:
        """A copy with another dtype."""
        return UninitializedBuffer(device=self.device, dtype=dtype)

    def on_device(self, device: str) -> UninitializedBuffer:
        """A copy for an array on another device."""
        return UninitializedBuffer(device=device, dtype=self.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """Raises RuntimeError."""
        raise RuntimeError(f"an uninitialized parameter or buffer has no shape: {_WHEN} asking for it.")

    def _no_data(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise ValueError(f"an uninitialized parameter or buffer has no values: {_WHEN} computing with it.")

    ndim = size = nbytes = property(_no_data)
    __array__ = __array_ufunc__ = __array_function__ = _no_data
    __len__ = __getitem__ = __setitem__ = __iter__ = __bool__ = __float__ = __int__ = _no_data
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_data
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __pow__ = __neg__ = _no_data
    copy = swapaxes = reshape = transpose = sum = mean = max = min = item = tolist = _no_data

    def __repr__(self) -> str:
        return "<UninitializedBuffer>"


class UninitializedParameter(Parameter):
    """A Parameter that has a dtype but no shape yet; `materialize` makes a plain Parameter of it, in place.

    Args:
        requires_grad: whether gradients are computed.
        device: "cpu" or "meta": where its array will be.
        dtype: its dtype; the default float dtype if not given.

    Raises:
        RuntimeError: from `shape`; `requires_grad` with a dtype that is neither floating nor complex.
        ValueError: from any computation.

    Source:
        torch.nn.UninitializedParameter.

    Example:
        >>> from lite import nn
        >>> weight = nn.UninitializedParameter()
        >>> weight.materialize((2, 3))
        >>> type(weight).__name__, weight.shape
        ('Parameter', (2, 3))
    """

    __slots__ = ()

    def __init__(
        self, requires_grad: bool = True, device: Device | None = None, dtype: DTypeLike | None = None
    ) -> None:
        place = UninitializedBuffer(device=device, dtype=dtype)
        check_requires_grad(place.dtype, requires_grad)
        self.data = place
        self.requires_grad = bool(requires_grad)
        self.grad = None

    def materialize(
        self, shape: Sequence[int], device: Device | None = None, dtype: DTypeLike | None = None
    ) -> None:
        """Become a plain Parameter with an array of this shape, which has no values yet."""
        self.data = self.data.materialize(shape, device, dtype)
        self.__class__ = Parameter  # type: ignore[assignment]

    @property
    def device(self) -> str:
        """The device of the later array."""
        return self.data.device

    def __copy__(self) -> UninitializedParameter:
        return type(self)(self.requires_grad, self.data.device, self.data.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        out = memo[id(self)] = self.__copy__()
        return out

    def __reduce__(self) -> Any:
        return type(self), (self.requires_grad, self.data.device, self.data.dtype)

    def __repr__(self) -> str:
        return "<UninitializedParameter>"


def is_uninitialized(value: Any) -> bool:
    """Whether a parameter, buffer or its content has no shape yet."""
    return isinstance(raw(value), UninitializedBuffer)


belong_to("lite.nn", UninitializedBuffer, UninitializedParameter)
