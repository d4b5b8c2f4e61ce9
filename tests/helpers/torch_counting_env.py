"""TorchRL's form of `counting_env`, in a file that processes which are spawned can import."""

import torch
from tensordict import TensorDict as TorchTensorDict
from torchrl import data, envs


class TheirCounting(envs.EnvBase):
    """The reference's form of `CountingEnv`."""

    def __init__(self, limit=3):
        super().__init__()
        self.observation_spec = data.Composite(observation=data.Unbounded((1,)))
        self.action_spec = data.Bounded(-1.0, 1.0, shape=(1,))
        self.reward_spec = data.Unbounded((1,))
        self.limit, self.count = limit, 0

    def _reset(self, tensordict, **kwargs):
        self.count = 0
        return TorchTensorDict({"observation": torch.zeros(1)}, [])

    def _step(self, tensordict):
        self.count += 1
        done = torch.tensor([self.count >= self.limit])
        seen = torch.full((1,), float(self.count))
        return TorchTensorDict({"observation": seen, "reward": tensordict["action"], "done": done}, [])

    def _set_seed(self, seed):
        pass


def constant(td):
    return td.set("action", torch.full((1,), 0.5))
