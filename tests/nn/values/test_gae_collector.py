"""Estimators on what a collector gives: cuts bootstrap from the observation at the end of the episode."""

import itertools

import gymnasium
import numpy as np
import pytest
from helpers.cases import each_case

from lite.data import GAE, Collector, MultiStep, TD0Estimator
from lite.nn import TensorDictModule

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
