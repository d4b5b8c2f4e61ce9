"""SACLoss, CrossQLoss and DiscreteSACLoss: soft actor-critic for continuous actions and for a few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, cat, get_default_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.distributions.log_prob_names import default_log_prob_key
from lite.nn.losses.alpha import EntropyWeightedLoss, require_shape, scattered
from lite.nn.losses.base import TransitionKeys, UnweightedKeys
from lite.nn.losses.ensembles import values_taken
from lite.nn.losses.policies import policy_keys, require_policy
from lite.nn.losses.reduction import distance_loss
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.q_value import space_of_loss
from lite.nn.values.entries import detached


@dataclass
class SACKeys(TransitionKeys):
    """The keys that `SACLoss` reads and writes."""

    action: NestedKey = "action"
    value: NestedKey = "state_value"
    state_action_value: NestedKey = "state_action_value"
    log_prob: NestedKey = field(default_factory=default_log_prob_key)


class SACLoss(EntropyWeightedLoss):
    """Soft actor-critic: values of actions that count entropy, and a policy that maximises them and its own.

    Reads observations, "action", and under "next" observations, "reward", (*batch, 1), "done" and
    "terminated". Returns "loss_actor", "loss_qvalue", "loss_alpha", with a value network "loss_value", and to
    log "alpha" and "entropy". Writes the greatest error of the critics to "td_error", (*batch).

    Args:
        actor_network: a policy with `get_dist`, whose samples have derivatives, such as one of `TanhNormal`.
        qvalue_network: gives "state_action_value", (*batch, 1); one, to be redrawn, or a list.
        value_network: gives "state_value", (*batch, 1); None for the second paper's losses.
        num_qvalue_nets: number of critics; the least of their values counts.
        loss_function: see `distance_loss`.
        alpha_init, min_alpha, max_alpha: the weight of the entropy, and its bounds.
        fixed_alpha: keep that weight constant.
        target_entropy: a number; "auto" is the negative number of dimensions in `action_spec`.
        delay_actor, delay_qvalue, delay_value: compute next values with target networks.
        skip_done_states: leave out next values where an episode ended.
        separate_losses, reduction, deactivate_vmap, use_prioritized_weights, generator: as for `TD3Loss`.

    Raises:
        TypeError: the policy has no `get_dist`.
        RuntimeError: `target_entropy` is "auto", and there is no spec.
        ValueError: a number is out of range.

    Source:
        Haarnoja et al. (2018), arXiv:1801.01290 and arXiv:1812.05905; torchrl.objectives.SACLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.distributions import TanhNormal
        >>> from lite.nn.losses import SACLoss
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.NormalParamExtractor())
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(net, ["observation"], ["loc", "scale"]),
        ...     nn.ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=TanhNormal),
        ... )
        >>> critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
        >>> loss = SACLoss(policy, critic, target_entropy=-2.0, delay_qvalue=False)
        >>> state, flag = np.zeros((9, 4), np.float32), np.zeros((9, 1), bool)
        >>> after = {"observation": state, "reward": state[:, :1], "done": flag, "terminated": flag}
        >>> batch = TensorDict(observation=state, action=state[:, :2], next=after, batch_size=[9])
        >>> loss(batch)["loss_actor"].shape
        ()
    """

    _AcceptedKeys = SACKeys
    tensor_keys: SACKeys

    def __init__(
        self,
        actor_network: Module,
        qvalue_network: Module | Sequence[Module],
        value_network: Module | None = None,
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
        generator: Rng = None,
    ) -> None:
        super().__init__()
        require_policy(actor_network)
        shared = list(actor_network.parameters()) if separate_losses else []
        self._set_networks(locals())
        self._set_alpha(alpha_init, min_alpha, max_alpha, fixed_alpha)
        if value_network is None:
            self._keep(value_network=None, value_network_params=None, target_value_network_params=None)
        else:
            self.delay_value = delay_value
            self.convert_to_functional(
                value_network, "value_network", create_target_params=delay_value, compare_against=shared
            )
            self._estimator_options = {"value_network": value_network}
            self.out_keys.append("loss_value")
        known = policy_keys(actor_network)
        keys = {"action": known.get("action"), "log_prob": known.get("sample_log_prob")}
        self.set_keys(**{name: key for name, key in keys.items() if key is not None})
        self._set_target_entropy("_target_entropy", target_entropy, action_spec)

    @property
    def target_entropy(self) -> Array:
        """The entropy that the policy is to have."""
        return self._target_entropy

    def _set_in_keys(self) -> None:
        super()._set_in_keys()
        if self.value_network is not None:
            self.in_keys = list(dict.fromkeys([*self.in_keys, *self.value_network.in_keys]))

    def _estimator_keys(self) -> dict[str, Any]:
        return {**super()._estimator_keys(), "value_target": "value_target"}

    # -- the losses ----------------------------------------------------------------------------------------

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, and its "td_error".

        Args:
            tensordict: the batch, to which "td_error" is written. Its entries may also be given as keywords;
                then the values of `out_keys` are returned.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: shapes differ.
            ValueError: shapes differ, or the loss is NaN.
        """
        td = self._batch(tensordict)
        loss_qvalue, known = self.qvalue_loss(td)
        loss_value = None if self.value_network is None else self.value_loss(td)[0]
        loss_actor, more = self.actor_loss(td)
        log_prob = more["log_prob"]
        weights = self._maybe_get_priority_weight(td)
        out = TensorDict(
            loss_actor=loss_actor,
            loss_qvalue=loss_qvalue,
            loss_alpha=self._reduce_loss(self._alpha_loss(log_prob), td, weights=weights),
        )
        if loss_value is not None:
            out.set("loss_value", loss_value)
        self._write_priority(tensordict, known["td_error"])
        return self._with_alpha(out, td, log_prob)

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The critics' loss, reduced, and {"td_error": the greatest of their errors}; see the class."""
        weights = self._maybe_get_priority_weight(tensordict)
        if self.value_network is not None:
            return self._loss_of_shares(tensordict, weights)
        target = self._target(tensordict)
        predicted = self._values(self.qvalue_network_params, tensordict)
        loss = self._distance(predicted, target)
        error = np.abs(detached(predicted) - target).max(0)
        return self._reduce_loss(loss, tensordict, weights=weights), {"td_error": error}

    def _loss_of_shares(
        self, tensordict: TensorDictBase, weights: Array | None
    ) -> tuple[Array, dict[str, Array]]:
        """The critics' loss where each learns from its share of the batch, and squares of their errors."""
        rows, shares = tensordict.batch_size[0], self.num_qvalue_nets
        if rows % shares:
            raise RuntimeError(f"{shares} critics need a batch size that {shares} divides, got {rows}.")
        params = detached(self.target_value_network_params)
        target = detached(self.value_estimator.value_estimate(tensordict, target_params=params))[..., 0]
        parts = tensordict.reshape(shares, -1, *tensordict.batch_size[1:])
        predicted = self._values(self.qvalue_network_params, parts, each=True).reshape(tensordict.batch_size)
        loss = distance_loss(predicted, target, self.loss_function)
        error = (detached(predicted) - target) ** 2
        return self._reduce_loss(loss, tensordict, weights=weights), {"td_error": error}

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The value network's loss, reduced, and {}.

        It is the distance of values from the critics' values of the policy's actions plus their entropy.

        Raises:
            RuntimeError: the loss has no value network.
        """
        if self.value_network is None:
            raise RuntimeError("value_loss needs a value_network, got None.")
        weights = self._maybe_get_priority_weight(tensordict)
        data = tensordict.select(*self.value_network.in_keys, strict=False)
        with self.value_network_params.to_module(self.value_network):
            predicted = self._entry(self.value_network(data), self.tensor_keys.value)[..., 0]
        action, log_prob = self._constant_actions(tensordict, self.target_actor_network_params)
        acted = tensordict.copy().set(self.tensor_keys.action, action)
        least = detached(self._values(self.target_qvalue_network_params, acted)).min(0)
        require_shape(log_prob, least)
        loss = distance_loss(predicted, least - self._alpha * log_prob, self.loss_function)
        return self._reduce_loss(loss, tensordict, weights=weights), {}

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The policy's loss, reduced, and {"log_prob": those of its actions}, constants."""
        weights = self._maybe_get_priority_weight(tensordict)
        action, log_prob = self._drawn(self._dist(tensordict, self.actor_network_params))
        loss = self._soft_cost(tensordict, action, log_prob)
        return self._reduce_loss(loss, tensordict, weights=weights), {"log_prob": detached(log_prob)}

    def _target(self, tensordict: TensorDictBase) -> Array:
        """The targets of the critics: reward plus soft value of the next state, without gradient."""
        td = tensordict.copy()
        following, kept = self._following(td)
        chosen = following if kept is None else following[kept]
        action, log_prob = self._constant_actions(chosen, self.actor_network_params)
        if kept is not None:
            action, log_prob = scattered(action, kept), scattered(log_prob, kept)
        following.set(self.tensor_keys.action, action)
        values = detached(self._values(self.target_qvalue_network_params, following))
        soft = (values - self._alpha * log_prob).min(0)
        return self._target_of(td, soft)


