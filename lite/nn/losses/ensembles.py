"""Losses with several critics of one form, which are called at once, and the weight of entropy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, get_default_dtype
from lite._arrays.types import Array
from lite._tree.keys import require_path
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn._parameters.params import TensorDictParams
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.log_prob_names import set_composite_lp_aggregate
from lite.nn.losses.base import LossModule, TransitionKeys
from lite.nn.losses.estimators import OF_RETURNS, ValueEstimators
from lite.nn.losses.policies import drawn
from lite.nn.losses.reduction import distance_loss
from lite.nn.tensordict_modules.q_value import value_of_action
from lite.nn.values.entries import detached

# Arguments of constructors that are attributes of the loss.
_OPTIONS = (
    "delay_actor", "delay_qvalue", "num_qvalue_nets", "reduction", "loss_function", "deactivate_vmap",
    "use_prioritized_weights", "skip_done_states", "temperature", "expectile", "policy_noise", "noise_clip",
    "sub_sample_len", "gSDE", "min_q_weight", "max_q_backup", "deterministic_backup", "num_random",
    "with_lagrange",
)  # fmt: skip


class EnsembleLoss(LossModule):
    """Base of losses of a policy and `num_qvalue_nets` critics, whose targets count one step ahead."""

    _AcceptedKeys: ClassVar[type[Any]] = TransitionKeys
    default_value_estimator = ValueEstimators.TD0
    SUPPORTED_VALUE_ESTIMATORS = OF_RETURNS
    _value_key = "state_action_value"
    _of_all_actions = (
        False  # whether critics value all actions at once, (*batch, n), instead of one, (*batch, 1)
    )
    _estimator_options: Mapping[str, Any] = MappingProxyType({"value_network": None})

    def _set_networks(self, given: Mapping[str, Any], **others: Any) -> None:
        """Keep options and convert the networks; with separate losses, critics do not learn what others do.

        Args:
            given: arguments of the constructor, as `locals()` has them.
            others: what is in place of them. `num_qvalue_nets=None` is a single critic, whose parameters are
                not stacked.
        """
        given = {"delay_actor": False, **given, **others}
        self._keep(_generator=given["generator"], **{name: given[name] for name in _OPTIONS if name in given})
        actor, delay = given["actor_network"], given["delay_qvalue"]
        self.convert_to_functional(actor, "actor_network", create_target_params=given["delay_actor"])
        learners = [actor, given.get("value_network")] if given["separate_losses"] else []
        shared = [parameter for one in learners if one is not None for parameter in one.parameters()]
        self.convert_to_functional(
            given["qvalue_network"], "qvalue_network", self.num_qvalue_nets, delay, compare_against=shared
        )

    def _set_in_keys(self) -> None:
        networks = [(self.actor_network, "next"), self.qvalue_network]
        self._list_in_keys(*networks, others=[self.tensor_keys.action, *self._signal_keys()])

    def _values(self, params: TensorDictParams, data: TensorDictBase, *, each: bool = False) -> Array:
        """The values of each critic, on the same or on separate data: (critics, *batch, ...)."""
        inputs, key = data.select(*self.qvalue_network.in_keys, strict=False), self._value_key
        options = {"each": each, "loop": self.deactivate_vmap, "randomness": self.vmap_randomness}
        values = values_of_each(
            self.qvalue_network, params, inputs, getattr(self.tensor_keys, key), **options
        )
        return values if self._of_all_actions else values[..., 0]

    def _distance(self, values: Array, target: Array) -> Array:
        """The distances of all critics' values from one target, added up."""
        if target.shape != values.shape[1:]:
            raise RuntimeError(f"targets must have the shape {values.shape[1:]}, got {target.shape}.")
        return distance_loss(values, np.broadcast_to(target, values.shape), self.loss_function).sum(0)

    def _target_of(self, td: TensorDictBase, next_value: Array) -> Array:
        """The targets of the critics, (*batch), from values of the next states."""
        return detached(self.value_estimator.value_estimate(td, next_value=next_value[..., None]))[..., 0]


