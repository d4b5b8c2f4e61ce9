"""PPO: a policy that stays near the one that acted, and the values of its states.

PPOLoss, ClipPPOLoss, and of several agents MAPPOLoss and IPPOLoss.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, unravel_key
from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._arrays.types import Array, is_interpreted, is_symbolic
from lite._tree.collection import TensorCollection
from lite._tree.keys import require_path
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.distributions.distribution import Distribution
from lite.nn.losses.a2c import ActorCriticLoss
from lite.nn.losses.estimators import ValueEstimators
from lite.nn.losses.policies import entries, entropy_of, log_prob_of, total
from lite.nn.losses.reduction import squeezed
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.base import as_number
from lite.nn.values.entries import detached
from lite.nn.values.value_norm import ValueNorm


class PPOLoss(ActorCriticLoss):
    """The advantage of actions, weighted by how much likelier the policy takes them than the one that acted.

    Reads what the policy and the critic read, "action", its log-prob "action_log_prob" under the policy
    that acted, "advantage", (*batch, 1), and "value_target". Without "advantage" the loss's estimator (GAE)
    makes both from a rollout, [*batch, time], with "reward", "done" and "terminated" under "next".

    Returns "loss_objective"; "loss_critic", the distance of values from their targets; "loss_entropy", the
    negative entropy times its coefficient; and to log "entropy", "kl_approx", "explained_variance", and
    "value_clip_fraction" with `clip_value`. `ClipPPOLoss` is what is usually meant by PPO.

    Args:
        actor_network: a policy with `get_dist`. Where its distribution is composite, "action" and
            "action_log_prob" are lists, the keys of its parts, whose log-probs are added.
        critic_network: gives "state_value", (*batch, 1); None with `critic_coeff` None for no critic.
        entropy_bonus: whether there is "loss_entropy".
        samples_mc_entropy: number of samples to estimate an entropy that has no formula.
        entropy_coeff: a number, 0.01 by default; for a composite distribution also a dict of one for each
            part, whose keys are those of its log-probs.
        log_explained_variance: whether there is "explained_variance".
        critic_coeff: 1 by default.
        loss_critic_type: "l2", "l1" or "smooth_l1"; see `distance_loss`.
        normalize_advantage: give the advantages of the batch mean 0 and deviation 1, but separately along
            `normalize_advantage_exclude_dims`, such as agents.
        advantage_norm: a `ValueNorm`, such as `lite.nn.PercentileValueNorm`, whose scale divides advantages.
            The loss updates it with returns that it estimates in training mode.
        separate_losses: parameters that policy and critic share do not learn from "loss_critic".
        reduction: "mean", "sum" or "none".
        clip_value: how far a value may go from the "state_value" in the batch.
        delay_actor: keep a copy of the policy, the proximal one of the ratios.
        max_importance_ratio: a limit of the weight.
        generator: seed or `numpy.random.Generator` for sampled entropies.
        actor, critic: TorchRL's other names of `actor_network` and `critic_network`.

    Raises:
        TypeError: networks are missing, or the policy has no `get_dist`.
        ValueError: options that exclude each other, unknown names, or numbers out of range.

    Source:
        Schulman et al. (2017), Proximal policy optimization algorithms (arXiv:1707.06347);
        torchrl.objectives.PPOLoss.
    """

    _critic_is_optional = True
    _read_keys = ("action", "sample_log_prob")
    _schedulable_buffers = frozenset({"entropy_coeff", "critic_coeff", "clip_value", "max_importance_ratio"})

    def __init__(
        self,
        actor_network: Module | None = None,
        critic_network: Module | None = None,
        *,
        entropy_bonus: bool = True,
        samples_mc_entropy: int = 1,
        entropy_coeff: float | Mapping[NestedKey, float] | None = None,
        log_explained_variance: bool = True,
        critic_coeff: float | None = None,
        loss_critic_type: str = "smooth_l1",
        normalize_advantage: bool = False,
        normalize_advantage_exclude_dims: tuple[int, ...] = (),
        advantage_norm: ValueNorm | None = None,
        separate_losses: bool = False,
        reduction: str | None = None,
        clip_value: float | None = None,
        delay_actor: bool = False,
        max_importance_ratio: float | None = None,
        generator: Rng = None,
        actor: Module | None = None,
        critic: Module | None = None,
    ) -> None:
        actor_network = actor_network if actor is None else actor
        critic_network = critic_network if critic is None else critic
        if actor_network is None or (critic_network is None and critic_coeff):
            raise TypeError("actor_network and, unless critic_coeff is None, critic_network must be given.")
        if advantage_norm is not None and normalize_advantage:
            raise ValueError("normalize_advantage=True and an advantage_norm exclude each other.")
        if max_importance_ratio is not None and max_importance_ratio <= 0:
            raise ValueError(f"max_importance_ratio must be positive, got {max_importance_ratio}.")
        super().__init__(
            actor_network,
            critic_network,
            loss_critic_type=loss_critic_type,
            reduction=reduction,
            clip_value=clip_value,
            advantage_norm=advantage_norm,
            separate_losses=separate_losses,
            delay_actor=delay_actor,
        )
        self._keep(_generator=generator, delay_actor=delay_actor, separate_losses=separate_losses)
        self._keep(log_explained_variance=log_explained_variance, normalize_advantage=normalize_advantage)
        self._keep(samples_mc_entropy=samples_mc_entropy, entropy_bonus=entropy_bonus)
        self.normalize_advantage_exclude_dims = tuple(normalize_advantage_exclude_dims)
        self._entropy_coeff_map: dict[NestedKey, float] | None = None
        if isinstance(entropy_coeff, Mapping):
            self._entropy_coeff_map = {unravel_key(k): float(v) for k, v in entropy_coeff.items()}
            entropy_coeff = 0.0
        self.register_coeff_buffer("entropy_coeff", 0.01 if entropy_coeff is None else entropy_coeff)
        absent = critic_network is None or critic_coeff == 0
        coeff = None if absent else 1.0 if critic_coeff is None else critic_coeff
        self.register_coeff_buffer("critic_coeff", coeff)
        self.register_coeff_buffer("max_importance_ratio", max_importance_ratio)
        self.out_keys = self._list_out_keys()

    @property
    def _has_critic(self) -> bool:
        if self.critic_coeff is None:
            return False
        coeff = self._number("critic_coeff")
        return is_interpreted(coeff) or coeff > 0

    def _list_out_keys(self) -> list[NestedKey]:
        keys: list[NestedKey] = ["loss_objective"]
        if self.entropy_bonus:
            keys += ["entropy", "loss_entropy"]
        if self._has_critic:
            keys.append("loss_critic")
        if self.clip_value is not None:
            keys.append("value_clip_fraction")
        return keys

    # -- the loss ------------------------------------------------------------------------------------------

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch.

        Args:
            tensordict: the batch. Its entries may also be given as keywords; then the values of
                `out_keys` are returned.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: values and targets of different shapes.
            ValueError: an advantage and a log-prob that would broadcast, or a loss that is NaN.
        """
        td = self._batch(tensordict)
        advantage, log_weight, dist, kl_approx, log_is_weight = self._log_weight(td)
        if log_is_weight is not None:
            log_weight = log_weight + log_is_weight
        out = TensorDict(loss_objective=-np.exp(log_weight) * advantage, kl_approx=kl_approx)
        return self._with_entropy_and_critic(out, dist, advantage, td)

    def _advantage(self, td: TensorDictBase) -> Array:
        advantage = super()._advantage(td)
        if self.normalize_advantage and advantage.size > 1:
            exclude = self.normalize_advantage_exclude_dims
            if advantage.size > math.prod(td.batch_size) and not exclude:
                warn(
                    "normalize_advantage takes one mean over all dimensions of the advantage, which has more "
                    "than the batch; normalize_advantage_exclude_dims keeps agents or objectives apart.",
                )
            return _normalized(advantage, exclude, td.get("shifted_valid", None))
        return advantage

    def _current_log_prob(self, td: TensorDictBase, params: Any) -> tuple[Any, Distribution]:
        with params.to_module(self.actor_network):
            dist = self.actor_network.get_dist(td)
        return log_prob_of(dist, td, self.tensor_keys.action, self.__name__), dist

    def _log_weight(self, td: TensorDictBase) -> tuple[Array, Array, Distribution, Array, Array | None]:
        """The advantage, log-ratios to the proximal policy (*, 1), the distribution, an estimate of the
        divergence, and the log-weights of the proximal policy, if it is not the one that acted.
        """
        advantage = self._advantage(td)
        keys, dims = self.tensor_keys, advantage.ndim - 1
        acted = detached(total(entries(td, keys.sample_log_prob, self.__name__), dims))
        log_prob, dist = self._current_log_prob(td, self.actor_network_params)
        log_prob = total(log_prob, dims)
        if log_prob.shape != acted.shape:
            raise ValueError(
                f"log-probs of the batch must have the shape {log_prob.shape}, got {acted.shape}."
            )
        proximal, log_is_weight = acted, None
        if self.delay_actor:
            params = self.target_actor_network_params
            proximal = detached(total(self._current_log_prob(td.copy(), params)[0], dims))
            log_is_weight = (proximal - acted)[..., None]
        log_weight = (log_prob - proximal)[..., None]
        kl_approx = detached(proximal - log_prob).mean()
        if self.max_importance_ratio is not None:
            most = self._number("max_importance_ratio")
            limit = (np.log(most) if is_interpreted(most) else math.log(most)) - detached(log_weight)
            log_is_weight = np.minimum(0.0 if log_is_weight is None else log_is_weight, limit)
        return fitting(advantage, log_weight), log_weight, dist, kl_approx, log_is_weight

    def _with_entropy_and_critic(
        self, out: TensorDict, dist: Distribution, advantage: Array, td: TensorDictBase
    ) -> TensorDict:
        """The other losses, and all of them reduced."""
        if self.entropy_bonus:
            entropy = entropy_of(dist, self.samples_mc_entropy, self._generator)
            if isinstance(entropy, TensorCollection):
                parts: Any = entropy
                parts.batch_size = advantage.shape[:-1]
                parts = parts.unsqueeze(-1)
                out.set("composite_entropy", detached(parts))
                out.set("entropy", detached(total(parts, advantage.ndim)).mean())
                out.set("loss_entropy", self._weighted(parts, advantage.ndim))
            else:
                entropy = entropy[..., None]
                out.set("entropy", detached(entropy).mean())
                out.set("loss_entropy", -self._number("entropy_coeff") * entropy)
        if self._has_critic:
            names = ("loss_critic", "value_clip_fraction", "explained_variance")
            for key, value in zip(names, self.loss_critic(td), strict=True):
                if value is not None:
                    out.set(key, value)
        for key in list(out.keys()):
            if str(key).startswith("loss_"):
                out.set(key, squeezed(self._reduce_loss(out.get(key), td)))
        return out

    def _weighted(self, parts: Any, dims: int) -> Array:
        """Entropies of the parts of a composite distribution, each times its coefficient."""
        if self._entropy_coeff_map is None:
            return -self._number("entropy_coeff") * total(parts, dims)
        terms = []
        for key, entropy in parts.items(True, True):
            path = require_path(key)
            name = path[-1].removesuffix("_entropy")
            named = [unravel_key((*path[:-1], f"{name}{end}")) for end in ("_log_prob", "_entropy", "")]
            found = [self._entropy_coeff_map[one] for one in named if one in self._entropy_coeff_map]
            if not found:
                raise KeyError(f"entropy_coeff has no number for {named[0]!r}.")
            terms.append(-found[0] * entropy)
        return sum(terms[1:], start=terms[0])

    def loss_critic(self, tensordict: TensorDictBase) -> tuple[Any, *tuple[Array | None, ...]]:
        """The critic's loss for each element, the share of values that were clipped, the variance explained.

        Raises:
            KeyError: the targets or, with `clip_value`, the old values are missing.
        """
        loss, fraction, value, target = self._critic_loss(tensordict)
        explained = None
        if self.log_explained_variance:
            residual = np.var(target - detached(value), axis=0)
            explained = 1.0 - residual / (np.var(target, axis=0) + np.finfo(target.dtype).eps)
        if self._has_critic:
            loss = self._number("critic_coeff") * loss
        return loss, fraction, explained


