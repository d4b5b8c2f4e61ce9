"""Functions of logits on a device, beyond what tests/kernels asks: shared rows, outputs, streams."""

from typing import Any

import numpy as np
import pytest
from helpers import reference
from helpers.cases import raises
from helpers.kernels_under_test import SIMULATED, Foreign

from lite.kernels import (
    entropy,
    log_softmax_stats,
    masked_log_softmax,
    token_log_probs,
    token_log_probs_and_entropy,
)
from lite.kernels._device import gpu_of
from lite.kernels._logits import Logits
from lite.kernels.cuda import _softmax
from lite.kernels.cuda._jit import cuda, kernel
from lite.kernels.cuda._threads import WARP, before, together
from lite.kernels.cuda._vectors import VALUES
from lite.kernels.cuda.log_softmax import RowLayout

if not cuda.is_available():
    pytest.skip("needs a GPU, or NUMBA_ENABLE_CUDASIM=1", allow_module_level=True)

WIDE = 700 if SIMULATED else 300_000  # logits that several blocks share


def rows_of(logits: Any) -> RowLayout:
    return RowLayout(gpu_of(None, logits=logits), Logits(logits, None, 1.0, gpu=gpu_of(None, logits=logits)))


@pytest.mark.parametrize(
    ("name", "masked"), [("float32", False), ("float32", True), ("bfloat16", True), ("float64", False)]
)
def test_one_row_by_several_blocks(rng: Any, name: str, masked: bool) -> None:
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name) if name == "bfloat16" else name)
    host = (rng.normal(size=(1, WIDE)) * 3).astype(dtype)
    keep = rng.random(host.shape) < 0.9 if masked else np.ones(host.shape, bool)
    token = np.flatnonzero(keep[0])[-3]
    logits, mask = Foreign(host), cuda.to_device(keep) if masked else None
    assert rows_of(logits).parts > 1
    exact = np.where(keep, host.astype(np.float64), -np.inf)
    with np.errstate(invalid="ignore"):
        expected = reference.log_softmax(exact)
    rtol = 1e-13 if name == "float64" else 1e-6
    got = masked_log_softmax(logits, mask).copy_to_host()
    np.testing.assert_allclose(got, expected, rtol=rtol)
    score, spread = token_log_probs_and_entropy(logits, cuda.to_device(np.array([token])), mask)
    np.testing.assert_allclose(score.copy_to_host(), expected[:, token], rtol=rtol)
    np.testing.assert_allclose(spread.copy_to_host(), reference.entropy(exact[keep][None]), rtol=5 * rtol)
    top, total = log_softmax_stats(logits, mask)
    np.testing.assert_array_equal(top.copy_to_host(), exact.max(-1))
    np.testing.assert_allclose(total.copy_to_host(), np.logaddexp.reduce(exact[0][keep[0]])[None], rtol=rtol)


def test_blocks_that_have_nothing_to_say() -> None:
    host = np.full((1, WIDE), -np.inf, np.float32)
    assert rows_of(cuda.to_device(host)).parts > 1
    assert np.isneginf(masked_log_softmax(cuda.to_device(host)).copy_to_host()).all()
    assert entropy(cuda.to_device(host)).copy_to_host() == [0]
    host[0, -1] = np.nan
    assert np.isnan(masked_log_softmax(cuda.to_device(host)).copy_to_host()).all()
    host[0, -1] = 7
    expected = np.where(host > 0, 0, -np.inf)
    np.testing.assert_array_equal(masked_log_softmax(cuda.to_device(host)).copy_to_host(), expected)


def test_rows_start_anywhere(rng: Any) -> None:
    """Accesses of 16 bytes begin where they may; what is before and after them is read alone."""
    for first in (0, 1, 3, 8):
        for dtype in (np.float16, np.float32):
            host = rng.normal(size=(2, 90)).astype(dtype)[:, first : first + 71]
            expected = reference.log_softmax(host.astype(np.float64))
            got = masked_log_softmax(Foreign(host)).copy_to_host()
            np.testing.assert_allclose(got, expected, rtol=1e-13 if dtype == np.float64 else 1e-6)


