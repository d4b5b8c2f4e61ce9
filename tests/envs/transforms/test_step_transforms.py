import itertools

import numpy as np
import pytest
from gymnasium.vector import SyncVectorEnv
from helpers.cases import raises
from helpers.counting_env import CountingEnv
from helpers.data.environments import LENGTHS, Counting, makers
from helpers.teams_env import Teams
from helpers.transformed import Steps

from lite import TensorDict
from lite.data import (
    Bounded,
    Collector,
    Composite,
    InitTracker,
    NonTensor,
    RewardSum,
    StepCounter,
    StepTransform,
    TensorDictPrimer,
    Unbounded,
)
from lite.envs import RenameTransform, TransformedEnv, check_env_specs, gSDENoise


def collected(*transforms, policy=None, frames=48, lengths=LENGTHS, **keywords):
    env = SyncVectorEnv(makers(lengths))
    collector = Collector(
        env, policy, frames_per_batch=frames, total_frames=frames, transforms=transforms, **keywords
    )
    return next(iter(collector))


def test_step_counter_truncates():
    for update_done in (True, False):
        td = collected(StepCounter(2, step_count_key="steps", update_done=update_done))
        # Lengths 3, 5 and 4 become 2; of 1, 2 and 6 the second one ends by itself.
        np.testing.assert_array_equal(td["next", "steps"][1].ravel(), [1, 2] * 6)
        np.testing.assert_array_equal(td["next", "steps"][2].ravel(), [1, 1, 2, 1, 2] * 2 + [1, 1])
        np.testing.assert_array_equal(td["next", "truncated"][1].ravel(), [False, True] * 6)
        assert not td["next", "terminated"][1].any()
        assert td["next", "done"][1].any() == update_done
        assert "step_count" not in td


def test_step_counter_truncates_the_agents_of_an_environment():
    class Cut(Teams):
        """Whose agents may be truncated one by one: the first of each environment at once."""

        def __init__(self):
            super().__init__()
            self.done_spec["agents", "truncated"] = self.done_spec["agents", "done"].clone()

        def _step(self, tensordict):
            first = np.zeros((3, 2, 1), bool)
            first[:, 0] = True
            return super()._step(tensordict).set(("agents", "truncated"), first)

    for options, names in (({}, {"truncated", "done"}), ({"update_done": False}, {"truncated"})):
        env = TransformedEnv(Cut(), StepCounter(2, **options))
        check_env_specs(env)
        ends = env.rollout(2, break_when_any_done=False)["next", "agents"]
        assert ends["truncated"][..., 0].tolist() == [[[True, False], [True, True]]] * 3
        # By itself the first environment ends after two steps.
        assert ends["done"][:, 1, :, 0].tolist() == [[True] * 2, *[["done" in names] * 2] * 2]
        assert ends["terminated"][:, 1, :, 0].tolist() == [[True] * 2, [False] * 2, [False] * 2]
    named = TransformedEnv(Cut(), StepCounter(1, truncated_key="late")).rollout(1)["next", "agents"]
    assert named["truncated"][..., 0].tolist() == [[[True, False]]] * 3
    assert named["done"].all()


def test_another_key_for_truncation():
    td = collected(StepCounter(2, truncated_key="late", update_done=True))
    np.testing.assert_array_equal(td["next", "late"][1].ravel(), [False, True] * 6)
    assert not td["next", "truncated"][1].any()
    np.testing.assert_array_equal(td["next", "done"][1].ravel(), [False, True] * 6)
    assert not td["late"].any()


def test_reward_sum():
    td = collected(RewardSum())
    assert td["episode_reward"].dtype == np.float32
    for i in range(len(LENGTHS)):
        total = 0.0
        for t in range(12):
            assert td["episode_reward"][i, t, 0] == total
            total += td["next", "reward"][i, t, 0]
            assert td["next", "episode_reward"][i, t, 0] == total
            total = 0.0 if td["next", "done"][i, t, 0] else total
    td = collected(RewardSum(["reward"], [("sums", "all")]))
    assert td["next", "sums", "all"].shape == (4, 12, 1)
    for dtype, wanted in ((np.uint8, np.int64), (np.bool_, np.int64), (np.float16, np.float16)):
        rewards = TensorDict({"next": {"reward": np.ones((2, 3), dtype)}}, [2, 3], names=[None, "time"])
        sums = RewardSum(["reward"])(rewards["next"])["episode_reward"]
        assert sums.dtype == wanted
        np.testing.assert_array_equal(sums, [[1, 2, 3]] * 2)


def test_init_tracker():
    td = collected(InitTracker())
    np.testing.assert_array_equal(td["is_init"], td["step_count"] == 0)
    assert not td["next", "is_init"].any()


