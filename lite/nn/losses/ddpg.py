"""DDPGLoss and TD3Loss: a deterministic policy that follows the gradient of its critic, or of several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, get_default_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._tree.keys import require_path
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.distributions.distribution import standard_normal
from lite.nn.losses.base import LossModule, TransitionKeys
from lite.nn.losses.ensembles import EnsembleLoss
from lite.nn.losses.estimators import OF_RETURNS, ValueEstimators
from lite.nn.losses.reduction import distance_loss
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.entries import detached
from lite.specs.composite import Composite


@dataclass
class DDPGKeys(TransitionKeys):
    """The keys that `DDPGLoss` reads and writes."""

    state_action_value: NestedKey = "state_action_value"


class DDPGLoss(LossModule):
    """Values of actions from temporal differences, and a policy whose actions are worth most.

    Reads observations, "action", and under "next" observations, "reward", (*batch, 1), "done" and
    "terminated". Returns "loss_actor", "loss_value", and to log "td_error", "pred_value", "target_value",
    (*batch), and the maxima "pred_value_max" and "target_value_max". Writes "td_error" to the batch.

    Args:
        actor_network: writes "action".
        value_network: gives "state_action_value", (*batch, 1), of observations and "action".
        loss_function: "l2", "l1" or "smooth_l1"; see `distance_loss`.
        delay_actor, delay_value: keep copies, which `SoftUpdate` or `HardUpdate` moves, that value next
            states.
        separate_losses: parameters that the networks share do not learn from "loss_value".
        reduction: "mean", "sum" or "none".
        use_prioritized_weights: see `LossModule`.

    Raises:
        ValueError: another name of a distance or reduction.

    Source:
        Lillicrap et al. (2016), Continuous control with deep reinforcement learning (arXiv:1509.02971);
        torchrl.objectives.DDPGLoss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.losses import DDPGLoss, SoftUpdate
        >>> actor = nn.TensorDictModule(nn.MLP(4, 2, num_cells=[8]), ["observation"], ["action"])
        >>> critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
        >>> loss = DDPGLoss(actor, critic, delay_actor=True)
        >>> target = SoftUpdate(loss, tau=0.005)
        >>> loss.out_keys[:2]
        ['loss_actor', 'loss_value']
    """

    _AcceptedKeys = DDPGKeys
    tensor_keys: DDPGKeys
    default_value_estimator = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS = OF_RETURNS
    _estimator_options = {"value_network": None}  # noqa: RUF012 - read only

    def __init__(
        self,
        actor_network: Module,
        value_network: Module,
        *,
        loss_function: str = "l2",
        delay_actor: bool = False,
        delay_value: bool = True,
        separate_losses: bool = False,
        reduction: str | None = None,
        use_prioritized_weights: str | bool = "auto",
    ) -> None:
        super().__init__()
        self._keep(reduction=reduction, loss_function=loss_function, delay_actor=delay_actor)
        self._keep(delay_value=delay_value, use_prioritized_weights=use_prioritized_weights)
        self.convert_to_functional(actor_network, "actor_network", create_target_params=delay_actor)
        shared = list(actor_network.parameters()) if separate_losses else None
        self.convert_to_functional(
            value_network, "value_network", create_target_params=delay_value, compare_against=shared
        )
        self.out_keys = [
            "loss_actor", "loss_value", "pred_value", "target_value", "pred_value_max", "target_value_max"
        ]  # fmt: skip
        self._set_in_keys()

    def _set_in_keys(self) -> None:
        networks = [(self.actor_network, "next"), (self.value_network, "next")]
        others: list[Any] = self._signal_keys()
        if self.use_prioritized_weights:
            others.append(self.tensor_keys.priority_weight)
        self._list_in_keys(*networks, others=others)

    def _estimator_keys(self) -> dict[str, Any]:
        return {**super()._estimator_keys(), "value": self.tensor_keys.state_action_value}

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, and its "td_error"; arguments and errors are those of `DQNLoss.forward`."""
        td = self._batch(tensordict)
        loss_value, known = self.loss_value(td)
        loss_actor, _ = self.loss_actor(td)
        out = TensorDict({"loss_actor": loss_actor, "loss_value": loss_value, **known})
        self._write_priority(tensordict, known["td_error"])
        return out

    def loss_actor(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The policy's loss, reduced, and an empty dict."""
        weights = self._maybe_get_priority_weight(tensordict)
        value = self._value_of_policy(
            tensordict, self.actor_network_params, detached(self.value_network_params)
        )
        return self._reduce_loss(-value[..., 0], tensordict, weights=weights), {}

    def loss_value(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The critic's reduced loss, and values to log."""
        weights = self._maybe_get_priority_weight(tensordict)
        td = tensordict.select(*self.value_network.in_keys, strict=False)
        with self.value_network_params.to_module(self.value_network):
            predicted = self._entry(self.value_network(td), self.tensor_keys.state_action_value)[..., 0]
        following = tensordict.get("next")
        ahead = self._value_of_policy(
            following, self.target_actor_network_params, self.target_value_network_params
        )
        target = self.value_estimator.value_estimate(tensordict.copy(), next_value=detached(ahead))[..., 0]
        loss = distance_loss(predicted, target, self.loss_function)
        value = detached(predicted)
        known = {
            "td_error": (value - target) ** 2,
            "pred_value": value,
            "target_value": target,
            "target_value_max": target.max(),
            "pred_value_max": value.max(),
        }
        return self._reduce_loss(loss, tensordict, weights=weights), known

    def _value_of_policy(
        self, data: TensorDictBase, actor_params: TensorDictBase, value_params: TensorDictBase
    ) -> Array:
        """The critic's values of the policy's actions, (*batch, 1)."""
        written = set(self.actor_network.out_keys)
        inputs = [*self.actor_network.in_keys, *(k for k in self.value_network.in_keys if k not in written)]
        td = data.select(*inputs, strict=False)
        with actor_params.to_module(self.actor_network):
            td = self.actor_network(td)
        with value_params.to_module(self.value_network):
            return self._entry(self.value_network(td), self.tensor_keys.state_action_value)


@dataclass
class TD3Keys(TransitionKeys):
    """The keys that `TD3Loss` reads and writes."""

    action: NestedKey = "action"
    state_action_value: NestedKey = "state_action_value"


class TD3Loss(EnsembleLoss):
    """Values of actions from the least of several critics, and a policy whose actions are worth most.

    Reads observations, "action", and under "next" observations, "reward", (*batch, 1), "done" and
    "terminated". Returns "loss_actor", "loss_qvalue", and to log "pred_value", "state_action_value_actor",
    (critics, *batch), "next_state_value" and "target_value", (*batch). Writes the greatest squared error to
    "td_error", (*batch).

    Args:
        actor_network: writes "action".
        qvalue_network: gives "state_action_value", (*batch, 1), of observations and "action"; one, of which
            `num_qvalue_nets` are made whose parameters are redrawn, or a list of so many.
        action_spec: a `lite.data.Bounded`, or a Composite with one, of the bounds of actions; or
        bounds: these bounds, two numbers or arrays.
        num_qvalue_nets: number of critics.
        policy_noise, noise_clip: deviation of the noise of next actions, and its limit.
        loss_function: "l2", "l1" or "smooth_l1"; see `distance_loss`.
        delay_actor, delay_qvalue: keep copies that value next states.
        separate_losses: parameters that the networks share do not learn from "loss_qvalue".
        reduction: "mean", "sum" or "none".
        deactivate_vmap: call the critics one after the other.
        use_prioritized_weights: see `LossModule`.
        generator: seed or `numpy.random.Generator` for the noise and for redrawn parameters.

    Raises:
        ValueError: both or none of `action_spec` and `bounds`, wrong bounds, unknown names.

    Source:
        Fujimoto et al. (2018), Addressing function approximation error in actor-critic methods
        (arXiv:1802.09477); torchrl.objectives.TD3Loss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.losses import SoftUpdate, TD3Loss
        >>> actor = nn.TensorDictModule(nn.MLP(4, 2, num_cells=[8]), ["observation"], ["action"])
        >>> critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
        >>> loss = TD3Loss(actor, critic, bounds=(-1.0, 1.0), generator=0)
        >>> target = SoftUpdate(loss, tau=0.005)
        >>> loss.qvalue_network_params["module", "0", "weight"].shape
        (2, 8, 6)
    """

    _AcceptedKeys = TD3Keys
    tensor_keys: TD3Keys

    def __init__(
        self,
        actor_network: Module,
        qvalue_network: Module | Sequence[Module],
        *,
        action_spec: Any = None,
        bounds: tuple[Any, Any] | None = None,
        num_qvalue_nets: int = 2,
        policy_noise: float = 0.2,
        noise_clip: float = 0.5,
        loss_function: str = "smooth_l1",
        delay_actor: bool = True,
        delay_qvalue: bool = True,
        separate_losses: bool = False,
        reduction: str | None = None,
        deactivate_vmap: bool = False,
        use_prioritized_weights: str | bool = "auto",
        generator: Rng = None,
    ) -> None:
        super().__init__()
        if (action_spec is None) == (bounds is None):
            raise ValueError("one of action_spec and bounds must be given.")
        if bounds is None:
            bounds = _bounds_of(action_spec, self.tensor_keys.action)
        dtype = get_default_dtype()
        low, high = (b if isinstance(b, np.ndarray) else np.asarray(b, dtype) for b in bounds)
        if (low > high).any():
            raise ValueError(f"the low bound must not be above the high one, got {low} and {high}.")
        self._set_networks(locals())
        self.register_buffer("max_action", high.copy())
        self.register_buffer("min_action", low.copy())
        self.out_keys = [
            "loss_actor", "loss_qvalue", "pred_value", "state_action_value_actor", "next_state_value",
            "target_value",
        ]  # fmt: skip
        self._set_in_keys()

    def _estimator_keys(self) -> dict[str, Any]:
        return {**super()._estimator_keys(), "value": self.tensor_keys.state_action_value}

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, and its "td_error"; arguments and errors are those of `DQNLoss.forward`."""
        td = self._batch(tensordict)
        loss_actor, known = self.actor_loss(td)
        loss_qvalue, more = self.value_loss(td)
        error = more.pop("td_error")
        out = TensorDict({"loss_actor": loss_actor, "loss_qvalue": loss_qvalue, **known, **more})
        self._write_priority(tensordict, error.max(0))
        return out

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The policy's reduced loss, and values to log."""
        weights = self._maybe_get_priority_weight(tensordict)
        inputs = [*self.actor_network.in_keys, *self.qvalue_network.in_keys]
        td = tensordict.select(*inputs, strict=False)
        with self.actor_network_params.to_module(self.actor_network):
            td = self.actor_network(td)
        values = self._values(detached(self.qvalue_network_params), td)
        loss = self._reduce_loss(-values[0], tensordict, weights=weights)
        return loss, {"state_action_value_actor": detached(values)}

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The critics' reduced loss, and values to log."""
        weights = self._maybe_get_priority_weight(tensordict)
        taken = self._entry(tensordict, self.tensor_keys.action)
        noise = standard_normal(self._generator, taken.shape, taken.dtype) * self.policy_noise
        following = tensordict.get("next").copy()
        with self.target_actor_network_params.to_module(self.actor_network):
            action = self.actor_network(following.copy()).get(self.tensor_keys.action)
        action = detached(action) + np.clip(noise, -self.noise_clip, self.noise_clip)
        low, high = (detached(bound).astype(action.dtype) for bound in (self.min_action, self.max_action))
        following.set(self.tensor_keys.action, np.clip(action, low, high))
        ahead = detached(self._values(self.target_qvalue_network_params, following)).min(0)
        target = self._target_of(tensordict.copy(), ahead)
        values = self._values(self.qvalue_network_params, tensordict)
        loss = self._distance(values, target)
        known = detached(values)
        metadata = {
            "td_error": (known - target) ** 2,
            "next_state_value": ahead,
            "pred_value": known,
            "target_value": target,
        }
        return self._reduce_loss(loss, tensordict, weights=weights), metadata


def _bounds_of(spec: Any, key: NestedKey) -> tuple[Any, Any]:
    """The bounds of one environment's actions, of their spec or of a Composite that has it."""
    if isinstance(spec, Composite):
        *node, _ = require_path(key)
        batch = (spec[tuple(node)] if node else spec).shape
        spec = spec[key][(0,) * len(batch)] if batch else spec[key]
    if not (hasattr(spec, "low") and hasattr(spec, "high")):  # gymnasium's Box has them, too
        raise ValueError(f"action_spec must be a Bounded, or a Composite with one at {key!r}, got {spec!r}.")
    return spec.low, spec.high


belong_to("lite.nn.losses", DDPGLoss, TD3Loss)
