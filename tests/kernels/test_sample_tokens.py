import numpy as np
import pytest
from helpers import reference
from helpers.cases import each_case, raises
from helpers.kernels.switched import use_numpy
from helpers.kernels_under_test import SIMULATED, sample_tokens, token_log_probs


def drawn(scores: np.ndarray, count: int = 400, **options: object) -> np.ndarray:
    """Tokens of `count` draws from one row; of fewer in the simulator."""
    count = min(count, 10) if SIMULATED else count
    logits = np.broadcast_to(np.asarray(scores, np.float32), (count, len(scores)))
    return sample_tokens(logits, np.arange(count), **options)[0]


@pytest.mark.host_only  # tests/cuda/test_sample_tokens.py: draws on a GPU are the same
def test_frequencies_follow_the_probabilities():
    p = np.array([0.05, 0.15, 0.3, 0.5])
    tokens = drawn(np.log(p), 4000)
    counts = np.bincount(tokens, minlength=4)
    chi_square = ((counts - 4000 * p) ** 2 / (4000 * p)).sum()
    assert chi_square < 16.3  # 0.1% point with three degrees of freedom


@pytest.mark.host_only
def test_steps_are_independent_draws():
    logits = np.log(np.full((1, 2), 0.5, np.float32))
    tokens = np.array([sample_tokens(logits, np.array([3]), step=s)[0][0] for s in range(1000)])
    assert 400 < tokens.sum() < 600
    assert 400 < (tokens[1:] == tokens[:-1]).sum() < 600


def test_log_probs_are_the_models_own(rng):
    logits = rng.normal(size=(6, 50)).astype(np.float32)
    mask = rng.random((6, 50)) < 0.5
    tokens, log_probs = sample_tokens(
        logits, np.arange(6), temperature=0.5, top_k=5, top_p=0.8, mask=mask, repetition_penalty=1.5,
        previous=np.arange(12).reshape(6, 2),
    )  # fmt: skip
    assert tokens.dtype == np.int64
    assert log_probs.dtype == np.float32
    np.testing.assert_allclose(log_probs, reference.token_log_probs(logits, tokens), rtol=1e-5)
    assert mask[np.arange(6), tokens].all()


def test_a_row_does_not_depend_on_its_batch(rng):
    logits = rng.normal(size=(12, 60)).astype(np.float32)
    seeds = rng.integers(0, 2**63, 12)
    options = {"temperature": rng.uniform(0.5, 1.5, 12), "top_k": rng.integers(0, 20, 12)}
    together, scores = sample_tokens(logits, seeds, step=4, **options)
    for row in (5,) if SIMULATED else (0, 5, 11):
        one = slice(row, row + 1)
        alone, score = sample_tokens(
            logits[one], seeds[one], step=4, **{k: v[one] for k, v in options.items()}
        )
        assert alone[0] == together[row]
        assert score[0] == scores[row]
    order = rng.permutation(12)
    shuffled, _ = sample_tokens(
        logits[order], seeds[order], step=4, **{k: v[order] for k, v in options.items()}
    )
    np.testing.assert_array_equal(shuffled, together[order])


def test_steps_may_differ_by_row(rng):
    logits = rng.normal(size=(3, 100)).astype(np.float32)
    seeds = np.array([1, 2, 3])
    together, _ = sample_tokens(logits, seeds, step=np.array([5, 0, 7]))
    for row, step in enumerate((5, 0, 7)):
        assert sample_tokens(logits, seeds, step=step)[0][row] == together[row]


def test_only_kept_tokens_are_drawn(rng):
    for size in [1, 33] if SIMULATED else [1, 2, 32, 33, 300]:
        for top_k in (0, 3):
            for top_p, min_p in [(1.0, 0.0), (0.6, 0.0), (0.0, 0.0), (0.6, 0.3)]:
                scores = rng.normal(size=size).astype(np.float32) * 2
                kept = reference.kept_tokens(scores, top_k=top_k, top_p=top_p, min_p=min_p)
                tokens = set(
                    drawn(scores, 6 if SIMULATED else 60, top_k=top_k, top_p=top_p, min_p=min_p).tolist()
                )
                assert tokens <= kept
                if len(kept) <= 3 and not SIMULATED:
                    weights = np.exp(scores[sorted(kept)])
                    assert tokens == kept or weights.min() / weights.sum() < 0.1


def test_all_that_equal_the_kth_score_stay():
    assert set(drawn([1, 2, 2, 2, 0], top_k=2).tolist()) == {1, 2, 3}
    assert set(drawn([-0.0, 0.0, -1.0], top_k=1).tolist()) == {0, 1}