@dataclass
class CrossQKeys(UnweightedKeys):
    """The keys that `CrossQLoss` reads and writes."""

    action: NestedKey = "action"
    state_action_value: NestedKey = "state_action_value"
    log_prob: NestedKey = "_log_prob"


class CrossQLoss(EntropyWeightedLoss):
    """Soft actor-critic without delayed copies: critics value this step and the next as one batch.

    Their batch norms then see both kinds of actions; while the policy learns, critics are in evaluation mode.
    Reads, writes and returns what `SACLoss` does, and "log_prob" and "td_error", (*batch).

    Args:
        actor_network, qvalue_network: as for `SACLoss`; critics with `BatchNorm1d` are usual.
        num_qvalue_nets, loss_function, alpha_init, min_alpha, max_alpha, action_spec, fixed_alpha,
            target_entropy, separate_losses, reduction, deactivate_vmap, generator: as for `SACLoss`.

    Raises:
        TypeError, RuntimeError, ValueError: as for `SACLoss`.

    Source:
        Bhatt et al. (2024), CrossQ (arXiv:1902.05605); torchrl.objectives.CrossQLoss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.distributions import TanhNormal
        >>> from lite.nn.losses import CrossQLoss
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.NormalParamExtractor())
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(net, ["observation"], ["loc", "scale"]),
        ...     nn.ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=TanhNormal),
        ... )
        >>> critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
        >>> loss = CrossQLoss(policy, critic, target_entropy=-2.0)
        >>> loss.out_keys
        ['loss_actor', 'loss_qvalue', 'loss_alpha', 'alpha', 'entropy']
    """

    _AcceptedKeys = CrossQKeys
    tensor_keys: CrossQKeys

    def __init__(
        self,
        actor_network: Module,
        qvalue_network: Module | Sequence[Module],
        *,
        num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1",
        alpha_init: float = 1.0,
        min_alpha: float | None = None,
        max_alpha: float | None = None,
        action_spec: Any = None,
        fixed_alpha: bool = False,
        target_entropy: str | float = "auto",
        separate_losses: bool = False,
        reduction: str | None = None,
        deactivate_vmap: bool = False,
        generator: Rng = None,
    ) -> None:
        super().__init__()
        require_policy(actor_network)
        self._set_networks(locals(), delay_qvalue=False)
        self._set_alpha(alpha_init, min_alpha, max_alpha, fixed_alpha)
        self._set_target_entropy("_target_entropy", target_entropy, action_spec)
        self._set_in_keys()

    @property
    def target_entropy(self) -> Array:
        """The entropy that the policy is to have."""
        return self._target_entropy

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, and its "td_error"; see `SACLoss.forward`."""
        td = self._batch(tensordict)
        loss_qvalue, known = self.qvalue_loss(td)
        loss_actor, more = self.actor_loss(td)
        log_prob = more["log_prob"]
        loss_alpha = self._reduce_loss(self._alpha_loss(log_prob), td)
        out = TensorDict(loss_actor=loss_actor, loss_qvalue=loss_qvalue, loss_alpha=loss_alpha)
        out.update({**more, **known})
        self._write_priority(tensordict, known["td_error"])
        return self._with_alpha(out, td, log_prob)

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The critics' loss, reduced, and {"td_error": the greatest of their errors}."""
        following = tensordict.get("next").copy()
        action, log_prob = self._constant_actions(following, self.actor_network_params)
        following.set(self.tensor_keys.action, action)
        reads = self.qvalue_network.in_keys
        both = cat([td.select(*reads, strict=False) for td in (tensordict, following)], 0)
        values = self._values(self.qvalue_network_params, both)
        rows = tensordict.batch_size[0]
        predicted, ahead = values[:, :rows], detached(values[:, rows:])
        require_shape(log_prob, ahead[0])
        target = self._target_of(tensordict.copy(), ahead.min(0) - self._alpha * log_prob)
        error = np.abs(detached(predicted) - target).max(0)
        return self._reduce_loss(self._distance(predicted, target), tensordict), {"td_error": error}

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The policy's loss, reduced, and {"log_prob": those of its actions}, constants."""
        action, log_prob = self._drawn(self._dist(tensordict, self.actor_network_params))
        before = self.qvalue_network.training
        self.qvalue_network.eval()
        try:
            loss = self._soft_cost(tensordict, action, log_prob)
        finally:
            self.qvalue_network.train(before)
        return self._reduce_loss(loss, tensordict), {"log_prob": detached(log_prob)}


