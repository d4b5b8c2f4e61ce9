import sys

import numpy as np
import pytest
from helpers import reference
from helpers.cases import each_case, raises
from helpers.kernels_under_test import SIMULATED, gather_time, multistep_return


def episodes(rng: np.random.Generator, shape: tuple[int, ...], rate: float) -> np.ndarray:
    return rng.random(shape) < rate


TYPES = "float64", "float16"  # by default; what is computed in float32, integers are, too


def test_equals_the_loops(rng):
    for n_steps in (1, 2, 7, 16, 17, 1000):
        for rate in (0.0, 0.15, 1.0):
            reward = rng.normal(size=(3, 33)).astype(np.float32)
            done = episodes(rng, (3, 33), rate)
            out = multistep_return(reward, done, gamma=0.9, n_steps=n_steps)
            sums, steps = reference.multistep_return(reward, done, 0.9, n_steps)
            np.testing.assert_allclose(out.reward, sums, rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(out.steps, steps)
            np.testing.assert_array_equal(out.index, np.arange(33) + steps - 1)
            np.testing.assert_allclose(out.gamma, 0.9**steps, rtol=1e-6)
            np.testing.assert_array_equal(out.nonterminal, steps > 1)
            assert out.reward.dtype == out.gamma.dtype == np.float32
            assert out.steps.dtype == out.index.dtype == np.int64
            assert out.nonterminal.dtype == np.bool_


def test_hand_checked():
    reward = np.arange(1.0, 9.0, dtype=np.float32)
    done = np.array([0, 0, 1, 0, 0, 1, 0, 0], bool)
    out = multistep_return(reward, done, gamma=0.5, n_steps=3)
    assert out.reward.tolist() == [2.75, 3.5, 3, 8, 8, 6, 11, 8]
    assert out.steps.tolist() == [3, 2, 1, 3, 2, 1, 2, 1]
    assert out.gamma.tolist() == [0.125, 0.25, 0.5, 0.125, 0.25, 0.5, 0.25, 0.5]
    assert out.nonterminal.tolist() == [True, True, False, True, True, False, True, False]
    observation = np.arange(10, 90, 10)
    assert gather_time(observation, out.index).tolist() == [30, 30, 30, 60, 60, 60, 80, 80]


def test_float32_keeps_small_rewards_beside_large_ones(rng):
    for n_steps in (3, 20, 64):
        reward = np.where(rng.random((4, 64)) < 0.1, 1e6, 1e-3).astype(np.float32)
        done = episodes(rng, (4, 64), 0.1)
        out = multistep_return(reward, done, gamma=0.99, n_steps=n_steps)
        sums, _ = reference.multistep_return(reward, done, 0.99, n_steps)
        np.testing.assert_allclose(out.reward, sums, rtol=1e-6, atol=0)


@pytest.mark.depth
@pytest.mark.host_only  # one sum serves all lengths on a GPU
def test_windows_of_long_sequences(rng):
    """Of more digits than the other tests' windows."""
    for n_steps in (3, 64, 5000):
        time = 2500 if n_steps == 3 else 300
        reward = rng.normal(size=(time, 2)).astype(np.float32)
        done = rng.random((time, 2)) < 0.01
        reward[100, 0] = np.inf
        done[99, 0] = True
        out = multistep_return(reward, done, gamma=0.97, n_steps=n_steps, time_dim=0)
        sums, steps = reference.multistep_return(reward.T, done.T, 0.97, n_steps)
        np.testing.assert_allclose(out.reward.T, sums, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(out.steps.T, steps)
        assert np.isfinite(out.reward[:100]).all()


def test_non_finite_rewards_stay_in_their_windows(rng):
    for value in (np.nan, np.inf, -np.inf):
        for n_steps in (1, 2, 5, 30):
            reward = rng.normal(size=(2, 30))
            reward[0, 13] = value
            done = episodes(rng, (2, 30), 0.2)
            done[0, 10] = True
            out = multistep_return(reward, done, gamma=0.9, n_steps=n_steps)
            sums, _ = reference.multistep_return(reward, done, 0.9, n_steps)
            np.testing.assert_allclose(out.reward, sums, rtol=1e-12)
            assert np.isfinite(out.reward[0, :11]).all()
            assert not np.isfinite(out.reward[0, 13])


@each_case("dtype", ["float16", "bfloat16", "float64", "complex64"])
def test_types_are_kept(rng, dtype):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), dtype) if dtype == "bfloat16" else dtype)
    reward = rng.normal(size=(2, 12, 3))
    reward = (reward + 1j * rng.normal(size=reward.shape) if dtype.kind == "c" else reward).astype(dtype)
    done = episodes(rng, (2, 12), 0.2)
    out = multistep_return(reward, done, gamma=0.9, n_steps=4)
    wide = reward.astype(np.complex128 if dtype.kind == "c" else np.float64)
    sums, _ = reference.multistep_return(wide, done, 0.9, 4)
    assert out.reward.dtype == dtype
    rtol = {"float16": 1e-3, "bfloat16": 1e-2}.get(dtype.name, 1e-5)
    np.testing.assert_allclose(out.reward.astype(sums.dtype), sums, rtol=rtol, atol=rtol / 10)


