"""CQLLoss and DiscreteCQLLoss: conservative Q-learning, which penalizes actions outside of the data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, cat, get_default_dtype
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn.distributions.distribution import uniform
from lite.nn.losses.alpha import EntropyWeightedLoss
from lite.nn.losses.base import UnweightedKeys
from lite.nn.losses.dqn import ValueNetworkLoss, acting_network
from lite.nn.losses.policies import require_policy
from lite.nn.losses.reduction import distance_loss
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.q_value import value_of_action
from lite.nn.values.entries import detached


@dataclass
class CQLKeys(UnweightedKeys):
    """The keys that `CQLLoss` reads and writes."""

    action: NestedKey = "action"
    value: NestedKey = "state_value"
    state_action_value: NestedKey = "state_action_value"
    log_prob: NestedKey = "_log_prob"
    pred_q1: NestedKey = "pred_q1"
    pred_q2: NestedKey = "pred_q2"
    cql_q1_loss: NestedKey = "cql_q1_loss"
    cql_q2_loss: NestedKey = "cql_q2_loss"


class CQLLoss(EntropyWeightedLoss):
    """Conservative Q-learning: soft actor-critic that penalizes values of actions outside of the data.

    Reads observations, "action" with numbers in [-1, 1], and under "next" observations, "reward",
    (*batch, 1), "done" and "terminated". Returns "loss_actor"; "loss_actor_bc", of behaviour
    cloning; "loss_qvalue"; "loss_cql", values of other actions minus those of the batch; "loss_alpha"; with
    `with_lagrange` "loss_alpha_prime"; and, for logging, "alpha" and "entropy".

    Writes the greatest squared error to "td_error", (*batch), values to "pred_q1" and "pred_q2",
    (*batch, 1), and the terms whose mean is "loss_cql" to "cql_q1_loss" and "cql_q2_loss",
    (*batch, n * num_random), where n is the number of steps.

    Args:
        actor_network, qvalue_network: as for `SACLoss`; there are two critics.
        loss_function, alpha_init, min_alpha, max_alpha, action_spec, fixed_alpha, target_entropy,
            delay_actor, delay_qvalue, reduction, deactivate_vmap: as for `SACLoss`.
        temperature: temperature of the logsumexp over other actions.
        min_q_weight: the weight of "loss_cql".
        max_q_backup: targets take the greatest value of `num_random` actions of the policy.
        deterministic_backup: targets do not include entropy.
        num_random: the number of uniform actions, of the policy's actions, and of those in the next states.
        with_lagrange, lagrange_thresh: learn a weight, `log_alpha_prime`, that keeps "loss_cql" at the
            threshold.
        generator: seed or `numpy.random.Generator` for actions, and redrawn parameters.

    Raises:
        TypeError, RuntimeError, ValueError: as for `SACLoss`.

    Source:
        Kumar et al. (2020), arXiv:2006.04779; torchrl.objectives.CQLLoss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.distributions import TanhNormal
        >>> from lite.nn.losses import CQLLoss, SoftUpdate
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.NormalParamExtractor())
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(net, ["observation"], ["loc", "scale"]),
        ...     nn.ProbabilisticTensorDictModule(["loc", "scale"], ["action"], distribution_class=TanhNormal),
        ... )
        >>> critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
        >>> target = SoftUpdate(CQLLoss(policy, critic, target_entropy=-2.0, generator=0), tau=0.005)
    """

    _AcceptedKeys = CQLKeys
    tensor_keys: CQLKeys

    def __init__(
        self,
        actor_network: Module,
        qvalue_network: Module | Sequence[Module],
        *,
        loss_function: str = "smooth_l1",
        alpha_init: float = 1.0,
        min_alpha: float | None = None,
        max_alpha: float | None = None,
        action_spec: Any = None,
        fixed_alpha: bool = False,
        target_entropy: str | float = "auto",
        delay_actor: bool = False,
        delay_qvalue: bool = True,
        temperature: float = 1.0,
        min_q_weight: float = 1.0,
        max_q_backup: bool = False,
        deterministic_backup: bool = True,
        num_random: int = 10,
        with_lagrange: bool = False,
        lagrange_thresh: float = 0.0,
        reduction: str | None = None,
        deactivate_vmap: bool = False,
        generator: Rng = None,
    ) -> None:
        super().__init__()
        require_policy(actor_network)
        self._set_networks(locals(), num_qvalue_nets=2, separate_losses=True)
        self._set_alpha(alpha_init, min_alpha, max_alpha, fixed_alpha)
        self._set_target_entropy("target_entropy_buffer", target_entropy, action_spec)
        first, *others = self.out_keys
        self.out_keys = [first, "loss_actor_bc", others[0], "loss_cql", *others[1:]]
        if with_lagrange:
            self.target_action_gap = lagrange_thresh
            self.log_alpha_prime = Parameter(np.zeros((), get_default_dtype()))
            self.out_keys.append("loss_alpha_prime")
        self._set_in_keys()

    @property
    def target_entropy(self) -> Array:
        """The target entropy of the policy."""
        return self.target_entropy_buffer

    # -- the losses ----------------------------------------------------------------------------------------

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, which also gets the entries listed above; see `SACLoss.forward`."""
        td = self._batch(tensordict)
        loss_qvalue, known = self.q_loss(td)
        loss_cql, _ = self.cql_loss(td)
        prime = self.alpha_prime_loss(td)[0] if self.with_lagrange else None
        loss_actor_bc, _ = self.actor_bc_loss(td)
        loss_actor, more = self.actor_loss(td)
        loss_alpha, _ = self.alpha_loss(more, td)
        out = TensorDict(
            loss_actor=loss_actor,
            loss_actor_bc=loss_actor_bc,
            loss_qvalue=loss_qvalue,
            loss_cql=loss_cql,
            loss_alpha=loss_alpha,
        )
        if prime is not None:
            out.set("loss_alpha_prime", prime)
        keys = self.tensor_keys
        made = [keys.pred_q1, keys.pred_q2, keys.cql_q1_loss, keys.cql_q2_loss]
        found = {key: detached(td.get(key)) for key in made}
        self._write(tensordict, {keys.priority: known["td_error"].max(0), **found})
        return self._with_alpha(out, td, more[keys.log_prob])

    def q_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The critics' reduced loss, and {"td_error": squares of their errors, (critics, *batch)}.

        Their values are written to "pred_q1" and "pred_q2".
        """
        target = self._target(tensordict)
        predicted = self._values(self.qvalue_network_params, tensordict)
        tensordict.set(self.tensor_keys.pred_q1, predicted[0][..., None])
        tensordict.set(self.tensor_keys.pred_q2, predicted[1][..., None])
        loss = self._reduce_loss(self._distance(predicted, target), tensordict)
        return loss, {"td_error": (detached(predicted) - target) ** 2}

    def cql_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The reduced loss of values of other actions, and {}.

        Reads the values that `q_loss` wrote, and writes its terms to "cql_q1_loss" and "cql_q2_loss".

        Raises:
            KeyError: `q_loss` was not called before.
        """
        keys = self.tensor_keys
        known = [self._entry(tensordict, key) for key in (keys.pred_q1, keys.pred_q2)]
        data, taken = self._repeated(tensordict), self._entry(tensordict, keys.action)
        dtype = known[0].dtype
        shape = (*data.batch_size, taken.shape[-1])
        anywhere = data.copy().set(keys.action, 2 * uniform(self._generator, shape, dtype) - 1)
        now, log_prob_now = self._with_actions(data)
        ahead, log_prob_ahead = self._with_actions(self._repeated(tensordict.get("next")))
        values = self._values(self.qvalue_network_params, cat([anywhere, ahead, now], 0))
        of_each = values.reshape(len(known), 3, *data.batch_size)
        density = math.log(0.5 ** taken.shape[-1])
        log_probs = np.stack([np.full_like(log_prob_now, density), log_prob_ahead, log_prob_now])
        for key, entry, part in zip((keys.cql_q1_loss, keys.cql_q2_loss), known, of_each, strict=True):
            most = _logsumexp((part - log_probs) / self.temperature, 0) * self.temperature
            tensordict.set(key, (most.reshape(-1) - entry) * self.min_q_weight)
        loss = (tensordict.get(keys.cql_q1_loss) + tensordict.get(keys.cql_q2_loss)).mean(-1)
        return self._reduce_loss(loss, tensordict), {}

    def alpha_prime_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The loss of the learned weight of `cql_loss`, and {}.

        Raises:
            KeyError: `cql_loss` was not called before.
        """
        keys = self.tensor_keys
        weight = np.minimum(np.exp(self.log_alpha_prime), 1e6)
        parts = [self._entry(tensordict, key) for key in (keys.cql_q1_loss, keys.cql_q2_loss)]
        first, second = (self._reduce_loss(part, tensordict, reduction="mean") for part in parts)
        gaps = [weight * (part - self.target_action_gap) for part in (first, second)]
        return -(gaps[0] + gaps[1]) * 0.5, {}

    def actor_bc_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The reduced loss of behaviour cloning, and {"bc_log_prob": the mean log-prob of the actions}."""
        dist = self._dist(tensordict, self.actor_network_params)
        _, log_prob = self._drawn(dist)
        cloned = dist.log_prob(self._entry(tensordict, self.tensor_keys.action))
        loss = self._reduce_loss(self._alpha * log_prob - cloned, tensordict)
        return loss, {"bc_log_prob": detached(cloned).mean()}

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[NestedKey, Array]]:
        """The policy's reduced loss, and {"_log_prob": log-probs of its actions}, constants."""
        action, log_prob = self._drawn(self._dist(tensordict, self.actor_network_params))
        loss = self._soft_cost(tensordict, action, log_prob)
        return self._reduce_loss(loss, tensordict), {self.tensor_keys.log_prob: detached(log_prob)}

    def alpha_loss(  # type: ignore[override] # torchrl's form
        self, tensordict: Mapping[NestedKey, Array], mask_tensordict: TensorDictBase | None = None
    ) -> tuple[Array, dict[str, Array]]:
        """The reduced loss of the weight of entropy, and {}.

        Args:
            tensordict: has the log-probs, such as the dict of `actor_loss`.
            mask_tensordict: the batch.
        """
        log_prob = detached(tensordict[self.tensor_keys.log_prob])
        return self._reduce_loss(self._alpha_loss(log_prob), mask_tensordict), {}

    # -- other actions -------------------------------------------------------------------------------------

    def _repeated(self, data: TensorDictBase) -> TensorDictBase:
        """Inputs of the networks, repeated `num_random` times in a row along the last batch dimension."""
        reads = [*self.actor_network.in_keys, *self.qvalue_network.in_keys]
        kept = [key for key in reads if key != self.tensor_keys.action]
        return data.select(*kept, strict=False).repeat_interleave(self.num_random, dim=data.ndim - 1)

    def _with_actions(self, data: TensorDictBase) -> tuple[TensorDictBase, Array]:
        """Data with actions of the policy, and their log-probs, constants."""
        action, log_prob = self._constant_actions(data, self.actor_network_params)
        return data.copy().set(self.tensor_keys.action, action), log_prob

    def _target(self, tensordict: TensorDictBase) -> Array:
        """The targets of the critics, (*batch), without gradient."""
        params = self.target_qvalue_network_params
        following, log_prob = self._with_actions(tensordict.get("next"))
        if self.max_q_backup:
            many, _ = self._with_actions(self._repeated(tensordict.get("next")))
            values = detached(self._values(params, many))
            value = values.reshape(len(values), *tensordict.batch_size, self.num_random).max(-1).min(0)
        else:
            value = detached(self._values(params, following)).min(0)
            if not self.deterministic_backup:
                value = value - self._alpha * log_prob
        return self._target_of(tensordict.copy(), value)


