"""KLPENPPOLoss: PPO with a penalty for leaving the policy that acted."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.module import Module
from lite.nn.distributions.distribution import Distribution
from lite.nn.distributions.kl import kl_divergence
from lite.nn.distributions.log_prob_names import set_composite_lp_aggregate
from lite.nn.losses.policies import drawn, total
from lite.nn.losses.ppo import PPOLoss
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.entries import detached


class KLPENPPOLoss(PPOLoss):
    """`PPOLoss` less the divergence from the policy that acted, times a coefficient that adapts.

    Reads also the parameters of the distribution that acted, such as "loc" and "scale" (unless `delay_actor`
    keeps the policy). Returns also "kl", the divergence of each step. After each call the coefficient `beta`,
    a buffer, is multiplied by `increment` if the mean divergence is beyond 1.5 `dtarg`, by `decrement` if it
    is below `dtarg` / 1.5.

    Args:
        dtarg: the divergence that is aimed at.
        beta: where the coefficient starts.
        increment: at least 1.
        decrement: at most 1.
        samples_mc_kl: number of samples to estimate a divergence that has no formula.
        **options: those of `PPOLoss`.

    Raises:
        TypeError, ValueError: as for `PPOLoss`; an `increment` below 1, a `decrement` above 1.

    Source:
        Schulman et al. (2017), section 4; torchrl.objectives.KLPENPPOLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.distributions import Categorical
        >>> from lite.nn.losses import KLPENPPOLoss
        >>> policy = nn.ProbabilisticTensorDictSequential(
        ...     nn.TensorDictModule(nn.Linear(4, 3), ["observation"], ["logits"]),
        ...     nn.ProbabilisticTensorDictModule(
        ...         ["logits"], ["action"], distribution_class=Categorical, return_log_prob=True
        ...     ),
        ... )
        >>> batch = policy(TensorDict(observation=np.zeros((5, 4), np.float32), batch_size=[5]))
        >>> batch["advantage"] = np.ones((5, 1), np.float32)
        >>> loss = KLPENPPOLoss(policy, dtarg=0.1)
        >>> out = loss(batch)
        >>> out["kl"].shape, float(out["kl"].max()), float(loss.beta)
        ((5, 1), 0.0, 0.5)
    """

    _schedulable_buffers = PPOLoss._schedulable_buffers | {"beta"}

    def __init__(
        self,
        actor_network: Module | None = None,
        critic_network: Module | None = None,
        *,
        dtarg: float = 0.01,
        beta: float = 1.0,
        increment: float = 2,
        decrement: float = 0.5,
        samples_mc_kl: int = 1,
        **options: Any,
    ) -> None:
        if increment < 1:
            raise ValueError(f"increment must be at least 1, got {increment}.")
        if decrement > 1:
            raise ValueError(f"decrement must be at most 1, got {decrement}.")
        super().__init__(actor_network, critic_network, **options)
        self.dtarg = dtarg
        self._beta_init = beta
        self.register_coeff_buffer("beta", beta)
        self.increment = increment
        self.decrement = decrement
        self.samples_mc_kl = samples_mc_kl

    def _list_out_keys(self) -> list[NestedKey]:
        first, *others = super()._list_out_keys()
        return [first, "kl", *others]

    def _set_in_keys(self) -> None:
        super()._set_in_keys()
        known = getattr(self.actor_network, "dist_params_keys", [])
        self.in_keys = list(dict.fromkeys([*self.in_keys, *known]))

    def reset(self) -> None:
        """Reset the coefficient."""
        self.beta[...] = self._beta_init

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The losses of a batch; see `PPOLoss.forward`."""
        td = self._batch(tensordict)
        before = self._distribution_before(td)
        advantage, log_weight, dist, kl_approx, log_is_weight = self._log_weight(td)
        if log_is_weight is not None:
            log_weight = log_weight + log_is_weight
        kl = self._divergence(before, dist, advantage.ndim - 1)[..., None]
        gain = np.exp(log_weight) * advantage - self._number("beta") * kl
        known = detached(kl)
        out = TensorDict(loss_objective=-gain, kl=known, kl_approx=kl_approx)
        out = self._with_entropy_and_critic(out, dist, advantage, td)
        mean = known.mean()
        above, below = mean > self.dtarg * 1.5, mean < self.dtarg / 1.5
        self.beta[...] = self.beta * np.where(above, self.increment, np.where(below, self.decrement, 1.0))
        return out

    def _distribution_before(self, td: TensorDictBase) -> Distribution:
        if self.delay_actor:
            with self.target_actor_network_params.to_module(self.actor_network):
                return self.actor_network.get_dist(td.copy())
        try:
            return self.actor_network.build_dist_from_params(td)
        except (KeyError, TypeError) as err:
            raise KeyError(
                "the batch lacks the parameters of the distribution that acted (KLPENPPOLoss)."
            ) from err

    def _divergence(self, before: Distribution, now: Distribution, dims: int) -> Array:
        try:
            return kl_divergence(before, now)
        except NotImplementedError:
            pass
        with set_composite_lp_aggregate(False):
            values, earlier = drawn(before, (self.samples_mc_kl,), self._generator)
            later = now.log_prob(detached(values))
        return (detached(total(earlier, dims + 1)) - total(later, dims + 1)).mean(0)


belong_to("lite.nn.losses", KLPENPPOLoss)
