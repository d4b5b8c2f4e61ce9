"""IQLLoss and DiscreteIQLLoss: values of the better actions of a data set, without any other action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn._parameters.params import TensorDictParams
from lite.nn.losses.alpha import require_shape
from lite.nn.losses.base import UnweightedKeys
from lite.nn.losses.ensembles import EnsembleLoss, values_taken
from lite.nn.losses.policies import require_policy
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.q_value import space_of_loss
from lite.nn.values.entries import detached

_MOST = math.log(100)  # of the logarithm of a weight


@dataclass
class IQLKeys(UnweightedKeys):
    """The keys that `IQLLoss` and `DiscreteIQLLoss` read and write."""

    value: NestedKey = "state_value"
    action: NestedKey = "action"
    log_prob: NestedKey = "_log_prob"
    state_action_value: NestedKey = "state_action_value"


class IQLLoss(EnsembleLoss):
    """Implicit Q-learning: no action is valued but those in the batch, so that data alone can teach.

    Values of states are an expectile of the critics' values of actions; critics learn from the values of
    next states; the policy is regressed on actions, weighted by the exponential of their advantage.
    Reads observations, "action", and under "next" observations, "reward", (*batch, 1), "done" and
    "terminated". Returns "loss_actor", "loss_qvalue", "loss_value", and to log "entropy". Writes the
    log-probs of the actions to "_log_prob" and the greatest squared error to "td_error", (*batch).

    Args:
        actor_network: a policy with `get_dist`.
        qvalue_network: gives "state_action_value", (*batch, 1); one, to be redrawn, or a list.
        value_network: gives "state_value", (*batch, 1).
        num_qvalue_nets: number of critics, of which the least value counts.
        loss_function: loss function of critics: "l2", "l1" or "smooth_l1"; see `distance_loss`.
        temperature: the inverse one: 0 is behaviour cloning, large ones seek the best actions. A weight is
            at most 100.
        expectile: 0.5 is the mean of the values of actions, 1 their maximum.
        separate_losses: parameters that networks share learn from "loss_actor" alone, then "loss_value".
        reduction, deactivate_vmap: "mean", "sum" or "none"; call the critics one after the other.
        generator: seed or `numpy.random.Generator` for redrawn parameters.

    Raises:
        TypeError: the policy has no `get_dist`.
        ValueError: the distance or reduction is unknown.

    Source:
        Kostrikov et al. (2022), arXiv:2110.06169; torchrl.objectives.IQLLoss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.distributions import IndependentNormal as Normal
        >>> from lite.nn.losses import IQLLoss, SoftUpdate
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.NormalParamExtractor())
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(net, ["observation"], ["loc", "scale"]),
        ...     nn.ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=Normal),
        ... )
        >>> critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
        >>> loss = IQLLoss(policy, critic, nn.ValueOperator(nn.Linear(4, 1)), expectile=0.7, temperature=3.0)
        >>> target = SoftUpdate(loss, tau=0.005)
    """

    _AcceptedKeys = IQLKeys
    tensor_keys: IQLKeys
    _estimator_options: Mapping[str, Any] = MappingProxyType({})  # the estimator has the value network

    def __init__(
        self,
        actor_network: Module,
        qvalue_network: Module | Sequence[Module],
        value_network: Module,
        *,
        num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1",
        temperature: float = 1.0,
        expectile: float = 0.5,
        separate_losses: bool = False,
        reduction: str | None = None,
        deactivate_vmap: bool = False,
        generator: Rng = None,
    ) -> None:
        super().__init__()
        require_policy(actor_network)
        shared = list(actor_network.parameters()) if separate_losses else []
        single = num_qvalue_nets == 1
        if single and isinstance(qvalue_network, list | tuple) and len(qvalue_network) == 1:
            qvalue_network = qvalue_network[0]
        self._set_networks(locals(), delay_qvalue=True, num_qvalue_nets=None if single else num_qvalue_nets)
        self.num_qvalue_nets = num_qvalue_nets
        self.convert_to_functional(value_network, "value_network", compare_against=shared)
        logged = [] if self.reduction == "none" else ["entropy"]
        self.out_keys = ["loss_actor", "loss_qvalue", "loss_value", *logged]
        self._set_in_keys()

    def _set_in_keys(self) -> None:
        networks = [(self.actor_network, "next"), self.qvalue_network, self.value_network]
        self._list_in_keys(*networks, others=[self.tensor_keys.action, *self._signal_keys()])

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, its "_log_prob" and "td_error"; see `SACLoss.forward`."""
        td = self._batch(tensordict)
        loss_actor, _ = self.actor_loss(td)
        loss_qvalue, known = self.qvalue_loss(td)
        loss_value, _ = self.value_loss(td)
        keys = self.tensor_keys
        log_prob = td.get(keys.log_prob)
        out = TensorDict(loss_actor=loss_actor, loss_qvalue=loss_qvalue, loss_value=loss_value)
        if self.reduction == "none":
            out.batch_size = td.batch_size
        else:
            out.set("entropy", -log_prob.mean())
        self._write(tensordict, {keys.log_prob: log_prob, keys.priority: known["td_error"].max(0)})
        return out

    @staticmethod
    def loss_value_diff(diff: Array, expectile: float = 0.8) -> Array:
        """Squares of errors, weighted by `expectile` where they are positive, else by the rest to 1."""
        weight = np.where(detached(diff) > 0, diff.dtype.type(expectile), diff.dtype.type(1 - expectile))
        return weight * (diff * diff)

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The policy's reduced loss, and {}; the actions' log-probs are written to "_log_prob"."""
        with self.actor_network_params.to_module(self.actor_network):
            dist = self.actor_network.get_dist(tensordict.copy())
        log_prob = dist.log_prob(self._entry(tensordict, self.tensor_keys.action))
        least = self._least(tensordict)
        require_shape(log_prob, least)
        value = detached(self._state_value(tensordict))
        weight = np.exp(np.minimum((least - value) * self.temperature, _MOST))
        tensordict.set(self.tensor_keys.log_prob, detached(log_prob))
        return self._reduce_loss(-(weight * log_prob), tensordict), {}

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The value network's reduced loss, and {}."""
        error = self._least(tensordict) - self._state_value(tensordict)
        return self._reduce_loss(self.loss_value_diff(error, self.expectile), tensordict), {}

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The critics' reduced loss, and {"td_error": squares of their errors, (critics, *batch)}."""
        params = self.target_value_network_params
        target = detached(self.value_estimator.value_estimate(tensordict.copy(), target_params=params))
        predicted = self._taken(self.qvalue_network_params, tensordict)
        loss = self._distance(predicted, target[..., 0])
        error = (detached(predicted) - target[..., 0]) ** 2
        return self._reduce_loss(loss, tensordict), {"td_error": error}

    def _taken(self, params: TensorDictParams, tensordict: TensorDictBase) -> Array:
        """Each critic's value of the actions in the batch, (critics, *batch)."""
        return self._values(params, tensordict)

    def _least(self, tensordict: TensorDictBase) -> Array:
        """The least value of the actions in the batch, by the delayed critics."""
        return detached(self._taken(self.target_qvalue_network_params, tensordict)).min(0)

    def _state_value(self, tensordict: TensorDictBase) -> Array:
        data = tensordict.select(*self.value_network.in_keys, strict=False)
        with self.value_network_params.to_module(self.value_network):
            return self._entry(self.value_network(data), self.tensor_keys.value)[..., 0]


