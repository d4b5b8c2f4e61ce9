"""QMixerLoss: Q-learning for agents who share a reward, with a mixer of their values (QMIX, VDN)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.module import Module
from lite.nn.losses.base import LossModule, UnweightedKeys
from lite.nn.losses.dqn import acting_network
from lite.nn.losses.estimators import OF_RETURNS, ValueEstimators
from lite.nn.losses.reduction import distance_loss
from lite.nn.tensordict_modules.base import TensorDictModuleBase
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.module import TensorDictModule
from lite.nn.tensordict_modules.q_value import value_of_action
from lite.nn.tensordict_modules.sequential import TensorDictSequential
from lite.nn.values.entries import detached


@dataclass
class QMixerKeys(UnweightedKeys):
    """The keys that `QMixerLoss` reads and writes."""

    advantage: NestedKey = "advantage"
    value_target: NestedKey = "value_target"
    local_value: NestedKey = ("agents", "chosen_action_value")
    global_value: NestedKey = "chosen_action_value"
    action_value: NestedKey = ("agents", "action_value")
    action: NestedKey = ("agents", "action")


class QMixerLoss(LossModule):
    """Q-learning for several agents who share a reward: a mixer computes one value from the agents' values.

    Reads the inputs of the networks, ("agents", "action"), and under "next" the inputs of the networks,
    "reward", (*batch, 1), "done" and "terminated". Returns "loss", and writes the squared error of each step
    to "td_error", (*batch, 1), the priority of a prioritized buffer.

    Args:
        local_value_network: a TensorDictModule that writes each agent's action values,
            (*batch, n_agents, n), and its best action, as a `QValueModule` behind a `MultiAgentMLP`.
        mixer_network: a TensorDictModule that reads the values of the chosen actions,
            ("agents", "chosen_action_value"), (*batch, n_agents, 1), and for QMIX a state, and writes the
            joint value, "chosen_action_value", (*batch, 1). Or a module of the first input alone.
        loss_function: "l2", "l1" or "smooth_l1"; see `distance_loss`.
        delay_value: value next states by target networks, which `SoftUpdate` or `HardUpdate` updates.
        action_space: "one-hot", "categorical" or a spec; by default that of the network.

    Raises:
        ValueError: the action space is missing or unknown; `loss_function` is unknown.

    Source:
        Rashid et al. (2018), QMIX (arXiv:1803.11485); Sunehag et al. (2017), VDN (arXiv:1706.05296);
        torchrl.objectives.multiagent.QMixerLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.losses import QMixerLoss, SoftUpdate
        >>> net = nn.MultiAgentMLP(3, 2, n_agents=4, centralized=False, share_params=True)
        >>> names = ["action", "action_value", "chosen_action_value"]
        >>> local = nn.TensorDictSequential(
        ...     nn.TensorDictModule(net, [("agents", "observation")], [("agents", "action_value")]),
        ...     nn.QValueModule(
        ...         action_space="categorical", action_value_key=("agents", "action_value"),
        ...         out_keys=[("agents", name) for name in names],
        ...     ),
        ... )
        >>> mixer = nn.TensorDictModule(
        ...     nn.QMixer((5,), 8, n_agents=4),
        ...     [("agents", "chosen_action_value"), "state"], ["chosen_action_value"],
        ... )
        >>> loss = QMixerLoss(local, mixer, action_space="categorical")
        >>> target = SoftUpdate(loss, eps=0.99)
        >>> def seen():
        ...     agents = TensorDict({"observation": np.ones((10, 4, 3), np.float32)}, [10, 4])
        ...     return TensorDict({"agents": agents, "state": np.ones((10, 5), np.float32)}, [10])
        >>> batch, flag = local(seen()), np.zeros((10, 1), bool)
        >>> reward = np.ones((10, 1), np.float32)
        >>> batch["next"] = seen().update({"reward": reward, "done": flag, "terminated": flag})
        >>> loss(batch)["loss"].shape, batch["td_error"].shape
        ((), (10, 1))
    """

    _AcceptedKeys = QMixerKeys
    tensor_keys: QMixerKeys
    default_value_estimator = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS: ClassVar[tuple[ValueEstimators, ...]] = OF_RETURNS

    def __init__(
        self,
        local_value_network: Module | Callable[[Array], Array],
        mixer_network: Module | Callable[[Array], Array],
        *,
        loss_function: str = "l2",
        delay_value: bool = True,
        action_space: Any = None,
    ) -> None:
        super().__init__()
        self._keep(reduction=None, loss_function=loss_function, delay_value=delay_value)
        local, self.action_space = acting_network(local_value_network, action_space)
        mixer = mixer_network
        if not isinstance(mixer, TensorDictModuleBase):
            mixer = TensorDictModule(mixer, [self.tensor_keys.local_value], [self.tensor_keys.global_value])
        self.convert_to_functional(local, "local_value_network", create_target_params=delay_value)
        self.convert_to_functional(mixer, "mixer_network", create_target_params=delay_value)
        self.__dict__["value_network"] = TensorDictSequential(local, mixer)  # what the estimator calls
        self.out_keys = ["loss"]
        self._set_in_keys()

    def _set_in_keys(self) -> None:
        others = [self.tensor_keys.action, *self._signal_keys()]
        self._list_in_keys((self.value_network, "next"), others=others)

    def _estimator_keys(self) -> dict[str, Any]:
        return {**super()._estimator_keys(), "value": self.tensor_keys.global_value}

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The loss of a batch, and its "td_error".

        Args:
            tensordict: the batch, to which "td_error" is written. Its entries may also be given as keywords;
                then the loss is returned.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: shapes differ.
            ValueError: shapes differ, or the loss is NaN.
        """
        keys = self.tensor_keys
        td = self._batch(tensordict)
        action = self._entry(td, keys.action)  # before the network writes its own
        with self.local_value_network_params.to_module(self.local_value_network):
            self.local_value_network(td)
        values = self._entry(td, keys.action_value)
        td.set(keys.local_value, value_of_action(values, action, self.action_space))
        with self.mixer_network_params.to_module(self.mixer_network):
            self.mixer_network(td)
        predicted = self._entry(td, keys.global_value)[..., 0]
        parts = {"0": self.target_local_value_network_params, "1": self.target_mixer_network_params}
        targets = self.value_estimator.value_estimate(td, target_params=TensorDict(module=TensorDict(parts)))
        targets = targets[..., 0]
        out = TensorDict(loss=self._reduce_loss(distance_loss(predicted, targets, self.loss_function), td))
        error = detached(predicted) - targets
        self._write_priority(tensordict, (error * error)[..., None])
        return out


belong_to("lite.nn.losses", QMixerLoss)
