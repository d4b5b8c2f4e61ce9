"""ReinforceLoss: the log-probs of actions, weighted by what came of them."""

from __future__ import annotations

from typing import Any

from lite import TensorDict, TensorDictBase
from lite.nn._modules.module import Module
from lite.nn.losses.a2c import ActorCriticLoss
from lite.nn.losses.reduction import squeezed
from lite.nn.tensordict_modules.dispatch import dispatch


class ReinforceLoss(ActorCriticLoss):
    """The negative log-prob of actions times their advantage, and the values of states.

    Reads what `A2CLoss` reads, and returns "loss_actor", "loss_value", and to log, with `clip_value`,
    "value_clip_fraction".

    Args:
        actor_network: a policy with `get_dist`; see `PPOLoss`.
        critic_network: gives "state_value", (*batch, 1).
        delay_value: estimate next values by a copy of the critic, which `SoftUpdate` or `HardUpdate` moves.
        loss_critic_type, separate_losses, reduction, clip_value: as for `PPOLoss`.

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
    ) -> None:
        super().__init__(
            actor_network, critic_network, loss_critic_type=loss_critic_type, reduction=reduction,
            clip_value=clip_value, delay_value=delay_value, separate_losses=separate_losses,
        )  # fmt: skip
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