@pytest.mark.skipif(not SIMULATED, reason="a GPU itself refuses accesses that are not aligned")
@pytest.mark.parametrize(("dtype", "first"), [(np.float16, 0), (np.float16, 5), (np.float64, 1)])
def test_wide_accesses_are_aligned_and_inside(rng, dtype, first, monkeypatch):
    host = rng.normal(size=(2, 190)).astype(dtype)[:, first : first + 171]
    logits, places = Foreign(host), []
    load = _softmax.load

    def checked(memory: Any, at: Any, stride: Any, values: Any) -> None:
        width = 16 // host.itemsize
        places.extend(range(at, at + VALUES // width * stride, stride))
        load(memory, at, stride, values)

    monkeypatch.setattr(_softmax, "load", checked)
    masked_log_softmax(logits)
    start = logits.__cuda_array_interface__["data"][0]
    assert places
    for place in places:
        assert (start + place * host.itemsize) % 16 == 0
        row, at = divmod(place, 190)
        assert row < 2
        assert at + 16 // host.itemsize <= 171


def test_many_axes_that_do_not_merge(rng: Any) -> None:
    host = rng.normal(size=(3, 3, 3, 3, 9)).astype(np.float32)[::2, ::2, ::2, ::2]
    for given in (host, host[1]):  # four are copied, three are read where they lie
        got = masked_log_softmax(Foreign(given)).copy_to_host()
        np.testing.assert_allclose(got, reference.log_softmax(given), rtol=1e-6)


def test_out(rng: Any) -> None:
    dtype = np.float32
    for layout in ("rows", "in place", "shifted", "strided", "other axis"):
        memory = rng.normal(size=(5, 200)).astype(dtype)
        axis = 0 if layout == "other axis" else -1
        host = memory[:4, :100]
        given = Foreign(memory)
        logits = view(given, memory, host)
        empty = np.zeros((4, 210), dtype)
        there, out_host = {
            "rows": (Foreign(empty), empty[:, 7:107]),
            "in place": (given, host),
            "shifted": (given, memory[1:, 3:103]),
            "strided": (Foreign(empty), empty[:, :200:2]),
            "other axis": (Foreign(empty), empty[:, :100]),
        }[layout]
        base = memory if there is given else empty
        out = view(there, base, out_host)
        expected, before_ = reference.log_softmax(np.moveaxis(host, axis, -1).astype(np.float64)), base.copy()
        assert masked_log_softmax(logits, axis=axis, out=out) is out
        after = there.copy_to_host().view(dtype).reshape(base.shape)
        place = (out_host.ctypes.data - base.ctypes.data) // base.itemsize
        step = [stride // base.itemsize for stride in out_host.strides]
        inside = np.zeros(base.shape, bool)
        inside.reshape(-1)[place + step[0] * np.arange(4)[:, None] + step[1] * np.arange(100)] = True
        np.testing.assert_allclose(
            after[inside].reshape(out_host.shape), np.moveaxis(expected, -1, axis), rtol=1e-6
        )
        np.testing.assert_array_equal(after[~inside], before_[~inside])  # nothing else is written to


def view(whole: Foreign, base: np.ndarray, part: np.ndarray) -> Foreign:
    """`part` of the host's `base`, in the copy of it that `whole` is on the device."""
    start = whole.__cuda_array_interface__["data"][0] + part.ctypes.data - base.ctypes.data
    out = Foreign(part, data=(start, False))
    out.owner = whole.owner
    return out


def test_streams_and_devices() -> None:
    logits, tokens = np.zeros((2, 4), np.float32), np.zeros(2, np.int64)
    stream = cuda.stream()
    there = cuda.to_device(logits)
    got = token_log_probs(there, cuda.to_device(tokens), stream=stream)
    np.testing.assert_allclose(got.copy_to_host(stream=stream), -np.log(4), rtol=1e-6)
    with pytest.raises(TypeError, match=r"mixed devices: logits is an array in CUDA memory .*tokens is not"):
        token_log_probs(there, tokens)
    raises(TypeError, r"mixed devices: logits .*mask is not", entropy, there, np.ones((2, 4), bool))
    with pytest.raises(TypeError, match=r"mixed devices: logits .*out is not"):
        masked_log_softmax(there, out=np.zeros((2, 4), np.float32))
    raises(TypeError, "stream goes with arrays in CUDA memory", log_softmax_stats, logits, stream=stream)


def test_a_token_out_of_range_is_not_read() -> None:
    logits = np.zeros((3, 4), np.float32)
    tokens = cuda.to_device(np.array([0, 2**40, 3]))
    with pytest.raises(IndexError, match=rf"tokens\[1\] is {2**40}, which is outside the vocabulary of 4"):
        token_log_probs(cuda.to_device(logits), tokens)


@kernel
def reduce_all(values: Any, lanes: Any, sums: Any, tops: Any) -> None:
    i = cuda.threadIdx.x
    slots = cuda.shared.array(0, values.dtype)
    tops[i] = together(values[i], True, i, lanes, slots)
    sums[i] = together(values[i], False, i, lanes, slots)


@kernel
def prefixes(values: Any, out: Any, totals: Any) -> None:
    i = cuda.threadIdx.x
    slots = cuda.shared.array(0, values.dtype)
    out[i], totals[i] = before(values[i], i, cuda.blockDim.x, slots)


def test_threads_reduce_together(rng: Any) -> None:
    """The simulator's emulated warps and the GPU's give the same: sums of neighbours, for each of them."""
    for lanes in (1, 2, WARP, 4 * WARP):
        values = rng.integers(-99, 99, 4 * WARP).astype(np.float64)
        gpu = gpu_of(None, values=cuda.to_device(values))
        sums, tops = gpu.empty(values.shape, np.float64), gpu.empty(values.shape, np.float64)
        gpu.launch(reduce_all, 1, 4 * WARP, cuda.to_device(values), lanes, sums, tops, shared=8 * 32)
        groups = values.reshape(-1, lanes)
        np.testing.assert_array_equal(
            sums.copy_to_host().reshape(groups.shape), groups.sum(1, keepdims=True) + 0 * groups
        )
        np.testing.assert_array_equal(
            tops.copy_to_host().reshape(groups.shape), groups.max(1, keepdims=True) + 0 * groups
        )


def test_threads_count_what_is_before_them(rng: Any) -> None:
    values = rng.integers(0, 99, 4 * WARP).astype(np.float64)
    gpu = gpu_of(None, values=cuda.to_device(values))
    out, totals = gpu.empty(values.shape, np.float64), gpu.empty(values.shape, np.float64)
    gpu.launch(prefixes, 1, 4 * WARP, cuda.to_device(values), out, totals, shared=8 * 4 * WARP)
    np.testing.assert_array_equal(out.copy_to_host(), np.cumsum(values) - values)
    np.testing.assert_array_equal(totals.copy_to_host(), values.sum())
