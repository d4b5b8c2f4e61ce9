"""TD3BCLoss: TD3 whose policy stays near the actions of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lite import TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.losses.ddpg import TD3Loss
from lite.nn.values.entries import detached


class TD3BCLoss(TD3Loss):
    """`TD3Loss` whose policy also stays near the actions in the batch, by the squared distance from them.

    Reads and writes what `TD3Loss` does. Returns "loss_actor", "loss_qvalue", and to log "bc_loss", the mean
    squared distance; "lmbd", the weight of values; "state_action_value_actor", (*batch), of the first
    critic; "pred_value", (critics, *batch), "next_state_value" and "target_value", (*batch).

    Args:
        actor_network, qvalue_network, action_spec, bounds, num_qvalue_nets, policy_noise, noise_clip: as for
            `TD3Loss`.
        alpha: values are weighted by `alpha` over their mean size; 0 is behaviour cloning.
        loss_function, delay_actor, delay_qvalue, separate_losses, reduction, deactivate_vmap,
            use_prioritized_weights, generator: as for `TD3Loss`.

    Raises:
        ValueError: as for `TD3Loss`.

    Source:
        Fujimoto and Gu (2021), A minimalist approach to offline reinforcement learning (arXiv:2106.06860);
        torchrl.objectives.TD3BCLoss.

    Example:
        >>> from lite import nn
        >>> from lite.nn.losses import SoftUpdate, TD3BCLoss
        >>> actor = nn.TensorDictModule(nn.MLP(4, 2, num_cells=[8]), ["observation"], ["action"])
        >>> critic = nn.ValueOperator(nn.MLP(6, 1, num_cells=[8]), in_keys=["observation", "action"])
        >>> loss = TD3BCLoss(actor, critic, bounds=(-1.0, 1.0), generator=0)
        >>> target = SoftUpdate(loss, tau=0.005)
        >>> loss.out_keys[:4]
        ['loss_actor', 'loss_qvalue', 'bc_loss', 'lmbd']
    """

    def __init__(
        self,
        actor_network: Module,
        qvalue_network: Module | Sequence[Module],
        *,
        action_spec: Any = None,
        bounds: tuple[Any, Any] | None = None,
        num_qvalue_nets: int = 2,
        policy_noise: float = 0.2,
        noise_clip: float = 0.5,
        alpha: float = 2.5,
        loss_function: str = "smooth_l1",
        delay_actor: bool = True,
        delay_qvalue: bool = True,
        separate_losses: bool = False,
        reduction: str | None = None,
        deactivate_vmap: bool = False,
        use_prioritized_weights: str | bool = "auto",
        generator: Rng = None,
    ) -> None:
        super().__init__(
            actor_network,
            qvalue_network,
            action_spec=action_spec,
            bounds=bounds,
            num_qvalue_nets=num_qvalue_nets,
            policy_noise=policy_noise,
            noise_clip=noise_clip,
            loss_function=loss_function,
            delay_actor=delay_actor,
            delay_qvalue=delay_qvalue,
            separate_losses=separate_losses,
            reduction=reduction,
            deactivate_vmap=deactivate_vmap,
            use_prioritized_weights=use_prioritized_weights,
            generator=generator,
        )
        self.alpha = alpha
        self.out_keys = [*self.out_keys[:2], "bc_loss", "lmbd", *self.out_keys[2:]]

    def actor_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The policy's reduced loss, and values to log."""
        weights = self._maybe_get_priority_weight(tensordict)
        key = self.tensor_keys.action
        td = tensordict.select(*self.actor_network.in_keys, *self.qvalue_network.in_keys, strict=False)
        with self.actor_network_params.to_module(self.actor_network):
            td = self.actor_network(td)
        value = self._values(detached(self.qvalue_network_params), td)[0]
        distance = ((td.get(key) - self._entry(tensordict, key)) ** 2).mean()
        lmbd = self.alpha / np.abs(detached(value)).mean()
        loss = self._reduce_loss(-lmbd * value + distance, tensordict, weights=weights)
        known = {"state_action_value_actor": detached(value), "bc_loss": detached(distance), "lmbd": lmbd}
        return loss, known

    def qvalue_loss(self, tensordict: TensorDictBase) -> tuple[Any, dict[str, Array]]:
        """The critics' reduced loss, and values to log."""
        return self.value_loss(tensordict)


belong_to("lite.nn.losses", TD3BCLoss)
