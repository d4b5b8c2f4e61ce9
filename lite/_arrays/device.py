"""Devices, and NumPy functions on arrays in GPU memory.

A device is `None` (no constraint), "cpu", or "cuda" if Numba finds a GPU. Containers hold device leaves
unchanged. To call a function written for NumPy arrays, `on_leaves` wraps each device leaf in a `DeviceArray`:
shape operations become views, which NumPy computes on an array without memory; arithmetic calls the leaf's
own operators; everything else raises TypeError. Nothing is copied to the host implicitly.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from lite._arrays.namespace import NamespaceArray
from lite._arrays.types import (
    HOST_LEAVES,
    Array,
    DtypeLike,
    Function,
    HostArray,
    Shape,
    has_namespace,
    refuse_masked,
)

_PLAIN = (*HOST_LEAVES, np.generic)
_OPERATORS: dict[np.ufunc, Callable[..., Any]] = {
    np.absolute: operator.abs, np.add: operator.add, np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_, np.bitwise_xor: operator.xor, np.equal: operator.eq,
    np.floor_divide: operator.floordiv, np.greater: operator.gt, np.greater_equal: operator.ge,
    np.invert: operator.invert, np.less: operator.lt, np.less_equal: operator.le, np.matmul: operator.matmul,
    np.multiply: operator.mul, np.negative: operator.neg, np.not_equal: operator.ne, np.power: operator.pow,
    np.remainder: operator.mod, np.subtract: operator.sub, np.true_divide: operator.truediv,
}  # fmt: skip


def parse_device(device: Any) -> str | None:
    """Check a device name.

    Raises:
        ValueError: not None, "cpu[:N]" or "cuda[:N]".
        RuntimeError: "cuda" without a usable GPU, or with a number that no GPU has.
    """
    if device is None:
        return None
    name = str(device)
    if is_cpu(name):
        return "cpu"
    if name == "cuda" or (name.startswith("cuda:") and name[5:].isdigit()):
        count = len(require_cuda(name).gpus)
        if _number(name) >= count:
            raise RuntimeError(f"device={name!r}: Numba finds {count} GPU(s), counted from 'cuda:0'.")
        return name if ":" in name else "cuda:0"
    raise ValueError(f"device must be None, 'cpu' or 'cuda' (for a GPU), got {device!r}.")


def is_cpu(device: Any) -> bool:
    """Whether a device is the CPU, with or without a number."""
    name = str(device)
    return name == "cpu" or (name.startswith("cpu:") and name[4:].isdigit())


def require_cuda(device: str) -> Any:
    """Return `numba.cuda`; RuntimeError if the GPU, its driver or a package is missing."""
    missing: ImportError | None = None
    try:
        from numba import cuda

        if cuda.is_available():  # type: ignore[no-untyped-call]
            return cuda
    except ImportError as error:
        missing = error
    from lite.kernels._install import install

    raise RuntimeError(
        f"device={device!r} needs an NVIDIA GPU with its driver, and the CUDA extra: {install('cuda')}. "
        "Leave device=None or use device='cpu' otherwise."
    ) from missing


def _number(device: str) -> int:
    """The number of the GPU of "cuda" or "cuda:N"."""
    return int(device.partition(":")[2] or 0)


def device_of(value: Any) -> str:
    """The device of a leaf: "cpu" for NumPy arrays, "cuda:N" for device arrays."""
    if isinstance(value, HOST_LEAVES):
        return "cpu"
    if has_namespace(value):
        return _device_name(getattr(value, "device", None))
    owner = getattr(getattr(value, "gpu_data", None), "_mem", None)
    index = getattr(getattr(owner, "context", None), "device", None)
    return f"cuda:{getattr(index, 'id', 0)}"


def _device_name(device: Any) -> str:
    """The device name of a JAX array; None for a traced array or one on several devices."""
    platform = getattr(device, "platform", None)
    if platform is None or platform == "cpu":
        return "cpu" if platform else "traced" if device is None else str(device)
    return f"{'cuda' if platform == 'gpu' else platform}:{device.id}"


def _to_host(value: Any) -> Array:
    if has_namespace(value):
        return np.asarray(value)
    if not hasattr(value, "copy_to_host"):
        return value.get()
    if any(step < 0 for step in value.strides):  # Numba copies only contiguous memory
        value = DeviceArray(value).copy().leaf
    out = value.copy_to_host()
    return out


def move(value: Any, device: str | None) -> Any:
    """A leaf moved to a device; the leaf itself if it is there."""
    if device is None or (device == "cpu" and isinstance(value, HOST_LEAVES)):
        return value
    if device == "cpu":
        return _to_host(value)
    if is_device_leaf(value) or hasattr(value, "__cuda_array_interface__"):
        return value
    cuda = require_cuda(device)
    with cuda.gpus[_number(device)]:
        return cuda.to_device(np.asarray(value, order="C"))


class NotOnDevice(TypeError, AttributeError):
    """Raised for operations that device leaves lack. It is an AttributeError too, so `hasattr` is False."""


def on_leaves(fn: Callable[..., Any], *args: Any) -> Any:
    """`fn(*args)`, where leaves among the arguments may be on a GPU or of JAX."""
    for arg in args:
        if not isinstance(arg, _PLAIN):  # else, as nearly always, half the time
            args = tuple(map(wrap, args))
            break
    return unwrap(fn(*args))


def wrap(value: Any) -> Any:
    """Wrap a device leaf in a `DeviceArray`, a JAX array in a `NamespaceArray`; return others unchanged."""
    if isinstance(value, _PLAIN):
        return value
    if has_namespace(value):
        return NamespaceArray(value)
    return DeviceArray(value) if is_device_leaf(value) else value


def unwrap(value: Any) -> Any:
    """Unwrap a `DeviceArray` or `NamespaceArray`, also inside a tuple; return others unchanged."""
    if type(value) is tuple:
        return tuple(unwrap(item) for item in value)
    return value.leaf if is_wrapped(value) else value


def is_wrapped(value: Any) -> bool:
    """Whether a value is a result of `wrap`."""
    return isinstance(value, _SHOWN)


def is_device_leaf(value: Any) -> bool:
    """True for arrays in GPU memory: they have the CUDA array interface or Numba's own attribute."""
    return not has_namespace(value) and (
        hasattr(value, "__cuda_array_interface__") or hasattr(type(value), "__cuda_ndarray__")
    )


