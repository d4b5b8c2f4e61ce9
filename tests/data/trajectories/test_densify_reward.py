import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, default_dtype
from lite.data import DensifyReward


def data(shape=(10, 1), batch=(10,), dtype=np.float32):
    """Rewards 3 and 7 at two done steps of the first axis."""
    reward, done = np.zeros(shape, dtype), np.zeros(shape, bool)
    reward[3], reward[7] = 3, 7
    done[3], done[7] = True, True
    return TensorDict({"next": {"reward": reward, "done": done}}, batch_size=batch)


EXPECTED = [3, 3, 3, 3, 7, 7, 7, 7, 0, 0]


def test_each_step_has_the_reward_of_its_end():
    for shape in ((10,), (10, 1)):
        td = data(shape)
        sparse = td["next", "reward"]
        before = sparse.copy()
        assert DensifyReward()(td) is td
        np.testing.assert_array_equal(td["next", "reward"].ravel(), EXPECTED)
        assert (td["next", "reward"].shape, td["next", "reward"].dtype) == (shape, np.float32)
        np.testing.assert_array_equal(sparse, before)


def test_rewards_on_the_way_are_summed_and_discounted():
    td = data()
    td["next", "reward"][:] = 1
    out = DensifyReward(discount=0.5)(td)["next", "reward"].ravel()
    np.testing.assert_array_equal(out, [1.875, 1.75, 1.5, 1, 1.875, 1.75, 1.5, 1, 1.5, 1])
    td["next", "reward"] = np.ones((10, 1))
    np.testing.assert_array_equal(DensifyReward(discount=0.0)(td)["next", "reward"], np.ones((10, 1)))


def test_integer_rewards_are_discounted():
    td = data(dtype=np.int64)
    td["next", "reward"][:] = 1
    assert DensifyReward(discount=0.5)(td.clone())["next", "reward"].dtype == np.float32
    assert DensifyReward(discount=0.5)(td.clone())["next", "reward"][0, 0] == 1.875
    with default_dtype(np.float64):
        assert DensifyReward()(td)["next", "reward"].dtype == np.float64


def test_discount_out_of_range():
    for discount in (-0.1, 1.5, float("nan")):
        raises(ValueError, r"discount must be in \[0, 1\], got", DensifyReward, discount=discount)


def failing():
    yield data().exclude(("next", "reward")), KeyError, r"DensifyReward reads the entry \('next', 'reward'\)"
    yield data().exclude("next"), KeyError, r"\('next', 'reward'\)"
    yield data().exclude(("next", "done")), KeyError, r"\('next', 'done'\)"
    different = data()
    different["next", "done"] = np.zeros((10, 2), bool)
    yield different, RuntimeError, r"of shape \(10, 1\) and \('next', 'done'\) of shape \(10, 2\)"
    floating = data()
    floating["next", "done"] = np.zeros((10, 1))
    yield floating, TypeError, "done must be boolean or integer, got float64"
    yield data(batch=()), ValueError, r"needs a TensorDict with a time dimension, got batch_size=\(\)"
    yield data().lock_(), RuntimeError, "locked"
    yield {"next": {}}, TypeError, "DensifyReward needs a TensorDict, got dict"


def test_errors():
    for td, error, message in failing():
        before = None if isinstance(td, dict) else td.get(("next", "reward"), None)
        raises(error, message, DensifyReward(), td)
        assert isinstance(td, dict) or td.get(("next", "reward"), None) is before


def test_no_such_dimension():
    with pytest.raises(ValueError, match=r"time_dim 2 is out of range for done of shape \(10, 1\)"):
        DensifyReward(time_dim=2)(data())
