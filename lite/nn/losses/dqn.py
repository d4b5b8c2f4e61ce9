"""DQNLoss and DistributionalDQNLoss: losses of deep Q-learning, for action values and their distributions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._transforms.vmap.running import require_ids
from lite.nn._modules.module import Module
from lite.nn.losses.base import LossModule, TransitionKeys
from lite.nn.losses.estimators import OF_RETURNS, ValueEstimators, named
from lite.nn.losses.reduction import distance_loss
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.q_value import QValueActor, action_space_of, space_of_loss, value_of_action
from lite.nn.values.entries import detached


@dataclass
class DQNKeys(TransitionKeys):
    """The keys that `DQNLoss` reads and writes."""

    advantage: NestedKey = "advantage"
    value_target: NestedKey = "value_target"
    value: NestedKey = "chosen_action_value"
    action_value: NestedKey = "action_value"
    action: NestedKey = "action"


class ValueNetworkLoss(LossModule):
    """Base of losses of one network that writes action values and actions."""

    default_value_estimator = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[ValueEstimators, ...]] = OF_RETURNS

    def _set_in_keys(self) -> None:
        others = [self.tensor_keys.action, *self._signal_keys()]
        self._list_in_keys((self.value_network, "next"), others=others)

    def _values_and_chosen(self, td: TensorDictBase, action: Array) -> tuple[Array, Array]:
        """The network's values of all actions, and of those taken, (*batch); it writes to `td`."""
        with self.value_network_params.to_module(self.value_network):
            self.value_network(td)
        values = self._entry(td, self.tensor_keys.action_value)
        return values, value_of_action(values, action, self.action_space)[..., 0]


