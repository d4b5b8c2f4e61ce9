import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite.data import Binary, Bounded, Categorical, Composite, MultiOneHot, OneHot, Unbounded
from lite.envs import (
    ActionDiscretizer,
    ActionMask,
    ActionScaling,
    DiscreteActionProjection,
    EnvBase,
    SerialEnv,
    TransformedEnv,
)


class Acts(EnvBase):
    """Whose observation is the action."""

    def __init__(self, spec):
        super().__init__()
        self.action_spec = spec
        self.observation_spec = Composite(seen=Unbounded(spec.shape, dtype=spec.dtype))
        self.reward_spec = Unbounded(1)

    def _reset(self, tensordict, **kwargs):
        return TensorDict(seen=self.action_spec.zero())

    def _step(self, tensordict):
        return TensorDict(seen=tensordict["action"], reward=np.zeros(1, np.float32), done=np.zeros(1, bool))

    def _set_seed(self, seed):
        pass


def stepped(env, key, action):
    return env.step(env.reset().set(key, action))["next", "seen"]


def test_scaling_by_the_bounds():
    for standard, given in ((True, [-1.0, 0.5]), (False, [0.0, 0.75])):
        env = TransformedEnv(Acts(Bounded([-2, 0], [2, 4])), ActionScaling(standard_normal=standard))
        assert env.action_spec == Bounded(-1 if standard else 0, 1, (2,))
        np.testing.assert_array_equal(stepped(env, "action", np.array(given, np.float32)), [-2, 3])
        np.testing.assert_array_equal(env.transform.normalize(np.array([-2, 3], np.float32)), given)
        assert list(env.transform.state_dict()) == ["loc", "scale"]


def test_scaling_of_what_has_no_bounds():
    none = np.finfo(np.float32)  # numbers that stand for no bound
    open_specs = [Bounded([-1, low], [1, high]) for low, high in ((-np.inf, 0), (0, np.inf))]
    open_specs += [Bounded([-1, low], [1, high]) for low, high in ((none.min, 0), (0, none.max))]
    for spec in (Unbounded(2), Bounded([-1, 2], [1, 2]), *open_specs):
        with pytest.raises(RuntimeError, match="needs actions with finite bounds"):
            _ = TransformedEnv(Acts(spec), ActionScaling()).action_spec
    env = TransformedEnv(Acts(Unbounded(2)), ActionScaling(out_keys_inv=["a"], loc=1, scale=2))
    assert env.full_action_spec["a"] == Unbounded(2)
    np.testing.assert_array_equal(stepped(env, "a", np.ones(2, np.float32)), [3, 3])
    bounded = TransformedEnv(Acts(Bounded([-1, -3], 5)), ActionScaling(loc=1, scale=2))
    assert bounded.action_spec == Bounded([-1, -2], 2)
    np.testing.assert_array_equal(
        bounded.transform(TensorDict(action=np.array([3.0, -1])))["action"], [1, -1]
    )
    for spec in open_specs:
        assert TransformedEnv(Acts(spec), ActionScaling(loc=1, scale=2)).action_spec == Unbounded(2)
    integers = TransformedEnv(Acts(Bounded(100, 120, (2,), dtype=np.int8)), ActionScaling())
    assert integers.action_spec == Bounded(-1, 1, (2,), dtype=np.int8)
    assert (integers.transform.loc.tolist(), integers.transform.scale.tolist()) == ([110] * 2, [10] * 2)
    with pytest.raises(RuntimeError, match="needs continuous actions"):
        _ = TransformedEnv(Acts(Categorical(3)), ActionScaling(loc=1, scale=2)).action_spec