def test_of_equal_scores_top_p_keeps_the_last():
    assert set(drawn([0, 0, 0, 0], top_p=0.5).tolist()) == {2, 3}
    assert set(drawn([0, 0, 0, 0], top_p=0.51).tolist()) == {1, 2, 3}
    assert set(drawn([0, 0], top_p=0.0).tolist()) == {1}


def test_top_p_counts_only_what_top_k_left():
    scores = np.log([0.4, 0.3, 0.2, 0.1])
    assert set(drawn(scores, top_p=0.65).tolist()) == {0, 1}
    assert set(drawn(scores, top_k=2, top_p=0.55).tolist()) == {0}  # 0.4 of 0.7


def test_min_p_is_relative_to_the_best():
    assert set(drawn(np.log([0.5, 0.3, 0.2]), min_p=0.5).tolist()) == {0, 1}
    assert set(drawn([0, 0, -1], min_p=1.0).tolist()) == {0, 1}


def test_temperature_zero_takes_the_first_highest():
    logits = np.array([[0, 3, 3, 1], [-np.inf, -5, -7, -5]], np.float32)
    assert sample_tokens(logits, np.array([1, 2]), temperature=0)[0].tolist() == [1, 1]
    rows = sample_tokens(
        np.tile(logits[:1], (50, 1)), np.arange(50), temperature=np.arange(50.0) * (np.arange(50) % 2)
    )
    assert (rows[0][::2] == 1).all()
    assert len(set(rows[0][1::2].tolist())) > 1


def test_repetition_penalty_pulls_towards_unlikely():
    logits = np.array([[2.0, 1.5, -1.0, -1.4]], np.float32)
    seeds = np.zeros(1, np.int64)
    assert sample_tokens(logits, seeds, temperature=0, repetition_penalty=2.0, previous=[[0, 0]])[0] == [1]
    only = np.array([[False, False, True, True]])
    options = {"temperature": 0, "repetition_penalty": 2.0, "mask": only}
    assert sample_tokens(logits, seeds, previous=[np.array([2])], **options)[0] == [3]
    assert sample_tokens(logits, seeds, previous=np.array([[-1, 2, 77]]), **options)[0] == [3]
    assert sample_tokens(logits, seeds, previous=[np.array([], np.int64)], **options)[0] == [2]


def test_penalty_is_per_row(rng):
    logits = np.tile(np.array([2.0, 1.5], np.float32), (2, 1))
    tokens, _ = sample_tokens(
        logits, np.zeros(2, np.int64), temperature=0, repetition_penalty=[1.0, 2.0], previous=[[0], [0]]
    )
    assert tokens.tolist() == [0, 1]


def test_infinite_scores():
    assert set(drawn([0, np.inf, 5, np.inf], top_k=3, top_p=0.9).tolist()) == {1, 3}
    assert set(drawn([-np.inf, 0, -np.inf], top_k=2).tolist()) == {1}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(rng, dtype):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype)
    logits = rng.normal(size=(5, 40)).astype(dtype)
    tokens, log_probs = sample_tokens(logits, np.arange(5), top_k=7)
    expected, _ = sample_tokens(logits.astype(np.float32), np.arange(5), top_k=7)
    np.testing.assert_array_equal(tokens, expected)
    np.testing.assert_allclose(log_probs, token_log_probs(logits, tokens), rtol=1e-6)


def test_generator_draws_in_order(rng):
    logits = rng.normal(size=(4, 30)).astype(np.float32)
    first = sample_tokens(logits, np.random.default_rng(5))[0]
    np.testing.assert_array_equal(first, sample_tokens(logits, np.random.default_rng(5))[0])
    generator = np.random.default_rng(5)
    draws = [sample_tokens(logits, generator)[0].tolist() for _ in range(5)]
    assert len({tuple(d) for d in draws}) > 1


def test_no_rows():
    tokens, log_probs = sample_tokens(
        np.zeros((0, 5), np.float32), np.zeros(0, np.int64), previous=np.zeros((0, 2), int)
    )
    assert tokens.shape == log_probs.shape == (0,)


def test_inputs_are_left_alone(rng):
    logits = rng.normal(size=(3, 20)).astype(np.float32)
    logits[1, 3] = np.inf
    mask, previous = rng.random((3, 20)) < 0.9, rng.integers(0, 20, (3, 4))
    copies = logits.copy(), mask.copy(), previous.copy()
    for array in (logits, mask, previous):
        array.flags.writeable = False
    sample_tokens(logits, np.arange(3), mask=mask, previous=previous, repetition_penalty=1.3, temperature=0.7)
    np.testing.assert_equal((logits, mask, previous), copies)


