"""Logits that stay on a GPU, with stand-ins for its memory and driver: no GPU has run them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from helpers.models.stand_in_gpu import INDEX, DeviceValue, HostRuntime, gpu

from lite.models.decoder.device_logits import DeviceLogits, merged

__all__ = ["gpu"]  # a fixture


def uploaded(values: np.ndarray) -> DeviceLogits:
    logits = DeviceLogits(*values.shape, values.dtype, INDEX)
    ctypes.memmove(logits.address, values.ctypes.data, values.nbytes)
    return logits


@pytest.fixture(params=["f", "e"])
def values(request: pytest.FixtureRequest, rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(5, 7)).astype(request.param)


def test_an_array_of_them_is_a_copy_in_float32(gpu: HostRuntime, values: np.ndarray) -> None:
    logits = uploaded(values)
    host = np.asarray(logits)
    assert host.dtype == np.float32
    np.testing.assert_array_equal(host, values)
    assert np.asarray(logits, np.float64).dtype == np.float64
    assert gpu.calls == [f"set {INDEX}", "fetch"] * 2
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


def test_parts_on_the_host(values: np.ndarray) -> None:
    parts = [([2, 0], values[:2].astype("f")), ([1], values[2:3].astype("f"))]
    np.testing.assert_array_equal(merged(3, parts), values[[1, 2, 0]])


@pytest.mark.parametrize("call", ["taken", "array"])
def test_errors_of_the_gpu_are_raised(
    gpu: HostRuntime, values: np.ndarray, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    logits = uploaded(values)
    monkeypatch.setattr(gpu, "cudaMemcpy", lambda *args: 700)
    with pytest.raises(RuntimeError, match=r"bytes of logits .* failed: CUDA error 700"):
        logits.taken(np.array([1])) if call == "taken" else np.asarray(logits)


def test_no_room_is_a_memory_error(gpu: HostRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any) -> Any:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(DeviceValue, "ortvalue_from_shape_and_type", full)
    with pytest.raises(MemoryError, match=r"cannot allocate 4,000 bytes of logits on cuda: out of memory"):
        DeviceLogits(10, 100, np.dtype(np.float32), INDEX)
