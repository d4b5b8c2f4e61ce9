"""DiscreteSACLoss: soft actor-critic for a few actions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, get_default_dtype
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.losses.alpha import EntropyWeightedLoss, require_shape, scattered
from lite.nn.losses.base import TransitionKeys
from lite.nn.losses.ensembles import values_taken
from lite.nn.losses.policies import require_policy
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.tensordict_modules.q_value import action_space_of
from lite.nn.values.detached import detached


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
        if action_space is None:
            raise ValueError("action_space must be 'one-hot', 'categorical' or a spec of one, got None.")
        self.action_space = action_space_of(action_space)
        if target_entropy == "auto":
            if num_actions is None:
                raise ValueError("num_actions must be given for target_entropy='auto'.")
            target_entropy = math.log(num_actions) * target_entropy_weight
        self._set_networks(
            actor_network,
            qvalue_network,
            generator,
            list(actor_network.parameters()) if separate_losses else [],
            delay_actor=False,
            delay_qvalue=delay_qvalue,
            num_qvalue_nets=num_qvalue_nets,
            reduction=reduction,
            loss_function=loss_function,
            use_prioritized_weights=use_prioritized_weights,
            skip_done_states=skip_done_states,
            deactivate_vmap=deactivate_vmap,
        )
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