@each_case("in_numpy", [False, True])
def test_rows_without_a_choice(in_numpy):
    use_numpy(in_numpy)
    logits, seeds = np.zeros((3, 4), np.float32), np.arange(3)
    mask = np.ones((3, 4), bool)
    mask[1] = False
    for temperature in (0, 1):
        with pytest.raises(ValueError, match=r"logits\[1\] has no token left"):
            sample_tokens(logits, seeds, mask=mask, temperature=temperature)
    logits[2, 1] = np.nan
    raises(ValueError, r"logits\[2\] contains NaN", sample_tokens, logits, seeds)
    mask[1] = True
    mask[2, 1] = False
    assert sample_tokens(logits, seeds, mask=mask)[0].shape == (3,)


def test_errors_name_the_argument():
    for options, error, message in [
        ({"temperature": -1}, ValueError, "temperature must be at least 0"),
        ({"temperature": np.nan}, ValueError, "temperature must be"),
        ({"top_k": -1}, ValueError, "top_k must be at least 0"),
        ({"top_k": 2.5}, TypeError, "top_k must be integer"),
        ({"top_p": 1.5}, ValueError, r"top_p must be in \[0, 1\]"),
        ({"min_p": -0.1}, ValueError, r"min_p must be in \[0, 1\]"),
        ({"repetition_penalty": 0}, ValueError, "repetition_penalty must be positive"),
        ({"top_p": [0.5, 0.5]}, ValueError, r"top_p must be one value or have the shape \(3,\), got \(2,\)"),
        ({"mask": np.ones((3, 5), bool)}, ValueError, r"mask must have the shape of logits \(3, 4\)"),
        ({"mask": np.ones((3, 4))}, TypeError, "mask must be boolean"),
        ({"previous": np.zeros((2, 4), int)}, ValueError, "previous must be 3"),
        ({"previous": np.zeros((3, 4))}, TypeError, "previous must hold integers"),
        ({"step": 0.5}, TypeError, "seeds and step must be integers"),
        ({"seeds": np.arange(2)}, ValueError, r"seeds must have the shape \(3,\)"),
        ({"logits": np.zeros(4, np.float32)}, ValueError, "logits must have the shape"),
        ({"logits": np.zeros((3, 4), int)}, TypeError, "logits must be float16"),
    ]:
        arguments = {"logits": np.zeros((3, 4), np.float32), "seeds": np.arange(3)} | options
        raises(error, message, sample_tokens, **arguments)


def test_the_coldest_temperatures_take_the_highest():
    seeds = np.arange(4 if SIMULATED else 50)
    for logits in ([1.0, 0.0, 3.0], [1e10, 0.9e10, 1.1e10], [-1.1e10, -1.2e10, -1e10]):
        for temperature in (1e-320, 1e-37, 1e-30):
            rows = np.tile(np.array(logits, np.float32), (len(seeds), 1))
            np.testing.assert_array_equal(sample_tokens(rows, seeds, temperature=temperature)[0], 2)


def test_the_hottest_temperatures_draw_what_is_allowed():
    assert set(drawn([0, -np.inf, 100, -np.inf], temperature=1e300).tolist()) == {0, 2}


class Highest(np.random.Generator):
    """Draws the largest number below 1."""

    def random(self, size):
        return np.full(size, np.nextafter(1.0, 0.0))


@pytest.mark.host_only  # where thousands of tokens are summed in parts
def test_the_highest_draw_is_the_last_token_that_is_allowed(rng):
    """Whatever the rounding of the sums over the tokens, of which the goal is the whole."""
    for top_p in (1.0, 0.999):
        logits = np.full((3, 5000), -np.inf, np.float32)
        logits[:, 1000:1100] = rng.normal(size=(3, 100))
        tokens, log_probs = sample_tokens(logits, Highest(np.random.PCG64(0)), top_p=top_p)
        assert 1000 <= tokens.min() <= tokens.max() < 1100
        assert top_p < 1.0 or (tokens == 1099).all()
        assert np.isfinite(log_probs).all()


def test_infinite_and_missing_logits_have_the_log_probs_of_the_model():
    logits = np.array([[0, np.inf, np.inf], [np.nan, 1, 2], [-np.inf, -np.inf, 3]], np.float32)
    mask = np.array([[True, False, True], [False, True, True], [True, True, True]])
    tokens, log_probs = sample_tokens(logits, np.arange(3), mask=mask, temperature=0)
    assert tokens.tolist() == [2, 2, 2]
    np.testing.assert_allclose(log_probs, [-np.log(2), np.nan, 0], rtol=1e-6, atol=1e-30)


@pytest.mark.grid  # compiled for a type of its own
def test_float64_logits_beyond_float32_are_infinite():
    tokens, _ = sample_tokens(np.array([[0.0, 1e300, 0.0]]), np.arange(1))
    np.testing.assert_array_equal(tokens, 1)