def recurrent(td):
    batch = td.batch_size
    return td.update({"action": np.zeros(batch, np.int64), ("next", "memory"): 2 * td["memory"] + 1})


def test_primer():
    td = collected(TensorDictPrimer(memory=Unbounded((2,)), default_value=3.0), policy=recurrent)
    expected = 4.0 * 2.0 ** td["step_count"] - 1  # the solution of m' = 2 m + 1 from 3
    np.testing.assert_array_equal(td["memory"], np.broadcast_to(expected, (4, 12, 2)))
    np.testing.assert_array_equal(td["next", "memory"], 2 * td["memory"] + 1)


def test_primer_of_entries_that_nobody_writes():
    primer = TensorDictPrimer({"goal": Bounded(-1, 1, (2,)), "n": Unbounded(1)}, random=True, generator=0)
    td = collected(primer)
    goal = td["goal"]
    np.testing.assert_array_equal(td["next", "goal"], goal)
    changes = (goal[:, 1:] != goal[:, :-1]).all(-1)
    np.testing.assert_array_equal(changes, td["next", "done"][:, :-1, 0])
    td = collected(
        TensorDictPrimer({"a": {"b": Unbounded(1)}, "c": Unbounded(1)}, default_value={("a", "b"): 2})
    )
    assert (td["a", "b"] == 2).all()
    assert (td["c"] == 0).all()


def test_one_environment_alone():
    transforms = [RewardSum(), InitTracker(), TensorDictPrimer(memory=Unbounded((2,)))]
    collector = Collector(
        Counting(0, (3,)), recurrent, frames_per_batch=7, total_frames=7, transforms=transforms
    )
    td = next(iter(collector))
    assert td["memory"].shape == (7, 2)
    np.testing.assert_array_equal(td["memory"][:, 0], [0, 1, 3, 0, 1, 3, 0])
    np.testing.assert_array_equal(td["is_init"][:, 0], [1, 0, 0, 1, 0, 0, 1])
    np.testing.assert_array_equal(td["next", "episode_reward"][:, 0], [1, 3, 6, 11, 23, 36, 21])


def test_arguments():
    for make, kind, message in (
        (lambda: StepCounter(0), ValueError, "max_steps must be at least 1, got 0"),
        (lambda: StepCounter(2.5), TypeError, "max_steps"),
        (lambda: StepCounter(step_count_key=("a", "b")), ValueError, "step_count_key must be a string"),
        (lambda: RewardSum(["reward"], ["a", "b"]), ValueError, "out_keys must be as many as in_keys"),
        (lambda: InitTracker(("a", "b")), ValueError, "init_key must be a string"),
        (lambda: TensorDictPrimer(), ValueError, "primers must have at least one spec"),
        (lambda: TensorDictPrimer(a=NonTensor((1,))), TypeError, "primers must be specs of arrays"),
        (lambda: TensorDictPrimer(a=Unbounded(1), default_value="x"), ValueError, "could not convert"),
    ):
        raises(kind, message, make)


def test_two_that_write_the_same_entry():
    for transforms, message in (
        ([RewardSum(), RewardSum()], "RewardSum writes"),
        ([InitTracker("observation")], "InitTracker writes"),
        ([InitTracker("done")], "InitTracker writes"),
    ):
        raises(ValueError, message, Collector, Counting(), frames_per_batch=5, transforms=transforms)


def test_a_reward_that_is_not_there():
    collector = Collector(Counting(), frames_per_batch=5, transforms=[RewardSum(["cost"])])
    raises(KeyError, "cost", lambda: next(iter(collector)))


def test_called_alone():
    td = TensorDict({"reward": np.ones((2, 3, 1), np.float32)}, [2, 3], names=[None, "time"])
    np.testing.assert_array_equal(RewardSum()(td)["episode_reward"][..., 0], [[1, 2, 3]] * 2)
    raises(ValueError, "RewardSum needs a dimension called 'time'", RewardSum(), TensorDict(reward=1.0))
    primer = TensorDictPrimer(h=Unbounded(2), n=Unbounded(1), default_value={"h": lambda: np.arange(2)})
    np.testing.assert_array_equal(primer(TensorDict({}, [2]))["h"], [[0, 1], [0, 1]])
    raises(NotImplementedError, "StepCounter needs an environment", lambda: StepCounter()(td))


def test_what_a_policy_writes_to_next_stays():
    env = TransformedEnv(Steps(9), TensorDictPrimer(memory=Unbounded((1,)), default_value=1.0))

    def policy(td):
        td.update({"action": np.zeros(1, np.float32), "next": TensorDict(memory=td["memory"] * 2)})
        return td

    np.testing.assert_array_equal(env.rollout(4, policy)["memory"].ravel(), [1, 2, 4, 8])
    kept = TransformedEnv(Steps(9), TensorDictPrimer(goal=Bounded(-1, 1, (3,)), random=True, generator=0))
    check_env_specs(kept)
    assert np.ptp(kept.rollout(4)["goal"], 0).max() == 0