def test_integer_rewards_are_summed_as_floats():
    for dtype in (np.int64, np.int8, np.uint8, np.bool_):
        reward = np.array([1, 0, 1, 1], dtype)
        out = multistep_return(reward, np.zeros(4, bool), gamma=0.5, n_steps=3)
        assert out.reward.dtype == np.float32
        assert out.reward.tolist() == [1.25, 0.75, 1.5, 1.0]


def test_time_may_be_any_axis(rng):
    for shape, time_dim in [((7,), 0), ((2, 7), -1), ((7, 3), 0), ((2, 7, 3), 1), ((2, 7, 1), -2)]:
        for features in ((), (2, 3)):
            reward, done = rng.normal(size=shape + features), episodes(rng, shape, 0.2)
            out = multistep_return(reward, done, gamma=0.9, n_steps=3, time_dim=time_dim)
            last = np.moveaxis(done, time_dim, -1)
            values = np.moveaxis(reward, time_dim % len(shape), len(shape) - 1)
            flat = multistep_return(
                values.reshape(-1, 7, *features), last.reshape(-1, 7), gamma=0.9, n_steps=3
            )
            np.testing.assert_allclose(
                np.moveaxis(out.reward, time_dim % len(shape), len(shape) - 1).ravel(),
                flat.reward.ravel(),
                rtol=1e-12,
            )
            np.testing.assert_array_equal(np.moveaxis(out.steps, time_dim, -1).ravel(), flat.steps.ravel())
            np.testing.assert_array_equal(np.moveaxis(out.index, time_dim, -1).ravel(), flat.index.ravel())
            moved = gather_time(reward, out.index, time_dim=time_dim)
            for at in np.ndindex(*shape):
                source = list(at)
                source[time_dim] = out.index[at]
                np.testing.assert_array_equal(moved[at], reward[tuple(source)])


def test_inputs_may_be_read_only_and_strided(rng):
    wide = rng.normal(size=(4, 40)).astype(np.float32)
    done = episodes(rng, (4, 40), 0.2)
    wide.flags.writeable = done.flags.writeable = False
    before = wide.copy()
    out = multistep_return(wide[::-1, ::2], done[::-1, ::2], gamma=0.9, n_steps=3)
    expected = multistep_return(wide[::-1, ::2].copy(), done[::-1, ::2].copy(), gamma=0.9, n_steps=3)
    np.testing.assert_array_equal(out.reward, expected.reward)
    np.testing.assert_array_equal(wide, before)


@pytest.mark.host_only
def test_rewards_of_the_other_byte_order():
    reward = np.ones((2, 3), np.dtype(np.float32).newbyteorder())
    out = multistep_return(reward, np.zeros((2, 3), bool), gamma=0.5, n_steps=2)
    assert (out.reward.dtype, out.reward[0].tolist()) == (np.float32, [1.5, 1.5, 1.0])


def test_integer_done_counts_as_boolean():
    reward = np.ones(4, np.float32)
    out = multistep_return(reward, np.array([0, 2, 0, 0], np.int64), gamma=1.0, n_steps=4)
    assert out.steps.tolist() == [2, 1, 2, 1]


def test_empty():
    for shape in ((0,), (3, 0), (0, 5)):
        out = multistep_return(np.zeros(shape, np.float32), np.zeros(shape, bool), gamma=0.9, n_steps=3)
        assert all(array.shape == shape for array in out)
        assert gather_time(np.zeros((*shape, 2)), out.index).shape == (*shape, 2)


@pytest.mark.host_only
def test_gather_returns_the_array_where_nothing_moves():
    array = np.arange(6).reshape(2, 3)
    assert gather_time(array, np.array([[0, 1, 2], [0, 1, 2]])) is array


@pytest.mark.host_only
def test_gather_moves_objects_and_text():
    index = np.array([1, 1, 2])
    assert gather_time(np.array(["a", "b", "c"]), index).tolist() == ["b", "b", "c"]
    assert gather_time(np.array([None, {"x": 1}, 3], object), index).tolist() == [{"x": 1}, {"x": 1}, 3]


def test_gamma_out_of_range():
    for gamma in (-0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match="gamma must be in"):
            multistep_return(np.zeros(3), np.zeros(3, bool), gamma=gamma, n_steps=2)


def test_gamma_zero_keeps_the_first_reward():
    out = multistep_return(np.array([1.0, 2.0]), np.zeros(2, bool), gamma=0.0, n_steps=2)
    assert out.reward.tolist() == [1.0, 2.0]