def to_library_of(leaf: Any, array: Array) -> Any:
    """Move a new host array to GPU memory for a `DeviceArray`, or to JAX for a `NamespaceArray`."""
    if isinstance(leaf, _SHOWN):
        return leaf.filled_with(array)
    if isinstance(leaf, HostArray):  # mapped or traced values will be written to it
        return np.zeros_like(leaf, shape=array.shape, dtype=array.dtype) + array
    return array


def write_leaf(target: Any, index: Any, value: Any) -> None:
    """`target[index] = value` for a leaf of any kind."""
    if has_namespace(target):
        raise TypeError(
            f"{type(target).__name__} is read-only, and no container here can hold a replacement."
        )
    if isinstance(target, HOST_LEAVES):
        if isinstance(value, np.ndarray) and type(value) is not np.ndarray:
            refuse_masked(value)
        target[index] = value
    else:
        DeviceArray(target)[index] = value


def with_namespace_of(leaf: Any, array: Array) -> Array:
    """A NumPy array as one of the library of `leaf`; a `NamespaceArray` unchanged."""
    if array.dtype.kind == "O":
        raise TypeError("per-element objects cannot be indexed by a traced array.")
    return leaf.__array_namespace__().asarray(array) if isinstance(array, np.ndarray) else array


def with_value(leaf: Any, index: Any, value: Any) -> Any:
    """A copy of a leaf with `value` at `index`: of JAX, or of a NumPy array that cannot hold `value`."""
    if not has_namespace(leaf):
        out = to_library_of(value, leaf[None])  # at least 1-d, as NumPy scalars cannot be written to
        out[(0, *index) if type(index) is tuple else (0, index)] = value
        return out[0, ...]
    shown = NamespaceArray(leaf)
    shown[index] = value
    return shown.leaf


class _Flags(NamedTuple):
    c_contiguous: bool


