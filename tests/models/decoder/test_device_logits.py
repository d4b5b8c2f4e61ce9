"""Logits that stay on a GPU, with stand-ins for its memory and driver."""

import ctypes
from typing import Any

import numpy as np
import pytest
from helpers.models.stand_in_gpu import INDEX, DeviceValue, HostRuntime, gpu

from lite.models.decoder.device_logits import DeviceLogits, merged, stacked
from lite.models.graph.cuda_stream import CudaStream

__all__ = ["gpu"]  # a fixture


def uploaded(values: np.ndarray) -> DeviceLogits:
    logits = DeviceLogits(*values.shape, values.dtype, CudaStream(INDEX))
    ctypes.memmove(logits.address, values.ctypes.data, values.nbytes)
    return logits


@pytest.fixture(params=["e"])
def values(request: pytest.FixtureRequest, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(5, 7)).astype(request.param)


@pytest.mark.parametrize("values", ["f", "e"], indirect=True)
def test_an_array_of_them_is_a_copy_in_float32(gpu: HostRuntime, values: np.ndarray) -> None:
    logits = uploaded(values)
    host = np.asarray(logits)
    assert host.dtype == np.float32
    np.testing.assert_array_equal(host, values)
    assert np.asarray(logits, np.float64).dtype == np.float64
    assert gpu.calls == [f"set {INDEX}", "fetch", f"set {INDEX}", "synchronise"] * 2
    with pytest.raises(ValueError, match="cannot be an array without a copy"):
        np.array(logits, copy=False)


def test_the_interface_tells_where_they_are(gpu: HostRuntime, values: np.ndarray) -> None:
    logits = uploaded(values)
    interface: dict[str, Any] = logits.__cuda_array_interface__
    assert interface["data"] == (logits.address, False)
    assert (interface["shape"], interface["typestr"]) == (values.shape, values.dtype.str)
    assert interface.get("stream") is None  # there is nothing to wait for
    assert logits.device.index == INDEX


def test_rows_move_on_the_gpu(gpu: HostRuntime, values: np.ndarray) -> None:
    logits = uploaded(values)
    taken = logits.taken(np.array([3, 0, 4]))
    both = merged(5, [([4, 0, 1], taken), ([2, 3], logits.taken(np.array([1, 2])))])
    assert isinstance(both, DeviceLogits)
    assert "fetch" not in gpu.calls
    assert gpu.calls[-1] == "synchronise"
    np.testing.assert_array_equal(both, values[[0, 4, 1, 2, 3]])
    np.testing.assert_array_equal(logits, values)


@pytest.mark.parametrize("call", ["taken", "array"])
def test_errors_of_the_gpu_are_raised(gpu, values, monkeypatch, call):
    logits = uploaded(values)
    monkeypatch.setattr(gpu, "cudaMemcpyAsync", lambda *args: 700)
    with pytest.raises(RuntimeError, match=r"bytes of logits .* failed: CUDA error 700"):
        logits.taken(np.array([1])) if call == "taken" else np.asarray(logits)


def test_no_room_is_a_memory_error(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(DeviceValue, "ortvalue_from_shape_and_type", full)
    with pytest.raises(MemoryError, match=r"cannot allocate 4,000 bytes of logits on cuda: out of memory"):
        DeviceLogits(10, 100, np.dtype(np.float32), CudaStream(INDEX))


def test_rows_are_views_and_copies_like_those_of_arrays(gpu: HostRuntime, values: np.ndarray) -> None:
    logits = uploaded(values)
    assert len(logits) == 5
    for index in (slice(1, 3), slice(-1, None), slice(4, 2), slice(None, None, 2), [3, 0], slice(None)):
        part = logits[index]
        assert isinstance(part, DeviceLogits)
        np.testing.assert_array_equal(part, values[index])
    view = logits[1:3]
    assert view.address == logits.address + values[0].nbytes
    np.testing.assert_array_equal(view[1:].taken(np.array([0])), values[2:3])
    assert view.whole() is False
    gpu.calls.clear()
    row = logits[2]
    assert (type(row), gpu.calls.count("fetch")) == (np.ndarray, 1)
    np.testing.assert_array_equal(row, values[2])
    np.testing.assert_array_equal(np.stack(list(logits)), values)
    with pytest.raises(IndexError):
        logits[5]


def test_stacked(gpu: HostRuntime, values: np.ndarray) -> None:
    logits = uploaded(values)
    both = stacked([logits[3:], logits[:1]])
    np.testing.assert_array_equal(both, values[[3, 4, 0]])
    assert stacked([logits]) is logits  # all of its memory
    one = stacked([logits[1:2]])
    assert isinstance(one, DeviceLogits)
    assert one.whole()
    host = [values[:2].astype("f"), values[4:].astype("f")]
    np.testing.assert_array_equal(stacked(host), values[[0, 1, 4]])


def test_what_is_queued_on_the_stream_is_waited_for_by_who_reads_it(gpu, values):
    """Copies on a stream that is known wait for nothing; whoever else reads the memory is told the stream."""
    stream = CudaStream.create(INDEX)
    logits = DeviceLogits(*values.shape, values.dtype, stream)
    ctypes.memmove(logits.address, values.ctypes.data, values.nbytes)
    gpu.calls.clear()
    taken = logits.taken(np.array([3, 0, 4]))
    assert taken.__cuda_array_interface__["stream"] == stream.handle == taken.stream
    assert not {"synchronise", "wait"} & set(gpu.calls)
    np.testing.assert_array_equal(taken, values[[3, 0, 4]])
    assert "wait" in gpu.calls
    assert "synchronise" not in gpu.calls


def test_memory_is_given_back_when_nothing_uses_it(gpu: HostRuntime) -> None:
    """Or another stream could write to what this one still reads."""
    stream = CudaStream.create(INDEX)
    logits = DeviceLogits(2, 3, np.dtype(np.float32), stream)
    copy = logits.taken(np.array([0]))
    gpu.calls.clear()
    del logits
    assert gpu.calls[-1] == "wait"
    gpu.calls.clear()
    del copy
    assert gpu.calls == []