class ClipPPOLoss(PPOLoss):
    """`PPOLoss` that gains nothing from ratios beyond a limit.

    Returns also "clip_fraction", the share of ratios beyond it; "ESS", the effective sample size as a share
    of the batch; "max_ratio" and "mean_ratio".

    Args:
        clip_epsilon: ratios count between 1 - clip_epsilon and 1 + clip_epsilon; or a pair, the distances
            below and above.
        clip_value: as for `PPOLoss`; True takes `clip_epsilon`.
        **options: those of `PPOLoss`.

    Raises:
        TypeError, ValueError: as for `PPOLoss`.

    Source:
        As `PPOLoss`; torchrl.objectives.ClipPPOLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.data import GAE
        >>> from lite.nn.distributions import Categorical
        >>> from lite.nn.losses import ClipPPOLoss
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(nn.MLP(4, 3, num_cells=[8]), ["observation"], ["logits"]),
        ...     nn.ProbabilisticTensorDictModule(
        ...         ["logits"], ["action"], distribution_class=Categorical, return_log_prob=True
        ...     ),
        ... )
        >>> critic = nn.ValueOperator(nn.MLP(4, 1, num_cells=[8]))
        >>> loss = ClipPPOLoss(policy, critic, entropy_coeff=0.01)
        >>> state, flag = np.zeros((2, 5, 4), np.float32), np.zeros((2, 5, 1), bool)
        >>> after = {"observation": state, "reward": np.ones((2, 5, 1), np.float32), "done": flag}
        >>> after["terminated"] = flag
        >>> rollout = TensorDict({"observation": state, "next": after}, batch_size=[2, 5])
        >>> rollout = GAE(gamma=0.99, lmbda=0.95, value_network=critic)(policy(rollout))
        >>> losses = loss(rollout.reshape(-1))
        >>> [key for key in losses.keys() if key.startswith("loss")], float(losses["clip_fraction"])
        (['loss_objective', 'loss_entropy', 'loss_critic'], 0.0)
    """

    _limits = ("clip_epsilon", "clip_epsilon_low", "clip_epsilon_high")
    _schedulable_buffers = PPOLoss._schedulable_buffers | set(_limits)

    def __init__(
        self,
        actor_network: Module | None = None,
        critic_network: Module | None = None,
        *,
        clip_epsilon: float | tuple[float, float] = 0.2,
        clip_value: bool | float | None = None,
        **options: Any,
    ) -> None:
        low, high = clip_bounds(clip_epsilon)
        if isinstance(clip_value, bool):
            if clip_value and isinstance(clip_epsilon, tuple | list):
                raise ValueError(f"clip_value=True needs one clip_epsilon, got {clip_epsilon}.")
            clip_value = low if clip_value else None
        super().__init__(actor_network, critic_network, clip_value=clip_value, **options)
        pair = isinstance(clip_epsilon, tuple | list)
        self._clips = ("clip_epsilon_low", "clip_epsilon_high") if pair else ("clip_epsilon",) * 2
        for name, limit in zip(self._clips, (low, high), strict=True):
            self.register_coeff_buffer(name, limit)

    def __setattr__(self, name: str, value: Any) -> None:
        buffers = self.__dict__.get("_buffers") or {}
        mine = [own for own in buffers if own.startswith("clip_epsilon")]
        if name.startswith("clip_epsilon") and mine and name not in buffers:
            raise AttributeError(f"this loss has {' and '.join(mine)}, which can be set; it has no {name}.")
        super().__setattr__(name, value)

    @property
    def _clip_bounds(self) -> tuple[Any, Any]:  # under TorchRL's name, as losses derived from this one use it
        return log_bounds(*map(self._number, self._clips))

    def _list_out_keys(self) -> list[NestedKey]:
        first, *others = super()._list_out_keys()
        return [first, "clip_fraction", *others, "ESS", "kl_approx", "max_ratio", "mean_ratio"]

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch; see `PPOLoss.forward`."""
        td = self._batch(tensordict)
        advantage, log_weight, dist, kl_approx, log_is_weight = self._log_weight(td)
        behaviour = log_weight if log_is_weight is None else log_weight + log_is_weight
        clipped = np.clip(log_weight, *self._clip_bounds)
        fraction = (detached(clipped) != detached(log_weight)).astype(log_weight.dtype).mean()
        if log_is_weight is not None:
            clipped = clipped + log_is_weight
        gain = np.minimum(np.exp(behaviour) * advantage, np.exp(clipped) * advantage)
        out = TensorDict(loss_objective=-gain, clip_fraction=fraction, kl_approx=kl_approx)
        out = self._with_entropy_and_critic(out, dist, advantage, td)
        weights = detached(behaviour)
        out.set("ESS", effective_sample_size(weights[..., 0]) / weights.shape[0])
        ratio = np.exp(weights)
        out.set("max_ratio", ratio.max())
        out.set("mean_ratio", ratio.mean())
        return out


class MAPPOLoss(ClipPPOLoss):
    """`ClipPPOLoss` of a team: each agent has a policy, and one critic sees all of them.

    Observations, actions and values have a dimension of agents, [*batch, time, agents, ...], under keys that
    `set_keys` names, such as ("agents", "action"); reward and done may be the team's, [*batch, time, 1], as
    the default estimator is `MultiAgentGAE`.

    Args:
        actor_network: a policy with `get_dist`, of each agent's observations.
        critic_network: gives values, (*batch, agents, 1), of all observations or of a state.
        value_norm: a `ValueNorm`, such as `lite.nn.PopArtValueNorm`: the critic's loss compares values and
            targets that it has normalised, and updates it with the targets.
        entropy_coeff: as for `PPOLoss`.
        normalize_advantage: as for `PPOLoss`, but True by default.
        normalize_advantage_exclude_dims: as for `PPOLoss`, but the dimension of agents by default.
        **options: those of `ClipPPOLoss`.

    Raises:
        TypeError, ValueError: as for `PPOLoss`.

    Source:
        Yu et al. (2022), The surprising effectiveness of PPO in cooperative multi-agent games
        (arXiv:2103.01955); torchrl.objectives.MAPPOLoss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.distributions import Categorical
        >>> from lite.nn.losses import MAPPOLoss
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(nn.Linear(4, 3), [("agents", "observation")], [("agents", "logits")]),
        ...     nn.ProbabilisticTensorDictModule(
        ...         [("agents", "logits")], [("agents", "action")], distribution_class=Categorical
        ...     ),
        ... )
        >>> key = ("agents", "observation")
        >>> critic = nn.TensorDictModule(nn.Linear(4, 1), [key], [("agents", "state_value")])
        >>> loss = MAPPOLoss(policy, critic, value_norm=nn.PopArtValueNorm(shape=1))
        >>> loss.set_keys(value=("agents", "state_value"))
        >>> loss.normalize_advantage_exclude_dims
        (-2,)
    """

    default_value_estimator = ValueEstimators.MAGAE

    def __init__(
        self,
        actor_network: Module | None = None,
        critic_network: Module | None = None,
        *,
        value_norm: ValueNorm | None = None,
        entropy_coeff: float | Mapping[NestedKey, float] | None = 0.01,
        normalize_advantage: bool = True,
        normalize_advantage_exclude_dims: tuple[int, ...] = (-2,),
        **options: Any,
    ) -> None:
        super().__init__(
            actor_network,
            critic_network,
            entropy_coeff=entropy_coeff,
            normalize_advantage=normalize_advantage,
            normalize_advantage_exclude_dims=normalize_advantage_exclude_dims,
            **options,
        )
        self.value_norm = value_norm

    def _compared(self, target: Array, value: Array, old: Array | None) -> tuple[Array, Array, Array | None]:
        norm = self.value_norm
        if norm is None:
            return target, value, old
        norm.update(target)
        return norm.normalize(target), norm.normalize(value), None if old is None else norm.normalize(old)


class IPPOLoss(MAPPOLoss):
    """`MAPPOLoss` whose critic gives each agent a value of its own observations alone.

    Args:
        actor_network, critic_network, value_norm, entropy_coeff, normalize_advantage,
            normalize_advantage_exclude_dims, **options: as for `MAPPOLoss`.

    Source:
        De Witt et al. (2020), Is independent learning all you need in the StarCraft multi-agent challenge?
        (arXiv:2011.09533); torchrl.objectives.IPPOLoss.
    """


def clip_bounds(clip_epsilon: Any) -> tuple[float, float]:
    """The distances below and above 1 at which ratios are clipped.

    Raises:
        ValueError: no pair of numbers, a negative one, or a lower one of 1 or more.
    """
    pair = clip_epsilon if isinstance(clip_epsilon, tuple | list) else (clip_epsilon, clip_epsilon)
    if len(pair) != 2:
        raise ValueError(f"clip_epsilon must be a number or two, got {clip_epsilon!r}.")
    low, high = (bound if is_symbolic(bound) else float(bound) for bound in pair)
    if is_symbolic(low) or is_symbolic(high):
        return low, high
    if not (0 <= low < 1 and high >= 0):
        raise ValueError(f"clip_epsilon must not be negative, and below 1 downwards, got {clip_epsilon!r}.")
    return low, high


def log_bounds(low: Any, high: Any) -> tuple[Any, Any]:
    """The limits of log-ratios."""
    if type(low) is type(high) is float:
        return math.log1p(-low), math.log1p(high)
    return as_number(np.log1p(-low)), as_number(np.log1p(high))


def effective_sample_size(log_weights: Array) -> Array:
    """Kish's effective sample size, sum(w)**2 / sum(w**2), along the first dimension."""
    top = log_weights.max(0)
    weights = np.exp(log_weights - top)
    total_weight = weights.sum(0)
    return total_weight * total_weight / (weights * weights).sum(0)


