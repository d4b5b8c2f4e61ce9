import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data import Bounded, Composite, Unbounded
from lite.envs import CatTensors, EnvBase, TransformedEnv


def test_order_and_dims():
    td = TensorDict(b=np.ones((2, 1)), a=np.zeros((2, 1)))
    np.testing.assert_array_equal(CatTensors(["b", "a"], "x")(td.copy())["x"], [[0, 1], [0, 1]])
    unsorted = CatTensors(["b", "a"], "x", 0, sort=False, del_keys=False)(td)
    np.testing.assert_array_equal(unsorted["x"].ravel(), [1, 1, 0, 0])
    assert "a" in unsorted
    td = TensorDict(a=np.zeros((2, 3)), b=np.ones(3))
    assert CatTensors(["a", "b"], "x", -2, unsqueeze_if_oor=True)(td)["x"].shape == (3, 3)
    td = TensorDict(a=np.zeros((3, 2)), b=np.ones(3))
    assert CatTensors(["a", "b"], "x", 1, unsqueeze_if_oor=True)(td)["x"].tolist() == [[0, 0, 1]] * 3


def test_specs():
    spec = Composite(a=Bounded(0, 1, (3,)), b=Unbounded((2,)))
    assert CatTensors(["a", "b"], "x").transform_observation_spec(spec) == Composite(x=Unbounded((5,)))
    spec = Composite(a=Unbounded((1,), dtype=np.int64), b=Unbounded((2,), dtype=np.float64))
    out = CatTensors(["a", "b"], "x").transform_observation_spec(spec)
    assert out == Composite(x=Unbounded((3,), dtype=np.float64))
    with pytest.raises(ValueError, match=r"there are no specs of \['c'\]"):
        CatTensors(["a", "c"]).transform_observation_spec(spec)


def test_entries_of_the_environment():
    class Two(EnvBase):
        def __init__(self):
            super().__init__()
            self.observation_spec = Composite(
                n=Composite(b=Unbounded((2,))), a=Unbounded((1,)), image=Unbounded((2, 2))
            )
            self.action_spec = self.reward_spec = Unbounded((1,))

        def _reset(self, tensordict, **kwargs):
            return TensorDict(n={"b": np.array([2.0, 3.0])}, a=np.ones(1), image=np.zeros((2, 2)))

        def _step(self, tensordict):
            return self._reset(None).update({"reward": np.zeros(1), "done": np.zeros(1, bool)})

        def _set_seed(self, seed):
            pass

    cat = CatTensors(out_key="x")
    assert cat.in_keys == []
    td = TransformedEnv(Two(), cat).rollout(1)
    np.testing.assert_array_equal(td["x"], [[1, 2, 3]])
    assert sorted(td["next"].keys()) == ["done", "image", "n", "reward", "terminated", "x"]
    assert repr(cat) == "CatTensors(in_keys=['a', ('n', 'b')], out_key=x)"


def test_assignments_count_after_a_call():
    cat = CatTensors(["a", "b"], "x", del_keys=False)
    td = cat(TensorDict(a=np.zeros((1, 2)), b=np.ones((1, 2)), c=np.full((1, 2), 2)))
    cat.dim, cat.in_keys, cat.out_keys = 0, ["c", "b"], ["y"]
    assert cat(td)["y"].tolist() == [[2, 2], [1, 1]]
    cat.out_keys[0] = "z"
    cat.in_keys.append("a")
    assert cat(td)["z"].tolist() == [[2, 2], [1, 1], [0, 0]]
    cat.dim = 1
    assert cat(td)["z"].tolist() == [[2, 2, 1, 1, 0, 0]]


def test_arguments():
    missing = r"CatTensors reads 'c', which is missing; there are \['a'\]"
    raises(KeyError, missing, lambda: CatTensors(["a", "c"])(TensorDict(a=1.0)))
    raises(KeyError, "CatTensors reads no entries", lambda: CatTensors()(TensorDict(a=1.0)))
    raises(ValueError, "dim must be -1", lambda: CatTensors(dim=-2))
    raises(TypeError, "out_key must be a key", lambda: CatTensors(["a"], 3))
