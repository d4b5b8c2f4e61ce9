"""Losses with several critics of one form, which are called at once with stacked parameters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from lite import NestedKey, TensorDictBase
from lite._arrays.types import Array
from lite.nn._modules.module import Module
from lite.nn._parameters.params import TensorDictParams
from lite.nn.losses.base import LossModule, TransitionKeys
from lite.nn.losses.estimators import OF_RETURNS, ValueEstimators
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
