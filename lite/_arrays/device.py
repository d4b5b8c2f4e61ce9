"""Devices: `None` (no constraint), "cpu", and "cuda" where Numba finds a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.device_array import DeviceArray
from lite._arrays.types import HOST_LEAVES, Array

_CUDA_HELP = (
    'needs an NVIDIA GPU with its driver, and the CUDA extra: pip install "tensordict-lite[cuda]". '
    "Leave device=None or use device='cpu' otherwise."
)


def parse_device(device: Any) -> str | None:
    """Check a device name.

    Raises:
        ValueError: not None, "cpu" or "cuda[:N]".
        RuntimeError: "cuda" where no GPU can be used.
    """
    if device is None:
        return None
    name = str(device)
    if name == "cpu":
        return name
    if name == "cuda" or (name.startswith("cuda:") and name[5:].isdigit()):
        require_cuda(name)
        return name if ":" in name else "cuda:0"
    raise ValueError(f"device must be None, 'cpu' or 'cuda', got {device!r}.")


def require_cuda(device: str) -> Any:
    """Return `numba.cuda`, or raise the RuntimeError that says what is missing."""
    try:
        from numba import cuda
    except ImportError as error:
        raise RuntimeError(f"device={device!r} {_CUDA_HELP}") from error
    if not cuda.is_available():  # type: ignore[no-untyped-call]
        raise RuntimeError(f"device={device!r} {_CUDA_HELP}")
    return cuda


def device_of(value: Any) -> str:
    """Where a leaf lives: "cpu" for NumPy arrays, "cuda:N" for device arrays."""
    if isinstance(value, HOST_LEAVES):
        return "cpu"
    owner = getattr(getattr(value, "gpu_data", None), "_mem", None)
    index = getattr(getattr(owner, "context", None), "device", None)
    return f"cuda:{getattr(index, 'id', 0)}"


def _to_host(value: Any) -> Array:
    if not hasattr(value, "copy_to_host"):
        out: Array = value.get()
        return out
    if any(step < 0 for step in value.strides):  # Numba copies memory only as it lies
        value = DeviceArray(value).copy().leaf
    out = value.copy_to_host()
    return out


def move(value: Any, device: str | None) -> Any:
    """A leaf on the asked device; itself where it already is."""
    if device is None or (device == "cpu") == isinstance(value, HOST_LEAVES):
        return value
    if device == "cpu":
        return _to_host(value)
    return require_cuda(device).to_device(np.asarray(value, order="C"))
