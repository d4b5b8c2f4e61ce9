"""Frames of CartPole under random actions, which TorchRL records and torch's tensordict writes.

`python tests/examples/frames_record.py FOLDER` writes what `tests/examples/frames` holds, 40 episodes. It
needs torch, torchrl and gymnasium; `frames_learn.py` learns from the folder without torch.
"""

import sys

import torch
from torchrl.envs import GymEnv


def record(folder, episodes=40, seed=0):
    torch.manual_seed(seed)
    env = GymEnv("CartPole-v1", categorical_action_encoding=True)
    env.set_seed(seed)
    frames = torch.cat([env.rollout(500) for _ in range(episodes)])
    frames.memmap(folder)
    return frames


if __name__ == "__main__":
    print(record(sys.argv[1]))
