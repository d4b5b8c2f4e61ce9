"""A2CLoss and ReinforceLoss, and what they share with PPO: a policy that learns from advantages, a critic."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite._tree.collection import TensorCollection
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.log_prob_names import default_log_prob_key, set_composite_lp_aggregate
from lite.nn.losses.base import LossModule
from lite.nn.losses.estimators import ValueEstimators
from lite.nn.losses.policies import Keys, entropy_of, log_prob_of, policy_keys, require_policy, total
from lite.nn.losses.reduction import clipped_value_loss, distance_loss, squeezed
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.entries import detached
from lite.nn.values.value_norm import ValueNorm, update_where


@dataclass
class PolicyKeys:
    """The keys that losses of a policy and a critic read; reward, done and terminated are under "next"."""

    advantage: NestedKey = "advantage"
    value_target: NestedKey = "value_target"
    value: NestedKey = "state_value"
    sample_log_prob: Keys = field(default_factory=default_log_prob_key)
    action: Keys = "action"
    reward: Keys = "reward"
    done: Keys = "done"
    terminated: Keys = "terminated"


class ActorCriticLoss(LossModule):
    """Base of losses of a policy with `get_dist`, which learns from advantages, and a critic of states."""

    _AcceptedKeys = PolicyKeys
    tensor_keys: PolicyKeys
    default_value_estimator = ValueEstimators.GAE
    SUPPORTED_VALUE_ESTIMATORS = tuple(ValueEstimators)
    _critic_is_optional = False
    _read_keys: tuple[str, ...] = ("action",)  # entries of the batch beside those that networks read

    def __init__(
        self,
        actor_network: Module | None,
        critic_network: Module | None,
        *,
        delay_actor: bool = False,
        delay_value: bool = False,
        separate_losses: bool = False,
        clip_value: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        if actor_network is None or (critic_network is None and not self._critic_is_optional):
            raise TypeError("actor_network and critic_network must be given.")
        require_policy(actor_network)
        self._keep(**options)
        self.convert_to_functional(actor_network, "actor_network", create_target_params=delay_actor)
        if critic_network is None:
            self._keep(critic_network=None, critic_network_params=None)
        else:
            shared = list(actor_network.parameters()) if separate_losses else None
            self.convert_to_functional(
                critic_network, "critic_network", create_target_params=delay_value, compare_against=shared
            )
        self.register_coeff_buffer("clip_value", clip_value)
        self.set_keys(**policy_keys(actor_network))

    def _set_in_keys(self) -> None:
        critic = [] if self.critic_network is None else [self.critic_network]
        others = [getattr(self.tensor_keys, name) for name in self._read_keys]
        self._list_in_keys((self.actor_network, "next"), *critic, others=[*others, *self._signal_keys()])

    def _estimator_keys(self) -> dict[str, Any]:
        keys, log_prob = super()._estimator_keys(), self.tensor_keys.sample_log_prob
        # Those of several heads no estimator reads: VTrace takes one.
        return keys if isinstance(log_prob, list) else {**keys, "sample_log_prob": log_prob}

    def _advantage(self, td: TensorDictBase) -> Array:
        """The advantage in the batch, or one that is estimated and written to `td`, with its targets."""
        advantage = td.get(self.tensor_keys.advantage, None)
        if advantage is None:
            if self.critic_network is None:
                raise RuntimeError(
                    f"the batch has no {self.tensor_keys.advantage!r}, and the loss no critic."
                )
            params = detached(self.critic_network_params)
            self.value_estimator(td, params=params, target_params=self.target_critic_network_params)
            advantage = td.get(self.tensor_keys.advantage)
            if self.advantage_norm is not None and self.training:
                targets = self._entry(td, self.tensor_keys.value_target)
                update_where(self.advantage_norm, targets, self._masks(td))
        advantage = detached(advantage)
        return advantage if self.advantage_norm is None else advantage / self.advantage_norm.scale()

    def _weighted_log_probs(self, td: TensorDictBase) -> tuple[Array, Distribution]:
        """Log-probs times advantages, (*, 1), and the distribution; estimates are written to `td`."""
        advantage = self._advantage(td)
        with self.actor_network_params.to_module(self.actor_network):
            dist = self.actor_network.get_dist(td)
        with set_composite_lp_aggregate(False):
            log_prob = log_prob_of(dist, td, self.tensor_keys.action, self.__name__)
        log_prob = total(log_prob, advantage.ndim - 1)
        if log_prob.shape == advantage.shape[:-1]:
            log_prob = log_prob[..., None]
        if log_prob.shape[:-1] != advantage.shape[:-1] or advantage.ndim <= td.ndim:
            raise ValueError(
                "an advantage has the shape of the log-probs and a last dimension of 1, got "
                f"{advantage.shape} and log-probs {log_prob.shape}."
            )
        return log_prob * advantage, dist

    def loss_critic(self, tensordict: TensorDictBase) -> tuple[Any, *tuple[Array | None, ...]]:
        """The critic's loss for each element, and the share of values that were clipped.

        Raises:
            KeyError: the targets or, with `clip_value`, the old values are missing.
        """
        return self._critic_loss(tensordict)[:2]

    def _compared(self, target: Array, value: Array, old: Array | None) -> tuple[Array, Array, Array | None]:
        """Targets, values and old values as the critic's loss compares them."""
        return target, value, old

    def _critic_loss(self, tensordict: TensorDictBase) -> tuple[Array, Array | None, Array, Array]:
        """The loss for each element, the share that was clipped, the values, and their targets."""
        keys = self.tensor_keys
        target = detached(self._entry(tensordict, keys.value_target))
        old = None if self.clip_value is None else detached(self._entry(tensordict, keys.value))
        td = tensordict.select(*self.critic_network.in_keys, strict=False)
        with self.critic_network_params.to_module(self.critic_network):
            value = self._entry(self.critic_network(td), keys.value)
        target, value, old = self._compared(target, value, old)
        loss, kind = distance_loss(target, value, self.loss_critic_type), self.loss_critic_type
        if old is None:
            return loss, None, value, target
        loss, fraction = clipped_value_loss(old, value, self._number("clip_value"), target, loss, kind)
        return loss, detached(fraction), value, target


