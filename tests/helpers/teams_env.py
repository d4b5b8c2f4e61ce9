"""An environment of agents that are done beside their environments."""

import numpy as np

from lite import TensorDict, lazy_stack
from lite.data import Categorical, Composite, Unbounded
from lite.envs import Compose, EnvBase, RewardSum, StepCounter, TransformedEnv


class Teams(EnvBase):
    """Three environments of two agents, which are done as agents and as environments."""

    def __init__(self) -> None:
        super().__init__(batch_size=[3])
        flag, agents = Categorical(2, (3, 1), dtype=np.bool_), Categorical(2, (3, 2, 1), dtype=np.bool_)
        self.observation_spec = Composite(agents=Composite(x=Unbounded((3, 2, 1)), shape=(3, 2)), shape=(3,))
        self.action_spec = Unbounded((3, 1))
        self.reward_spec = Composite(agents=Composite(reward=Unbounded((3, 2, 1)), shape=(3, 2)), shape=(3,))
        done = Composite(done=agents, terminated=agents.clone(), shape=(3, 2))
        self.done_spec = Composite(agents=done, done=flag, terminated=flag.clone(), shape=(3,))
        self.steps = np.zeros((3, 1), np.int64)

    def _reset(self, tensordict, **kwargs):
        mask = (
            np.ones((3, 1), bool) if tensordict is None else tensordict.get("_reset", np.ones((3, 1), bool))
        )
        self.steps[mask] = 0
        return TensorDict({"agents": TensorDict(x=np.zeros((3, 2, 1), np.float32), batch_size=[3, 2])}, [3])

    def _step(self, tensordict):
        self.steps += 1
        done = self.steps > [[1], [2], [3]]
        each = np.stack([done, done], 1)
        agents = {"x": each.astype(np.float32), "reward": np.ones((3, 2, 1), np.float32)}
        agents = TensorDict(agents | {"done": each, "terminated": each}, [3, 2])
        return TensorDict({"agents": agents, "done": done, "terminated": done}, [3])

    def _set_seed(self, seed):
        pass


def counted_teams():
    total = RewardSum(in_keys=[("agents", "reward")])
    return TransformedEnv(Teams(), Compose(total, StepCounter()))


class Pair(EnvBase):
    """Two agents, who alone are done: after two steps and after four, and each starts anew by itself."""

    def __init__(self) -> None:
        super().__init__()
        flag = Categorical(2, (2, 1), dtype=np.bool_)
        self.observation_spec = Composite(
            agents=Composite(x=Unbounded((2, 1)), shape=(2,)), clock=Unbounded((1,))
        )
        self.action_spec = Unbounded((1,))
        self.reward_spec = Composite(agents=Composite(reward=Unbounded((2, 1)), shape=(2,)))
        self.done_spec = Composite(agents=Composite(done=flag, terminated=flag.clone(), shape=(2,)))
        self.steps, self.clock = np.zeros((2, 1), np.float32), 0

    def _seen(self, **more):
        agents = TensorDict(x=self.steps, **more, batch_size=[2])
        return TensorDict(agents=agents, clock=np.full(1, self.clock, np.float32))

    def _reset(self, tensordict, **kwargs):
        mask = None if tensordict is None else tensordict.get(("agents", "_reset"), None)
        self.steps = np.where(True if mask is None else mask, np.float32(0), self.steps)
        return self._seen()

    def _step(self, tensordict):
        self.steps, self.clock = self.steps + 1, self.clock + 1
        return self._seen(reward=self.steps, done=self.steps >= [[2], [4]])

    def _set_seed(self, seed):
        pass


class Mates(EnvBase):
    """Two agents of which each observes its own number of things, for three steps."""

    def __init__(self, counts: tuple[int, int] = (1, 3)) -> None:
        super().__init__()
        self.counts = counts
        each = [Composite(x=Unbounded(n), y=Unbounded(2)) for n in counts]
        self.observation_spec = Composite(agents=np.stack(each))
        self.action_spec = Composite(agents=Composite(action=Categorical(3, (2,)), shape=(2,)))
        self.reward_spec = Composite(agents=Composite(reward=Unbounded((2, 1)), shape=(2,)))
        self.steps = 0

    def _reset(self, tensordict, **kwargs):
        self.steps = 0
        return TensorDict(agents=self._seen())

    def _step(self, tensordict):
        self.steps += 1
        reward = tensordict["agents", "action"][:, None].astype(np.float32)
        done = np.array([self.steps == 3])
        return TensorDict(agents=self._seen().set("reward", reward), done=done, terminated=done.copy())

    def _seen(self):
        def numbers(n):
            return np.full(n, self.steps, np.float32)

        return lazy_stack([TensorDict(x=numbers(n), y=numbers(2)) for n in self.counts])

    def _set_seed(self, seed):
        pass
