"""Blocks of the vocabulary give what all logits at once give, in the memory of one block."""

from __future__ import annotations

import tracemalloc
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers import reference

from lite.kernels import get_num_threads, linear_log_probs, set_num_threads, token_log_probs
from lite.kernels.linear_log_probs import LinearLogProbs

ROWS, FEATURES, VOCABULARY = 13, 6, 1300
BLOCKS = [1 << 25, ROWS * 4 * 600, 4 * 512 * 5, 1]  # all; of the vocabulary; and of the rows; single ids


def frozen(*arrays: Any) -> list[Any]:
    for array in arrays:
        array.flags.writeable = False
    return list(arrays)


def make(rng: np.random.Generator, dtype: Any = np.float32) -> list[Any]:
    """Read-only hidden states, matrix (a transposed view), ids and bias."""
    hidden = rng.normal(size=(ROWS, FEATURES)).astype(dtype)
    weight = rng.normal(size=(FEATURES, VOCABULARY)).astype(dtype).T
    bias = rng.normal(size=VOCABULARY).astype(dtype)
    return frozen(hidden, weight, rng.integers(0, VOCABULARY, ROWS), bias)


class Rows:
    """A matrix that is given a block at a time, which remembers the blocks."""

    def __init__(self, matrix: Any) -> None:
        self.matrix, self.shape, self.asked = matrix, matrix.shape, []

    def rows(self, start: int, stop: int) -> Any:
        self.asked.append((start, stop))
        return self.matrix[start:stop].astype(np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64])
def test_log_probs_and_derivatives(rng, dtype):
    for block_bytes in BLOCKS[:3] if dtype == np.float32 else BLOCKS[1:2]:
        hidden, weight, ids, bias = make(rng, dtype)
        temperature = rng.uniform(0.5, 2.0, ROWS)
        wide = dtype == np.float64
        close = {"rtol": 1e-12, "atol": 1e-12} if wide else {"rtol": 1e-5, "atol": 1e-5}
        expected, slopes = reference.linear_log_probs(hidden, weight, ids, bias, temperature)
        got = linear_log_probs(
            hidden, weight, ids, bias=bias, temperature=temperature, block_bytes=block_bytes
        )
        assert got.dtype == (np.float64 if wide else np.float32)
        np.testing.assert_allclose(got, expected, **close)
        call = LinearLogProbs(hidden, weight, ids, bias, None, temperature, block_bytes=block_bytes)
        np.testing.assert_array_equal(call.log_probs(directions=True), got)
        g = rng.normal(size=ROWS)
        by_logits = slopes * g[:, None]
        by_hidden = by_logits @ weight.astype(np.float64)
        np.testing.assert_allclose(call.gradients(g, True).hidden, by_hidden, **close)
        call = LinearLogProbs(hidden, weight, ids, bias, None, temperature, block_bytes=block_bytes)
        np.testing.assert_array_equal(call.log_probs(), got)
        again = call.gradients(g, True, True, True)
        np.testing.assert_allclose(again.hidden, by_hidden, **close)
        np.testing.assert_allclose(again.weight, by_logits.T @ hidden.astype(np.float64), **close)
        np.testing.assert_allclose(again.bias, by_logits.sum(0), **close)
        assert again.weight.flags.f_contiguous


def test_rows_that_do_not_count(rng):
    for block_bytes in BLOCKS[:2]:
        hidden, weight, ids, bias = make(rng)
        mask = np.arange(ROWS) % 3 > 0
        hidden, ids = hidden.copy(), ids.copy()
        hidden[~mask], ids[~mask], ids[1] = np.nan, 10**6, -7
        given = (*frozen(hidden, weight, ids, bias), mask.copy(), 1.0, -7, block_bytes)
        calls = LinearLogProbs(*given), LinearLogProbs(*given)
        got, _ = (call.log_probs(directions=i == 0) for i, call in enumerate(calls))
        mask[1] = False
        expected, slopes = reference.linear_log_probs(hidden[mask], weight, ids[mask], bias)
        np.testing.assert_array_equal(got[~mask], 0)
        np.testing.assert_allclose(got[mask], expected, rtol=1e-5)
        for call in calls:
            found = call.gradients(np.where(mask, 2.0, np.nan), True).hidden
            np.testing.assert_array_equal(found[~mask], 0)
            np.testing.assert_allclose(found[mask], 2 * slopes @ weight, rtol=1e-4, atol=1e-5)


