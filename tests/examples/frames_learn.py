"""A policy for CartPole from a data set that torch wrote, without torch and without an environment.

`python tests/examples/frames_learn.py [FOLDER [seed]]` opens what `frames_record.py` recorded, trains a
network that values actions, and prints how long poles stay up: as recorded, and as learned. It needs
gymnasium, to play.
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":  # a second thread slows products of these sizes down
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import gymnasium
import numpy as np

from lite import TensorDict, nn, optim, value_and_grad
from lite.data import LazyTensorStorage, MultiStepTransform, TensorDictReplayBuffer
from lite.nn.losses import DQNLoss, SoftUpdate

FOLDER = Path(__file__).with_name("frames")


def learn(frames, steps=1000, seed=0):
    """A policy from frames in the order of time, a row for each."""
    rng = np.random.default_rng(seed)
    buffer = TensorDictReplayBuffer(
        storage=LazyTensorStorage(len(frames)),
        transform=MultiStepTransform(n_steps=3, gamma=0.99),
        batch_size=64,
        generator=rng,
    )
    buffer.extend(frames)
    buffer.flush()
    net = nn.MLP(4, 2, num_cells=[64, 64])
    net.apply(lambda layer: layer.reset_parameters(rng) if isinstance(layer, nn.Linear) else None)
    actor = nn.QValueActor(net, action_space="categorical")
    loss = DQNLoss(actor, action_space="categorical", double_dqn=True)
    target = SoftUpdate(loss, tau=0.01)
    params = TensorDict.from_module(loss).select("value_network_params")
    adam = optim.Adam(1e-3)
    state = adam.init(params)

    @value_and_grad
    def step(params, batch):
        with params.to_module(loss):
            return loss(batch)["loss"]

    for _ in range(steps):
        _, grads = step(params, buffer.sample())
        adam.update_(params, grads, state)
        target.step()
    return actor


def mean_length(policy, episodes=50, seed=1000):
    """How many steps poles stay up, of episodes that are played side by side."""
    env = gymnasium.make_vec("CartPole-v1", num_envs=episodes, vectorization_mode="vector_entry_point")
    observation, _ = env.reset(seed=seed)
    total, running = np.zeros(episodes), np.ones(episodes, bool)
    while running.any():
        td = policy(TensorDict(observation=observation, batch_size=[episodes]))
        observation, _, terminated, truncated, _ = env.step(td["action"])
        total += running
        running &= ~(terminated | truncated)
    return total.mean()


if __name__ == "__main__":
    frames = TensorDict.load_memmap(sys.argv[1] if sys.argv[1:] else FOLDER)
    policy = learn(frames, seed=int(sys.argv[2]) if sys.argv[2:] else 0)
    recorded = len(frames) / frames["next", "done"].sum()
    print(f"poles stay up for {recorded:.0f} steps in the data, {mean_length(policy):.0f} as learned")