def fitting(advantage: Array, log_weight: Array) -> Array:
    """The advantage as it multiplies the ratios: of their shape, or one for all actions of a step.

    Raises:
        ValueError: it would multiply every ratio with every advantage.
    """
    ratios, shape = log_weight.shape, advantage.shape
    if shape == ratios:
        return advantage
    batch = shape[:-1]
    if shape[-1:] == (1,) and len(ratios) > len(shape) >= 2 and ratios[: len(batch)] == batch:
        return advantage.reshape(*batch, *(1,) * (len(ratios) - len(shape)), 1)
    if len(shape) == len(ratios) and shape[:-1] == ratios[:-1]:  # several objectives
        return advantage
    raise ValueError(
        f"the advantage has the shape {shape}, the log-ratios {ratios}: samples would be multiplied with "
        "each other. An advantage has the shape of the log-probs and a last dimension of 1."
    )


def _normalized(advantage: Array, exclude_dims: tuple[int, ...], valid: Array | None) -> Array:
    """Advantages with mean 0 and deviation 1 along all dimensions but some."""
    exclude = {dim % advantage.ndim for dim in exclude_dims}
    axes = tuple(dim for dim in range(advantage.ndim) if dim not in exclude)
    if not axes:
        return advantage
    if valid is None:
        count = math.prod(advantage.shape[axis] for axis in axes)
        deviation = advantage.std(axis=axes, keepdims=True, ddof=1 if count > 1 else 0)
        return (advantage - advantage.mean(axis=axes, keepdims=True)) / np.maximum(deviation, 1e-6)
    valid = np.broadcast_to(
        valid.reshape(valid.shape + (1,) * (advantage.ndim - valid.ndim)), advantage.shape
    )
    count = np.maximum(valid.sum(axis=axes, keepdims=True), 1)
    mean = np.where(valid, advantage, 0).sum(axis=axes, keepdims=True) / count
    squares = np.where(valid, advantage - mean, 0) ** 2
    deviation = np.sqrt(squares.sum(axis=axes, keepdims=True) / count)
    return ((advantage - mean) / np.maximum(deviation, 1e-4)).astype(advantage.dtype)


belong_to("lite.nn.losses", ClipPPOLoss, IPPOLoss, MAPPOLoss, PPOLoss)
