"""Small networks, and batches of steps, for losses."""

from typing import Any

import numpy as np

from lite import TensorDict, nn
from lite.nn.distributions import Categorical, IndependentNormal, TanhNormal


def transitions(*shape: int, seed: int = 0, **entries: Any) -> TensorDict:
    """Steps of an environment with four numbers to observe; the last of each row ends it."""
    rng = np.random.default_rng(seed)
    shape = shape or (6,)
    done = np.zeros((*shape, 1), bool)
    done[..., -1, :] = True
    return TensorDict(
        {
            "observation": rng.normal(size=(*shape, 4)),
            "next": {
                "observation": rng.normal(size=(*shape, 4)),
                "reward": rng.normal(size=(*shape, 1)),
                "done": done,
                "terminated": done.copy(),
            },
            **entries,
        },
        batch_size=shape,
    )


def linear(inputs: int, outputs: int, seed: int = 0) -> nn.Linear:
    return nn.Linear(inputs, outputs, rng=seed, dtype=np.float64)


def gaussian(bounded: bool = False) -> nn.ProbabilisticTensorDictSequential:
    """A policy of two numbers."""
    return nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(linear(4, 4), ["observation"], ["params"]),
        nn.TensorDictModule(nn.NormalParamExtractor(), ["params"], ["loc", "scale"]),
        nn.ProbabilisticTensorDictModule(
            ["loc", "scale"],
            ["action"],
            distribution_class=TanhNormal if bounded else IndependentNormal,
            return_log_prob=True,
        ),
    )


def categorical() -> nn.ProbabilisticTensorDictSequential:
    """A policy of three actions."""
    return nn.ProbabilisticTensorDictSequential(
        nn.TensorDictModule(linear(4, 3), ["observation"], ["logits"]),
        nn.ProbabilisticTensorDictModule(
            ["logits"], ["action"], distribution_class=Categorical, return_log_prob=True
        ),
    )


class _Rows(nn.Module):
    """Scores of 5 returns for each of 3 actions, (*, 5, 3)."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.linear = linear(4, 15, seed)

    def forward(self, observation: Any) -> Any:
        scores = self.linear(observation)
        return scores.reshape(*scores.shape[:-1], 5, 3)


class _Best(nn.TensorDictModuleBase):
    """Writes the action with the greatest mean return."""

    in_keys, out_keys = ["action_value"], ["action"]

    def __init__(self, support: Any, space: str) -> None:
        super().__init__()
        self.space = space
        self.register_buffer("support", support)

    def forward(self, td: Any) -> Any:
        action = (np.exp(td["action_value"]) * self.support[:, None]).sum(-2).argmax(-1)
        return td.set("action", np.eye(3, dtype=np.int64)[action] if self.space == "one-hot" else action)


class Returns(nn.TensorDictSequential):
    """Log-probs of the returns -1, -0.5, 0, 0.5 and 1 for each of 3 actions, and the best action."""

    def __init__(self, space: str = "categorical", seed: int = 0) -> None:
        support, key = np.linspace(-1, 1, 5), ["action_value"]
        super().__init__(
            nn.TensorDictModule(_Rows(seed), ["observation"], key),
            nn.TensorDictModule(lambda scores: nn.functional.log_softmax(scores, -2), key, key),
            _Best(support, space),
        )
        self.action_space = space
        self.register_buffer("support", support)


def critic() -> nn.ValueOperator:
    return nn.ValueOperator(linear(4, 1, seed=1))


class Joined(nn.Module):
    """A network of an observation and an action."""

    def __init__(self, seed: int = 2) -> None:
        super().__init__()
        self.linear = linear(6, 1, seed)

    def forward(self, observation: Any, action: Any) -> Any:
        return self.linear(np.concatenate([observation, action], -1))


def q_network(seed: int = 2) -> nn.ValueOperator:
    """Values of actions of two numbers."""
    return nn.ValueOperator(Joined(seed), in_keys=["observation", "action"])
