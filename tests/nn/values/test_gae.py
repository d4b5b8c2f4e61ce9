import itertools

import gymnasium
import numpy as np
import pytest
from helpers.cases import each_case
from helpers.rollouts import Counted, rollout, with_values

from lite import TensorDict
from lite.data import GAE, Collector, MultiAgentGAE, MultiStep, TD0Estimator
from lite.nn import TensorDictModule


def test_the_estimate_alone_writes_no_advantage():
    net, td = Counted(), rollout((3, 6))
    module = GAE(gamma=0.9, lmbda=0.8, value_network=net.module, average_gae=True)
    target = module.value_estimate(td)
    assert {"advantage", "value_target"} & set(td.keys()) == set()
    np.testing.assert_array_equal(target, module(td)["value_target"])


def test_average_gae():
    td = with_values(rollout((4, 6), dtype=np.float64))
    td["task"] = np.arange(4)[:, None] % 2 * np.ones((4, 6), int)
    plain = GAE(gamma=0.9, lmbda=0.8, value_network=None)(td.clone())
    out = GAE(gamma=0.9, lmbda=0.8, value_network=None, average_gae=True)(td.clone())
    advantage = plain["advantage"]
    np.testing.assert_allclose(out["advantage"], (advantage - advantage.mean()) / advantage.std(ddof=1))
    np.testing.assert_array_equal(out["value_target"], plain["value_target"])
    out = GAE(gamma=0.9, lmbda=0.8, value_network=None, average_gae=True, group_key="task")(td)
    for part in (out["advantage"][::2], out["advantage"][1::2]):
        np.testing.assert_allclose([part.mean(), part.std(ddof=1)], [0, 1], atol=1e-9)


def test_average_gae_of_valid_steps_alone():
    net, td = Counted(), rollout((4, 9), rate=0.4, dtype=np.float64)
    module = GAE(gamma=0.9, lmbda=0.8, value_network=net.module, average_gae=True, shifted=True)
    out = module(td)
    valid = out["shifted_valid"]
    assert not valid.all()
    kept = out["advantage"][valid]
    np.testing.assert_allclose([kept.mean(), kept.std()], [0, 1], atol=1e-9)
    assert not out["advantage"][~valid].any()


def test_an_environment_that_resets_itself():
    """The value of the observation stands for that of the next one, which is another episode's."""
    td = with_values(rollout((3, 8), dtype=np.float64))
    done, terminated = td["next", "done"], td["next", "terminated"]
    td["next", "truncated"] = done & ~terminated
    expected = td.clone()
    cut = td["next", "truncated"]
    expected["next", "state_value"][cut] = expected["state_value"][cut]
    td["next", "state_value"][cut] = np.nan
    out = GAE(gamma=0.5, lmbda=0.8, value_network=None, auto_reset_env=True)(td)
    np.testing.assert_allclose(
        out["advantage"], GAE(gamma=0.5, lmbda=0.8, value_network=None)(expected)["advantage"], atol=1e-12
    )
    with pytest.raises(KeyError, match="truncated"):
        GAE(gamma=0.5, lmbda=0.8, value_network=None, auto_reset_env=True)(td.exclude(("next", "truncated")))


def test_one_factor_for_each_step():
    td = with_values(rollout((3, 6), dtype=np.float64))
    factors = {"gamma": np.full((3, 6, 1), 0.9), "lmbda": np.full((6, 1), 0.8)}
    np.testing.assert_allclose(
        GAE(value_network=None, **factors)(td.clone())["advantage"],
        GAE(value_network=None, gamma=np.full((), 0.9), lmbda=np.full((), 0.8))(td)["advantage"],
    )


def agents(shared: bool) -> TensorDict:
    rng = np.random.default_rng(0)
    shape = (2, 6, 1) if shared else (2, 6, 3, 1)
    done = rng.random(shape) < 0.3
    following = {
        "reward": rng.normal(size=shape),
        "done": done,
        "terminated": done & (rng.random(shape) < 0.5),
    }
    following["state_value"] = rng.normal(size=(2, 6, 3, 1))
    return TensorDict({"state_value": rng.normal(size=(2, 6, 3, 1)), "next": following}, batch_size=[2, 6])


