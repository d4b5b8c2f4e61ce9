"""SACLoss: soft actor-critic for continuous actions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, get_default_dtype
from lite._tree.keys import require_path
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.log_prob_names import composite_lp_aggregate, set_composite_lp_aggregate
from lite.nn.losses.alpha import EntropyWeightedLoss
from lite.nn.losses.ensembles import values_of_each
from lite.nn.losses.estimators import OF_RETURNS, ValueEstimators
from lite.nn.losses.policies import drawn, policy_keys, require_policy
from lite.nn.losses.reduction import distance_loss, require_loss_function, require_reduction
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.detached import detached


@dataclass
class SACKeys:
    """The keys that `SACLoss` reads and writes; reward, done and terminated are under "next"."""

    action: NestedKey = "action"
    value: NestedKey = "state_value"
    state_action_value: NestedKey = "state_action_value"
    log_prob: NestedKey | None = None
    priority: NestedKey = "td_error"
    reward: NestedKey = "reward"
    done: NestedKey = "done"
    terminated: NestedKey = "terminated"
    priority_weight: NestedKey = "priority_weight"

    def __post_init__(self) -> None:
        if self.log_prob is None:
            self.log_prob = "sample_log_prob" if composite_lp_aggregate() else "action_log_prob"


class SACLoss(EntropyWeightedLoss):
    """Soft actor-critic: values of actions that count entropy, and a policy that maximises them and its own.

    Reads observations, "action", and under "next" observations, "reward", (*batch, 1), "done" and
    "terminated". Returns "loss_actor", "loss_qvalue", "loss_alpha", with a value network "loss_value", and to
    log "alpha" and "entropy" (not with the reduction "none"). Writes the greatest error of the critics to
    "td_error", (*batch).

    The critics run as one computation, under `vmap`. The policy is a constant to them, and they to it.

    With a value network, as in the first paper, the critics learn from its values of next observations, each
    from its share of the batch (whose size they divide), and "td_error" is the square of their error; the
    network learns the least value that the critics give to an action of the policy, and entropy.

    Args:
        actor_network: a policy with `get_dist`, whose samples have derivatives, such as one of `TanhNormal`.
        qvalue_network: gives "state_action_value", (*batch, 1), of observations and "action". One, of which
            `num_qvalue_nets` are made whose parameters are drawn anew; or a list of so many.
        value_network: gives "state_value", (*batch, 1), of observations; None for the second paper's losses.
        num_qvalue_nets: how many critics; the least of their values counts.
        loss_function: "l2", "l1" or "smooth_l1"; see `distance_loss`.
        alpha_init: where the weight of the entropy starts.
        min_alpha, max_alpha: its limits.
        action_spec: of the action (or a Composite that has it), for `target_entropy="auto"`; that of the
            policy by default.
        fixed_alpha: the weight does not learn.
        target_entropy: a number; "auto" is less the number of dimensions of an action.
        delay_actor, delay_qvalue, delay_value: keep copies, which `SoftUpdate` or `HardUpdate` moves, of
            policy, critics and value network. Next actions or observations are valued by the copies.
        separate_losses: parameters that policy and critics share do not learn from "loss_qvalue".
        reduction: "mean", "sum" or "none".
        skip_done_states: next actions are only drawn where the episode goes on; elsewhere the policy may
            not be able to, for want of an observation.
        deactivate_vmap: call the critics one after the other.
        use_prioritized_weights: see `LossModule`.
        generator: seed or `numpy.random.Generator` for actions and for parameters drawn anew.

    Raises:
        TypeError: the policy has no `get_dist`.
        RuntimeError: "auto" and no spec; a list of another length.
        ValueError: numbers out of range, or another name of a distance or reduction.

    Source:
        Haarnoja et al. (2018), Soft actor-critic: off-policy maximum entropy deep reinforcement learning with
        a stochastic actor (arXiv:1801.01290), and Soft actor-critic algorithms and applications
        (arXiv:1812.05905), which has no network of state values; torchrl.objectives.SACLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.distributions import TanhNormal
        >>> from lite.nn.losses import SACLoss, SoftUpdate
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(nn.MLP(4, 4, num_cells=[8]), ["observation"], ["params"]),
        ...     nn.TensorDictModule(nn.NormalParamExtractor(), ["params"], ["loc", "scale"]),
        ...     nn.ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=TanhNormal),
        ... )
        >>> critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
        >>> loss = SACLoss(policy, critic, target_entropy=-2.0, generator=0)
        >>> target = SoftUpdate(loss, tau=0.005)
        >>> batch = TensorDict(
        ...     {
        ...         "observation": np.zeros((10, 4), np.float32),
        ...         "action": np.zeros((10, 2), np.float32),
        ...         "next": {
        ...             "observation": np.zeros((10, 4), np.float32),
        ...             "reward": np.ones((10, 1), np.float32),
        ...             "done": np.zeros((10, 1), bool),
        ...             "terminated": np.zeros((10, 1), bool),
        ...         },
        ...     },
        ...     batch_size=[10],
        ... )
        >>> sorted(loss(batch).keys()), batch["td_error"].shape
        (['alpha', 'entropy', 'loss_actor', 'loss_alpha', 'loss_qvalue'], (10,))
    """

    _AcceptedKeys = SACKeys
    default_keys = SACKeys
    tensor_keys: SACKeys
    default_value_estimator = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS = OF_RETURNS
    actor_network: Any
    qvalue_network: Any
    actor_network_params: Any
    qvalue_network_params: Any
    value_network: Any
    value_network_params: Any
    target_actor_network_params: Any
    target_qvalue_network_params: Any
    target_value_network_params: Any

    def __init__(
        self,
        actor_network: Any,
        qvalue_network: Any,
        value_network: Any = None,
        *,
        num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1",
        alpha_init: float = 1.0,
        min_alpha: float | None = None,
        max_alpha: float | None = None,
        action_spec: Any = None,
        fixed_alpha: bool = False,
        target_entropy: str | float = "auto",
        delay_actor: bool = False,
        delay_qvalue: bool = True,
        delay_value: bool = True,
        separate_losses: bool = False,
        reduction: str | None = None,
        skip_done_states: bool = False,
        deactivate_vmap: bool = False,
        use_prioritized_weights: str | bool = "auto",
        generator: Any = None,
    ) -> None:
        super().__init__()
        require_policy(actor_network)
        self._generator = None if generator is None else np.random.default_rng(generator)
        self.reduction = require_reduction(reduction)
        self.loss_function = require_loss_function(loss_function)
        self.use_prioritized_weights = use_prioritized_weights
        self.num_qvalue_nets = num_qvalue_nets
        self.delay_actor = delay_actor
        self.delay_qvalue = delay_qvalue
        self.skip_done_states = skip_done_states
        self.deactivate_vmap = deactivate_vmap
        self.convert_to_functional(actor_network, "actor_network", create_target_params=delay_actor)
        shared = list(actor_network.parameters()) if separate_losses else None
        if value_network is None:
            self.value_network = self.value_network_params = self.target_value_network_params = None
        else:
            self.delay_value = delay_value
            self.convert_to_functional(
                value_network, "value_network", create_target_params=delay_value, compare_against=shared
            )
            if shared is not None:
                shared = [*shared, *value_network.parameters()]
        self.convert_to_functional(
            qvalue_network, "qvalue_network", num_qvalue_nets, delay_qvalue, compare_against=shared
        )
        self._set_alpha(alpha_init, min_alpha, max_alpha, fixed_alpha)
        self.out_keys = ["loss_actor", "loss_qvalue", "loss_alpha", "alpha", "entropy"]
        if self.reduction == "none":
            self.out_keys = self.out_keys[:3]
        if value_network is not None:
            self.out_keys.append("loss_value")
        known = policy_keys(actor_network)
        keys = {"action": known.get("action"), "log_prob": known.get("sample_log_prob")}
        self.set_keys(**{name: key for name, key in keys.items() if key is not None})
        if target_entropy == "auto":
            spec = getattr(actor_network, "spec", None) if action_spec is None else action_spec
            target_entropy = -float(_event_size(spec, self.tensor_keys.action))
        self.register_buffer("_target_entropy", np.asarray(target_entropy, get_default_dtype()))

    @property
    def target_entropy(self) -> Any:
        """The entropy of the policy."""
        return self._target_entropy

    def _set_in_keys(self) -> None:
        networks = [(self.actor_network, "next"), self.qvalue_network]
        if self.value_network is not None:
            networks.append(self.value_network)
        self._list_in_keys(*networks, others=[self.tensor_keys.action, *self._signal_keys()])

    def _estimator_keys(self) -> dict[str, Any]:
        keys = super()._estimator_keys()
        return {**keys, "value_target": "value_target"}

    def _estimator_options(self) -> Mapping[str, Any]:
        return {"value_network": self.value_network}

    # -- the losses ----------------------------------------------------------------------------------------

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, and its "td_error".

        Args:
            tensordict: the batch, to which "td_error" is written. Its entries may also be given as keywords;
                then the values of `out_keys` are returned.

        Raises:
            KeyError: an entry is missing.
            RuntimeError, ValueError: shapes that differ, or a loss that is NaN.
        """
        td = self._batch(tensordict)
        loss_qvalue, error = self._qvalue_loss(td)
        loss_value = None if self.value_network is None else self._value_loss(td)
        loss_actor, log_prob = self._actor_loss(td)
        weights = self._maybe_get_priority_weight(td)
        out = TensorDict(
            loss_actor=loss_actor,
            loss_qvalue=loss_qvalue,
            loss_alpha=self._reduce_loss(self._alpha_loss(log_prob), td, weights=weights),
        )
        if loss_value is not None:
            out.set("loss_value", loss_value)
        if self.reduction == "none":
            out.batch_size = td.batch_size
        else:
            out.set("alpha", self._alpha)
            out.set("entropy", -log_prob.mean())
        self._write_priority(tensordict, error)
        return out

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Any]]:
        """The critics' loss, reduced, and {"td_error": the greatest of their errors}; see the class."""
        loss, error = self._qvalue_loss(tensordict)
        return loss, {"td_error": error}

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Any]]:
        """The value network's loss, reduced, and {}.

        Raises:
            RuntimeError: the loss has no value network.
        """
        if self.value_network is None:
            raise RuntimeError("value_loss needs a value_network, got None.")
        return self._value_loss(tensordict), {}

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Any]]:
        """The policy's loss, reduced, and {"log_prob": those of its actions}, constants."""
        loss, log_prob = self._actor_loss(tensordict)
        return loss, {"log_prob": log_prob}

    def _values(self, params: Any, data: TensorDictBase, *, each: bool = False) -> Any:
        """The values of each critic, on the same or on separate data: (critics, *batch)."""
        inputs = data.select(*self.qvalue_network.in_keys, strict=False)
        key = self.tensor_keys.state_action_value
        values = values_of_each(
            self.qvalue_network,
            params,
            inputs,
            key,
            each=each,
            loop=self.deactivate_vmap,
            randomness=self.vmap_randomness,
        )
        return values[..., 0]

    def _drawn(self, dist: Distribution) -> tuple[Any, Any]:
        with set_composite_lp_aggregate(True):
            return drawn(dist, (), self._generator)

    def _qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Any, Any]:
        weights = self._maybe_get_priority_weight(tensordict)
        if self.value_network is not None:
            return self._loss_of_shares(tensordict, weights)
        target = self._target(tensordict)
        predicted = self._values(self.qvalue_network_params, tensordict)
        if target.shape != predicted.shape[1:]:
            raise RuntimeError(f"targets must have the shape {predicted.shape[1:]}, got {target.shape}.")
        error = np.abs(detached(predicted) - target).max(0)
        targets = np.broadcast_to(target, predicted.shape)
        loss = distance_loss(predicted, targets, self.loss_function).sum(0)
        return self._reduce_loss(loss, tensordict, weights=weights), error

    def _loss_of_shares(self, tensordict: TensorDictBase, weights: Any) -> tuple[Any, Any]:
        """The critics' loss where each learns from its share of the batch, and squares of their errors."""
        rows, shares = tensordict.batch_size[0], self.num_qvalue_nets
        if rows % shares:
            raise RuntimeError(f"{shares} critics need a batch size that {shares} divides, got {rows}.")
        params = detached(self.target_value_network_params)
        target = detached(self.value_estimator.value_estimate(tensordict, target_params=params))[..., 0]
        parts = tensordict.reshape(shares, -1, *tensordict.batch_size[1:])
        predicted = self._values(self.qvalue_network_params, parts, each=True).reshape(tensordict.batch_size)
        loss = distance_loss(predicted, target, self.loss_function)
        return self._reduce_loss(loss, tensordict, weights=weights), (detached(predicted) - target) ** 2

    def _value_loss(self, tensordict: TensorDictBase) -> Any:
        """The distance of values from the critics' values of the policy's actions plus their entropy."""
        weights = self._maybe_get_priority_weight(tensordict)
        data = tensordict.select(*self.value_network.in_keys, strict=False)
        with self.value_network_params.to_module(self.value_network):
            predicted = self._read(self.value_network(data), self.tensor_keys.value)[..., 0]
        with detached(self.target_actor_network_params).to_module(self.actor_network):
            dist = self.actor_network.get_dist(tensordict.copy())
        action, log_prob = (detached(part) for part in self._drawn(dist))
        acted = tensordict.copy().set(self.tensor_keys.action, action)
        least = detached(self._values(self.target_qvalue_network_params, acted)).min(0)
        if log_prob.shape != least.shape:
            raise RuntimeError(
                f"log-probs and values must have one shape, got {log_prob.shape} and {least.shape}."
            )
        loss = distance_loss(predicted, least - self._alpha * log_prob, self.loss_function)
        return self._reduce_loss(loss, tensordict, weights=weights)

    def _actor_loss(self, tensordict: TensorDictBase) -> tuple[Any, Any]:
        weights = self._maybe_get_priority_weight(tensordict)
        with self.actor_network_params.to_module(self.actor_network):
            dist = self.actor_network.get_dist(tensordict.copy())
        action, log_prob = self._drawn(dist)
        data = tensordict.select(*self.qvalue_network.in_keys, strict=False)
        data.set(self.tensor_keys.action, action)
        least = self._values(detached(self.qvalue_network_params), data).min(0)
        if log_prob.shape != least.shape:
            raise RuntimeError(
                f"log-probs and values must have one shape, got {log_prob.shape} and {least.shape}."
            )
        loss = self._alpha * log_prob - least
        return self._reduce_loss(loss, tensordict, weights=weights), detached(log_prob)

    def _target(self, tensordict: TensorDictBase) -> Any:
        """The targets of the critics: reward plus soft value of the next state, without gradient."""
        td = tensordict.copy()
        following: Any = td.get("next")
        chosen = following
        done = following.get(self.tensor_keys.done, None)
        kept = None
        if self.skip_done_states and done is not None and done.any():
            kept = ~done[..., 0]
            chosen = following[kept]
        with detached(self.actor_network_params).to_module(self.actor_network):
            dist = self.actor_network.get_dist(chosen.copy())
        action, log_prob = (detached(part) for part in self._drawn(dist))
        if kept is not None:
            action, log_prob = scattered(action, kept), scattered(log_prob, kept)
        following.set(self.tensor_keys.action, action)
        values = detached(self._values(self.target_qvalue_network_params, following))
        soft = (values - self._alpha * log_prob).min(0)
        return detached(self.value_estimator.value_estimate(td, next_value=soft[..., None]))[..., 0]


def _event_size(spec: Any, key: NestedKey) -> int:
    """How many dimensions an action has."""
    if spec is None:
        raise RuntimeError(
            "target_entropy='auto' needs an action_spec, or a policy with a spec; else a number."
        )
    container: tuple[int, ...] = ()
    for name in require_path(key):
        if hasattr(spec, "keys"):
            container, spec = tuple(spec.shape), spec[name]
    return math.prod(spec.shape[len(container) :])


def scattered(values: Any, where: Any) -> Any:
    """Values where the mask is True, and 0 elsewhere."""
    out = np.zeros((*where.shape, *values.shape[1:]), values.dtype)
    out[where] = values
    return out
