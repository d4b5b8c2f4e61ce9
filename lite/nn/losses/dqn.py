"""DQNLoss: temporal differences of action values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.types import Array
from lite.nn._modules.module import Module
from lite.nn.losses.base import LossModule, TransitionKeys
from lite.nn.losses.estimators import OF_RETURNS, ValueEstimators
from lite.nn.losses.reduction import distance_loss
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.q_value import QValueActor, action_space_of, value_of_action
from lite.nn.values.detached import detached


@dataclass
class DQNKeys(TransitionKeys):
    """The keys that `DQNLoss` reads and writes."""

    advantage: NestedKey = "advantage"
    value_target: NestedKey = "value_target"
    value: NestedKey = "chosen_action_value"
    action_value: NestedKey = "action_value"
    action: NestedKey = "action"


class DQNLoss(LossModule):
    """How far the values of actions are from the reward and the discounted value of what came next.

    Reads observations, "action", and under "next" observations, "reward", (*batch, 1), "done" and
    "terminated". If `MultiStep` made the batch, its "steps_to_next_obs" gives each step its discount, gamma
    to that power. Returns "loss", and writes the squared error of each step to "td_error", (*batch, 1), the
    priority that a prioritized buffer takes.

    Args:
        value_network: a `QValueActor`, or a module that gives the values of all actions, (*batch, n), of
            "observation".
        loss_function: "l2", "l1" or "smooth_l1"; see `distance_loss`.
        delay_value: value next states by a copy of the network, which `SoftUpdate` or `HardUpdate` moves.
        double_dqn: the present network chooses the next action, the copy values it.
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
    default_value_estimator = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS = OF_RETURNS

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
        space = action_space
        for name in ("action_space", "spec"):
            space = getattr(value_network, name, None) if space is None else space
        if space is None:
            raise ValueError("action_space must be given, as the value network has no such attribute.")
        self.action_space = action_space_of(space)
        if not isinstance(value_network, TensorDictModuleBase):
            value_network = QValueActor(value_network, action_space=self.action_space)
        self.convert_to_functional(value_network, "value_network", create_target_params=delay_value)
        self.out_keys = ["loss"]
        self._set_in_keys()

    def _set_in_keys(self) -> None:
        others = [self.tensor_keys.action, *self._signal_keys()]
        self._list_in_keys((self.value_network, "next"), others=others)

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The loss of a batch, and its "td_error".

        Args:
            tensordict: the batch, to which "td_error" is written. Its entries may also be given as keywords,
                `observation=..., next_reward=...`; then the loss is returned.

        Raises:
            KeyError: an entry is missing.
            RuntimeError, ValueError: shapes that differ, or a loss that is NaN.
        """
        keys = self.tensor_keys
        td = self._batch(tensordict)
        action = self._read(td, keys.action)  # before the network writes its own
        with self.value_network_params.to_module(self.value_network):
            self.value_network(td)
        values = self._read(td, keys.action_value)
        predicted = value_of_action(values, action, self.action_space)[..., 0]
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
        """The value, by the copy of the network, of the action that the network itself would take next."""
        following = td.get("next")
        chooser, judge = following.copy(), following.copy()
        with detached(self.value_network_params).to_module(self.value_network):
            action = self.value_network(chooser).get(self.tensor_keys.action)
        with self.target_value_network_params.to_module(self.value_network):
            values = self.value_network(judge).get(self.tensor_keys.action_value)
        return detached(value_of_action(values, action, self.action_space))