class DeviceArray(np.lib.mixins.NDArrayOperatorsMixin):
    """A device leaf with those methods of a NumPy array that need no copy to the host.

    Args:
        leaf: a Numba device array, or an array of another library that follows NumPy (CuPy).
    """

    __slots__ = ("leaf",)

    def __init__(self, leaf: Any) -> None:
        self.leaf = leaf

    @property
    def _is_numba(self) -> bool:
        return hasattr(type(self.leaf), "__cuda_ndarray__")

    @property
    def shape(self) -> Shape:
        return tuple(self.leaf.shape)

    @property
    def ndim(self) -> int:
        return len(self.leaf.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.leaf.dtype

    @property
    def size(self) -> int:
        return int(self.leaf.size)

    @property
    def flags(self) -> _Flags:
        if not self._is_numba:
            return _Flags(bool(self.leaf.flags.c_contiguous))
        return _Flags(bool(self.leaf.is_c_contiguous()))

    def __len__(self) -> int:
        return int(self.leaf.shape[0])

    def __getattr__(self, name: str) -> Any:
        raise self._not_on_device(name)

    def _not_on_device(self, what: str) -> NotOnDevice:
        return NotOnDevice(
            f"{what!r} is not available for a {type(self.leaf).__name__} in GPU memory. Move it first, "
            'td.to("cpu"), or write a kernel for it and use td.apply.'
        )

    def __array__(self, dtype: DtypeLike = None, copy: bool | None = None) -> Array:
        """Raise, as an implicit conversion would copy the leaf to the host."""
        raise self._not_on_device("this NumPy function")

    # -- views --------------------------------------------------------------------------------------

    def _view(self, name: str, fn: Callable[[Array], Array]) -> DeviceArray:
        leaf = self.leaf
        try:
            if hasattr(leaf, "_ary"):  # Numba's simulator: an array in host memory
                return DeviceArray(type(leaf)(fn(leaf._ary), leaf.stream))
            return DeviceArray(_strided(leaf, fn))
        except ValueError as error:
            raise NotOnDevice(f"{name} of a device array with these strides would need a copy.") from error

    def reshape(self, *shape: Any, copy: bool | None = None) -> DeviceArray:
        size = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if not self._is_numba:
            return DeviceArray(self.leaf.reshape(size))
        return self._view("reshape", lambda array: array.reshape(size, copy=False))

    def transpose(self, *axes: Any) -> DeviceArray:
        order = axes[0] if len(axes) == 1 and isinstance(axes[0], tuple) else axes
        if not self._is_numba:
            return DeviceArray(self.leaf.transpose(order))
        return self._view("transpose", lambda array: array.transpose(order))

    def swapaxes(self, first: int, second: int) -> DeviceArray:
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.transpose(tuple(order))

    def __getitem__(self, index: Any) -> DeviceArray:
        if not self._is_numba:
            return DeviceArray(self.leaf[index])
        items = index if isinstance(index, tuple) else (index,)
        if any(isinstance(item, np.ndarray | list | bool) for item in items):
            raise self._not_on_device("an index array or mask")
        # With the ellipsis the result is an array; without it, an element would be copied to the host.
        return self._view("index", lambda array: array[items if Ellipsis in items else (*items, Ellipsis)])

    def broadcast_to(self, shape: Shape) -> DeviceArray:
        if not self._is_numba:
            return DeviceArray(np.broadcast_to(self.leaf, shape))
        return self._view("broadcast_to", lambda array: np.broadcast_to(array, shape))

    # -- copies -------------------------------------------------------------------------------------

    def __setitem__(self, index: Any, value: Any) -> None:
        source = unwrap(value)
        if not self._is_numba:
            self.leaf[index] = source
        elif self.size:
            from lite.kernels.cuda._jit import few_blocks

            target = self[index]
            if target.size:
                with few_blocks():
                    target.leaf[()] = source

    def _empty(self, shape: Shape, dtype: np.dtype[Any]) -> DeviceArray:
        return DeviceArray(require_cuda("cuda").device_array(shape, dtype))

    def filled_with(self, array: Array) -> DeviceArray:
        """A leaf of the same kind with the content of a host array."""
        if not self._is_numba:
            raise self._not_on_device("a new array of another shape or content")
        out = self._empty(array.shape, array.dtype)
        out.leaf.copy_to_device(array)
        return out

    def copy(self) -> DeviceArray:
        if not self._is_numba:
            return DeviceArray(self.leaf.copy())
        out = self._empty(self.shape, self.dtype)
        if self.leaf.is_c_contiguous():
            out.leaf.copy_to_device(self.leaf)
        else:
            out[...] = self
        return out

    def astype(self, dtype: DtypeLike, copy: bool = True) -> DeviceArray:
        if not self._is_numba:
            return DeviceArray(self.leaf.astype(dtype, copy=copy))
        if dtype != self.dtype:
            raise self._not_on_device(f"a cast to {np.dtype(dtype)}")
        return self.copy() if copy else self

    # -- NumPy's protocols --------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        arrays = [unwrap(value) for value in inputs]
        if not self._is_numba:
            if "out" in kwargs:
                kwargs["out"] = unwrap(kwargs["out"])
            out = getattr(ufunc, method)(*arrays, **kwargs)
            return tuple(wrap(item) for item in out) if isinstance(out, tuple) else wrap(out)
        fn = _OPERATORS.get(ufunc)
        name = f"{ufunc.__name__}{'' if method == '__call__' else '.' + method}"
        if fn is None or method != "__call__" or kwargs:
            raise self._not_on_device(name)
        if any(isinstance(array, np.ndarray | np.generic) and array.ndim for array in arrays):
            # The operator of the host array would copy the leaf to the host.
            raise self._not_on_device(f"{name} with an array in host memory")
        arrays = [a.item() if isinstance(a, np.ndarray | np.generic) else a for a in arrays]
        try:
            result = fn(*arrays)
        except TypeError as error:
            raise self._not_on_device(name) from error
        if not is_device_leaf(result):  # == of objects without a comparison is False
            raise self._not_on_device(name)
        return DeviceArray(result)

    def __array_function__(self, func: Function, types: Any, args: Any, kwargs: Any) -> Any:
        name = func.__name__
        if name == "broadcast_to" and isinstance(args[0], DeviceArray):
            return args[0].broadcast_to(*args[1:])
        if name in ("stack", "concatenate") and all(isinstance(item, DeviceArray) for item in args[0]):
            return self._joined(name == "stack", list(args[0]), *args[1:], **kwargs)
        if self._is_numba or name in ("stack", "concatenate"):
            raise self._not_on_device(name)
        return wrap(func(*unwrap(tuple(args)), **kwargs))

    def _joined(self, new: bool, arrays: Sequence[Self], axis: int = 0) -> DeviceArray:
        if not self._is_numba:
            leaves = [array.leaf for array in arrays]
            return wrap(np.stack(leaves, axis) if new else np.concatenate(leaves, axis))
        # NumPy computes the resulting shape, or raises, on arrays without memory.
        ghosts = [np.broadcast_to(np.empty((), array.dtype), array.shape) for array in arrays]
        ndim = self.ndim + new
        at = axis % ndim
        dtype = np.result_type(*(array.dtype for array in arrays))
        sizes = [1 if new else array.shape[at] for array in arrays]
        first = ghosts[0].shape
        shape = first[:at] + (sum(sizes),) + first[at + (not new) :]
        for array in arrays:
            rest = array.shape if new else array.shape[:at] + array.shape[at + 1 :]
            if rest != (first if new else first[:at] + first[at + 1 :]) or array.dtype != dtype:
                raise ValueError(
                    f"device arrays to join differ: {array.shape} of {array.dtype}, {first} of {dtype}."
                )
        out = self._empty(shape, dtype)
        start = 0
        for array, size in zip(arrays, sizes, strict=True):
            out[(slice(None),) * at + ((start if new else slice(start, start + size)),)] = array
            start += size
        return out


def _strided(leaf: Any, fn: Callable[[Array], Array]) -> Any:
    """A view of a Numba device array, described by NumPy.

    `fn` gets an array without memory of the leaf's shape and strides. The address, shape and strides of its
    result define the view. It must not read or copy.
    """
    ghost = np.lib.stride_tricks.as_strided(np.empty((), leaf.dtype), leaf.shape, leaf.strides)
    view = fn(ghost)
    if not view.size:
        return type(leaf)(view.shape, view.strides, leaf.dtype, leaf.stream, leaf.gpu_data)
    # The extent in bytes, as the buffer of a view starts at its first element.
    start = view.ctypes.data - ghost.ctypes.data
    last = start + sum((n - 1) * step for n, step in zip(view.shape, view.strides, strict=True) if step > 0)
    data = leaf.gpu_data.view(start, last + leaf.dtype.itemsize)
    return type(leaf)(view.shape, view.strides, leaf.dtype, leaf.stream, data)


_SHOWN = (DeviceArray, NamespaceArray)  # a tuple, for which isinstance takes half the time of a union
