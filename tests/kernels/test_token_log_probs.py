import numpy as np
import pytest
from helpers import reference
from helpers.cases import raises
from helpers.kernels_under_test import ON_DEVICE, SIMULATED, token_log_probs
from helpers.peaks import peak_of

from lite.kernels.backends.choice import backend

COMPILED = backend() != "numpy" and not SIMULATED
SIZES = [1, 33, 600] if SIMULATED else [1, 2, 33, 4095, 4096, 4097, 10000]


def make(rng, shape, dtype=np.float32, scale=3.0):
    logits = (rng.normal(size=shape) * scale).astype(dtype)
    return logits, rng.integers(0, shape[-1], shape[:-1])


def test_equals_float64(rng):
    for size in SIZES:
        logits, tokens = make(rng, (2, size))
        got = token_log_probs(logits, tokens)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, reference.token_log_probs(logits, tokens), rtol=1e-6, atol=2e-7)


def test_a_temperature_for_each_row(rng):
    for size in (9, 700 if SIMULATED else 5000):
        logits, tokens = make(rng, (2, 3, size))
        temperatures = np.array([[0.05, 0.7, 1.0], [4.0, 0.2, 2.9]])
        got = token_log_probs(logits, tokens, temperature=temperatures)
        for at in np.ndindex(2, 3):
            alone = token_log_probs(logits[at][None], tokens[at][None], temperature=float(temperatures[at]))
            # On a device few rows are shared among more blocks, whose sums are added in another order.
            np.testing.assert_allclose(got[at], alone[0], rtol=1e-6 if ON_DEVICE else 0)
            expected = reference.token_log_probs(logits[at], tokens[at], temperatures[at])
            np.testing.assert_allclose(got[at], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_types(rng, dtype):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype)
    logits, tokens = make(rng, (4, 3, 40), dtype)
    got = token_log_probs(logits, tokens)
    expected = reference.token_log_probs(logits.astype(np.float64), tokens)
    wide = dtype == np.float64
    assert got.dtype == (np.float64 if wide else np.float32)
    np.testing.assert_allclose(got, expected, rtol=1e-14 if wide else 1e-6, atol=1e-14 if wide else 2e-7)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_every_16_bit_pattern_is_read_exactly(dtype):
    """The score of a finite logit beside a zero is -log(1 + exp(-x)), for subnormals and infinities too."""
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype)
    bits = np.arange(0, 2**16, 37 * 17 if SIMULATED else 37, dtype=np.uint16)
    values = bits.view(dtype)
    logits = np.stack([values, np.zeros_like(values)], axis=-1)
    got = token_log_probs(logits, np.zeros(len(bits), np.int64))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = -np.logaddexp(0.0, -values.astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


def rows(name: str, size: int) -> np.ndarray:
    ramp = np.linspace(-100, 100, size, dtype=np.float32)
    return {
        "one huge": np.where(np.arange(size) == 3, np.float32(30), np.float32(0)),
        "all equal": np.full(size, np.float32(-12.5)),
        "ramp": ramp,
        "falling": ramp[::-1].copy(),
        "far apart": np.where(np.arange(size) % 2, np.float32(1.5e38), np.float32(-1.5e38)),
        "tiny": np.linspace(-1e-6, 1e-6, size, dtype=np.float32),
    }[name]


def test_hard_rows():
    for name in ("one huge", "all equal", "ramp", "falling", "far apart", "tiny"):
        for size in (5, 500 if SIMULATED else 5000):
            logits = np.broadcast_to(rows(name, size), (4, size))
            tokens = np.array([0, 3, size // 2, size - 1])
            expected = reference.token_log_probs(logits, tokens)
            rtol = 1e-6 if COMPILED else 1e-4  # the plain loop has no partial sums
            np.testing.assert_allclose(token_log_probs(logits, tokens), expected, rtol=rtol, atol=1e-30)


def test_confident_rows_keep_relative_precision():
    """log p of a token with nearly all the probability is close to zero and still exact to 1e-6."""
    logits = np.array([[20.0, 0.0, 0.0], [0.0, 0.0, 35.0]], np.float32)
    got = token_log_probs(logits, np.array([0, 2]))
    np.testing.assert_allclose(got, [-np.log1p(2 * np.exp(-20)), -np.log1p(2 * np.exp(-35))], rtol=1e-6)


def test_infinite_logits():
    inf = np.inf
    logits = np.array([[0, -inf, 0], [inf, 0, inf], [-inf, -inf, -inf], [inf, -inf, 1]], np.float32)
    table = np.stack([token_log_probs(logits, np.full(4, i)) for i in range(3)], axis=-1)
    half = -np.log(2)
    expected = [[half, -inf, half], [half, -inf, half], [-inf] * 3, [0, -inf, -inf]]
    np.testing.assert_allclose(table, expected, rtol=1e-6)


def test_an_infinite_logit_leaves_nothing_to_other_blocks():
    for at in (3, 2500, 4999):
        logits = np.zeros((2, 5000), np.float32)
        logits[:, at] = np.inf
        np.testing.assert_array_equal(token_log_probs(logits, np.array([at, 7])), [0, -np.inf])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_nan_stays_in_its_row(dtype):
    for bits in (np.nan, -np.nan):
        for others in (0.0, np.inf, -np.inf):
            logits = np.zeros((3, 40), dtype)
            logits[1] = others
            logits[1, 17] = bits
            got = token_log_probs(logits, np.zeros(3, np.int64))
            assert np.isnan(got[1])
            np.testing.assert_allclose(got[[0, 2]], -np.log(40), rtol=1e-6)


def test_nan_of_any_payload():
    logits = np.zeros((2, 3), np.float32)
    logits.view(np.uint32)[0, 1] = 0xFFFFFFFF
    logits.view(np.uint32)[1, 1] = 0x7F800001
    assert np.isnan(token_log_probs(logits, np.array([0, 0]))).all()


def test_position_mask_and_ignore_index(rng):
    logits, tokens = make(rng, (2, 3, 11))
    mask = np.array([[True, False, True], [True, True, False]])
    tokens[0, 2], tokens[1, 2] = -100, 99  # 99 is out of range, and masked
    got = token_log_probs(logits, tokens, mask)
    legal = np.where(tokens == 99, 0, np.maximum(tokens, 0))
    counts = mask & (tokens != -100)
    expected = np.where(counts, reference.token_log_probs(logits, legal), 0)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    assert (token_log_probs(logits, np.full((2, 3), -1), ignore_index=-1) == 0).all()


def test_nothing_is_read_at_ignored_positions():
    logits = np.full((2, 4), np.nan, np.float32)
    np.testing.assert_array_equal(
        token_log_probs(logits, np.array([-100, 1]), np.array([True, False])), [0, 0]
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_token_mask(rng, dtype):
    logits, tokens = make(rng, (5, 300 if SIMULATED else 4300), dtype)
    mask = rng.random(logits.shape) < 0.5
    mask[3] = False
    logits[0, ~mask[0]] = np.nan  # never looked at
    got = token_log_probs(logits, tokens, mask)
    for row in (0, 1, 2, 4):
        allowed = np.where(mask[row], logits[row].astype(np.float64), -np.inf)
        expected = reference.log_softmax(allowed)[tokens[row]]
        np.testing.assert_allclose(got[row], expected, rtol=1e-6)
    assert got[3] == -np.inf  # nothing can be drawn


def test_full_token_mask_changes_nothing(rng):
    logits, tokens = make(rng, (2, 3, 100))
    got = token_log_probs(logits, tokens, np.ones(logits.shape, bool))
    np.testing.assert_array_equal(got, token_log_probs(logits, tokens))


def test_any_leading_shape(rng):
    for shape in ((), (3,), (2, 1, 3)):
        logits, tokens = make(rng, (*shape, 9))
        got = token_log_probs(logits, tokens)
        assert got.shape == shape
        np.testing.assert_allclose(got, reference.token_log_probs(logits, tokens), rtol=1e-6, atol=1e-7)


def test_layouts(rng):
    views = [
        lambda a: a[:, 1:], lambda a: a[::-1, ::2], lambda a: a.swapaxes(0, 1), lambda a: a[..., ::-1],
        lambda a: a[..., 3:9], lambda a: np.broadcast_to(a[0, 0], a.shape),
    ]  # fmt: skip
    if not ON_DEVICE:
        views.append(lambda a: a.astype(a.dtype.newbyteorder()))
    for view in views:
        logits = view(rng.normal(size=(4, 6, 12)).astype(np.float32))
        tokens = rng.integers(0, logits.shape[-1], logits.shape[:-1])
        mask = view(rng.random((4, 6, 12)) < 0.7) if logits.dtype.isnative else None
        plain = np.array(logits, np.float32, order="C")
        expected = token_log_probs(plain, tokens, None if mask is None else np.array(mask))
        logits.flags.writeable = False
        np.testing.assert_array_equal(token_log_probs(logits, tokens, mask), expected)


def test_empty():
    for shape in ((0, 5), (3, 0, 5), (0, 0)):
        logits = np.zeros(shape, np.float32)
        assert token_log_probs(logits, np.zeros(shape[:-1], np.int64)).shape == shape[:-1]


@pytest.mark.host_only
def test_many_rows_on_threads(rng):
    logits, tokens = make(rng, (700, 300))
    expected = reference.token_log_probs(logits, tokens)
    np.testing.assert_allclose(token_log_probs(logits, tokens), expected, rtol=1e-6)


def test_token_out_of_range():
    for token in (5, -1, 2**40):
        tokens = np.zeros((2, 3), np.int64)
        tokens[1, 2] = token
        with pytest.raises(IndexError, match=rf"tokens\[1, 2\] is {token}, .*vocabulary of 5"):
            token_log_probs(np.zeros((2, 3, 5), np.float32), tokens)


def test_errors_name_the_argument():
    logits, tokens = np.zeros((2, 5), np.float32), np.zeros(2, np.int64)
    raises(TypeError, r"logits must be float16.*got int64", token_log_probs, logits.astype(np.int64), tokens)
    raises(TypeError, "tokens must be integers, got float64", token_log_probs, logits, tokens * 1.0)
    raises(ValueError, r"got tokens \(3,\), logits \(2, 5\)", token_log_probs, logits, np.zeros(3, np.int64))
    raises(TypeError, "mask must be boolean, got int64", token_log_probs, logits, tokens, tokens)
    with pytest.raises(
        ValueError, match=r"mask must have the shape of the positions \(2,\) or of logits \(2, 5\)"
    ):
        token_log_probs(logits, tokens, np.ones(5, bool))
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="temperature must be positive and finite"):
            token_log_probs(logits, tokens, temperature=temperature)


def test_inputs_are_left_alone(rng):
    logits, tokens = make(rng, (3, 20))
    mask = np.ones((3, 20), bool)
    copies = logits.copy(), tokens.copy(), mask.copy()
    token_log_probs(logits, tokens, mask, temperature=0.5)
    np.testing.assert_equal((logits, tokens, mask), copies)


@pytest.mark.host_only
@pytest.mark.skipif(not COMPILED, reason="too slow as plain loops")
def test_no_array_of_the_logits_size_is_made():
    dtype = np.float32
    logits = np.zeros((4, 33, 2000), dtype)[:, :-1]
    tokens, mask = np.zeros((4, 32), np.int64), np.ones((4, 33, 2000), bool)[:, :-1]
    for given in ((), (mask,)):
        assert peak_of(token_log_probs, logits, tokens, *given) < 50_000 < mask.size


def test_a_temperature_that_float32_cannot_divide_by():
    logits, tokens = np.zeros((1, 3), np.float32), np.zeros(1, int)
    for temperature in (1e-300, 1e300, [1.0, 2.0], [0.0], [np.nan]):
        raises(ValueError, "temperature must be", token_log_probs, logits, tokens, temperature=temperature)
    for temperature in ("1", [1j]):
        raises(TypeError, "temperature must be", token_log_probs, logits, tokens, temperature=temperature)
