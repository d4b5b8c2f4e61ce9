"""Conversion of torch tensors and other objects with DLPack to NumPy arrays over the same memory."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from lite._arrays.device import require_cuda
from lite._arrays.dtypes import extension_dtype

# Names that NumPy knows itself; the others torch has are those of ml_dtypes (bfloat16, float8_*).
_NATIVE = frozenset(
    f"{kind}{bits}" for kind in ("int", "uint", "float", "complex") for bits in (8, 16, 32, 64, 128)
) - {"float8", "complex8", "complex16", "complex32"} | {"bool"}


def is_tensor(value: Any) -> bool:
    """True for a torch tensor. torch is not imported, as a tensor exists only if it was."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def is_foreign(value: Any) -> bool:
    """True for an array of another library that gives access to its memory."""
    return hasattr(type(value), "__dlpack__")


def class_name(value: object) -> str:
    """The name of a value's class, for messages: that of another library with the library."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    return f"{library}.{kind.__name__}" if library in ("pandas", "tensordict", "torch") else kind.__name__


def from_dlpack(array: Any) -> Any:
    """A NumPy array over the memory of another library's array; a Numba device array if it is on a GPU.

    Takes torch tensors, JAX arrays and any other object with `__dlpack__`. Memory is shared, so a write to
    one is visible in the other; arrays of JAX, which are immutable, become read-only. bfloat16 and the float8
    types, which NumPy's own function rejects, become those of ml_dtypes. The other direction needs no
    function: `torch.from_dlpack(td["a"])` and `jax.numpy.from_dlpack(td["a"])` take the arrays of a
    TensorDict.

    Args:
        array: an array of another library.

    Returns:
        A NumPy array, or a Numba device array for a tensor on a GPU.

    Raises:
        TypeError: another type, or an array without strided memory (sparse, quantised, nested).

    Example:
        >>> import numpy as np, lite
        >>> x = np.arange(3)
        >>> np.shares_memory(lite.from_dlpack(x), x)
        True
    """
    if is_tensor(array):
        return _from_tensor(array)
    if isinstance(array, np.ndarray) or (
        hasattr(array, "__cuda_array_interface__") and not hasattr(array, "__array_interface__")
    ):
        return array
    if not is_foreign(array):
        raise TypeError(f"array must have __dlpack__, got {type(array).__name__}.")
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError, TypeError):
        # NumPy imports no extension dtypes; __array__ of their libraries shares memory, too.
        return np.asarray(array)


def _from_tensor(tensor: Any) -> Any:
    torch = sys.modules["torch"]
    tensor = tensor.detach()
    if tensor.layout is not torch.strided or tensor.is_quantized or getattr(tensor, "is_nested", False):
        raise TypeError(f"a tensor needs plain strided memory, got layout {tensor.layout}.")
    tensor = tensor.resolve_conj().resolve_neg()
    if tensor.device.type == "cuda":
        return require_cuda("cuda").as_cuda_array(tensor)
    if tensor.device.type != "cpu":
        raise TypeError(f"a tensor must be on the CPU or a CUDA device, got {tensor.device}.")
    name = str(tensor.dtype).removeprefix("torch.")
    if name in _NATIVE:
        return tensor.numpy()
    dtype = extension_dtype(name)
    bits = tensor.view(getattr(torch, f"uint{8 * dtype.itemsize}"))
    return bits.numpy().view(dtype)
