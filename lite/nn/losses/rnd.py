"""RNDLoss: random network distillation, a measure of how new observations are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict, TensorDictBase, get_default_dtype
from lite._arrays.public import belong_to
from lite.nn._modules.initial import Rng
from lite.nn._modules.module import Module
from lite.nn.distributions.distribution import uniform
from lite.nn.losses.base import LossModule
from lite.nn.tensordict_modules.dispatch import dispatch
from lite.nn.values.entries import detached


@dataclass
class RNDKeys:
    """The key that `RNDLoss` reads."""

    observation: NestedKey = ("next", "observation")


class RNDLoss(LossModule):
    """The squared error of a network that learns what a fixed random network computes of observations.

    Returns "loss_predictor". The error is small for observations like those that it was trained on, so that
    the loss with `reduction="none"` and `update_fraction=1` is a reward for exploration, one per step.
    Observations are cast to the default float dtype.

    Args:
        predictor_network: from observations (*batch, n) to features (*batch, m).
        target_network: the same, with random parameters; they are set to need no gradient.
        obs_rms: an object whose `normalize(observation)` gives what both networks read; None for observations
            as they are.
        obs_clip: normalised observations are clipped to this size.
        reduction: "mean", "sum" or "none".
        update_fraction: the probability that a step counts, drawn in each call; others have no gradient.
        generator: a seed or a `numpy.random.Generator`, for these draws.

    Raises:
        ValueError: another reduction, or an `update_fraction` outside [0, 1].

    Source:
        Burda et al. (2018), Exploration by Random Network Distillation; torchrl.objectives.RNDLoss.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn
        >>> from lite.nn.losses import RNDLoss
        >>> predictor, target = (nn.MLP(3, 8, num_cells=[16], rng=seed) for seed in (0, 1))
        >>> newness = RNDLoss(predictor, target, reduction="none", update_fraction=1.0)
        >>> batch = TensorDict({"next": {"observation": np.ones((5, 3), np.float32)}}, [5])
        >>> newness(batch)["loss_predictor"].shape
        (5,)
    """

    _AcceptedKeys = RNDKeys
    tensor_keys: RNDKeys

    def __init__(
        self,
        predictor_network: Module,
        target_network: Module,
        *,
        obs_rms: Any = None,
        obs_clip: float = 5.0,
        reduction: str = "mean",
        update_fraction: float = 0.25,
        generator: Rng = None,
    ) -> None:
        super().__init__()
        if not 0 <= update_fraction <= 1:
            raise ValueError(f"update_fraction must be from 0 to 1, got {update_fraction}.")
        self._keep(reduction=reduction, _generator=generator)
        self.predictor_network = predictor_network
        self.target_network = target_network.requires_grad_(False)
        self.obs_rms, self.obs_clip, self.update_fraction = obs_rms, obs_clip, update_fraction
        self.out_keys = ["loss_predictor"]
        self._set_in_keys()

    def _set_in_keys(self) -> None:
        self._list_in_keys(others=[self.tensor_keys.observation])

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> Any:
        """The loss of a batch.

        Args:
            tensordict: the batch. The observation may also be given as a keyword; then the loss is returned.

        Raises:
            KeyError: the observation is missing.
            ValueError: a loss that is NaN.
        """
        observation = self._entry(tensordict, self.tensor_keys.observation).astype(get_default_dtype())
        if self.obs_rms is not None:
            observation = np.clip(self.obs_rms.normalize(observation), -self.obs_clip, self.obs_clip)
        error = self.predictor_network(observation) - detached(self.target_network(observation))
        loss, mask = np.mean(error * error, -1), None
        if self.update_fraction < 1:
            mask = uniform(self._generator, loss.shape, loss.dtype) < self.update_fraction
        return TensorDict(loss_predictor=self._reduce_loss(loss, tensordict, mask=mask))


belong_to("lite.nn.losses", RNDLoss)