def values_taken(values: Array, action: Array, space: str) -> Array:
    """Each critic's value of the actions that were taken, (critics, *batch), out of (critics, *batch, n).

    Args:
        values: values of all actions.
        action, space: as for `value_of_action`.
    """
    actions = np.broadcast_to(action, (len(values), *action.shape))
    return value_of_action(values, actions, space)[..., 0]


def values_of_each(
    network: Module, params: TensorDictParams, data: TensorDictBase, key: NestedKey, *, each: bool = False,
    loop: bool = False, randomness: str = "error",
) -> Array:  # fmt: skip
    """The results of each set of parameters, on the same or on separate data: (networks, *batch, ...).

    Args:
        network: a TensorDictModule.
        params: its parameters, stacked along the first dimension, or those of a single network.
        data: the input, which is not changed.
        key: key of the entry that is wanted.
        each: the first dimension of `data` counts the sets, too, and each reads its part.
        loop: call the network once for each set, instead of once under `vmap` for all.
        randomness: randomness of `vmap`, for what the network draws.
    """

    def call(own: TensorDictBase, part: TensorDictBase) -> Array:
        inner = part.copy()
        with own.to_module(network):
            return network(inner)[key]

    if not params.batch_dims:
        return call(params, data)[None]
    if loop:
        parts: Any = data if each else [data] * params.batch_size[0]
        return np.stack([call(params[i], parts[i]) for i in range(params.batch_size[0])])
    from lite._transforms.vmap.transform import vmap  # its rules are imported on first use

    return vmap(call, in_dims=(0, 0 if each else None), randomness=randomness)(params, data)


# -- entropy and its weight ---------------------------------------------------------------------------------


