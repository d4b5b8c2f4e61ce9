"""Changing dtype and device of a module's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.dtypes import as_dtype, extension_dtype, is_floating, is_inexact, is_numeric
from lite._arrays.types import raw
from lite._tree.collection import TensorCollection
from lite.nn._modules.initial import UninitializedBuffer
from lite.nn._modules.meta import Device, MetaArray, check_device
from lite.nn._modules.parameter import Parameter
from lite.nn._modules.registry import Registry


def _refused(kind: str) -> Any:
    def to_accelerator(self: Any, device: Device | None = None) -> NoReturn:
        """Raise RuntimeError: modules compute with NumPy on the CPU."""
        check_device(kind if device is None else f"{kind}:{device}")
        raise AssertionError("unreachable: check_device refuses accelerators")

    to_accelerator.__name__, to_accelerator.__qualname__ = kind, f"Casting.{kind}"
    return to_accelerator


class Casting(Registry):
    """`to`, `half`, `double`, ...; `Module` is the public face."""

    def _apply(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """Replace every array and gradient by `fn(array)`; Parameter objects stay the same."""
        if recurse:
            for module in self._modules.values():
                if module is not None:
                    module._apply(fn)
        for param in self._parameters.values():
            if param is not None:
                param.data = fn(param.data)
                if getattr(param, "grad", None) is not None:
                    param.grad = fn(param.grad)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                collection = isinstance(buffer, TensorCollection)
                self._set_buffer(name, buffer._map_leaves(fn) if collection else fn(buffer))
        return self

    def _convert_arrays(self, fn: Callable[[Any], Any], recurse: bool = True) -> Self:
        """As `_apply`, but `fn` is called for all arrays first, so an error leaves them unchanged.

        An array under several names is still shared afterwards.
        """
        made: dict[int, tuple[Any, Any]] = {}  # keeps the arrays alive, so that their ids are not reused
        for module in self.modules() if recurse else [self]:
            for value in (*module._parameters.values(), *module._buffers.values()):
                if value is None:
                    continue
                tree: Any = value if isinstance(value, TensorCollection) else None
                leaves = [value] if tree is None else tree.values(True, True)
                for array in map(raw, leaves):
                    made[id(array)] = array, fn(array)
        return self._apply(lambda array: made[id(array)][1] if id(array) in made else fn(array), recurse)

    def _cast_floats(self, dtype: np.dtype[Any]) -> Self:
        return self._convert_arrays(lambda x: x.astype(dtype, copy=False) if is_floating(x.dtype) else x)

    def float(self) -> Self:
        """Cast floating parameters and buffers to float32; returns self."""
        return self._cast_floats(np.dtype(np.float32))

    def double(self) -> Self:
        """Cast floating parameters and buffers to float64; returns self."""
        return self._cast_floats(np.dtype(np.float64))

    def half(self) -> Self:
        """Cast floating parameters and buffers to float16; returns self.

        Half precision is a storage format here: layers compute in float32 and return float16.
        """
        return self._cast_floats(np.dtype(np.float16))

    def bfloat16(self) -> Self:
        """Cast floating parameters and buffers to bfloat16; returns self.

        Raises:
            ImportError: if the ml_dtypes package, which brings the dtype, is not installed.
        """
        return self._cast_floats(extension_dtype("bfloat16"))

    def type(self, dst_type: Any) -> Self:
        """Cast all parameters and buffers, integers too, to a dtype or the name of one; returns self.

        Raises:
            TypeError: if `dst_type` is not a numeric dtype.
        """
        dtype = _as_dtype(dst_type)
        if dtype is None or not is_numeric(dtype):
            raise TypeError(f"type() takes a numeric dtype or its name, got {dst_type!r}.")
        return self._convert_arrays(lambda x: x.astype(dtype, copy=False))

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Change dtype or device in place.

        Accepts `to(dtype)`, `to(device)`, `to(device, dtype)`, `to(array)` (the array's dtype), and
        the keywords `device`, `dtype`, `tensor`. `non_blocking` and `memory_format` are accepted and
        have no effect. A dtype is applied to floating and complex arrays only.

        Returns:
            self.

        Raises:
            TypeError: if the dtype is neither floating nor complex.
            RuntimeError: for a device other than "cpu" and "meta".
            NotImplementedError: from "meta" to "cpu", as there are no data (see `to_empty`).

        Example:
            >>> import numpy as np
            >>> from lite import nn
            >>> nn.Linear(2, 2).to(np.float64).weight.dtype
            dtype('float64')
        """
        device, dtype = parse_to(args, kwargs)
        if dtype is not None and not is_inexact(dtype):
            raise TypeError(f"to() takes a floating or complex dtype, got {dtype}.")

        def convert(x: Any) -> Any:
            if dtype is not None and is_inexact(x.dtype):
                x = x.astype(dtype, copy=False)
            if device is not None and isinstance(x, UninitializedBuffer):
                return x.on_device(device)
            if device == "meta":
                return MetaArray(x.shape, x.dtype)
            if device == "cpu" and isinstance(x, MetaArray):
                raise NotImplementedError(
                    "cannot move an array without data from the meta device; "
                    "use to_empty(device='cpu') and load a state dict."
                )
            return x

        return self._convert_arrays(convert)

    def to_empty(self, *, device: Device, recurse: bool = True) -> Self:
        """Replace all arrays by uninitialised ones of the same shape and dtype; returns self.

        Args:
            device: "cpu" or "meta".
            recurse: include the children's arrays.
        """
        if check_device(device) == "meta":
            return self._convert_arrays(lambda x: MetaArray(x.shape, x.dtype), recurse)
        return self._convert_arrays(lambda x: np.empty(x.shape, x.dtype), recurse)

    def cpu(self) -> Self:
        """Return self: modules live on the CPU."""
        return self.to("cpu")

    cuda, xpu, ipu, mtia = map(_refused, ("cuda", "xpu", "ipu", "mtia"))


def parse_to(
    args: tuple[Any, ...], kwargs: dict[str, Any], check: Callable[[Any], str] = check_device
) -> tuple[str | None, np.dtype[Any] | None]:
    """Parse the arguments of `to` to (device, dtype), each None if not given; `check` validates a device."""
    unknown = set(kwargs) - {"device", "dtype", "tensor", "non_blocking", "memory_format"}
    if unknown or len(args) > 3:
        raise TypeError(
            "to() takes device, dtype, tensor, non_blocking and memory_format, "
            f"got {sorted(unknown) if unknown else args!r}."
        )
    device, dtype, array = kwargs.get("device"), kwargs.get("dtype"), kwargs.get("tensor")
    for position, arg in enumerate(args):
        if arg is None or isinstance(arg, bool):
            continue  # device=None, or non_blocking
        if isinstance(arg, str) and position == 0:
            device = arg
        elif isinstance(arg, np.ndarray | Parameter | np.generic):
            array = arg
        elif hasattr(arg, "type") and isinstance(arg.type, str):
            device = arg
        else:
            dtype = arg
    if array is not None:
        dtype = array.dtype
    return (None if device is None else check(device)), _as_dtype(dtype)


def _as_dtype(dtype: DTypeLike | None) -> np.dtype[Any] | None:
    if dtype is None:
        return None
    try:
        return as_dtype(dtype)
    except TypeError as err:
        raise TypeError(f"dtype must be a NumPy dtype or its name, got {dtype!r}.") from err