@each_case(("shared", "average_gae"), itertools.product([True, False], [True, False]))
def test_agents(shared, average_gae):
    td = agents(shared)
    td["task"] = np.array([[0], [1]]) * np.ones((2, 6), int)
    td["steps_to_next_obs"] = np.ones(td["next", "reward"].shape, int)
    options = {"gamma": 0.9, "lmbda": 0.8, "value_network": None, "average_gae": average_gae}
    out = MultiAgentGAE(**options)(td.clone())
    grouped = MultiAgentGAE(**options, group_key="task")(td.clone())
    for agent in range(3):
        own = td.clone()
        for key in ("state_value", ("next", "state_value")):
            own[key] = own[key][:, :, agent]
        if not shared:
            for key in ("reward", "done", "terminated"):
                own["next", key] = own["next", key][:, :, agent]
            own["steps_to_next_obs"] = own["steps_to_next_obs"][:, :, agent]
        np.testing.assert_allclose(out["advantage"][:, :, agent], GAE(**options)(own)["advantage"], rtol=1e-6)
        alone = GAE(**options, group_key="task")(own)["advantage"]
        np.testing.assert_allclose(grouped["advantage"][:, :, agent], alone, rtol=1e-6)


def test_rewards_that_are_neither_the_agents_nor_the_teams():
    td = agents(True)
    td["next", "reward"] = np.zeros((2, 6, 2))
    with pytest.raises(ValueError, match=r"with or without dimension -2: got \(2, 6, 2\)"):
        MultiAgentGAE(gamma=0.9, lmbda=0.8, value_network=None)(td)


vector = pytest.importorskip("gymnasium.vector", reason="needs the gym extra")

LIMIT = 4


class Counter(gymnasium.Env):
    """Observes how many steps the episode has; ends by itself after 3 if it is told so, else is cut off."""

    observation_space = gymnasium.spaces.Box(0, 100, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, ends: bool) -> None:
        self._ends = ends

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._count = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self._count += 1
        count = np.full(1, self._count, np.float32)
        return count, 1.0, self._ends and self._count == 3, self._count == LIMIT, {}


def value():
    return TensorDictModule(lambda obs: 10 * obs, ["observation"], ["state_value"])


@each_case(("mode", "shifted"), itertools.product(["NEXT_STEP", "SAME_STEP", "DISABLED"], [False, True]))
def test_targets_at_ends_and_cuts(mode, shifted):
    env = vector.SyncVectorEnv(
        [lambda: Counter(False), lambda: Counter(True)], autoreset_mode=vector.AutoresetMode[mode]
    )
    collector = Collector(env, frames_per_batch=24, total_frames=48, seed=0)
    for td in collector:
        options = {"shifted": True, "shifted_budget": 12} if shifted else {}
        out = TD0Estimator(gamma=0.5, value_network=value(), **options)(td.clone())
        count = td["next", "observation"][..., 0]
        expected = np.where(td["next", "terminated"][..., 0], 1.0, 1 + 0.5 * 10 * count)
        np.testing.assert_allclose(out["value_target"][..., 0], expected)
        cut = td["next", "done"][..., 0] & ~td["next", "terminated"][..., 0]
        assert (count[cut] == LIMIT).all()
        assert cut[0].any()
        assert td["next", "terminated"][1].any()
        advantage = GAE(gamma=0.5, lmbda=1.0, value_network=value(), **options)(td.clone())["advantage"]
        # From the last step of an episode that was cut off: 1 + 0.5 * 10 * 4 less 10 * 3.
        np.testing.assert_allclose(advantage[..., 0][cut], 1 + 20 - 30)


def test_after_multistep():
    """Sums of rewards are discounted by their length; flags that moved along say where nothing follows."""
    env = vector.SyncVectorEnv([lambda: Counter(False), lambda: Counter(True)])
    postproc = MultiStep(gamma=0.5, n_steps=2, shift_done=True)
    (td,) = Collector(env, frames_per_batch=24, total_frames=24, seed=0, postproc=postproc)
    out = TD0Estimator(gamma=0.5, value_network=value())(td)
    steps = td["steps_to_next_obs"]
    ahead = np.where(td["next", "terminated"][..., 0], 0, 10 * td["next", "observation"][..., 0])
    expected = np.where(steps == 2, 1.5, 1.0) + 0.5**steps * ahead
    np.testing.assert_allclose(out["value_target"][..., 0], expected)
