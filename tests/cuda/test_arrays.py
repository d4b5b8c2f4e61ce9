"""How arrays in CUDA memory reach a kernel: views, types, streams, errors.

Runs under Numba's CUDA simulator (NUMBA_ENABLE_CUDASIM=1, in a process of its own:
tests/kernels/cuda/test_cuda.py starts it) or on a GPU.
"""

from typing import Any

import ml_dtypes as narrow
import numpy as np
import pytest
from helpers.cases import raises
from helpers.kernels_under_test import SIMULATED, Foreign

from lite.kernels._device import gpu_of
from lite.kernels.cuda._arrays import device_array
from lite.kernels.cuda._jit import cuda, kernel
from lite.kernels.cuda._numbers import store, widen

if not cuda.is_available():
    pytest.skip("needs a GPU, or NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)


@kernel
def doubled(memory: Any, first: Any, stride: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        store(out, i, np.float32(2) * np.float32(widen(memory[first + i * stride])))


def types_(*names: str) -> list[np.dtype]:
    return [np.dtype(getattr(narrow, name) if name == "bfloat16" else name) for name in names]


@pytest.mark.parametrize("dtype", types_("float16", "bfloat16", "float32", "float64", "int8", "bool"))
@pytest.mark.parametrize("foreign", [False, True])
def test_kernels_read_and_write_every_type(rng: Any, dtype: np.dtype, foreign: bool) -> None:
    host = rng.integers(0, 2, 8) if dtype.kind in "bi" else rng.normal(size=8)
    host = host.astype(dtype)
    value = Foreign(host) if foreign or dtype.name == "bfloat16" else cuda.to_device(host)
    array = device_array("x", value)
    assert array.dtype == dtype
    gpu = gpu_of(None, x=value)
    assert gpu is not None
    result = np.dtype(np.float32) if dtype.kind in "bi" else dtype
    out = gpu.empty((8,), result)
    memory, first = array.memory()
    gpu.launch(doubled, 1, 8, memory, first, array.strides()[0], device_array("out", out).memory()[0])
    np.testing.assert_array_equal(out.copy_to_host(), (2 * host.astype(np.float32)).astype(result))


def test_bfloat16_is_rounded_to_nearest_even() -> None:
    (dtype,) = types_("bfloat16")
    wide = np.array([1 + 2**-8, 1 + 3 * 2**-8, 1e-40, 3.4e38, -np.inf, np.nan, 1.0, -0.0], np.float32)
    gpu = gpu_of(None, x=cuda.to_device(wide))
    out = gpu.empty((8,), dtype)
    half = cuda.to_device(wide / 2)  # exact but for the denormal
    gpu.launch(doubled, 1, 8, half, 0, 1, device_array("out", out).memory()[0])
    np.testing.assert_array_equal(
        out.copy_to_host().astype(np.float32), wide.astype(dtype).astype(np.float32)
    )


@pytest.mark.parametrize("index", [np.s_[::-1], np.s_[2:, ::2], np.s_[1], np.s_[::-2, ::-1]])
def test_views_are_read_where_they_lie(index: Any) -> None:
    host = np.arange(24.0).reshape(6, 4)
    view = host[index]
    shift = view.ctypes.data - host.ctypes.data
    whole = Foreign(host)
    address = whole.__cuda_array_interface__["data"][0] + shift
    value = Foreign(host, data=(address, False), shape=view.shape, strides=view.strides)
    value.owner = whole
    array = device_array("x", value)
    assert array.shape == view.shape
    memory, first = array.memory()
    flat = memory.copy_to_host()
    steps = array.strides()
    got = [flat[first + sum(i * s for i, s in zip(at, steps, strict=True))] for at in np.ndindex(view.shape)]
    np.testing.assert_array_equal(got, view.ravel())


def test_mixed_devices_are_named() -> None:
    device, host = cuda.to_device(np.zeros(3)), np.zeros(3)
    with pytest.raises(TypeError, match=r"mixed devices: value is an array in CUDA memory .*reward is not"):
        gpu_of(None, reward=host, value=device)
    assert gpu_of(None, reward=device, gamma=0.9, terminated=None) is not None
    assert gpu_of(None, reward=host) is None


def test_streams() -> None:
    x = cuda.to_device(np.zeros(3))

    class Cupy:
        ptr = 0

    class Torch:
        cuda_stream = 0

    for stream in (None, cuda.stream(), 0, Cupy(), Torch()):
        assert gpu_of(stream, x=x) is not None
    for stream in ("0", 1.5, True, -1):
        raises(TypeError, "stream must be a Numba stream", gpu_of, stream, x=x)
    raises(TypeError, "stream goes with arrays in CUDA memory", gpu_of, 0, x=np.zeros(3))


def test_unreadable_arrays() -> None:
    host = np.zeros(4, np.float32)
    raises(TypeError, "x must not be a masked array", device_array, "x", Foreign(host, mask=Foreign(host)))
    with pytest.raises(TypeError, match="x must be in this machine's byte order"):
        device_array("x", Foreign(host.astype(">f4")))
    with pytest.raises(TypeError, match="strides of x must be whole elements"):
        device_array("x", Foreign(host, shape=(2,), strides=(6,)))


def test_faults_are_read_back() -> None:
    gpu = gpu_of(None, x=cuda.to_device(np.zeros(3)))
    faults = gpu.faults()
    gpu.launch(negative, 1, 4, cuda.to_device(np.array([1, -5, 2])), faults.memory)
    assert faults.read() == (1, -5)


@kernel
def negative(values: Any, faults: Any) -> None:
    i = cuda.grid(1)
    if i < values.size and values[i] < 0:
        cuda.atomic.add(faults, 0, 1)
        faults[1] = values[i]


@kernel
def neighbours(out: Any, barriers: Any) -> None:
    i = cuda.threadIdx.x
    for turn in range(2):
        out[turn, i] = i
        if barriers:
            cuda.syncthreads()
        out[turn + 2, i] = out[turn, (i + 1) % out.shape[1]]
        cuda.syncthreads()
    if i == 2 and not barriers:
        raise RuntimeError("the last one")
    cuda.syncthreads()


@pytest.mark.skipif(not SIMULATED, reason="of the simulator")
def test_missing_barriers_show_in_the_simulator() -> None:
    """Its threads take turns in one order and in the other, and errors of one end all."""
    gpu = gpu_of(None, x=cuda.to_device(np.zeros(3)))
    out = cuda.to_device(np.full((4, 3), -1))
    gpu.launch(neighbours, 1, 3, out, True)
    np.testing.assert_array_equal(out.copy_to_host()[2:], [[1, 2, 0], [1, 2, 0]])
    out = cuda.to_device(np.full((4, 3), -1))
    raises(RuntimeError, "the last one", gpu.launch, neighbours, 1, 3, out, False)
    np.testing.assert_array_equal(out.copy_to_host()[2:], [[-1, -1, 0], [1, 2, -1]])