def test_bounds_are_asked_for_when_they_are_needed():
    scaling = ActionScaling()
    assert "loc=<uninitialized>, scale=<uninitialized>, standard_normal=True" in repr(scaling)
    raises(RuntimeError, "loc and scale are not set", lambda: scaling.normalize(np.zeros(2)))
    env = TransformedEnv(Acts(Bounded([-2, 0], [2, 4])), scaling)
    np.testing.assert_array_equal(env.transform.normalize(np.array([-2, 3], np.float32)), [-1, 0.5])
    assert repr(ActionScaling(loc=1, scale=2)).startswith("ActionScaling(loc=1.0, scale=2.0, standard")


def test_scaling_from_statistics():
    scaling = ActionScaling.from_stats(low=[2, 0], high=[4, 0])
    np.testing.assert_allclose([scaling.loc, scaling.scale], [[3, 0], [1, 1e-6]])
    np.testing.assert_array_equal(scaling.normalize(np.float32([[3, 0], [4, 0], [2, 0]]))[:, 0], [0, 1, -1])
    for shape in ((), (2, 3)):
        with pytest.raises(ValueError, match="the action must end with 2, the size of loc"):
            scaling.normalize(np.zeros(shape, np.float32))
    for pair in ({"mean": 0}, {"std": 1}, {"low": 0}, {"high": 1}):
        with pytest.raises(ValueError, match="are given together"):
            ActionScaling.from_stats(**pair)
    with pytest.raises(ValueError, match="give mean and std, or low and high"):
        ActionScaling.from_stats()
    with pytest.raises(ValueError, match="shapes must be the same"):
        ActionScaling.from_stats(mean=[0, 0], std=1)


def test_parts_of_each_dimension():
    strategy = ActionDiscretizer.SamplingStrategy
    spec = Bounded([-1, 0], [1, 6])
    env = TransformedEnv(Acts(spec), ActionDiscretizer(np.array([2, 3]), sampling=strategy.LOW))
    assert env.action_spec.nvec.tolist() == [2, 3]
    np.testing.assert_array_equal(stepped(env, "action", np.array([1, 2])), [0, 4])
    drawn = TransformedEnv(
        Acts(spec), ActionDiscretizer(2, sampling=strategy.RANDOM, categorical=False, generator=0)
    )
    assert isinstance(drawn.action_spec, MultiOneHot)
    values = [stepped(drawn, "action", np.array([0, 1, 1, 0])) for _ in range(50)]
    assert (np.ptp(values, 0) > [0.5, 1.5]).all()
    assert (np.min(values, 0) >= [0, 0]).all()
    assert (np.max(values, 0) <= [1, 3]).all()
    high = TransformedEnv(Acts(spec), ActionDiscretizer(2, sampling=strategy.HIGH, categorical=False))
    assert isinstance(high.action_spec, MultiOneHot)
    rows = np.eye(2)[[[0, 0], [0, 1], [1, 0]]].reshape(3, 4)
    ends = high.transform.inv(TensorDict({"action": rows}, [3]))["action"]
    np.testing.assert_array_equal(ends, [[0, 3], [0, 6], [1, 3]])
    one = TransformedEnv(Acts(Bounded(0, 4, ())), ActionDiscretizer(4, categorical=False))
    assert isinstance(one.action_spec, OneHot)
    given = TensorDict({"action": np.eye(4)[[2, 0]]}, [2])
    middles = one.transform.inv(given)["action"]
    np.testing.assert_array_equal(given["action"], np.eye(4)[[2, 0]])
    np.testing.assert_array_equal(middles, [2.5, 0.5])
    assert stepped(one, "action", np.array([0, 0, 1, 0])) == 2.5
    apart = TransformedEnv(Acts(spec), ActionDiscretizer(2, out_action_key="part", sampling=strategy.LOW))
    assert (list(apart.full_action_spec.keys()), list(apart.full_state_spec.keys())) == (["part"], ["action"])
    np.testing.assert_array_equal(stepped(apart, "part", np.array([1, 0])), [0, 0])
    assert "num_intervals=2,\n    action_key=action,\n    out_action_key=part" in repr(apart.transform)
    with pytest.raises(TypeError, match="needs actions with bounds"):
        _ = TransformedEnv(Acts(Unbounded(2)), ActionDiscretizer(2)).action_spec


