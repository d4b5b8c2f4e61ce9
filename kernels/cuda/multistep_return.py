"""n-step returns and moves along time for arrays in CUDA memory; see `lite.kernels.multistep_return`."""

import math
from typing import Any

import numpy as np

from lite.kernels._arrays import is_float
from lite.kernels._types import Array, DeviceArray, Ints
from lite.kernels.cuda import scans
from lite.kernels.cuda._arrays import DeviceMemory, device_array
from lite.kernels.cuda._copies import c_ordered
from lite.kernels.cuda._gpu import Gpu
from lite.kernels.cuda._jit import SIMULATED, cuda, kernel
from lite.kernels.cuda._sequences import Sequences

_THREADS = 16 if SIMULATED else 256
_BLOCKS = 8  # for each multiprocessor: as many as it runs at a time


def multistep_return(
    gpu: Gpu, reward: DeviceMemory, done: DeviceMemory, axis: int, gamma: float, window: int
) -> tuple[Any, Any, Any, Any, Any]:
    """The results for checked arguments, in the order of `MultiStepReturn`."""
    floats = is_float(reward.dtype) or reward.dtype.kind == "c"
    dtype = reward.dtype.newbyteorder("=") if floats else np.dtype(np.float32)
    sums = gpu.empty(reward.shape, dtype)
    steps, index = gpu.empty(done.shape, np.int64), gpu.empty(done.shape, np.int64)
    discount, nonterminal = gpu.empty(done.shape, np.float32), gpu.empty(done.shape, np.bool_)
    results = sums, steps, index, discount, nonterminal
    if not done.size:
        return results
    work, out = reward, device_array("sums", sums)
    if not reward.size:  # no features: the kernel needs some array to sum
        work, out = done, device_array("sums", gpu.empty(done.shape, np.float32))
    elif reward.dtype.kind == "c":
        work, out = reward.real_parts(), out.real_parts()
    walk, flags = Sequences(gpu, work, axis), Sequences(gpu, done, axis)
    tiles = walk.tiles()
    blocks = min(tiles.groups, _BLOCKS * gpu.multiprocessors())
    table = gpu.scratch(window + 1, np.float64)
    gpu.launch(scans.powers, -(-(window + 1) // _THREADS), _THREADS, gamma, table)
    cut = window < walk.time
    prefix = gpu.scratch(blocks * tiles.count * tiles.threads * scans.ITEMS if cut else 1, np.float64)
    flat = [device_array("out", array).memory()[0] for array in (steps, discount, nonterminal)]
    gpu.launch(
        scans.windows, blocks, tiles.threads,
        walk.operand(work), flags.operand(done), np.int32(window), gamma, table, prefix, walk.operand(out),
        np.int32(walk.sequences // flags.sequences), flat[0], flags.operand(device_array("index", index)),
        flat[1], flat[2], walk.extent(tiles), shared=tiles.shared(2),
    )  # fmt: skip
    return results


def gather_time(gpu: Gpu, array: DeviceMemory, index: DeviceMemory, axis: int) -> DeviceArray:
    """`array` moved along axis `axis` of `index`. Waits for the device, which checks the index.

    Raises:
        IndexError: an index outside the time axis.
    """
    out = gpu.empty(array.shape, array.dtype)
    if not array.size:
        return out
    outer, time = math.prod(index.shape[:axis]), index.shape[axis]
    lanes = math.prod(index.shape[axis + 1 :])
    positions, _ = (index if index.c_contiguous else c_ordered(gpu, index)).memory()
    values = (array if array.c_contiguous else c_ordered(gpu, array)).words()
    target = device_array("out", out).words()
    features = target.size // (outer * time * lanes)
    faults = gpu.faults()
    gpu.launch(
        _move, -(-target.size // _THREADS), _THREADS, values, positions, time, lanes, features, target,
        faults.memory,
    )  # fmt: skip
    count, one = faults.read()
    if count:
        raise IndexError(f"index must be in [0, {time}), got {one}")
    return out


@kernel
def _move(values: Array, index: Ints, time: int, lanes: int, features: int, out: Array, faults: Ints) -> None:
    """out[o, t, l, f] = values[o, index[o, t, l], l, f]."""
    i = cuda.grid(1)
    if i < out.size:
        step = i // features
        outer = step // (time * lanes)
        at = np.int64(index[step])  # unsigned ones would make floats of what follows
        if 0 <= at < time:
            out[i] = values[((outer * time + at) * lanes + step % lanes) * features + i % features]
        else:
            cuda.atomic.add(faults, 0, 1)
            faults[1] = at