class A2CLoss(ActorCriticLoss):
    """The negative log-prob of actions times their advantage, values of states, and an entropy bonus.

    Reads what the networks read, "action", "advantage", (*batch, 1), and "value_target". Without "advantage"
    the loss's estimator (GAE) makes both; then the batch must be a rollout, [*batch, time], with "reward",
    "done" and "terminated" under "next". Nothing is written to the batch. Returns "loss_objective",
    "loss_critic", "loss_entropy", and to log "entropy" and, with `clip_value`, "value_clip_fraction".

    Args:
        actor_network: a policy with `get_dist`; see `PPOLoss`.
        critic_network: gives "state_value", (*batch, 1).
        entropy_bonus: whether there is "loss_entropy".
        samples_mc_entropy: number of samples to estimate an entropy that has no formula.
        entropy_coeff: 0.01 by default; 0 for no "loss_entropy".
        critic_coeff: None for no "loss_critic".
        loss_critic_type, advantage_norm, separate_losses: as for `PPOLoss`.
        reduction, clip_value, generator, actor, critic: as for `PPOLoss`.

    Raises:
        TypeError, ValueError: as for `PPOLoss`.

    Source:
        Mnih et al. (2016), Asynchronous methods for deep reinforcement learning (arXiv:1602.01783);
        torchrl.objectives.A2CLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.distributions import Categorical
        >>> from lite.nn.losses import A2CLoss
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(nn.Linear(4, 3), ["observation"], ["logits"]),
        ...     nn.ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical),
        ... )
        >>> loss = A2CLoss(policy, nn.ValueOperator(nn.Linear(4, 1)))
        >>> ones = np.ones((5, 1), np.float32)
        >>> batch = TensorDict(advantage=ones, value_target=ones, action=np.arange(5) % 3, batch_size=[5])
        >>> batch["observation"] = np.zeros((5, 4), np.float32)
        >>> sorted(loss(batch).keys())
        ['entropy', 'loss_critic', 'loss_entropy', 'loss_objective']
    """

    _schedulable_buffers = frozenset({"entropy_coeff", "critic_coeff", "clip_value"})

    def __init__(
        self,
        actor_network: Module | None = None,
        critic_network: Module | None = None,
        *,
        entropy_bonus: bool = True,
        samples_mc_entropy: int = 1,
        entropy_coeff: float | None = None,
        critic_coeff: float | None = 1.0,
        loss_critic_type: str = "smooth_l1",
        advantage_norm: ValueNorm | None = None,
        separate_losses: bool = False,
        reduction: str | None = None,
        clip_value: float | None = None,
        generator: Rng = None,
        actor: Module | None = None,
        critic: Module | None = None,
    ) -> None:
        super().__init__(
            actor_network if actor is None else actor,
            critic_network if critic is None else critic,
            loss_critic_type=loss_critic_type,
            reduction=reduction,
            clip_value=clip_value,
            advantage_norm=advantage_norm,
            separate_losses=separate_losses,
        )
        entropy_coeff = 0.01 if entropy_coeff is None else entropy_coeff
        bonus = bool(entropy_bonus and entropy_coeff)
        self._keep(_generator=generator, samples_mc_entropy=samples_mc_entropy, entropy_bonus=bonus)
        self.register_coeff_buffer("entropy_coeff", entropy_coeff)
        self.register_coeff_buffer("critic_coeff", critic_coeff)
        of_critic = [] if critic_coeff is None else ["loss_critic"]
        self.out_keys = ["loss_objective", *of_critic, *(["entropy", "loss_entropy"] if bonus else [])]

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch; arguments and errors are those of `PPOLoss.forward`."""
        td = self._batch(tensordict)
        gain, dist = self._weighted_log_probs(td)
        out = TensorDict(loss_objective=squeezed(self._reduce_loss(-gain, td)))
        if self.entropy_bonus:
            with set_composite_lp_aggregate(False):
                entropy = entropy_of(dist, self.samples_mc_entropy, self._generator)
            if isinstance(entropy, TensorCollection):
                entropy = total(entropy, gain.ndim - 1)
            entropy = entropy[..., None]
            out.set("entropy", detached(entropy).mean())
            out.set("loss_entropy", squeezed(self._reduce_loss(-self._number("entropy_coeff") * entropy, td)))
        if self.critic_coeff is not None:
            loss, fraction, *_ = self._critic_loss(td)
            out.set("loss_critic", squeezed(self._reduce_loss(self._number("critic_coeff") * loss, td)))
            if fraction is not None:
                out.set("value_clip_fraction", fraction)
        return out


class ReinforceLoss(ActorCriticLoss):
    """The negative log-prob of actions times their advantage, and the values of states.

    Reads what `A2CLoss` reads, and returns "loss_actor", "loss_value", and to log, with `clip_value`,
    "value_clip_fraction".

    Args:
        actor_network: a policy with `get_dist`; see `PPOLoss`.
        critic_network: gives "state_value", (*batch, 1).
        delay_value: estimate next values by a copy of the critic, which `SoftUpdate` or `HardUpdate` moves.
        loss_critic_type, separate_losses, reduction, clip_value, actor, critic: as for `PPOLoss`.

    Raises:
        TypeError, ValueError: as for `PPOLoss`.

    Source:
        Williams (1992), Simple statistical gradient-following algorithms for connectionist reinforcement
        learning; torchrl.objectives.ReinforceLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.distributions import Categorical
        >>> from lite.nn.losses import ReinforceLoss
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(nn.Linear(4, 3), ["observation"], ["logits"]),
        ...     nn.ProbabilisticTensorDictModule(["logits"], ["action"], distribution_class=Categorical),
        ... )
        >>> loss = ReinforceLoss(policy, nn.ValueOperator(nn.Linear(4, 1)))
        >>> observation, following = np.zeros((2, 5, 4), np.float32)
        >>> actor, value = loss(
        ...     observation=observation,
        ...     action=np.arange(5) % 3,
        ...     next_observation=following,
        ...     next_reward=np.ones((5, 1), np.float32),
        ...     next_done=np.zeros((5, 1), bool),
        ...     next_terminated=np.zeros((5, 1), bool),
        ... )
        >>> actor.shape, value.shape
        ((), ())
    """

    _schedulable_buffers = frozenset({"clip_value"})

    def __init__(
        self,
        actor_network: Module | None = None,
        critic_network: Module | None = None,
        *,
        delay_value: bool = False,
        loss_critic_type: str = "smooth_l1",
        separate_losses: bool = False,
        reduction: str | None = None,
        clip_value: float | None = None,
        actor: Module | None = None,
        critic: Module | None = None,
    ) -> None:
        super().__init__(
            actor_network if actor is None else actor,
            critic_network if critic is None else critic,
            loss_critic_type=loss_critic_type,
            reduction=reduction,
            clip_value=clip_value,
            delay_value=delay_value,
            separate_losses=separate_losses,
        )
        self._keep(delay_value=delay_value, advantage_norm=None)
        self.out_keys = ["loss_actor", "loss_value"]

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch; arguments and errors are those of `PPOLoss.forward`."""
        td = self._batch(tensordict)
        gain, _ = self._weighted_log_probs(td)
        loss, fraction, *_ = self._critic_loss(td)
        out = TensorDict(
            loss_actor=squeezed(self._reduce_loss(-gain, td)),
            loss_value=squeezed(self._reduce_loss(loss, td)),
        )
        if fraction is not None:
            out.set("value_clip_fraction", fraction)
        return out


belong_to("lite.nn.losses", A2CLoss, ReinforceLoss)