class DiscreteIQLLoss(IQLLoss):
    """`IQLLoss` for a few actions, whose critics value all of them at once.

    Args:
        actor_network: a policy of a `Categorical` or `OneHotCategorical`.
        qvalue_network: gives "state_action_value", (*batch, n), of observations; see `IQLLoss`.
        value_network: gives "state_value", (*batch, 1).
        action_space: "one-hot", "categorical" or a spec.
        num_qvalue_nets, loss_function, temperature, expectile, separate_losses, reduction, generator: as for
            `IQLLoss`; `expectile` is below 1.

    Raises:
        TypeError, ValueError: as for `IQLLoss`; another action space.

    Source:
        As `IQLLoss`; torchrl.objectives.DiscreteIQLLoss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.distributions import Categorical
        >>> from lite.nn.losses import DiscreteIQLLoss
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(nn.Linear(4, 3), ["observation"], ["logits"]),
        ...     nn.ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical),
        ... )
        >>> critic = nn.TensorDictModule(nn.Linear(4, 3), ["observation"], ["state_action_value"])
        >>> value = nn.ValueOperator(nn.Linear(4, 1))
        >>> DiscreteIQLLoss(policy, critic, value, action_space="categorical").action_space
        'categorical'
    """

    _of_all_actions = True

    def __init__(
        self,
        actor_network: Module,
        qvalue_network: Module | Sequence[Module],
        value_network: Module,
        *,
        action_space: Any = None,
        num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1",
        temperature: float = 1.0,
        expectile: float = 0.5,
        separate_losses: bool = False,
        reduction: str | None = None,
        generator: Rng = None,
    ) -> None:
        if expectile >= 1.0:
            raise ValueError(f"expectile must be below 1, got {expectile}.")
        space = space_of_loss(action_space)
        super().__init__(
            actor_network,
            qvalue_network,
            value_network,
            num_qvalue_nets=num_qvalue_nets,
            loss_function=loss_function,
            temperature=temperature,
            expectile=expectile,
            separate_losses=separate_losses,
            reduction=reduction,
            generator=generator,
        )
        self.action_space = space

    def _taken(self, params: TensorDictParams, tensordict: TensorDictBase) -> Array:
        action = self._entry(tensordict, self.tensor_keys.action)
        return values_taken(self._values(params, tensordict), action, self.action_space)


belong_to("lite.nn.losses", DiscreteIQLLoss, IQLLoss)
