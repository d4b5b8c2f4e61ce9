"""The "meta" device: arrays that have a shape and a dtype but no data, and the check of device names."""

from __future__ import annotations

from typing import Any, NoReturn, Protocol, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.public import belong_to


class _HasType(Protocol):
    """A device of another library, such as torch."""

    type: str


Device: TypeAlias = str | _HasType | None

_NO_DATA = (
    "an array on the meta device has a shape and a dtype but no data; give it values with "
    "load_state_dict(..., assign=True), to_empty(device='cpu') or by assigning a Parameter."
)
_ACCELERATORS = ("cuda", "xpu", "ipu", "mtia", "mps", "hpu", "xla", "npu")


class MetaArray:
    """Shape and dtype of an array without its data; any computation with it raises RuntimeError.

    Args:
        shape: the shape.
        dtype: the dtype.

    Example:
        >>> from lite.nn import MetaArray
        >>> MetaArray((2, 3), "float32")
        MetaArray(shape=(2, 3), dtype=float32)
    """

    __slots__ = ("dtype", "shape")
    is_meta = True

    def __init__(self, shape: tuple[int, ...], dtype: DTypeLike | None) -> None:
        self.shape = tuple(shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes that the data would take."""
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> MetaArray:
        """The shape reversed."""
        return MetaArray(self.shape[::-1], self.dtype)

    def astype(self, dtype: DTypeLike | None, copy: bool = True) -> MetaArray:
        """An array of the same shape with another dtype."""
        return MetaArray(self.shape, dtype)

    def copy(self) -> MetaArray:
        """Another array without data."""
        return MetaArray(self.shape, self.dtype)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def _no_data(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(_NO_DATA)

    __array__ = __array_ufunc__ = __array_function__ = _no_data
    __getitem__ = __setitem__ = __iter__ = __bool__ = __float__ = __int__ = _no_data
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _no_data
    swapaxes = reshape = transpose = dot = sum = mean = max = min = any = all = item = tolist = _no_data
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = __pow__ = __neg__ = _no_data

    def __repr__(self) -> str:
        return f"MetaArray(shape={self.shape}, dtype={self.dtype})"


def check_device(device: Device) -> str:
    """Normalise a device to "cpu" or "meta".

    Raises:
        RuntimeError: for an accelerator (modules compute on the CPU) or an unknown name.
        TypeError: if `device` is not a string, None or an object with a `type` such as "cpu".
    """
    if device is None:
        return "cpu"
    name = device if isinstance(device, str) else getattr(device, "type", None)
    if not isinstance(name, str):
        raise TypeError(f"device must be a string such as 'cpu' or 'meta', got {type(device).__name__}.")
    kind = name.partition(":")[0]
    if kind in ("cpu", "meta"):
        return kind
    if kind in _ACCELERATORS:
        raise RuntimeError(
            "modules of lite.nn compute with NumPy on the CPU: "
            f"device must be 'cpu' or 'meta', got {device!r}. "
            "To run a network on a GPU, export it to ONNX and load it with lite.models."
        )
    raise RuntimeError(f"device must be 'cpu' or 'meta', got the unknown device {device!r}.")


belong_to("lite.nn", MetaArray)
