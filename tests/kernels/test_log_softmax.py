import numpy as np
import pytest
from helpers import reference
from helpers.cases import raises
from helpers.kernels_under_test import (
    ON_DEVICE,
    SIMULATED,
    entropy,
    log_softmax_stats,
    masked_log_softmax,
    token_log_probs,
    token_log_probs_and_entropy,
)
from helpers.peaks import peak_of
from helpers.tiers import standing_for_all

from lite.kernels.backends.choice import backend

COMPILED = backend() != "numpy" and not SIMULATED
RTOL = 1e-6 if COMPILED else 1e-4  # plain loops sum one by one, and never fuse
SIZES = [1, 33, 600] if SIMULATED else [1, 2, 33, 2047, 2048, 2049, 5000]
FLOATS = standing_for_all(["float32", "float16", "float64"])


LAYOUTS = [
    lambda a: a[:, 1:], lambda a: a[::-1, ::2], lambda a: a.swapaxes(0, 1), lambda a: a[..., 3:9],
    lambda a: np.broadcast_to(a[0, 0], a.shape),
]  # fmt: skip
if not ON_DEVICE:
    LAYOUTS.append(lambda a: a.astype(a.dtype.newbyteorder()))


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(pytest.importorskip("ml_dtypes"), name) if name == "bfloat16" else name)


def test_equals_float64(rng):
    for size in SIZES:
        for temperature in [1.0, 0.3] if size in (33, 2049) else [1.0]:
            logits = (rng.normal(size=(2, size)) * 3).astype(np.float32)
            expected = reference.log_softmax(logits, temperature)
            got = masked_log_softmax(logits, temperature=temperature)
            assert got.dtype == np.float32
            np.testing.assert_allclose(got, expected, rtol=RTOL, atol=2e-7)
            spread = entropy(logits, temperature=temperature)
            np.testing.assert_allclose(
                spread, reference.entropy(logits, temperature), rtol=5 * RTOL, atol=1e-7
            )
            stats = log_softmax_stats(logits, temperature=temperature)
            scaled = logits.astype(np.float64) / temperature
            np.testing.assert_allclose(stats.max, scaled.max(-1), rtol=1e-6)
            np.testing.assert_allclose(
                stats.log_sum_exp, np.logaddexp.reduce(scaled, -1), rtol=RTOL, atol=1e-6
            )


def test_a_temperature_for_each_row(rng):
    """Of the rows as they are without `axis`."""
    logits = rng.normal(size=(2, 70 if SIMULATED else 700, 3)).astype(np.float32)
    temperatures = rng.uniform(0.2, 3.0, (2, 3))
    got = masked_log_softmax(logits, axis=1, temperature=temperatures)
    spread = entropy(logits, axis=1, temperature=temperatures)
    for i, j in np.ndindex(2, 3):
        row, t = np.ascontiguousarray(logits[i, :, j])[None], float(temperatures[i, j])
        np.testing.assert_allclose(got[i, :, j], masked_log_softmax(row, temperature=t)[0], rtol=1e-6)
        np.testing.assert_allclose(spread[i, j], entropy(row, temperature=t)[0], rtol=1e-6)


@pytest.mark.parametrize("name", standing_for_all(["float32", "float64"]))
def test_types(rng, name):
    logits = (rng.normal(size=(3, 2, 70)) * 4).astype(dtype_of(name))
    wide = name == "float64"
    rtol = 1e-13 if wide else 1e-6
    exact = logits.astype(np.float64)
    got = masked_log_softmax(logits)
    assert got.dtype == (np.float64 if wide else np.float32)
    np.testing.assert_allclose(got, reference.log_softmax(exact), rtol=rtol, atol=rtol)
    np.testing.assert_allclose(entropy(logits), reference.entropy(exact), rtol=5 * rtol)
    assert {entropy(logits).dtype, *(part.dtype for part in log_softmax_stats(logits))} == {got.dtype}


def test_any_axis(rng):
    for axis in (0, 1, -1):
        for by_token in (False, True):
            logits = rng.normal(size=(4, 5, 6)).astype(np.float32)
            last = np.moveaxis(logits, axis, -1)
            flags = rng.random(last.shape if by_token else last.shape[:-1]) < 0.7
            mask = np.moveaxis(flags, -1, axis) if by_token else flags
            got = masked_log_softmax(logits, mask, axis=axis)
            assert got.shape == logits.shape
            np.testing.assert_array_equal(np.moveaxis(got, axis, -1), masked_log_softmax(last, flags))
            np.testing.assert_array_equal(entropy(logits, mask, axis=axis), entropy(last, flags))
            np.testing.assert_equal(
                log_softmax_stats(logits, mask, axis=axis), log_softmax_stats(last, flags)
            )