def test_a_row_whose_gradient_is_0_is_left_alone(rng):
    hidden, weight, ids, bias = make(rng)
    hidden = hidden.copy()
    hidden[2] = np.nan
    g = np.where(np.arange(ROWS) == 2, 0.0, 1.0)
    for directions in (True, False):
        call = LinearLogProbs(hidden, weight, ids, bias)
        assert np.isnan(call.log_probs(directions)).nonzero()[0].tolist() == [2]
        found = call.gradients(g, True, not directions, not directions)
        assert all(np.isfinite(part).all() for part in found if part is not None)
    nothing = call.gradients(np.zeros(ROWS), True, True, True)
    assert not any(part.any() for part in nothing)


def test_infinite_logits_and_nan_as_of_token_log_probs():
    for block_bytes in BLOCKS:
        hidden, weight = np.ones((5, 1), np.float32), np.zeros((9, 1), np.float32)
        logits = np.zeros((5, 9), np.float32)
        for bias in (
            [0, -np.inf] + [0] * 7, [-np.inf] * 9, [0] * 8 + [np.inf], [np.inf] * 2 + [0] * 7,
            [-np.inf] * 8 + [3],
            [0] * 4 + [np.nan] + [0] * 4, [np.inf] + [0] * 7 + [np.nan], [-np.inf] * 8 + [np.nan],
        ):  # fmt: skip
            ids = np.array([0, 1, 4, 7, 8])
            got = linear_log_probs(hidden, weight, ids, bias=np.float32(bias), block_bytes=block_bytes)
            np.testing.assert_allclose(got, token_log_probs(logits + np.float32(bias), ids), rtol=1e-6)


def test_confident_rows_keep_relative_precision():
    """The highest logits are counted apart, also if blocks have the same one."""
    for block_bytes in BLOCKS:
        bias = np.zeros(600, np.float32)
        bias[[5, 599]] = 20, 20
        hidden, weight = np.zeros((1, 1), np.float32), np.zeros((600, 1), np.float32)
        got = linear_log_probs(hidden, weight, np.array([5]), bias=bias, block_bytes=block_bytes)
        np.testing.assert_allclose(got, [-np.log(2) - np.log1p(299 * np.exp(-20))], rtol=1e-6)
        bias[5], bias[599] = -np.inf, 25
        got = linear_log_probs(hidden, weight, np.array([599]), bias=bias, block_bytes=block_bytes)
        np.testing.assert_allclose(got, [-np.log1p(598 * np.exp(-25))], rtol=1e-5)


def test_blocks_have_the_size_that_is_asked_for(rng):
    for rows in (3, 300):
        hidden, weight = (rng.normal(size=(n, 64)).astype(np.float32) for n in (rows, 5000))
        call = LinearLogProbs(hidden, weight, np.zeros(rows, np.int64), block_bytes=100_000)
        sizes = [block.nbytes for *_, block in call._blocks(call._hidden)]
        assert sum(sizes) == 4 * rows * 5000
        assert 50_000 < max(sizes) <= 100_000


@pytest.mark.depth
def test_memory_is_that_of_a_block(rng):
    """Neither logits nor a copy of the matrix: both are larger than what is taken."""
    dtype = np.float32
    rows, features, vocabulary = 300, 64, 5000
    hidden = rng.normal(size=(rows, features)).astype(np.float32)
    ids, g = rng.integers(0, vocabulary, rows), np.ones(rows)
    for weight in (
        rng.normal(size=(vocabulary, features)).astype(dtype),
        rng.normal(size=(features, vocabulary)).astype(dtype).T,
    ):
        for counted in (False, True):  # the first time compiles
            if counted:
                tracemalloc.start()
            call = LinearLogProbs(hidden, weight, ids, block_bytes=100_000)
            call.log_probs(directions=True)
            call.gradients(g, True)
            taken = tracemalloc.get_traced_memory()[1]
            call = LinearLogProbs(hidden, weight, ids, block_bytes=100_000)
            call.log_probs()
            tracemalloc.reset_peak()
            call.gradients(g, True, True)
            again = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert 0 < taken < 600_000, taken  # logits are 6 MB, the matrix 1.28 MB
        assert 0 < again < 600_000 + 4 * weight.size, again


