"""GAE and MultiAgentGAE: generalized advantage estimates as modules."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from lite import TensorDictBase
from lite._arrays.public import belong_to
from lite.kernels import Advantage, gae
from lite.nn._modules.module import Module
from lite.nn.values.base import AdvantageEstimator, Array, Options, Signals, Writes, as_number, next_path
from lite.nn.values.network_calls import expand_to
from lite.nn.values.standardize import standardized


class GAE(AdvantageEstimator):
    """Generalized advantage estimates: sums of temporal differences, weighted by powers of gamma lambda.

    Args:
        gamma: discount in [0, 1], a number or an array that broadcasts to the rewards.
        lmbda: decay of the weights in [0, 1], likewise.
        value_network: None, or as in `ValueEstimatorBase`, which has the other options and says what is
            read and written.
        average_gae: standardize the advantages. NaN is kept, and ignored by the mean and deviation.
        vectorized: accepted without effect, as there is one implementation.
        time_dim: the batch dimension of time. None: the one named "time", or the last.
        auto_reset_env: the environment loses the last next observation at truncations: the value of the
            observation is used instead.

    Raises:
        RuntimeError, TypeError, ValueError: as for `ValueEstimatorBase`.

    Source:
        Schulman et al. (2016), High-dimensional continuous control using generalized advantage estimation
        (arXiv:1506.02438); TorchRL's class of this name.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import GAE
        >>> from lite.nn import TensorDictModule
        >>> td = TensorDict(
        ...     {
        ...         "obs": np.array([[1.0], [2], [3], [0], [1]]),
        ...         "next": {
        ...             "obs": np.array([[2.0], [3], [4], [1], [2]]),
        ...             "reward": np.ones((5, 1)),
        ...             "done": np.array([[0], [0], [1], [0], [1]], bool),  # the first episode is cut off,
        ...             "terminated": np.array([[0], [0], [0], [0], [1]], bool),  # the second one ends
        ...         },
        ...     },
        ...     batch_size=[5],
        ... )
        >>> value = TensorDictModule(lambda obs: 10 * obs, ["obs"], ["state_value"])
        >>> GAE(gamma=0.5, lmbda=0.5, value_network=value)(td)["advantage"].ravel().tolist()
        [-0.5625, -6.25, -9.0, 3.75, -9.0]
    """

    def __init__(
        self,
        *,
        gamma: ArrayLike,
        lmbda: ArrayLike,
        value_network: Module | None,
        average_gae: bool = False,
        vectorized: bool | None = None,
        time_dim: int | None = None,
        auto_reset_env: bool = False,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(value_network=value_network, **options)
        self._factor("gamma", gamma)
        self._factor("lmbda", lmbda)
        self.average_gae = average_gae
        self.vectorized = vectorized
        self.time_dim = time_dim
        self.auto_reset_env = auto_reset_env

    def _averaged(self, advantage: Array, valid: Array | None, tensordict: TensorDictBase) -> Array:
        if not self.average_gae:
            return advantage
        return self._normalize_advantage(advantage, valid, self._groups(tensordict))

    def _estimates(
        self,
        tensordict: TensorDictBase,
        params: TensorDictBase | None,
        target_params: TensorDictBase | None,
        time_dim: int | None,
    ) -> tuple[Advantage, Array | None, Writes]:
        self._require_rollout(tensordict)
        time_dim = self._time(tensordict, time_dim)
        values, writes = self._values(tensordict, time_dim, params, target_params)
        value, next_value, valid = values
        signals = self._signals(tensordict, valid, time_dim)
        gamma = self._discount(tensordict, signals[0])
        reward, done, terminated = self._prepare_signals(*signals, value)
        if not isinstance(gamma, float):
            gamma = self._prepare_signals(np.broadcast_to(gamma, signals[0].shape), done, done, value)[0]
        self._require_one_shape(
            value, next_values=next_value, rewards=reward, done=done, terminated=terminated
        )
        if self.auto_reset_env:
            truncated = self._read(tensordict, next_path("truncated"))
            truncated = self._prepare_signals(reward, truncated, truncated, value)[1]
            reward = np.where(truncated, reward + gamma * value, reward)
            terminated = done
        lmbda = as_number(self.lmbda)
        found = gae(reward, value, next_value, done, terminated, gamma=gamma, lmbda=lmbda, time_dim=time_dim)
        return found, valid, writes

    def _prepare_signals(self, reward: Array, done: Array, terminated: Array, value: Array) -> Signals:
        """Rewards and flags of the shape of the values."""
        return reward, done, terminated

    def _normalize_advantage(self, advantage: Array, valid: Array | None, groups: Array | None) -> Array:
        mask = None if valid is None else expand_to(valid, advantage)
        unbiased = mask is None or groups is not None
        return standardized(advantage, groups, mask, smallest=1e-4, unbiased=unbiased)


class MultiAgentGAE(GAE):
    """`GAE` of agents that have a value each but share rewards, done and terminated.

    Values are [*batch, time, agents, 1]. Rewards and flags have this shape, or lack the dimension of the
    agents; then all agents share them. `average_gae` standardizes the advantages of each agent separately.

    Args:
        agent_dim: the dimension of agents in the values.
        **options: those of `GAE`.

    Raises:
        RuntimeError, TypeError, ValueError: as for `ValueEstimatorBase`.

    Source:
        TorchRL's class of this name.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import MultiAgentGAE
        >>> values = np.zeros((3, 2, 1))
        >>> team = {"reward": np.ones((3, 1)), "done": np.zeros((3, 1), bool), "state_value": values}
        >>> td = TensorDict({"state_value": values, "next": team}, batch_size=[3])
        >>> MultiAgentGAE(gamma=0.5, lmbda=1.0, value_network=None)(td)["advantage"][..., 0].tolist()
        [[1.75, 1.75], [1.5, 1.5], [1.0, 1.0]]
    """

    def __init__(self, *, agent_dim: int = -2, **options: Any) -> None:
        super().__init__(**options)
        self.agent_dim = agent_dim

    def _prepare_signals(self, reward: Array, done: Array, terminated: Array, value: Array) -> Signals:
        return self._of_each(reward, value), self._of_each(done, value), self._of_each(terminated, value)

    def _of_each(self, signal: Array, value: Array) -> Array:
        if signal.ndim == value.ndim:
            return signal
        dim = self.agent_dim % value.ndim
        if signal.ndim != value.ndim - 1 or signal.shape != value.shape[:dim] + value.shape[dim + 1 :]:
            raise ValueError(
                f"rewards and flags must have the shape of the values {value.shape}, with or without "
                f"dimension {self.agent_dim}: got {signal.shape}."
            )
        return np.broadcast_to(np.expand_dims(signal, dim), value.shape)

    def _normalize_advantage(self, advantage: Array, valid: Array | None, groups: Array | None) -> Array:
        dim = self.agent_dim % advantage.ndim
        parts = [
            super(MultiAgentGAE, self)._normalize_advantage(part, valid, groups)
            for part in np.moveaxis(advantage, dim, 0)
        ]
        return np.stack(parts, dim)


belong_to("lite.nn.values", GAE, MultiAgentGAE)