@dataclass
class DiscreteSACKeys(TransitionKeys):
    """The keys that `DiscreteSACLoss` reads and writes."""

    action: NestedKey = "action"
    value: NestedKey = "state_value"
    action_value: NestedKey = "action_value"
    log_prob: NestedKey = "log_prob"


class DiscreteSACLoss(EntropyWeightedLoss):
    """Soft actor-critic whose critics value all actions at once, so that nothing is drawn.

    Reads, writes and returns what `SACLoss` does.

    Args:
        actor_network: a policy of a `Categorical` or `OneHotCategorical`.
        qvalue_network: gives "action_value", (*batch, n), of observations; see `SACLoss`.
        action_space: "one-hot", "categorical" or a spec.
        num_actions: n, for `target_entropy="auto"`.
        target_entropy_weight: "auto" is this share of the greatest entropy, log n.
        target_entropy: a number, or "auto".
        num_qvalue_nets, loss_function, alpha_init, min_alpha, max_alpha, fixed_alpha, delay_qvalue,
            separate_losses, reduction, skip_done_states, deactivate_vmap, use_prioritized_weights: as for
            `SACLoss`.
        generator: seed or `numpy.random.Generator` for redrawn parameters.

    Raises:
        TypeError: the policy has no `get_dist`.
        ValueError: no action space, "auto" without `num_actions`, numbers out of range, or another name of a
            distance or reduction.

    Source:
        Christodoulou (2019), Soft actor-critic for discrete action settings (arXiv:1910.07207);
        torchrl.objectives.DiscreteSACLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.distributions import Categorical
        >>> from lite.nn.losses import DiscreteSACLoss, SoftUpdate
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(nn.Linear(4, 3), ["observation"], ["logits"]),
        ...     nn.ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical),
        ... )
        >>> critic = nn.TensorDictModule(nn.Linear(4, 3), ["observation"], ["action_value"])
        >>> loss = DiscreteSACLoss(policy, critic, action_space="categorical", num_actions=3, generator=0)
        >>> target = SoftUpdate(loss, tau=0.005)
        >>> round(float(loss.target_entropy), 3)
        1.077
    """

    _AcceptedKeys = DiscreteSACKeys
    tensor_keys: DiscreteSACKeys
    _value_key = "action_value"
    _of_all_actions = True

    def __init__(
        self,
        actor_network: Module,
        qvalue_network: Module | Sequence[Module],
        *,
        action_space: Any = None,
        num_actions: int | None = None,
        num_qvalue_nets: int = 2,
        loss_function: str = "smooth_l1",
        alpha_init: float = 1.0,
        min_alpha: float | None = None,
        max_alpha: float | None = None,
        fixed_alpha: bool = False,
        target_entropy_weight: float = 0.98,
        target_entropy: str | float = "auto",
        delay_qvalue: bool = True,
        separate_losses: bool = False,
        reduction: str | None = None,
        skip_done_states: bool = False,
        deactivate_vmap: bool = False,
        use_prioritized_weights: str | bool = "auto",
        generator: Rng = None,
    ) -> None:
        super().__init__()
        require_policy(actor_network)
        self.action_space = space_of_loss(action_space)
        if target_entropy == "auto":
            if num_actions is None:
                raise ValueError("num_actions must be given for target_entropy='auto'.")
            target_entropy = math.log(num_actions) * target_entropy_weight
        self._set_networks(locals())
        self._set_alpha(alpha_init, min_alpha, max_alpha, fixed_alpha)
        self.register_buffer("target_entropy", np.asarray(target_entropy, get_default_dtype()))
        self._set_in_keys()

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, and its "td_error"; see `SACLoss.forward`."""
        td = self._batch(tensordict)
        weights = self._maybe_get_priority_weight(td)
        loss_qvalue, error = self._qvalue_loss(td)
        loss_actor, log_prob = self._actor_loss(td)
        out = TensorDict(
            loss_actor=self._reduce_loss(loss_actor, td, weights=weights),
            loss_qvalue=self._reduce_loss(loss_qvalue, td, weights=weights),
            loss_alpha=self._reduce_loss(self._alpha_loss(log_prob), td, weights=weights),
        )
        self._write_priority(tensordict, error)
        return self._with_alpha(out, td, log_prob)

    def _qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Array, Array]:
        target = self._target(tensordict)
        values = self._values(self.qvalue_network_params, tensordict)
        action = self._entry(tensordict, self.tensor_keys.action)
        chosen = values_taken(values, action, self.action_space)
        loss = self._distance(chosen, target)
        return loss, np.abs(detached(chosen) - target).max(0)

    def _actor_loss(self, tensordict: TensorDictBase) -> tuple[Array, Array]:
        dist = self._dist(tensordict, self.actor_network_params)
        prob, log_prob = dist.probs, dist.logits
        least = self._values(detached(self.qvalue_network_params), tensordict).min(0)
        require_shape(log_prob, least)
        loss = (prob * (self._alpha * log_prob - least)).sum(-1)
        return loss, (detached(log_prob) * detached(prob)).sum(-1)

    def _target(self, tensordict: TensorDictBase) -> Array:
        """The targets of the critics: reward plus soft value of the next state, without gradient."""
        td = tensordict.copy()
        following, kept = self._following(td)
        if kept is not None:
            following = following[kept]
        prob = detached(self._dist(following, detached(self.actor_network_params)).probs)
        log_prob = np.log(np.where(prob == 0, prob.dtype.type(1e-8), prob))
        values = detached(self._values(self.target_qvalue_network_params, following)).min(0)
        soft = (prob * (values - self._alpha * log_prob)).sum(-1)
        return self._target_of(td, soft if kept is None else scattered(soft, kept))


belong_to("lite.nn.losses", CrossQLoss, DiscreteSACLoss, SACLoss)
