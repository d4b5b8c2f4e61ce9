import pickle

import numpy as np
from helpers.cases import raises

from lite import TensorDict, jit
from lite.data import Bounded, Unbounded
from lite.envs import Compose, ObservationNorm, VecNorm, VecNormV2

X = np.array([[1.0, 2.0], [3.0, 6.0]])


def test_statistics_are_weighted_sums():
    norm = VecNorm(["x"], decay=0.5)
    norm(TensorDict({"x": X}, [2]))
    norm(TensorDict({"x": X + 1}, [2]))
    count = 0.5 * 2 + 2
    mean = (0.5 * X.sum(0) + (X + 1).sum(0)) / count
    squares = (0.5 * (X**2).sum(0) + ((X + 1) ** 2).sum(0)) / count
    np.testing.assert_allclose(norm.loc["x"], mean)
    np.testing.assert_allclose(norm.scale["x"], np.sqrt(squares - mean**2))


def test_back_and_its_state():
    norm, other = VecNorm(["x"], ["y"], decay=0.9), VecNorm(["x"], ["y"], decay=0.9)
    td = norm(TensorDict({"x": X}, [2]))
    np.testing.assert_allclose(norm.denorm(td.exclude("x"))["x"], X)
    assert norm.denorm(td.exclude("x", "y")).is_empty()
    for _ in range(2):  # statistics that are not there, and are
        other.set_extra_state(norm.get_extra_state())
        np.testing.assert_array_equal(other.loc["y" if "y" in other.loc else "x"], norm.loc["x"])
        norm(TensorDict({"x": X + 3}, [2]))
    assert norm.standard_normal is True
    assert repr(norm).startswith("VecNorm(decay=0.9000,eps=0.0001, in_keys=['x'], out_keys=['y']")


def test_frozen_and_not():
    norm = VecNorm(["x"], decay=1.0)
    raises(RuntimeError, "VecNorm has no statistics yet", lambda: norm.frozen_copy())
    norm(TensorDict({"x": X}, [2]))
    frozen = norm.frozen_copy()
    before = frozen(TensorDict({"x": X}, [2]))["x"]
    norm(TensorDict({"x": X * 9}, [2]))
    np.testing.assert_array_equal(frozen(TensorDict({"x": X}, [2]))["x"], before)
    assert not np.array_equal(frozen.unfreeze()(TensorDict({"x": X + 1}, [2]))["x"], before)


def test_a_graph_that_would_count_no_batch():
    td = TensorDict(x=np.arange(8.0).reshape(4, 2), batch_size=[4])
    for made in (VecNorm, VecNormV2):
        norm = made(["x"])
        norm(td.copy())
        raises(NotImplementedError, "VecNorm counts batches, a graph none", jit(norm), td.copy())
        expected = norm.freeze()(td.copy())["x"]
        np.testing.assert_allclose(jit(norm)(td.copy())["x"], expected, rtol=1e-6)


def test_statistics_that_are_shared():
    shared = TensorDict({"x_sum": np.zeros(2), "x_ssq": np.zeros(2), "x_count": np.zeros(1)}, [])
    one, two = VecNorm(["x"], shared_td=shared), VecNorm(["x"], shared_td=shared)
    one(TensorDict({"x": X}, [2]))
    np.testing.assert_array_equal(two.loc["x"], [2, 4])
    raises(TypeError, "is VecNormV2", lambda: VecNorm(["x"], new_api=True))
    raises(KeyError, r"shared_td must have \['y_sum'", lambda: VecNorm(["y"], shared_td=shared))


def test_copies_keep_statistics():
    norm = VecNorm(["x", ("n", "y")])
    with_none = norm.state_dict()
    assert with_none["_extra_state"] is None
    norm(TensorDict({"x": X, "n": {"y": X}}, [2]))
    assert set(norm.state_dict()["_extra_state"]) == {
        *(f"x_{part}" for part in ("sum", "ssq", "count")),
        *(f"n-<.>-y_{part}" for part in ("sum", "ssq", "count")),
    }
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(norm)).loc["n", "y"], norm.loc["n", "y"])
    raises(KeyError, "the state dict has no statistics", lambda: norm.load_state_dict(with_none))
    assert isinstance(norm.to_observation_norm(), Compose)
    assert isinstance(VecNorm(["x"], shared_td=norm._td).to_observation_norm(), ObservationNorm)


def test_spec_and_what_is_missing():
    norm = VecNorm(["x", "y"])
    assert list(norm(TensorDict({"x": X}, [2])).keys()) == ["x"]
    assert norm.transform_observation_spec(Bounded(-1, 1, (2,))) == Unbounded(2)


def test_integers_become_floats():
    """The sums of frames and of their squares do not fit uint8, in which a decay of 0.5 is 0."""
    x = np.random.default_rng(0).integers(0, 256, (3, 5, 4), np.uint8)
    norm, other = VecNorm(["x"], decay=0.5), VecNorm(["x"], decay=0.5)
    for part in x:
        found = norm(TensorDict({"x": part}, [5]))["x"]
        np.testing.assert_array_equal(found, other(TensorDict({"x": part.astype(np.float32)}, [5]))["x"])
    assert found.dtype == np.float32
    for spec in (Bounded(0, 255, (4,), dtype=np.uint8), Unbounded(4, dtype=np.uint8)):
        assert norm.transform_observation_spec(spec) == Unbounded(4)
