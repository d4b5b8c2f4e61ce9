"""BCLoss: behaviour cloning."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.module import Module
from lite.nn.functional import cross_entropy
from lite.nn.losses.base import LossModule
from lite.nn.losses.policies import entries, log_prob_of, total
from lite.nn.losses.reduction import distance_loss, expanded, require_reduction
from lite.nn.tensordict_modules.dispatch import dispatch

_DISTANCES = {"l1": "l1", "l2": "l2", "mse": "l2", "smooth_l1": "smooth_l1"}


@dataclass
class BCKeys:
    """The keys that `BCLoss` reads."""

    action: NestedKey = "action"
    pad_mask: NestedKey | None = None


class BCLoss(LossModule):
    """How far a policy's actions are from those of an expert, "action".

    Returns "loss_bc". Without `loss_function` that is the negative log-prob of the expert's actions, if the
    policy has a distribution; otherwise the cross entropy of scores of classes, if they are integers, else
    the squared error.

    Args:
        actor_network: writes "action", or is a policy with `get_dist`.
        loss_function: "l1", "l2" (or "mse"), "smooth_l1" of predicted and expert's actions; "cross_entropy"
            of predicted scores, (*batch, n), and the expert's ids, (*batch) or (*batch, 1); or a function
            of the two that gives a loss per element.
        reduction: "mean", "sum" or "none".

    The key `pad_mask`, None by default, is that of an entry that is True where a step is padding: it does not
    count, and with the reduction "none" it is left out.

    Raises:
        ValueError: another name of a distance or reduction.

    Source:
        Pomerleau (1988), ALVINN; torchrl.objectives.BCLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.losses import BCLoss
        >>> actor = nn.TensorDictModule(lambda observation: observation * 2, ["observation"], ["action"])
        >>> batch = TensorDict(observation=np.ones((5, 2)), action=np.zeros((5, 2)), batch_size=[5])
        >>> float(BCLoss(actor, loss_function="l2")(batch)["loss_bc"])
        4.0
    """

    _AcceptedKeys = BCKeys
    tensor_keys: BCKeys

    def __init__(
        self,
        actor_network: Module,
        *,
        loss_function: str | Callable[[Any, Any], Any] | None = None,
        reduction: str | None = None,
    ) -> None:
        super().__init__()
        if isinstance(loss_function, str) and loss_function not in (*_DISTANCES, "cross_entropy"):
            names = [*_DISTANCES, "cross_entropy"]
            raise ValueError(f"loss_function must be one of {names} or a function, got {loss_function!r}.")
        self.reduction = require_reduction(reduction)
        self.loss_function = loss_function
        self.convert_to_functional(actor_network, "actor_network")
        self.out_keys = ["loss_bc"]
        self._set_in_keys()

    def _set_in_keys(self) -> None:
        keys = self.tensor_keys
        padding = [] if keys.pad_mask is None else [keys.pad_mask]
        self._list_in_keys(self.actor_network, others=[keys.action, *padding])

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The loss of a batch.

        Args:
            tensordict: the batch. Its entries may also be given as keywords; then the loss is returned.

        Raises:
            KeyError: an entry is missing.
            RuntimeError: the policy writes no "action", shapes that differ, or a mask of single numbers for
                a loss of whole actions.
            ValueError: a loss that is NaN.
        """
        td = self._batch(tensordict)
        expert = entries(td, self.tensor_keys.action, self.__name__)
        with self.actor_network_params.to_module(self.actor_network):
            loss = self._distance(td, expert)
        mask = None
        if self.tensor_keys.pad_mask is not None:
            padding = tensordict.get(self.tensor_keys.pad_mask, None)
            if padding is not None:
                mask = ~padding
                if mask.ndim > loss.ndim:
                    raise RuntimeError(
                        f"pad_mask has the shape {mask.shape}, the loss {loss.shape}: to mask numbers, "
                        "choose a loss_function that has one for each."
                    )
        reduced = self._reduce_loss(loss, tensordict, mask=mask)
        if mask is not None and self.reduction == "none":
            reduced = reduced[expanded(mask, loss)]
        return TensorDict(loss_bc=reduced)

    def _distance(self, td: TensorDictBase, expert: Array) -> Array:
        """The loss of each action, or of each number in it."""
        chosen = self.loss_function
        if chosen is None and hasattr(self.actor_network, "get_dist"):
            dist = self.actor_network.get_dist(td)
            return -total(log_prob_of(dist, td, self.tensor_keys.action, self.__name__), td.ndim)
        key = self.tensor_keys.action
        predicted = self.actor_network(td).get(key)
        if predicted is expert:
            raise RuntimeError(f"the policy must write {key!r}, got {self.actor_network.out_keys}.")
        if chosen is None:
            chosen = "cross_entropy" if expert.dtype.kind in "iu" else "l2"
        if not isinstance(chosen, str):
            return chosen(predicted, expert)
        if chosen == "cross_entropy":
            return _cross_entropy_of_rows(predicted, expert)
        return distance_loss(predicted, expert, _DISTANCES[chosen])


def _cross_entropy_of_rows(scores: Array, ids: Array) -> Array:
    """Minus the log-softmax of the scores in the last dimension, at the ids."""
    ids = ids if ids.ndim == scores.ndim else ids[..., None]
    if ids.shape != (*scores.shape[:-1], 1):
        raise RuntimeError(
            f"ids must be one for each row of scores {scores.shape}, got {ids.shape}; a policy that draws "
            "must have get_dist, as a ProbabilisticTensorDictSequential has."
        )
    of_classes = scores if scores.ndim < 3 else np.moveaxis(scores, -1, 1)
    return cross_entropy(of_classes, ids[..., 0], reduction="none")


belong_to("lite.nn.losses", BCLoss)
