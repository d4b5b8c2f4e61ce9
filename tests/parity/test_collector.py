"""Batches of a collector against those of torchrl's, over the same environments: keys, dtypes, values."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.cases import each_case
from helpers.compared import assert_same_entries
from helpers.counting_env import Constant, CountingEnv
from helpers.torch_counting_env import TheirCounting, constant
from torchrl import collectors as theirs
from torchrl import data, envs
from torchrl import modules as their_modules

import lite.data as our_data
import lite.envs as our_envs
import lite.nn
from lite.data import Collector, InitTracker, RandomPolicy, RewardSum, StepCounter, TensorDictPrimer
from lite.data import Unbounded as OurUnbounded
from lite.envs.spaces import Layout

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


class Same(gymnasium.Wrapper):
    """All episodes start alike, however often environments are reset."""

    def __init__(self, number):
        super().__init__(gymnasium.make("CartPole-v1", max_episode_steps=9))
        self.number = number

    def reset(self, **keywords):
        return super().reset(seed=self.number)


def vector(mode=AutoresetMode.DISABLED):
    return SyncVectorEnv([lambda i=i: Same(i) for i in range(3)], autoreset_mode=mode)


def rule(observation):
    """Pushes so that some poles fall before the nine steps are over."""
    return observation[..., 0] > -0.02


def our_policy(td):
    return td.set("action", rule(td["observation"]).astype(np.int64))


def their_policy(td):
    return td.set("action", rule(td["observation"]).long())


def both(ours, reference, *transforms, frames=60, batches=3, **keywords):
    mine = Collector(
        ours, our_policy, frames_per_batch=frames, total_frames=frames * batches, copy=True, **keywords
    )
    env = envs.GymWrapper(reference, categorical_action_encoding=True)
    for transform in transforms:
        env = envs.TransformedEnv(env, transform)
    postproc = keywords.get("postproc")
    if postproc is not None:
        postproc = data.MultiStep(postproc.gamma, postproc.n_steps)
    others = {
        k: v
        for k, v in keywords.items()
        if k in ("max_frames_per_traj", "split_trajs", "set_truncated", "reset_at_each_iter")
    }
    other = theirs.Collector(
        env, their_policy, frames_per_batch=frames, total_frames=frames * batches, trust_policy=True,
        postproc=postproc, **others,
    )  # fmt: skip
    return list(mine), list(other)


def compare(ours, reference):
    assert len(ours) == len(reference)
    for mine, other in zip(ours, reference, strict=True):
        assert mine.names == list(other.names)
        assert_same_entries(mine, other)


def test_one_environment():
    compare(*both(Same(0), Same(0), envs.StepCounter()))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_vectors(mode):
    ours, reference = both(vector(mode), vector(), envs.StepCounter())
    assert ours[0]["next", "terminated"].any()
    assert ours[0]["next", "truncated"].any()
    compare(ours, reference)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_truncation(mode):
    compare(*both(vector(mode), vector(), max_frames_per_traj=5))
    compare(
        *both(
            vector(mode),
            vector(),
            envs.StepCounter(7, step_count_key="n"),
            transforms=[StepCounter(7, step_count_key="n")],
        )
    )


def test_transforms():
    ours = [
        StepCounter(),
        RewardSum(),
        InitTracker(),
        TensorDictPrimer(memory=OurUnbounded((2,)), default_value=2.0),
    ]
    compare(
        *both(
            vector(), vector(), envs.StepCounter(), envs.RewardSum(), envs.InitTracker(),
            envs.TensorDictPrimer(memory=data.Unbounded((2,)), default_value=2.0, expand_specs=True),
            transforms=ours,
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    "keywords", [{"set_truncated": True}, {"reset_at_each_iter": True}, {"split_trajs": True}]
)
def test_options(keywords):
    ours, reference = both(vector(), vector(), envs.StepCounter(), **keywords)
    if "reset_at_each_iter" in keywords:
        # torchrl resets before the first batch, too, and counts the episodes that it leaves.
        for part in reference:
            part["collector", "traj_ids"] -= 3
    for part in reference if "split_trajs" in keywords else ():
        part.names = [None, "time"]  # torchrl keeps the name where all trajectories are equally long
    compare(ours, reference)


@each_case(
    "space",
    [
        spaces.Discrete(3),
        spaces.MultiBinary(4),
        spaces.MultiDiscrete([2, 5]),
        spaces.Box(-1, 2, (2, 3)),
        spaces.Box(-1, 2, (), np.float64),
        spaces.Box(0, 255, (4, 4), np.uint8),
        spaces.Box(-np.inf, np.inf, (2,)),
        spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Dict({"c": spaces.Box(-1, 1, (2,))})}),
    ],
)
def test_specs(space):
    from torchrl.envs.libs.gym import _gym_to_torchrl_spec_transform

    theirs = _gym_to_torchrl_spec_transform(space, categorical_action_encoding=True)
    if not isinstance(theirs, data.Composite):
        theirs = data.Composite(x=theirs)
    ours = Layout(space, "x", root=True).spec(())
    assert set(ours.keys(True, True)) == set(theirs.keys(True, True))
    for key in ours.keys(True, True):
        mine, other = ours[key], theirs[key]
        assert mine.shape == tuple(other.shape)
        assert str(other.dtype) == f"torch.{mine.dtype}"
        assert mine.is_in(other.rand().numpy())
        assert other.is_in(torch.from_numpy(mine.rand(rng=0)))


def test_random_policies():
    from torchrl.envs.utils import RandomPolicy as Theirs

    env = envs.GymWrapper(vector(), categorical_action_encoding=True)
    collector = Collector(vector(), RandomPolicy(), frames_per_batch=3)
    mine = RandomPolicy(collector.action_spec)(collector.next()[:, 0])["action"]
    other = Theirs(env.action_spec)(env.reset())["action"]
    assert (mine.shape, str(mine.dtype)) == (tuple(other.shape), str(other.dtype).removeprefix("torch."))


@pytest.mark.parametrize("layout", ["padded", "cat"])
def test_whole_trajectories(layout):
    """The same ones in the same batches, also those that several batches have a part of."""
    options = {"frames_per_batch": 12, "total_frames": 240, "trajs_per_batch": 4, "traj_format": layout}
    ours = [*Collector(vector(), our_policy, **options)]
    env = envs.GymWrapper(vector(), categorical_action_encoding=True)
    env = envs.TransformedEnv(env, envs.StepCounter())
    reference = theirs.Collector(env, their_policy, trust_policy=True, **options)
    others = [batch.clone() for batch in reference]
    reference.shutdown()
    assert [batch.shape for batch in ours] == [tuple(batch.shape) for batch in others]
    for mine, other in zip(ours, others, strict=True):
        for key in ("observation", "action", ("next", "reward"), ("next", "done"), "step_count"):
            np.testing.assert_array_equal(mine[key], other[key].numpy())
        if layout == "padded":
            np.testing.assert_array_equal(mine["collector", "mask"], other["collector", "mask"].numpy())


@pytest.mark.parametrize("kind", ["alone", "several", "counted"])
def test_environments_of_torchrls_kind(kind):
    import lite.envs

    def made(library, deep):
        def make():
            return library.GymEnv("CartPole-v1", max_episode_steps=9)

        return library.SerialEnv(3, make) if kind == "several" else make()

    mine, other = made(lite.envs, None), made(envs, None)
    assert mine.set_seed(3) == other.set_seed(3)
    words = {"frames_per_batch": 60, "total_frames": 180}
    if kind == "counted":
        words["max_frames_per_traj"] = 5
    pushes = np.eye(2, dtype=np.int64)
    ours = Collector(
        mine, lambda td: td.set("action", pushes[rule(td["observation"]).astype(int)]), copy=True, **words
    )
    reference = theirs.Collector(
        other,
        lambda td: td.set("action", torch.as_tensor(pushes)[rule(td["observation"]).long()]),
        trust_policy=True,
        **words,
    )
    assert len(ours) == len(reference)
    for td, wanted in zip(ours, reference, strict=True):
        assert_same_entries(td, wanted)


@each_case(
    ("batch", "summed", "max_steps"), [((), False, 6), ((), True, None), ((3,), False, None), ((3,), True, 6)]
)
def test_evaluations(batch, summed, max_steps):
    results, told = [], []
    for library, collectors, policy in ((our_envs, our_data, our_policy), (envs, theirs, their_policy)):
        env = library.GymWrapper(vector() if batch else Same(1), categorical_action_encoding=True)
        if summed:
            env = library.TransformedEnv(env, library.RewardSum())
        evaluator = collectors.Evaluator(
            env, policy, num_trajectories=5, max_steps=max_steps, frames_per_batch=12, log_prefix="test",
            metrics_fn=lambda td: {"frames": int(td["collector", "mask"].sum())},
            on_result=lambda td: told.append(set(td.keys())),
        )  # fmt: skip
        result = evaluator.evaluate()
        assert result.pop("test/fps") > 0
        results.append(result)
        assert evaluator.evaluate(step=9)["test/step"] == 9
        assert evaluator.poll() is None
        assert evaluator.trigger_eval() is True
        assert evaluator.wait(timeout=60)["test/step"] == 1
        assert evaluator.state_dict()["step_counter"] == 2
        evaluator.shutdown()
    assert results[0].keys() == results[1].keys()
    for key, value in results[0].items():
        np.testing.assert_allclose(value, results[1][key], rtol=1e-6, err_msg=key)
    assert told[0] == told[-1]


def test_collectors_in_processes():
    words = {"sync": True, "frames_per_batch": 8, "total_frames": 16, "num_collectors": 2}
    with our_data.Collector(CountingEnv, Constant(), **words) as ours:
        mine = list(ours)
    reference = theirs.Collector(TheirCounting, constant, trust_policy=True, **words)
    try:
        others = [td.clone() for td in reference]
    finally:
        reference.shutdown()
    assert type(ours).__name__ == type(reference).__name__ == "MultiSyncCollector"
    assert len(mine) == len(others)
    for td, wanted in zip(mine, others, strict=True):
        del td["collector"], wanted["collector"]  # numbers of trajectories, as of `CountingEnv`
        assert_same_entries(td, wanted)


def test_what_a_recurrent_policy_starts_with():
    found = []
    for collectors, modules, env in (
        (our_data, lite.nn, CountingEnv()),
        (theirs, their_modules, TheirCounting()),
    ):
        policy = modules.GRUModule(input_size=1, hidden_size=1, in_key="observation", out_key="action")
        found.append(
            collectors.Collector(env, policy, frames_per_batch=7, auto_register_policy_transforms=True).next()
        )
    keys = [
        {key for key in td.keys(True, True) if "recurrent_state" in key or "is_init" in key} for td in found
    ]
    assert keys[0] == keys[1]
    for key in keys[0]:
        assert found[0][key].shape == tuple(found[1][key].shape)
    np.testing.assert_array_equal(found[0]["is_init"], found[1]["is_init"])
