"""The device of the arrays of a call: all on the host, or all on one GPU."""

from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from lite.kernels.cuda._gpu import Gpu


_ON_HOST = np.ndarray, np.generic, float, int, NoneType  # asked first: a miss of `hasattr` takes longer


def in_cuda_memory(value: Any) -> bool:
    """By the CUDA array interface, or by Numba's own mark."""
    if isinstance(value, _ON_HOST):
        return False
    return hasattr(value, "__cuda_array_interface__") or hasattr(type(value), "__cuda_ndarray__")


def gpu_of(stream: Any, **arrays: Any) -> "Gpu | None":
    """The GPU that holds the arrays of a call, with the stream to use there; None for the host.

    Numbers (and None, for what was not given) may go with arrays on either.

    Args:
        stream: the argument of the public function.
        arrays: by argument name.

    Raises:
        TypeError: arrays in both memories; an invalid stream, or one without arrays in CUDA memory.
        ValueError: arrays on several GPUs.
        RuntimeError: CUDA memory, but Numba finds no GPU.
    """
    there = {name: value for name, value in arrays.items() if in_cuda_memory(value)}
    if not there:
        if stream is not None:
            raise TypeError("stream goes with arrays in CUDA memory; got none")
        return None
    here = {name: value for name, value in arrays.items() if name not in there and np.ndim(value)}
    if here:
        one, value = next(iter(there.items()))
        other, host = next(iter(here.items()))
        raise TypeError(
            f"mixed devices: {one} is an array in CUDA memory ({type(value).__name__}), {other} is not "
            f"({type(host).__name__}); move one of them first"
        )
    from lite.kernels.cuda._gpu import Gpu

    return Gpu(stream, there)
