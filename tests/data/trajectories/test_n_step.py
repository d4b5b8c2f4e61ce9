"""The n-step form of transitions against a loop."""

import numpy as np

from lite import TensorDict
from lite.data import MultiStep
from lite.data.trajectories.n_step import n_step


def test_rewards_of_n_steps(rng: np.random.Generator) -> None:
    steps, gamma = 6, 0.9
    reward = rng.normal(size=(1, steps))
    done = np.zeros((1, steps), bool)
    done[0, 3] = True
    td = TensorDict(obs=np.arange(steps, dtype=float)[None], batch_size=[1, steps])
    td["next"] = TensorDict(
        obs=np.arange(1.0, steps + 1)[None], reward=reward, done=done, batch_size=[1, steps]
    )
    how = MultiStep(gamma, 3, done_keys=["done"], mask_key=None)
    out = n_step(td, "Reader", how)
    expected = []
    for t in range(steps):
        total = 0.0
        for k in range(3):
            if t + k >= steps:
                break
            total += gamma**k * reward[0, t + k]
            if done[0, t + k]:
                break
        expected.append(total)
    np.testing.assert_allclose(out["next", "reward"][0], expected)