class EntropyWeightedLoss(EnsembleLoss):
    """Base of soft actor-critic losses: entropy has the weight alpha = exp(log_alpha)."""

    _schedulable_buffers = frozenset({"alpha_init", "min_log_alpha", "max_log_alpha", "log_alpha"})

    def _set_alpha(
        self, alpha_init: float, min_alpha: float | None, max_alpha: float | None, fixed_alpha: bool
    ) -> None:
        """Make `log_alpha`, a Parameter or, if it is fixed, a buffer, and its limits; list the outputs.

        Raises:
            ValueError: an alpha that is not positive, or limits in the wrong order.
        """
        if alpha_init <= 0:
            raise ValueError(f"alpha_init must be positive, got {alpha_init}.")
        if max_alpha is not None and not max(min_alpha or 0.0, 0.0) < max_alpha:
            raise ValueError(f"max_alpha must be greater than 0 and min_alpha={min_alpha}, got {max_alpha}.")
        if min_alpha and max_alpha is None:
            max_alpha = 1e9
        dtype = get_default_dtype()
        self.register_coeff_buffer("alpha_init", alpha_init)
        for name, limit in (("min_log_alpha", min_alpha), ("max_log_alpha", max_alpha)):
            if limit:
                self.register_buffer(name, np.log(np.asarray(limit, dtype)))
            else:
                setattr(self, name, None)
        self.fixed_alpha = fixed_alpha
        start = np.asarray(math.log(alpha_init), dtype)
        if fixed_alpha:
            self.register_buffer("log_alpha", start)
        else:
            self.log_alpha = Parameter(start)
        logged = [] if self.reduction == "none" else ["alpha", "entropy"]
        self.out_keys = ["loss_actor", "loss_qvalue", "loss_alpha", *logged]

    def _set_target_entropy(self, name: str, target_entropy: str | float, action_spec: Any) -> None:
        """Keep the entropy that the policy is to have as a buffer.

        Args:
            name: name of the buffer.
            target_entropy: a number; "auto" is the negative number of dimensions of an action.
            action_spec: that of actions, or of a Composite with them; None is the policy's.

        Raises:
            RuntimeError: "auto", and there is no spec.
        """
        if target_entropy == "auto":
            spec = getattr(self.actor_network, "spec", None) if action_spec is None else action_spec
            target_entropy = -float(_event_size(spec, self.tensor_keys.action))
        self.register_buffer(name, np.asarray(target_entropy, get_default_dtype()))

    def _dist(self, data: TensorDictBase, params: TensorDictBase) -> Any:
        """The policy's distribution in some states."""
        with params.to_module(self.actor_network):
            return self.actor_network.get_dist(data.copy())

    def _drawn(self, dist: Distribution) -> tuple[Array, Array]:
        """Actions of a policy, and their log-probs."""
        with set_composite_lp_aggregate(True):
            return drawn(dist, (), self._generator)

    def _constant_actions(self, data: TensorDictBase, params: TensorDictBase) -> tuple[Array, Array]:
        """Actions of the policy in some states, and their log-probs, without gradient."""
        action, log_prob = self._drawn(self._dist(data, detached(params)))
        return detached(action), detached(log_prob)

    def _soft_cost(self, data: TensorDictBase, action: Array, log_prob: Array) -> Array:
        """The objective of a policy: the weighted log-probs of its actions minus their least values."""
        acted = data.select(*self.qvalue_network.in_keys, strict=False).set(self.tensor_keys.action, action)
        least = self._values(detached(self.qvalue_network_params), acted).min(0)
        require_shape(log_prob, least)
        return self._alpha * log_prob - least

    @property
    def _alpha(self) -> Array:
        """The weight as a constant; `log_alpha` is brought between its limits."""
        limits = (self.min_log_alpha, self.max_log_alpha)
        low, high = (None if limit is None else detached(limit) for limit in limits)
        value = detached(self.log_alpha)
        if low is not None or high is not None:
            kept = np.clip(value, low, high)
            if type(value) is np.ndarray and value.flags.writeable:
                value[...] = kept
            value = kept
        return np.exp(value)

    def _alpha_loss(self, log_prob: Array) -> Array:
        """The loss of the weight, which decreases it if the entropy, the negative `log_prob`, exceeds the
        target.
        """
        return -self.log_alpha * (log_prob + self._number("target_entropy"))

    def alpha_loss(self, log_prob: Array) -> Array:
        """The loss of the weight for each log-prob, a constant."""
        return self._alpha_loss(log_prob)

    def _following(self, td: TensorDictBase) -> tuple[TensorDictBase, Array | None]:
        """The next entries, and with `skip_done_states` a mask of those to be kept, if some are not."""
        following: TensorDictBase = td.get("next")
        done = following.get(self.tensor_keys.done, None)
        skips = self.skip_done_states and done is not None and done.any()
        return following, ~done[..., 0] if skips else None

    def _with_alpha(self, out: TensorDict, td: TensorDictBase, log_prob: Array) -> TensorDict:
        """The losses with what is logged; or, of each element, with the batch size."""
        if self.reduction == "none":
            out.batch_size = td.batch_size
        else:
            out.set("alpha", self._alpha)
            out.set("entropy", -log_prob.mean())
        return out


def require_shape(log_prob: Array, values: Array) -> None:
    """Raise RuntimeError unless log-probs and values have one shape."""
    if log_prob.shape != values.shape:
        raise RuntimeError(f"log-probs and values must have one shape, got {log_prob.shape}, {values.shape}.")


def scattered(values: Array, where: Array) -> Array:
    """Values where the mask is True, and 0 elsewhere."""
    out = np.zeros((*where.shape, *values.shape[1:]), values.dtype)
    out[where] = values
    return out


def _event_size(spec: Any, key: NestedKey) -> int:
    """How many dimensions an action has."""
    container: tuple[int, ...] = ()
    for name in require_path(key):
        if hasattr(spec, "keys"):
            container, spec = tuple(spec.shape), dict(spec.items()).get(name)
    if spec is None:
        raise RuntimeError("target_entropy='auto' needs an action_spec, or a policy with a spec.")
    return math.prod(spec.shape[len(container) :])