@dataclass
class DiscreteCQLKeys(UnweightedKeys):
    """The keys that `DiscreteCQLLoss` reads and writes."""

    value_target: NestedKey = "value_target"
    value: NestedKey = "chosen_action_value"
    action_value: NestedKey = "action_value"
    action: NestedKey = "action"
    pred_val: NestedKey = "pred_val"


class DiscreteCQLLoss(ValueNetworkLoss):
    """`DQNLoss` with a second loss, which penalizes values of actions outside of the data.

    Reads observations, "action", and under "next" observations, "reward", (*batch, 1), "done" and
    "terminated". Returns "loss_qvalue", half the distance from the targets; "loss_cql", the logsumexp of the
    values of all actions minus the value of the batch's action; and, for logging, "td_error", its mean along
    the first dimension, "pred_value" and "target_value". Writes the squared error to "td_error", (*batch, 1),
    and values to "pred_val", (*batch, n).

    Args:
        value_network, loss_function, delay_value, action_space, reduction: as for `DQNLoss`.

    Raises:
        ValueError: no action space, or another one; another name of a distance or reduction.

    Source:
        Kumar et al. (2020), Conservative Q-learning for offline reinforcement learning (arXiv:2006.04779);
        torchrl.objectives.DiscreteCQLLoss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.losses import DiscreteCQLLoss, SoftUpdate
        >>> loss = DiscreteCQLLoss(nn.MLP(4, 2, num_cells=[8]), action_space="categorical")
        >>> target = SoftUpdate(loss, tau=0.005)
        >>> loss.out_keys
        ['loss_qvalue', 'loss_cql']
    """

    _AcceptedKeys = DiscreteCQLKeys
    tensor_keys: DiscreteCQLKeys

    def __init__(
        self,
        value_network: Any,
        *,
        loss_function: str = "l2",
        delay_value: bool = True,
        action_space: Any = None,
        reduction: str | None = None,
    ) -> None:
        super().__init__()
        self._keep(reduction=reduction, loss_function=loss_function, delay_value=delay_value)
        value_network, self.action_space = acting_network(value_network, action_space)
        self.convert_to_functional(value_network, "value_network", create_target_params=delay_value)
        self.out_keys = ["loss_qvalue", "loss_cql"]
        self._set_in_keys()

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch, its "td_error" and "pred_val"; see `DQNLoss.forward`."""
        td, keys = self._batch(tensordict), self.tensor_keys
        loss_qvalue, known = self.value_loss(td)
        loss_cql, _ = self.cql_loss(td)
        out = TensorDict({"loss_qvalue": loss_qvalue, "loss_cql": loss_cql, **known})
        found = {key: detached(td.get(key)) for key in (keys.priority, keys.pred_val)}
        self._write(tensordict, found)
        return out

    def value_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """Half the distance of values from their targets, reduced, and values for logging.

        Writes squared errors and the values of all actions to `tensordict`.
        """
        keys, td = self.tensor_keys, tensordict.copy()
        action = self._entry(tensordict, keys.action)  # before the network writes its own
        values, predicted = self._values_and_chosen(td, action)
        params = self.target_value_network_params
        target = detached(self.value_estimator.value_estimate(td, target_params=params))[..., 0]
        error = ((detached(predicted) - target) ** 2)[..., None]
        tensordict.set(keys.priority, error)
        tensordict.set(keys.pred_val, values)
        loss = 0.5 * distance_loss(predicted, target, self.loss_function)
        known = {
            "td_error": error.mean(0),
            "pred_value": detached(values).mean(),
            "target_value": target.mean(),
        }
        return self._reduce_loss(loss, tensordict), known

    def cql_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The reduced loss of values of other actions, and {}.

        Raises:
            KeyError: `value_loss` was not called before.
        """
        values = self._entry(tensordict, self.tensor_keys.pred_val)
        action = self._entry(tensordict, self.tensor_keys.action)
        taken = value_of_action(values, action, self.action_space)[..., 0]
        return self._reduce_loss(_logsumexp(values, -1) - taken, tensordict), {}


def _logsumexp(values: Array, axis: int) -> Array:
    """The logarithm of the sum of exponentials along an axis."""
    most = detached(values).max(axis, keepdims=True)
    return np.log(np.exp(values - most).sum(axis)) + most.max(axis)


belong_to("lite.nn.losses", CQLLoss, DiscreteCQLLoss)
