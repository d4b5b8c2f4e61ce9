"""REDQLoss: soft actor-critic with many critics, of which a few, redrawn each time, value next states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, get_default_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.distributions.distribution import uniform
from lite.nn.distributions.log_prob_names import default_log_prob_key
from lite.nn.losses.alpha import EntropyWeightedLoss, require_shape
from lite.nn.losses.base import UnweightedKeys
from lite.nn.losses.policies import require_policy
from lite.nn.losses.reduction import distance_loss
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.entries import detached


@dataclass
class REDQKeys(UnweightedKeys):
    """The keys that `REDQLoss` reads and writes."""

    action: NestedKey = "action"
    value: NestedKey = "state_value"
    sample_log_prob: NestedKey = field(default_factory=default_log_prob_key)
    state_action_value: NestedKey = "state_action_value"


class REDQLoss(EntropyWeightedLoss):
    """Soft actor-critic with many critics: the policy learns from all, targets are the least of a few.

    Reads observations, "action", and under "next" observations, "reward", (*batch, 1), "done" and
    "terminated". Returns "loss_actor", "loss_qvalue", "loss_alpha", and to log "alpha", "entropy",
    "state_action_value_actor", (critics, *batch), "action_log_prob_actor", "next.state_value" and
    "target_value", (*batch). Without a reduction the losses are (critics, *batch), (critics, *batch) and
    (2, *batch). Writes the greatest squared error to "td_error", (*batch).

    Args:
        actor_network, qvalue_network: as for `SACLoss`.
        num_qvalue_nets: number of critics.
        sub_sample_len: how many of them, drawn for each batch, value next states; fewer than all.
        loss_function: "l2", "l1" or "smooth_l1"; see `distance_loss`.
        alpha_init, min_alpha, max_alpha, action_spec, fixed_alpha, target_entropy, delay_qvalue,
            separate_losses, reduction, deactivate_vmap: as for `SACLoss`.
        gSDE: give the policy "_eps_gSDE", zeros of the batch's shape.
        generator: seed or `numpy.random.Generator` for actions, the choice of critics, and parameters drawn
            again.

    Raises:
        TypeError, RuntimeError, ValueError: as for `SACLoss`.

    Source:
        Chen et al. (2021), arXiv:2101.05982; torchrl.objectives.REDQLoss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.distributions import TanhNormal
        >>> from lite.nn.losses import REDQLoss, SoftUpdate
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.NormalParamExtractor())
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(net, ["observation"], ["loc", "scale"]),
        ...     nn.ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=TanhNormal),
        ... )
        >>> critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
        >>> loss = REDQLoss(policy, critic, target_entropy=-2.0, generator=0)
        >>> target = SoftUpdate(loss, tau=0.005)
        >>> loss.qvalue_network_params["module", "0", "weight"].shape
        (10, 8, 6)
    """

    _AcceptedKeys = REDQKeys
    tensor_keys: REDQKeys

    def __init__(
        self,
        actor_network: Module,
        qvalue_network: Module | Sequence[Module],
        *,
        num_qvalue_nets: int = 10,
        sub_sample_len: int = 2,
        loss_function: str = "smooth_l1",
        alpha_init: float = 1.0,
        min_alpha: float = 0.1,
        max_alpha: float = 10.0,
        action_spec: Any = None,
        fixed_alpha: bool = False,
        target_entropy: str | float = "auto",
        delay_qvalue: bool = True,
        gSDE: bool = False,
        separate_losses: bool = False,
        reduction: str | None = None,
        deactivate_vmap: bool = False,
        generator: Rng = None,
    ) -> None:
        super().__init__()
        require_policy(actor_network)
        self._set_networks(locals(), sub_sample_len=max(1, min(sub_sample_len, num_qvalue_nets - 1)))
        self._set_alpha(alpha_init, min_alpha, max_alpha, fixed_alpha)
        self.out_keys += [
            "state_action_value_actor",
            "action_log_prob_actor",
            "next.state_value",
            "target_value",
        ]
        self._set_target_entropy("target_entropy_buffer", target_entropy, action_spec)
        self._set_in_keys()

    @property
    def target_entropy(self) -> Array:
        """The entropy that the policy is to have."""
        return self.target_entropy_buffer

    @property
    def alpha(self) -> Array:
        """The weight of entropy, a constant."""
        return np.exp(self._limited())

    def _limited(self) -> Array:
        """`log_alpha` between its limits, as a constant; unlike other losses' it is not moved there."""
        low, high = detached(self.min_log_alpha), detached(self.max_log_alpha)
        return np.clip(detached(self.log_alpha), low, high)

    def _set_in_keys(self) -> None:
        networks = [(self.actor_network, "next"), self.qvalue_network]
        keys = self.tensor_keys
        self._list_in_keys(*networks, others=[keys.action, keys.sample_log_prob, *self._signal_keys()])

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, and its "td_error"; see `SACLoss.forward`."""
        td = self._batch(tensordict)
        few = self._some(self.target_qvalue_network_params)
        acted, log_prob = self._acted(td, self.actor_network_params)
        following, log_prob_ahead = self._acted(td.get("next"), self.target_actor_network_params)
        log_prob_ahead = detached(log_prob_ahead)
        actor_values = self._values(detached(self.qvalue_network_params), acted)
        require_shape(log_prob, actor_values[0])
        ahead = detached(self._values(few, following)) - self.alpha * log_prob_ahead
        next_value = ahead.min(0)
        target = self._target_of(td.copy(), next_value)
        predicted = self._values(self.qvalue_network_params, td)
        targets = np.broadcast_to(target, predicted.shape)
        log_probs = np.stack([detached(log_prob), log_prob_ahead])
        losses = {
            "loss_actor": self.alpha * log_prob - actor_values,
            "loss_qvalue": distance_loss(predicted, targets, self.loss_function),
            "loss_alpha": self._alpha_loss(log_probs),
        }
        batch = td.unsqueeze(0)  # masks then stand for all critics
        out = TensorDict({key: self._reduce_loss(loss, batch) for key, loss in losses.items()})
        if self.reduction != "none":
            out.update({"alpha": self.alpha, "entropy": -log_probs.mean()})
        out.update(
            {
                "state_action_value_actor": detached(actor_values),
                "action_log_prob_actor": log_probs[0],
                "next.state_value": next_value,
                "target_value": target,
            }
        )
        self._write_priority(tensordict, ((detached(predicted) - target) ** 2).max(0))
        return out

    def _some(self, params: TensorDictBase) -> Any:
        """The parameters of the critics that value next states, redrawn."""
        order = np.argsort(uniform(self._generator, (self.num_qvalue_nets,), np.dtype(np.float64)))
        chosen = np.sort(order[: self.sub_sample_len])
        # Leaf by leaf, as a graph of lite.jit indexes no batch with what it draws; the first have its form.
        return params[: self.sub_sample_len].apply(lambda _, leaf: np.take(leaf, chosen, 0), params)

    def _acted(self, data: TensorDictBase, params: TensorDictBase) -> tuple[TensorDictBase, Array]:
        """Inputs of the critics for some states with the policy's actions, and the actions' log-probs."""
        td = data.copy()
        if self.gSDE:
            td.set("_eps_gSDE", np.zeros(td.batch_size, get_default_dtype()))
        action, log_prob = self._drawn(self._dist(td, params))
        return td.set(self.tensor_keys.action, action), log_prob

    def _alpha_loss(self, log_prob: Array) -> Array:
        """As for other losses, but of alpha instead of its logarithm, and with a gradient at the limits."""
        log_alpha = self.log_alpha - detached(self.log_alpha) + self._limited()
        return -np.exp(log_alpha) * (log_prob + self._number("target_entropy"))


belong_to("lite.nn.losses", REDQLoss)
