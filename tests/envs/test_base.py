"""Steps, resets and seeds of `EnvBase`."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import CountingEnv, TalkingEnv
from helpers.teams_env import Teams

from lite import TensorDict
from lite.data import Bounded, Composite, Unbounded
from lite.envs import EnvBase, GymEnv, StepCounter, TransformedEnv, exploration_type, step_mdp
from lite.envs.base import next_seed


def test_a_step_writes_what_it_gives_to_next():
    env = CountingEnv()
    td = env.rand_action(env.reset())
    assert sorted(td.keys()) == ["action", "done", "observation", "terminated"]
    stepped = env.step(td)
    assert stepped is td
    assert sorted(td["next"].keys()) == ["done", "observation", "reward", "terminated"]
    assert td["next", "reward"].shape == (1,)  # `_step` gave a number
    np.testing.assert_array_equal(td["next", "observation"], [1.0])
    after = env.step_mdp(td)
    assert sorted(after.keys()) == ["action", "done", "observation", "terminated"]
    np.testing.assert_array_equal(after["observation"], [1.0])


def test_a_step_without_a_batch_size_takes_the_environments():
    class Bare(CountingEnv):
        def _step(self, tensordict):
            return TensorDict(dict(super()._step(tensordict).items()))

    td = Bare((2,)).rollout(2)
    assert (td.shape, td["next"].shape) == ((2, 2), (2, 2))
    np.testing.assert_array_equal(td["next", "observation"][..., 0], [[1, 2], [1, 2]])


def test_entries_of_next_that_a_step_does_not_give_stay():
    env = CountingEnv()
    td = env.rand_action(env.reset()).set(("next", "hidden"), np.ones(2))
    td.set(("next", "observation"), np.full(1, 7.0, np.float32))
    env.step(td)
    np.testing.assert_array_equal(td["next", "hidden"], [1.0, 1.0])
    np.testing.assert_array_equal(td["next", "observation"], [1.0])


def test_a_partial_reset_leaves_the_others():
    env = CountingEnv((3,), limit=1)
    td = env.reset()
    for _ in range(2):
        td = env.step_mdp(env.step(env.rand_action(td)))
    np.testing.assert_array_equal(td["done"].ravel(), [True, True, False])
    after = env.maybe_reset(td)
    np.testing.assert_array_equal(after["observation"].ravel(), [0, 0, 2])
    assert not after["done"].any()
    assert "_reset" not in after


def test_step_and_maybe_reset_gives_both_sides_of_an_end():
    env = CountingEnv(limit=1)
    stepped, after = env.step_and_maybe_reset(env.rand_action(env.reset()))
    np.testing.assert_array_equal(stepped["next", "observation"], [1.0])
    assert stepped["next", "done"].all()
    np.testing.assert_array_equal(after["observation"], [0.0])
    assert not after["done"].any()


def test_steps_of_some_only():
    td = TensorDict(
        {"observation": np.full((2, 1), 5.0, np.float32), "action": np.ones((2, 1), np.float32)}, 2
    )
    td["_step"] = np.array([[False], [False]])
    out = CountingEnv((2,)).step(td)
    np.testing.assert_array_equal(out["next", "observation"].ravel(), [5.0, 5.0])
    np.testing.assert_array_equal(out["next", "reward"].ravel(), [0.0, 0.0])
    assert "_step" not in out
    said = TensorDict(observation=np.zeros(1, np.float32), words="before", _step=np.zeros(1, np.bool_))
    assert TalkingEnv().step(said)["next", "words"] == "before"


def test_actions_for_another_batch():
    env = CountingEnv((2,))
    env._batch_locked = False
    raises(RuntimeError, r"batch size, \(2,\), got \(3,\)", env.rand_action, TensorDict(batch_size=[3]))
    one = CountingEnv()
    one._batch_locked = False
    assert one.rand_action(TensorDict(batch_size=[3]))["action"].shape == (3, 1)


def test_seeds_follow_torchrls_sequence():
    for limit in (2, 9):
        env = CountingEnv(limit=limit)
        assert env.set_seed(3) == next_seed(3) == 2346560485
        assert env.set_seed(3, static_seed=True) == 3
        assert env.seeds == [3, 3]
        one = env.rollout(2)["action"]
        env.set_seed(3)
        np.testing.assert_array_equal(env.rollout(2)["action"], one)


class Broken(EnvBase):
    def __init__(self, given=None, stepped=None):
        super().__init__()
        self.observation_spec = Unbounded((1,))
        self.action_spec = Bounded(-1, 1, (1,))
        self.reward_spec = Unbounded((1,))
        self.given, self.stepped = given, TensorDict() if stepped is None else stepped

    def _reset(self, tensordict):
        return tensordict if self.given is None else self.given

    def _step(self, tensordict):
        return self.stepped

    def _set_seed(self, seed):
        pass


def test_what_a_step_may_not_do():
    td = TensorDict(action=np.zeros(1, np.float32))
    given = TensorDict(observation=np.zeros(1, np.float32))
    for make in (lambda env: env, lambda env: TransformedEnv(env, StepCounter())):
        with pytest.raises(RuntimeError, match="_step and transforms must give TensorDicts, got tuple"):
            make(Broken(given, (0.0, 1.0, False))).step(td.copy())
        with pytest.raises(KeyError, match=r"_step gave no reward 'reward', but \['observation'\]"):
            make(Broken(given, given.copy())).step(td.copy())
    with pytest.raises(RuntimeError, match="a new TensorDict"):
        Broken(given, td).step(td.set("reward", np.zeros(1, np.float32)))


def test_a_class_that_lacks_one_of_the_three_makes_no_environment():
    class Unseeded(EnvBase):
        _reset, _step = Broken._reset, Broken._step

    raises(TypeError, "_set_seed", Unseeded)


def test_what_a_reset_may_not_do():
    raises(RuntimeError, "a new TensorDict", lambda: Broken().reset(TensorDict()))
    for make in (lambda env: env, lambda env: TransformedEnv(env, StepCounter())):
        raises(RuntimeError, "got dict", make(Broken({})).reset)

        class Ended(CountingEnv):  # gives the rows that were asked for, as EnvPool does
            def _reset(self, tensordict, **kwargs):
                out = super()._reset(tensordict, **kwargs)
                return out if tensordict is None else out[tensordict["_reset"][:, 0]]

        env = make(Ended((2,), limit=1))
        with pytest.raises(RuntimeError, match=r"rows of all environments, batch size \(2,\).* got .*\(1,\)"):
            env.rollout(3, break_when_any_done=False)
    done = TensorDict(observation=np.zeros(1, np.float32), done=np.ones(1, np.bool_))
    raises(RuntimeError, "right after its reset", lambda: Broken(done).reset())
    raises(NotImplementedError, "set_state", lambda: Broken(done).reset(set_state=True))


def test_errors_name_the_argument():
    env = CountingEnv((2,))
    raises(RuntimeError, r"\(2,\), got \(3,\)", lambda: env.step(TensorDict({}, [3])))
    raises(RuntimeError, "batch size", lambda: env.reset(TensorDict()))
    raises(ValueError, "device", lambda: GymEnv("CartPole-v1", device="cuda"))
    raises(TypeError, r"TensorDict with the entries \['action'\] of actions, got int", lambda: env.step(1))
    checked = CountingEnv()
    checked.run_type_checks = True
    checked.reward_spec = Unbounded((1,), dtype=np.float64)
    with pytest.raises(TypeError, match="reward"):
        checked.rollout(1)
    teams = Teams()
    teams.run_type_checks = True
    wide = Composite(reward=Unbounded((3, 2, 1), dtype=np.float64), shape=(3, 2))
    teams.reward_spec = Composite(agents=wide, shape=(3,))
    with pytest.raises(TypeError, match=r"\('agents', 'reward'\) must have dtype float64, got float32"):
        teams.rollout(1)


def test_rewards_of_a_wrong_shape_are_reshaped_and_missing_ends_filled():
    env = CountingEnv((2, 2), limit=1)
    td = env.rollout(1)
    assert td["next", "reward"].shape == (2, 2, 1, 1)
    np.testing.assert_array_equal(td["next", "terminated"], td["next", "done"])
    assert td.names == [None, None, "time"]
    np.testing.assert_array_equal(step_mdp(td)["done"], td["next", "done"])
    assert exploration_type() is None


def test_a_transform_is_appended():
    env = CountingEnv().append_transform(StepCounter(2)).append_transform(lambda td: td.set("x", 1.0))
    td = env.rollout(4)
    np.testing.assert_array_equal(td["next", "step_count"].ravel(), [1, 2])
    assert (td["next", "x"] == 1).all()


def test_a_reset_to_a_state():
    class Settable(CountingEnv):
        _supports_set_state = True
        asked = None

        def _reset(self, tensordict, *, set_state, **kwargs):
            self.asked = set_state
            return super()._reset(None)

    env = Settable()
    env.state_spec = Composite(memory=Unbounded(1))
    state, other = TensorDict(memory=np.ones(1)), TensorDict(other=np.ones(1))
    for given, options, expected in (
        (None, {}, False),
        (state, {}, True),
        (other, {}, False),
        (state, {"set_state": False}, False),
        (other, {"set_state": True}, True),
        (state, {"set_state": True, "select_reset_only": True}, False),
    ):
        env.reset(given if given is None else given.copy(), **options)
        assert env.asked is expected, (given, options)
    raises(NotImplementedError, "CountingEnv cannot be reset to a state", CountingEnv().reset, set_state=True)


def test_steps_of_some_rows_of_any_batch():
    class Doubling(CountingEnv):
        def _step(self, tensordict):
            return TensorDict(
                {
                    "observation": 2 * tensordict["action"],
                    "reward": tensordict["action"],
                    "done": tensordict["action"] > 9,
                },
                tensordict.batch_size,
            )

    env = Doubling()
    env._batch_locked = False
    rows = TensorDict(
        {"observation": np.zeros((3, 1), np.float32), "action": np.ones((3, 1), np.float32)}, [3]
    )
    for moves, expected in (([1, 0, 1], [2, 0, 2]), ([1, 1, 1], [2, 2, 2])):
        td = rows.copy().set("_step", np.array(moves, bool)[:, None])
        np.testing.assert_array_equal(env.step(td)["next", "observation"].ravel(), expected)
