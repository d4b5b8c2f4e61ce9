import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.envs import VecNormV2

X = np.array([[1.0, 2.0], [3.0, 6.0]])


def test_the_first_call_counts_whole():
    for decay in (0.9, 0.9999):
        norm = VecNormV2(["x"], decay=decay, reduce_batch_dims=True)
        norm(TensorDict({"x": X}, [2]))
        # Where the averages started, at zero, is corrected for.
        np.testing.assert_allclose(norm.loc["x"], X.mean(0), rtol=1e-11)


def test_means_of_all():
    for reduce, shape in ((True, (2,)), (False, (2, 2))):
        norm = VecNormV2(["x"], decay=1.0, reduce_batch_dims=reduce)
        for shift in range(3):
            norm(TensorDict({"x": X + shift}, [2]))
        every = np.stack([X + shift for shift in range(3)])
        axes = (0, 1) if reduce else 0
        assert norm.loc["x"].shape == shape
        np.testing.assert_allclose(norm.loc["x"], every.mean(axes))
        np.testing.assert_allclose(norm.scale["x"], every.std(axes))


def test_states_and_copies():
    norm, other = VecNormV2(["x"]), VecNormV2(["x"])
    assert norm.state_dict()["_extra_state"] == {}
    raises(RuntimeError, "VecNormV2 has no statistics yet", norm.frozen_copy)
    norm(TensorDict({"x": X}, [2]))
    assert set(norm.state_dict()["_extra_state"]) == {"loc.-|-.x", "var.-|-.x", "count.-|-.x"}
    assert bool(norm.initialized)
    frozen = norm.frozen_copy()
    norm(TensorDict({"x": X * 5}, [2]))
    other.load_state_dict(norm.state_dict())
    np.testing.assert_array_equal(other.loc["x"], norm.loc["x"])
    assert not np.array_equal(frozen.loc["x"], norm.loc["x"])
    with pytest.raises(RuntimeError, match="the state dict has no statistics"):
        norm.load_state_dict(VecNormV2(["x"]).state_dict())
    raises(KeyError, r"VecNormV2 reads \['x'\]", norm, TensorDict({"y": X}, [2]))


def test_integers_become_floats():
    norm = VecNormV2(["x"], ["y"], decay=1.0)
    td = norm(TensorDict({"x": np.array([[2], [4]])}, [2]))
    assert (td["y"].dtype, td["x"].dtype) == (np.float32, np.int64)
    alone = VecNormV2(["x"], decay=1.0)
    alone(TensorDict(x=2))
    alone(TensorDict(x=4))
    assert alone.freeze()(TensorDict(x=3))["x"] == 0


def test_statistics_that_are_given() -> None:
    first = VecNormV2(in_keys=["observation"])
    for value in (1.0, 3.0):
        first(TensorDict(observation=np.array([value], np.float32)))
    first.freeze()
    statistics = TensorDict({name: first._statistics[name] for name in ("loc", "var", "count")})
    again = VecNormV2(in_keys=["observation"], shared_data=statistics).freeze()
    td = TensorDict(observation=np.array([5.0], np.float32))
    np.testing.assert_allclose(again(td.copy())["observation"], first(td.copy())["observation"])