def test_a_quantized_matrix_is_asked_for_each_block_once(rng):
    hidden, weight, ids, bias = make(rng)
    matrix = Rows(weight)
    call = LinearLogProbs(hidden, matrix, ids, bias, block_bytes=BLOCKS[1])
    expected, slopes = reference.linear_log_probs(hidden, weight, ids, bias)
    np.testing.assert_allclose(call.log_probs(directions=True), expected, rtol=1e-5)
    assert len(matrix.asked) == 3
    assert [start for start, _ in matrix.asked] == [0, *(stop for _, stop in matrix.asked[:-1])]
    np.testing.assert_allclose(
        call.gradients(np.ones(ROWS), True).hidden, slopes @ weight, rtol=1e-4, atol=1e-5
    )
    assert len(matrix.asked) == 3
    linear_log_probs(hidden, matrix, ids, mask=np.zeros(ROWS, bool))
    assert len(matrix.asked) == 3
    matrix.matrix = weight[:, :3]
    with pytest.raises(
        ValueError, match=r"weight.rows\(0, 1300\) must have the shape \(1300, 6\), got \(1300, 3\)"
    ):
        linear_log_probs(hidden, matrix, ids)


def test_shapes(rng):
    hidden, weight, ids, _ = make(rng)
    flat = linear_log_probs(hidden[:12], weight, ids[:12])
    shaped = linear_log_probs(hidden[:12].reshape(3, 4, -1), weight, ids[:12].reshape(3, 4))
    np.testing.assert_array_equal(shaped, flat.reshape(3, 4))
    np.testing.assert_allclose(linear_log_probs(hidden[3], weight, ids[3]), flat[3], rtol=1e-5)
    for shape in ((0,), (2, 0)):
        call = LinearLogProbs(np.zeros((*shape, FEATURES), np.float32), weight, np.zeros(shape, int))
        assert call.log_probs().shape == shape
        found = call.gradients(np.zeros(shape), True, True)
        assert found.hidden.shape == (*shape, FEATURES)
        assert found.weight.shape == weight.shape


def test_threads_give_the_same(rng):
    hidden, weight = (
        rng.normal(size=(900, 4)).astype(np.float32),
        rng.normal(size=(1000, 4)).astype(np.float32),
    )
    ids = rng.integers(0, 1000, 900)
    before, found = get_num_threads(), []
    for count in (1, 3):
        set_num_threads(count)
        try:
            call = LinearLogProbs(hidden, weight, ids)
            found.append([call.log_probs(), *call.gradients(np.ones(900), True, True, True)])
        finally:
            set_num_threads(before)
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_errors_name_the_argument():
    for changes, error, words in [
        ({"hidden": np.ones((2, 3), int)}, TypeError, "hidden must be float16.*int64"),
        ({"weight": np.ones((5, 3), int)}, TypeError, "weight must be float16.*int64"),
        ({"bias": np.ones(5, int)}, TypeError, "bias must be float16.*int64"),
        ({"weight": np.ones(3)}, ValueError,
            r"weight must have the shape \(vocabulary, features\), got \(3,\)"),
        ({"hidden": np.ones((2, 4))}, ValueError, r"features of weight \(5, 3\) last, got \(2, 4\)"),
        ({"hidden": np.float32(1)}, ValueError, r"features of weight \(5, 3\) last, got \(\)"),
        ({"bias": np.ones(4)}, ValueError, r"bias must have the shape \(5,\), got \(4,\)"),
        ({"ids": np.ones(2)}, TypeError, "ids must be integers, got float64"),
        ({"ids": np.ones((2, 1), int)}, ValueError, r"ids must have the shape \(2,\).*got \(2, 1\)"),
        ({"ids": np.array([0, 5])}, IndexError, r"ids\[1\] is 5, which is outside the vocabulary of 5"),
        ({"ids": np.array([-1, 5])}, IndexError, r"ids\[0\] is -1, which is outside"),
        ({"mask": np.ones(2)}, TypeError, "mask must be boolean, got float64"),
        ({"mask": np.ones(3, bool)}, ValueError, r"mask must have the shape \(2,\) of ids, got \(3,\)"),
        ({"temperature": 0.0}, ValueError, "temperature must be positive.*0.0"),
        ({"temperature": np.ones(3)}, ValueError, r"one of each row, of shape \(2,\), got \(3,\)"),
        ({"block_bytes": 0}, ValueError, "block_bytes must be positive, got 0"),
    ]:  # fmt: skip
        given = {"hidden": np.ones((2, 3)), "weight": np.ones((5, 3)), "ids": np.zeros(2, int)}
        with pytest.raises(error, match=words):
            linear_log_probs(**{**given, **changes})


def test_arrays_in_cuda_memory_are_refused():
    class Device:
        __cuda_array_interface__: ClassVar[Any] = {}

    with pytest.raises(TypeError, match=r"hidden is an array in CUDA memory .Device.*copy it to the host"):
        linear_log_probs(Device(), np.ones((5, 3)), np.zeros(2, int))