def test_errors_name_the_argument():
    reward, done = np.zeros((2, 3)), np.zeros((2, 3), bool)
    with pytest.raises(ValueError, match="n_steps must be at least 1, got 0"):
        multistep_return(reward, done, gamma=0.9, n_steps=0)
    raises(TypeError, "gamma must be of real", multistep_return, reward, done, gamma="0.9", n_steps=2)
    with pytest.raises(TypeError, match=r"n_steps must be an integer, got 2\.5"):
        multistep_return(reward, done, gamma=0.9, n_steps=2.5)
    with pytest.raises(ValueError, match=r"got reward \(3, 2\), done \(2, 3\)"):
        multistep_return(reward.T, done, gamma=0.9, n_steps=2)
    with pytest.raises(TypeError, match="done must be boolean or integer, got float64"):
        multistep_return(reward, reward, gamma=0.9, n_steps=2)
    with pytest.raises(ValueError, match="time_dim 2 is out of range"):
        multistep_return(reward, done, gamma=0.9, n_steps=2, time_dim=2)
    raises(ValueError, "time_dim", multistep_return, np.float64(1), np.bool_(True), gamma=0.9, n_steps=2)
    with pytest.raises(IndexError, match=r"index must be in \[0, 3\), got -1"):
        gather_time(reward, np.array([[0, -1, 0], [0, 0, 0]]))
    raises(TypeError, "index must be of integers", gather_time, reward, reward)
    raises(ValueError, "must start with that of index", gather_time, reward, np.zeros((3, 3), np.int64))


class DeviceArray:
    @property
    def __cuda_array_interface__(self) -> dict[str, int]:
        return {"version": 3}


@pytest.mark.host_only
def test_rewards_are_numbers():
    with pytest.raises(TypeError, match="reward must be of numbers"):
        multistep_return(np.zeros(3, object), np.zeros(3, bool), gamma=0.9, n_steps=2)


@pytest.mark.host_only
def test_cuda_memory_is_named():
    with pytest.raises(TypeError, match=r"reward is an array in CUDA memory \(DeviceArray\)"):
        multistep_return(DeviceArray(), np.zeros(3, bool), gamma=0.9, n_steps=2)


def test_a_sum_too_large_for_its_type_is_infinite():
    out = multistep_return(np.full(3, 60000, np.float16), np.zeros(3, bool), gamma=1, n_steps=2)
    np.testing.assert_array_equal(out.reward, np.array([np.inf, np.inf, 60000], np.float16))


def test_gather_takes_unsigned_indices():
    array, index = np.arange(6.0).reshape(2, 3), np.array([[1, 2, 2], [0, 2, 2]])
    np.testing.assert_array_equal(gather_time(array, index.astype(np.uint64)), gather_time(array, index))


def test_long_sequences_are_summed_in_pieces():
    time = 300 if SIMULATED else 20_000
    for n_steps in (10, 3000 * time // 20_000):
        rng = np.random.default_rng(0)
        reward = rng.integers(-9, 9, (2, time)).astype(np.float64)
        done = rng.random(reward.shape) < 20 / time
        out = multistep_return(reward, done, gamma=1.0, n_steps=n_steps)
        before = np.concatenate([np.zeros((2, 1)), np.cumsum(reward, 1)], 1)
        windows = np.take_along_axis(before, out.index + 1, 1) - before[:, :-1]
        np.testing.assert_array_equal(out.reward, windows)  # of integers, exact
        assert out.steps.max() == n_steps


@pytest.mark.host_only
def test_a_row_has_the_same_result_in_any_batch(rng):
    """To the bit, whatever the lengths of the episodes in other rows, and of however many it is one."""
    for n_steps in (1, 2, 3, 13, 31, 32, 100):
        dtype = np.float64
        reward = rng.normal(size=(300, 32)).astype(dtype)
        done = rng.random(reward.shape) < np.linspace(0, 0.5, 300)[:, None]
        whole = multistep_return(reward, done, gamma=0.97, n_steps=n_steps)
        for row in (0, 1, 63, 64, 200, 299):
            alone = multistep_return(reward[row], done[row], gamma=0.97, n_steps=n_steps)
            for ours, its in zip(alone, whole, strict=True):
                np.testing.assert_array_equal(ours, its[row])
        apart = [slice(None, None, 2), slice(7, 8), slice(40, 299)]
        for rows in apart:
            some = multistep_return(reward[rows], done[rows], gamma=0.97, n_steps=n_steps)
            for ours, its in zip(some, whole, strict=True):
                np.testing.assert_array_equal(ours, its[rows])


@pytest.mark.host_only
def test_parts_of_a_batch_on_threads_equal_the_whole(rng, monkeypatch):
    for lanes in (1, 3, 11):
        for chunk in (1, 100):
            reward, done = rng.normal(size=(7, 20, lanes, 2)), rng.random((7, 20, lanes)) < 0.2
            whole = multistep_return(reward, done, gamma=0.9, n_steps=5, time_dim=1)
            module = sys.modules["lite.kernels.multistep_return"]  # the package has a function of that name
            monkeypatch.setattr(module, "_SERIAL", 10)
            monkeypatch.setattr(module, "_CHUNK", chunk)
            parts = multistep_return(reward, done, gamma=0.9, n_steps=5, time_dim=1)
            np.testing.assert_equal(parts, whole)