@pytest.mark.parametrize("name", FLOATS)
def test_token_mask(rng, name):
    logits = (rng.normal(size=(4, 300 if SIMULATED else 2500)) * 2).astype(dtype_of(name))
    mask = rng.random(logits.shape) < 0.5
    mask[2] = False
    logits[0, ~mask[0]] = np.nan  # never looked at
    got = masked_log_softmax(logits, mask)
    assert (got[~mask] == -np.inf).all()  # a row with nothing left, too
    stats, spread = log_softmax_stats(logits, mask), entropy(logits, mask)
    for row in (0, 1, 3):
        kept = logits[row, mask[row]].astype(np.float64)
        np.testing.assert_allclose(got[row, mask[row]], reference.log_softmax(kept), rtol=RTOL)
        np.testing.assert_allclose(spread[row], reference.entropy(kept), rtol=RTOL)
        np.testing.assert_allclose(stats.max[row], kept.max())
        np.testing.assert_allclose(stats.log_sum_exp[row], np.logaddexp.reduce(kept), rtol=RTOL)
    assert (spread[2], stats.max[2], stats.log_sum_exp[2]) == (0, -np.inf, -np.inf)


def test_position_mask(rng):
    logits = rng.normal(size=(2, 3, 8)).astype(np.float32)
    mask = np.array([[True, False, True], [False, True, True]])
    logits[0, 1] = np.nan  # never looked at
    got = masked_log_softmax(logits, mask)
    np.testing.assert_array_equal(got[~mask], 0)
    np.testing.assert_allclose(got[mask], reference.log_softmax(logits[mask]), rtol=1e-6)
    for numbers in (entropy(logits, mask), *log_softmax_stats(logits, mask)):
        np.testing.assert_array_equal(numbers[~mask], 0)
        assert (numbers[mask] != 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_infinite_logits(dtype):
    for far in (0, 300 if SIMULATED else 5000):
        inf, half = np.inf, -np.log(2)
        logits = np.array([[0, -inf, 0], [inf, 0, inf], [-inf, -inf, -inf], [inf, -inf, 1]], dtype)
        expected = [[half, -inf, half], [half, -inf, half], [-inf] * 3, [0, -inf, -inf]]
        logits = np.concatenate([np.full((4, far), -inf, dtype), logits], -1)
        np.testing.assert_allclose(masked_log_softmax(logits)[:, far:], expected, rtol=1e-6)
        assert (masked_log_softmax(logits)[:, :far] == -inf).all()
        np.testing.assert_allclose(entropy(logits), [np.log(2), np.log(2), 0, 0], rtol=1e-6)
        top, total = log_softmax_stats(logits)
        np.testing.assert_array_equal(top, [0, inf, -inf, inf])
        np.testing.assert_allclose(total, [np.log(2), inf, -inf, inf], rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nan_stays_in_its_row(dtype):
    for others in (0.0, np.inf, -np.inf):
        for place in (0, 17, 0.96):
            sign = 1 if place else -1
            size = 150 if SIMULATED else 2600
            logits = np.zeros((3, size), dtype)
            logits[1] = others
            logits[1, 5] = 3
            logits[1, int(place * size) if place < 1 else place] = np.copysign(np.nan, sign)
            got = masked_log_softmax(logits)
            assert np.isnan(got[1]).all()
            np.testing.assert_allclose(got[[0, 2]], -np.log(size), rtol=1e-6)
            for numbers in (entropy(logits), *log_softmax_stats(logits)):
                np.testing.assert_array_equal(np.isnan(numbers), [False, True, False])


def test_a_maximum_that_rises_block_by_block():
    """The reference of the exponents is left behind a little, or by far."""
    for jump in (1.0, 15.0, 50.0, 1000.0):
        block = 64 if SIMULATED else 2048
        logits = np.zeros(4 * block, np.float32)
        logits[block:] += np.float32(jump)
        logits[2 * block :: 3] += np.float32(jump)
        logits[3 * block + 5] += np.float32(2 * jump)
        expected = reference.log_softmax(logits)
        np.testing.assert_allclose(masked_log_softmax(logits), expected, rtol=RTOL, atol=1e-30)
        np.testing.assert_allclose(entropy(logits), reference.entropy(logits), rtol=5 * RTOL, atol=1e-30)


def hard_rows(size: int) -> np.ndarray:
    ramp = np.linspace(-50, 50, size)
    one = np.arange(size) == size // 3
    return np.stack(
        [
            np.where(one, 30.0, 0.0), np.where(one, 99.0, 0.0), np.full(size, -12.5), np.full(size, 1e5),
            ramp, ramp[::-1], np.linspace(-1e-6, 1e-6, size), np.where(one, 0.0, -17.3),
        ]
    ).astype(np.float32)  # fmt: skip


@pytest.mark.parametrize("size", [2, 40_000] if COMPILED else [2, 300])
def test_hard_rows_to_a_millionth(size):
    logits = hard_rows(size)
    expected = reference.log_softmax(logits)
    within = (np.abs(expected) <= 100) & (expected < -1e-30)
    got = masked_log_softmax(logits)
    np.testing.assert_allclose(got[within], expected[within], rtol=RTOL)
    tokens = np.full(len(logits), size // 3)
    scores, spread = token_log_probs_and_entropy(logits, tokens)
    np.testing.assert_allclose(scores, expected[:, size // 3], rtol=RTOL, atol=1e-30)
    p = np.exp(expected)
    exact = -(p * expected).sum(-1)
    np.testing.assert_allclose(spread, exact, rtol=2e-6 if COMPILED else 1e-4, atol=1e-30)


def test_fused_equals_the_two_calls(rng):
    logits = rng.normal(size=(3, 4, 50)).astype(np.float32)
    tokens = rng.integers(0, 50, (3, 4))
    tokens[0, 1] = -100
    for mask in (None, rng.random((3, 4)) < 0.7, rng.random((3, 4, 50)) < 0.7):
        scores, spread = token_log_probs_and_entropy(logits, tokens, mask, temperature=0.7)
        np.testing.assert_array_equal(scores, token_log_probs(logits, tokens, mask, temperature=0.7))
        counted = np.where(tokens == -100, 0, entropy(logits, mask, temperature=0.7))
        np.testing.assert_array_equal(spread, counted)


@pytest.mark.host_only
def test_out(rng):
    dtype = np.float32
    for layout in ("rows", "in place", "shifted", "strided", "other axis"):
        memory = rng.normal(size=(7, 5000)).astype(dtype)
        axis = 0 if layout == "other axis" else -1
        logits = memory[:6, :2500]
        out = {
            "rows": np.empty((6, 4000), dtype)[:, 7:2507],
            "in place": logits,
            "shifted": memory[1:, 3:2503],
            "strided": np.empty((6, 5000), dtype)[:, ::2],
            "other axis": np.empty((6, 2500), dtype),
        }[layout]
        expected = masked_log_softmax(logits.copy(), axis=axis)
        assert masked_log_softmax(logits, axis=axis, out=out) is out
        np.testing.assert_array_equal(out, expected)


def test_layouts(rng):
    for view in LAYOUTS:
        dtype = np.float32
        logits = view(rng.normal(size=(4, 6, 12)).astype(dtype))
        plain = np.array(logits, dtype=dtype, order="C")
        before = plain.copy()
        logits.flags.writeable = False
        np.testing.assert_array_equal(masked_log_softmax(logits), masked_log_softmax(plain))
        np.testing.assert_array_equal(entropy(logits), entropy(plain))
        np.testing.assert_array_equal(plain, before)


def test_empty():
    for shape in ((0,), (0, 5), (3, 0), (3, 0, 5)):
        logits = np.zeros(shape, np.float32)
        assert masked_log_softmax(logits).shape == shape
        np.testing.assert_array_equal(entropy(logits), np.zeros(shape[:-1]))
        np.testing.assert_array_equal(log_softmax_stats(logits).log_sum_exp, np.full(shape[:-1], -np.inf))


@pytest.mark.host_only
def test_many_rows_on_threads(rng):
    logits = rng.normal(size=(200 if COMPILED else 20, 2000)).astype(np.float32)
    np.testing.assert_allclose(masked_log_softmax(logits), reference.log_softmax(logits), rtol=RTOL)
    np.testing.assert_allclose(entropy(logits), reference.entropy(logits), rtol=RTOL)


@pytest.mark.host_only
@pytest.mark.skipif(not COMPILED, reason="too slow as plain loops")
def test_no_array_of_the_logits_size_is_made():
    dtype = np.float32
    logits = np.zeros((4, 33, 2000), dtype)[:, :-1]
    mask = np.ones((4, 33, 2000), bool)[:, :-1]
    out = np.empty(logits.shape, np.float64 if dtype == np.float64 else np.float32)

    def work() -> None:
        entropy(logits, mask)
        log_softmax_stats(logits)
        masked_log_softmax(logits, mask, out=out)

    assert peak_of(work) < 60_000 < mask.size


def test_errors_name_the_argument():
    logits = np.zeros((2, 3, 5), np.float32)
    for function in (masked_log_softmax, entropy, log_softmax_stats):
        raises(TypeError, r"logits must be float16.*got int64", function, logits.astype(np.int64))
        raises(ValueError, r"logits must have an axis.*got the shape \(\)", function, np.float32(1))
        with pytest.raises(ValueError, match=r"axis 3 is out of range for logits of shape \(2, 3, 5\)"):
            function(logits, axis=3)
        raises(TypeError, "mask must be boolean, got int64", function, logits, np.ones((2, 3), int))
        with pytest.raises(ValueError, match=r"positions \(2, 5\) or of logits \(2, 3, 5\), got \(2, 3\)"):
            function(logits, np.ones((2, 3), bool), axis=1)
        raises(ValueError, "temperature must be positive and finite", function, logits, temperature=0.0)
        raises(TypeError, "temperature must be a number, got str", function, logits, temperature="1")
    with pytest.raises(TypeError, match="out must be an array of float32, got float64"):
        masked_log_softmax(logits, out=np.empty(logits.shape))
    with pytest.raises(
        ValueError, match=r"out must be a writable array of the shape.*got a writable \(2, 5\)"
    ):
        masked_log_softmax(logits, out=np.empty((2, 5), np.float32))


@pytest.mark.host_only
def test_a_read_only_array_cannot_be_written_to():
    logits = np.zeros((2, 3), np.float32)
    frozen = np.empty_like(logits)
    frozen.flags.writeable = False
    raises(ValueError, "got a read-only", masked_log_softmax, logits, out=frozen)


def test_the_fused_call_reports_tokens_out_of_range():
    for token in (5, -1, 2**40):
        with pytest.raises(IndexError, match=rf"tokens\[1\] is {token}, .*vocabulary of 5"):
            token_log_probs_and_entropy(np.zeros((2, 5), np.float32), np.array([0, token]))


@pytest.mark.host_only
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 64, 333])
def test_results_that_are_written_past_the_caches(rng, monkeypatch, dtype, size):
    """Rows that begin anywhere in a line of memory; nothing before or after them is written to."""
    logits = rng.normal(size=(6, size)).astype(dtype)
    logits[2, 0] = np.inf
    mask = rng.random(logits.shape) < 0.8
    expected = masked_log_softmax(logits), masked_log_softmax(logits, mask)
    monkeypatch.setattr("lite.kernels.log_softmax._CACHED", 0)
    for flags, wanted in zip((None, mask), expected, strict=True):
        frame = np.full((6, size + 3), 7, wanted.dtype)
        masked_log_softmax(logits, flags, out=frame[:, 1:-2])
        np.testing.assert_array_equal(frame[:, 1:-2], wanted)
        assert (frame[:, [0, -2, -1]] == 7).all()


@pytest.mark.host_only
def test_an_out_that_is_not_aligned(rng, monkeypatch):
    logits = rng.normal(size=(2, 100)).astype(np.float32)
    expected = masked_log_softmax(logits)
    monkeypatch.setattr("lite.kernels.log_softmax._CACHED", 0)
    out = np.zeros(801, np.uint8)[1:].view(np.float32).reshape(2, 100)
    np.testing.assert_array_equal(masked_log_softmax(logits, out=out), expected)


@pytest.mark.host_only
@pytest.mark.skipif(not COMPILED, reason="float32 sums in another order")
def test_differences_that_float32_rounds():
    for size in (3, 5000):
        for temperature in (1.0, 0.7):
            for high, low in [(18.3, -1.7), (35.3, -0.123), (90.7, 60.1), (-0.1, -30.3)]:
                place = 0 if temperature == 1.0 else -1
                logits = np.full((1, size), low, np.float32)
                logits[0, place] = high
                distance = float(np.ptp(logits.astype(np.float64))) / temperature
                top = -np.log1p((size - 1) * np.exp(-distance))
                expected = np.where(logits == logits.max(), top, top - distance)
                np.testing.assert_allclose(
                    masked_log_softmax(logits, temperature=temperature), expected, rtol=1e-6
                )
                got = token_log_probs(logits, np.array([place % size]), temperature=temperature)
                np.testing.assert_allclose(got, top, rtol=1e-6)


@pytest.mark.host_only
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logits_far_from_zero(rng, dtype):
    """Blocks of one row, far from each other or not."""
    for offset, other in [
        (22712.5, 0.0),
        (-22713.5, 3.0),
        (3e4, 40.0),
        (3e4, -40.0),
        (-1e6, -3e4),
        (-1e6, 1e6),
        (1e30, 3.0),
    ]:
        logits = rng.normal(size=(2, 7000)) * 2 + offset
        logits[0, 2048:4096] += other
        logits[1, 4096:] += other
        logits = logits.astype(dtype)
        exact = logits.astype(np.float64)
        rtol = 1e-6 if dtype == np.float32 else 1e-11
        got = masked_log_softmax(logits)
        np.testing.assert_allclose(got, reference.log_softmax(exact), rtol=max(rtol, RTOL), atol=rtol)
        np.testing.assert_allclose(
            entropy(logits), reference.entropy(exact), rtol=5 * max(rtol, RTOL), atol=1e-30
        )