def test_primers_of_the_environments_shape_and_before_its_reset():
    class Levels(CountingEnv):
        def _reset(self, tensordict, **kwargs):
            self.seen = tensordict["level"].ravel().tolist()
            return super()._reset(tensordict, **kwargs)

    base = Levels((2,), limit=1)
    level = itertools.count()
    draw = {"level": lambda: np.float32([[next(level)], [next(level)]])}
    spec = Composite(level=Unbounded((2, 1)), shape=(2,))
    env = TransformedEnv(base, TensorDictPrimer(spec, default_value=draw, call_before_env_reset=True))
    assert (env.observation_spec["level"].shape, env.state_spec["level"].shape) == ((2, 1), (2, 1))
    td = env.rollout(3, break_when_any_done=False)
    # Episodes of one and of two steps; where none starts, the level stays.
    assert td["level"][..., 0].tolist() == [[0, 2, 4], [1, 1, 5]]
    assert base.seen == [4, 5]
    check_env_specs(env)
    after = TransformedEnv(CountingEnv((2,)), TensorDictPrimer(spec, default_value=3.0))
    assert after.rollout(2)["level"].shape == (2, 2, 1)


def test_what_an_environment_gave_is_not_written():
    base = Steps(9)
    flags = np.zeros(1, bool)
    base._step = lambda td: TensorDict(x=base.x, reward=np.ones(1, np.float32), done=flags)
    td = TransformedEnv(base, StepCounter(1)).rollout(3)
    assert td.shape == (1,)
    assert td["next", "truncated"].all()
    assert not flags.any()


def test_assignments_count_after_a_step():
    counter, total = StepCounter(), RewardSum()
    env = TransformedEnv(Steps(9), counter).append_transform(total)
    env.rollout(2)
    counter.max_steps, counter.step_count_key = 1, "n"
    assert env.rollout(9)["next", "n"].ravel().tolist() == [1]
    total.out_keys = ["sum"]
    assert env.rollout(9)["next", "sum"].ravel().tolist() == [1.0]
    env.insert_transform(0, RenameTransform(["reward"], ["gain"]))
    assert env.rollout(9)["next", "sum"].ravel().tolist() == [1.0]


def test_sums_with_reset_keys():
    env = TransformedEnv(Steps(2), RewardSum(["reward", "reward"], ["a", "b"], ["_reset", "never"]))
    td = env.rollout(4, break_when_any_done=False)
    np.testing.assert_array_equal(td["next", "a"].ravel(), [1, 3, 1, 3])
    with pytest.raises(ValueError, match="reset_keys must be as many as in_keys"):
        TransformedEnv(Steps(2), RewardSum(reset_keys=["_reset", "_reset"])).reset()
    raises(TypeError, "reset_keys must be given", lambda: RewardSum().reset_keys)


class Faded(StepTransform):
    """A sum of rewards that fades, as a user defines it: with `initial` and `step` alone."""

    def initial(self, batch):
        return {("faded",): np.zeros((*batch, 1), np.float32)}

    def step(self, entries, following):
        following["faded",][...] = entries["faded",] / 2 + following["reward",]


def test_specs_have_what_ends_an_episode():
    for options, keys in (
        ({}, {"done", "terminated"}),
        ({"truncated_key": "cut"}, {"done", "terminated"}),
        ({"max_steps": 3}, {"done", "terminated", "truncated"}),
        ({"max_steps": 3, "truncated_key": "cut"}, {"done", "terminated", "truncated", "cut"}),
    ):
        env = TransformedEnv(Steps(4), StepCounter(**options))
        check_env_specs(env)
        assert {*env.full_done_spec.keys()} == keys


def test_a_user_s_own():
    env = TransformedEnv(Steps(4), Faded())
    check_env_specs(env)
    assert env.observation_spec["faded"] == Unbounded((1,))
    one = env.rollout(3)
    np.testing.assert_allclose(one["faded"].ravel(), [0, 1, 2.5])
    np.testing.assert_allclose(one["next", "faded"].ravel(), [1, 2.5, 4.25])
    batch = Collector(Steps(4), transforms=[Faded()], frames_per_batch=3, total_frames=3).next()
    np.testing.assert_allclose(batch["next", "faded"], one["next", "faded"])


def test_noise_has_both_sizes_or_none():
    for sizes, shape in (((3, 2), (2, 3)), ((3, None), (1,)), ((None, 2), (1,)), ((None, None), (1,))):
        assert gSDENoise(*sizes).primers["_eps_gSDE"].shape == shape