def test_projection_draws_for_classes_that_are_not_there():
    projection = DiscreteActionProjection(2, 4, generator=0)
    td = projection.inv(TensorDict({"action": np.eye(4, dtype=np.int64)[[1, 0, 1, 2, 3]]}, [5]))
    np.testing.assert_array_equal(td["action"][:3], np.eye(2)[[1, 0, 1]])
    np.testing.assert_array_equal(td["action"].sum(-1), 1)
    env = TransformedEnv(Acts(OneHot(2)), projection)
    assert env.action_spec.n == 4
    assert stepped(env, "action", np.array([0, 1, 0, 0])).tolist() == [0, 1]
    assert repr(projection).startswith("DiscreteActionProjection(num_actions_effective=2, max_actions=4")
    np.testing.assert_array_equal(projection(TensorDict(action=np.array([0, 1])))["action"], [0, 1, 0, 0])
    rows = projection(TensorDict({"action": np.array([[0, 1], [1, 0], [0, 1]])}, [3]))["action"]
    np.testing.assert_array_equal(rows, np.eye(4)[[1, 0, 1]])


def test_masked_classes():
    class Allowing(Acts):
        def _reset(self, tensordict, **kwargs):
            return TensorDict(seen=np.ones(3, np.bool_))

    env = TransformedEnv(Allowing(OneHot(3, dtype=np.bool_)), ActionMask(mask_key="seen"))
    td = env.step(env.reset().set("action", np.array([True, False, True])))
    np.testing.assert_array_equal(env.action_spec.mask, [True, False, True])
    assert all(env.rand_action(td)["action"][1] == 0 for _ in range(20))


def test_masks_where_some_episodes_end():
    class Board(EnvBase):
        """Each move takes its field; nothing is left at the end."""

        def __init__(self, fields):
            super().__init__(batch_size=[2])
            shape, self.start = (2, 4), np.arange(4) < np.array(fields)[:, None]
            self.observation_spec = Composite(action_mask=Binary(4, shape, dtype=bool), shape=(2,))
            self.action_spec, self.reward_spec = Categorical(4, shape=(2,)), Unbounded((2, 1))

        def _reset(self, tensordict, **kwargs):
            starts = np.ones((2, 1), bool) if tensordict is None else tensordict["_reset"]
            self.free = np.where(starts, self.start, False if tensordict is None else self.free)
            return TensorDict({"action_mask": self.free & starts}, [2])

        def _step(self, tensordict):
            self.free = self.free & (np.arange(4) != tensordict["action"][:, None])
            done = ~self.free.any(-1, keepdims=True)
            return TensorDict(
                {"action_mask": self.free, "reward": done.astype(np.float32), "done": done}, [2]
            )

        def _set_seed(self, seed):
            pass

    for base in (Board([2, 4]), SerialEnv(2, [lambda: Board([2, 3]), lambda: Board([4, 1])])):
        env = TransformedEnv(base, ActionMask())
        env.set_seed(0)
        td = env.rollout(9, break_when_any_done=False)
        legal = np.take_along_axis(td["action_mask"], td["action"][..., None], -1)
        assert legal.all()
        assert td["next", "done"].reshape(-1, 9).any(-1).all()


def test_mask_needs_classes():
    with pytest.raises(RuntimeError, match="ActionMask needs an environment"):
        ActionMask()._call(TensorDict(action_mask=np.ones(2, bool)))
    with pytest.raises(ValueError, match="ActionMask needs classes as actions"):
        TransformedEnv(Acts(Unbounded(2)), ActionMask(mask_key="seen")).reset()
    with pytest.raises(KeyError, match="ActionMask reads 'mask', which is missing"):
        TransformedEnv(Acts(OneHot(3)), ActionMask(mask_key="mask")).reset()