class DQNLoss(ValueNetworkLoss):
    """Deep Q-learning: the distance of action values from the reward plus the discounted next value.

    Reads observations, "action", and under "next" observations, "reward", (*batch, 1), "done" and
    "terminated". In a batch of `MultiStep`, the discount of a step is gamma to the power of its
    "steps_to_next_obs". Returns "loss", and writes the squared error of each step to "td_error", (*batch, 1),
    the priority of a prioritized buffer.

    Args:
        value_network: a `QValueActor`, or a module from "observation" to the values of all actions,
            (*batch, n).
        loss_function: "l2", "l1" or "smooth_l1"; see `distance_loss`.
        delay_value: value next states by a target network, which `SoftUpdate` or `HardUpdate` updates.
        double_dqn: the network chooses the next action, and the target network values it.
        action_space: "one-hot", "categorical" or a spec; that of the network by default.
        reduction: "mean", "sum" or "none".
        use_prioritized_weights: see `LossModule`; the weights have the shape of the batch.

    Raises:
        ValueError: `double_dqn` without `delay_value`; no action space, or another one; another name of a
            distance or reduction.

    Source:
        Mnih et al. (2015), Human-level control through deep reinforcement learning; van Hasselt et al.
        (2016), Double Q-learning (arXiv:1509.06461); torchrl.objectives.DQNLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.losses import DQNLoss, SoftUpdate
        >>> loss = DQNLoss(nn.MLP(4, 2, num_cells=[8]), action_space="categorical")
        >>> target = SoftUpdate(loss, eps=0.99)  # target.step() after each step of the optimiser
        >>> state, flag = np.zeros((10, 4), np.float32), np.zeros((10, 1), bool)
        >>> after = {"observation": state, "reward": np.ones((10, 1), np.float32), "done": flag}
        >>> batch = TensorDict({"observation": state, "next": {**after, "terminated": flag}}, batch_size=[10])
        >>> batch["action"] = np.zeros(10, np.int64)
        >>> loss(batch)["loss"].shape, batch["td_error"].shape
        ((), (10, 1))
    """

    _AcceptedKeys = DQNKeys
    tensor_keys: DQNKeys

    def __init__(
        self,
        value_network: Module | Callable[[Array], Array],
        *,
        loss_function: str = "l2",
        delay_value: bool = True,
        double_dqn: bool = False,
        action_space: Any = None,
        reduction: str | None = None,
        use_prioritized_weights: bool | str = "auto",
    ) -> None:
        super().__init__()
        if double_dqn and not delay_value:
            raise ValueError("double_dqn=True needs delay_value=True.")
        self._keep(reduction=reduction, loss_function=loss_function, double_dqn=double_dqn)
        self._keep(delay_value=delay_value, use_prioritized_weights=use_prioritized_weights)
        network, self.action_space = acting_network(value_network, action_space)
        self.convert_to_functional(network, "value_network", create_target_params=delay_value)
        self.out_keys = ["loss"]
        self._set_in_keys()

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The loss of a batch, and its "td_error".

        Args:
            tensordict: the batch, to which "td_error" is written. Its entries may also be given as keywords,
                `observation=..., next_reward=...`; then the loss is returned.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: shapes differ.
            ValueError: shapes differ, or the loss is NaN.
        """
        keys = self.tensor_keys
        td = self._batch(tensordict)
        action = self._entry(td, keys.action)  # before the network writes its own
        _, predicted = self._values_and_chosen(td, action)
        next_value = self._double(td) if self.double_dqn else None
        targets = self.value_estimator.value_estimate(
            td, target_params=self.target_value_network_params, next_value=next_value
        )[..., 0]
        loss = distance_loss(predicted, targets, self.loss_function)
        weights = self._maybe_get_priority_weight(tensordict)
        out = TensorDict(loss=self._reduce_loss(loss, tensordict, weights=weights))
        error = detached(predicted) - targets
        self._write_priority(tensordict, (error * error)[..., None])
        return out

    def _double(self, td: TensorDictBase) -> Array:
        """The value by the target network of the next action that the network chooses."""
        following = td.get("next")
        chooser, judge = following.copy(), following.copy()
        with detached(self.value_network_params).to_module(self.value_network):
            action = self.value_network(chooser).get(self.tensor_keys.action)
        with self.target_value_network_params.to_module(self.value_network):
            values = self.value_network(judge).get(self.tensor_keys.action_value)
        return detached(value_of_action(values, action, self.action_space))


def acting_network(value_network: Any, action_space: Any) -> tuple[Any, str]:
    """A network that writes action values and actions, and the action space.

    Args:
        value_network: a TensorDictModule, or a module from "observation" to the values of all actions.
        action_space: see `action_space_of`; None for the network's.

    Raises:
        ValueError: there is no such action space.
    """
    space = action_space
    for name in ("action_space", "spec"):
        space = getattr(value_network, name, None) if space is None else space
    space = space_of_loss(space)
    if not isinstance(value_network, TensorDictModuleBase):
        value_network = QValueActor(value_network, action_space=space)
    return value_network, space


@dataclass
class DistributionalDQNKeys(TransitionKeys):
    """The keys that `DistributionalDQNLoss` reads and writes."""

    action_value: NestedKey = "action_value"
    action: NestedKey = "action"
    steps_to_next_obs: NestedKey = "steps_to_next_obs"


class DistributionalDQNLoss(ValueNetworkLoss):
    """Distributional Q-learning: the cross entropy from the distribution of reward plus discounted return.

    Reads observations, "action", under "next" observations, "reward", (batch, 1), "done" and "terminated",
    and "steps_to_next_obs" in a batch of `MultiStep`; the batch has one dimension. The network chooses the
    next action, and the target network gives its distribution. Returns "loss", and writes the cross entropy
    of each step to "td_error", (batch, 1).

    Args:
        value_network: a `DistributionalQValueActor`: a TensorDictModule that writes "action" and
            "action_value", (batch, atoms, n), the log-probs of returns for each action, and has an
            `action_space` and a buffer `support`, (atoms), the returns, in equal steps.
        gamma: discount.
        delay_value: take next distributions from a target network, which `SoftUpdate` or `HardUpdate`
            updates.
        reduction: "mean", "sum" or "none".
        use_prioritized_weights: see `LossModule`; the weights have the shape of the batch.

    Raises:
        TypeError: the network has no action space or no support.
        ValueError: another name of a reduction.

    Source:
        Bellemare et al. (2017), arXiv:1707.06887; torchrl.objectives.DistributionalDQNLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import OneHot
        >>> from lite.nn.losses import DistributionalDQNLoss, SoftUpdate
        >>> atoms, actions = 5, 2
        >>> net = nn.MLP(4, (atoms, actions), num_cells=[16])
        >>> support = np.linspace(-1, 1, atoms, dtype=np.float32)
        >>> actor = nn.DistributionalQValueActor(net, support, spec=OneHot(actions))
        >>> obs, ends = np.ones((3, 4), np.float32), np.zeros((3, 1), bool)
        >>> td = actor(TensorDict({"observation": obs}, [3]))
        >>> td["next"] = {"observation": obs, "reward": obs[:, :1], "done": ends, "terminated": ends}
        >>> loss = DistributionalDQNLoss(actor, gamma=0.99)
        >>> updater = SoftUpdate(loss, tau=0.005)
        >>> loss(td)["loss"].shape, td["td_error"].shape
        ((), (3, 1))
    """

    _AcceptedKeys = DistributionalDQNKeys
    tensor_keys: DistributionalDQNKeys
    SUPPORTED_VALUE_ESTIMATORS = (ValueEstimators.TD0,)
    _schedulable_buffers = frozenset({"gamma"})

    def __init__(
        self,
        value_network: Module,
        *,
        gamma: float,
        delay_value: bool = True,
        reduction: str | None = None,
        use_prioritized_weights: bool | str = "auto",
    ) -> None:
        super().__init__()
        for name in ("action_space", "support"):
            if getattr(value_network, name, None) is None:
                raise TypeError(
                    f"value_network must be a DistributionalQValueActor, got {type(value_network).__name__}, "
                    f"which has no {name}."
                )
        self.register_coeff_buffer("gamma", gamma)
        self._keep(reduction=reduction, delay_value=delay_value)
        self._keep(use_prioritized_weights=use_prioritized_weights)
        self.action_space = action_space_of(value_network.action_space)
        self.convert_to_functional(value_network, "value_network", create_target_params=delay_value)
        self.out_keys = ["loss"]
        self._set_in_keys()

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The loss of a batch, and its "td_error".

        Args:
            tensordict: the batch; see `DQNLoss.forward`.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: the batch has not one dimension, or the reward is not (batch, 1).
            ValueError: shapes that differ, or a loss that is NaN.
        """
        if tensordict.batch_dims != 1:
            raise RuntimeError(
                f"the batch must have one dimension, got the batch size {tensordict.batch_size}."
            )
        td = self._batch(tensordict)
        action = self._entry(td, self.tensor_keys.action)  # before the network writes its own
        log_probs = _of_action(self._log_probs(td, self.value_network_params), action, self.action_space)
        loss = -(self._projected(td) * log_probs).sum(1)
        weights = self._maybe_get_priority_weight(td)
        out = TensorDict(loss=self._reduce_loss(loss, td, weights=weights))
        self._write_priority(tensordict, detached(loss)[:, None])
        return out

    def _log_probs(self, data: TensorDictBase, params: TensorDictBase) -> Array:
        with params.to_module(self.value_network):
            return self._entry(self.value_network(data), self.tensor_keys.action_value)

    def _projected(self, td: TensorDictBase) -> Array:
        """The distribution of reward and discounted next return on the support, (batch, atoms)."""
        keys, following = self.tensor_keys, td.get("next")
        reward, done = (self._entry(following, key) for key in (keys.reward, keys.done))
        terminated = following.get(keys.terminated, None)
        terminated = done if terminated is None else terminated
        chooser = following.copy()
        self._log_probs(chooser, detached(self.value_network_params))
        action = self._entry(chooser, keys.action)
        log_probs = self._log_probs(following.copy(), self.target_value_network_params)
        ahead = np.exp(_of_action(detached(log_probs), action, self.action_space))
        support = detached(self.value_network_params["support"])
        low, high = support.min(), support.max()
        discount = self._number("gamma") ** td.get(keys.steps_to_next_obs, 1)
        returns = reward + (1 - terminated.astype(reward.dtype)) * discount * support
        if returns.shape != ahead.shape:
            raise RuntimeError(f"reward and terminated must be (batch, 1), got {reward.shape}.")
        place = (np.clip(returns, low, high) - low) / ((high - low) / (len(support) - 1))
        # The probability of a return between two atoms is split by linear interpolation.
        shares = np.clip(1 - np.abs(place[..., None] - np.arange(len(support), dtype=place.dtype)), 0, 1)
        return (ahead[:, None] @ shares)[:, 0].astype(ahead.dtype)

    def make_value_estimator(self, value_type: Any = None, **hyperparams: Any) -> Self:
        """Accept TD0 alone, which `forward` computes.

        Raises:
            KeyError: the estimator is unknown.
            NotImplementedError: it is not TD0.
        """
        if value_type is not None and named(value_type) is not ValueEstimators.TD0:
            raise NotImplementedError(f"{type(self).__name__} supports TD0, got {value_type}.")
        return self


def _of_action(values: Array, action: Array, space: str) -> Array:
    """The entries of the chosen action, (batch, atoms), of those of all actions, (batch, atoms, n)."""
    if space == "one_hot":
        shape = len(values), values.shape[-1]
        if action.shape != shape:
            raise ValueError(f"one-hot actions must have the shape {shape}, got {action.shape}.")
        return (values * action[:, None].astype(values.dtype)).sum(-1)
    ids = action.reshape(len(values), 1, 1)
    require_ids(ids, values.shape[-1], "the actions")
    return np.take_along_axis(values, np.broadcast_to(ids, (*values.shape[:-1], 1)), -1)[..., 0]


belong_to("lite.nn.losses", DQNLoss, DistributionalDQNLoss)
