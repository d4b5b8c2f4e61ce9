"""SoftUpdate and HardUpdate: updates of target parameters from the trained ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lite._arrays.caller import warn
from lite._arrays.public import belong_to
from lite._arrays.types import Array, is_symbolic, raw
from lite.nn._modules.parameter import Parameter
from lite.nn.losses.base import LossModule


class TargetNetUpdater:
    """Base class of updates of a loss's target parameters; call `step` after the optimiser's.

    Target parameters start with the values of the trained ones.

    Args:
        loss_module: a loss with target parameters.

    Raises:
        RuntimeError: the loss has no target parameters.
        ValueError: `loss_module` is not a LossModule.

    Source:
        torchrl.objectives.utils.TargetNetUpdater.
    """

    def __init__(self, loss_module: LossModule) -> None:
        if not isinstance(loss_module, LossModule):
            raise ValueError(f"loss_module must be a LossModule, got {type(loss_module).__name__}.")
        self.loss_module = loss_module
        self._names = [
            name.removeprefix("target_")
            for name, _ in loss_module.named_children()
            if name.startswith("target_") and name.endswith("_params")
        ]
        if not self._names:
            raise RuntimeError("the loss has no target parameters; delay_value=True and the like make them.")
        self.initialized = False
        self.init_()
        for name in loss_module._has_update_associated:
            loss_module._has_update_associated[name] = True

    def _pairs(self) -> list[tuple[Any, Any]]:
        """(array of a trained parameter, array of its target) pairs; the latter are written in place."""
        pairs = []
        for name in self._names:
            source = getattr(self.loss_module, name)
            target = getattr(self.loss_module, f"target_{name}")
            for key, leaf in source.items(True, True):
                if isinstance(leaf, Parameter):
                    pairs.append((leaf.data, raw(target.get(key))))
        return pairs

    def init_(self) -> None:
        """Copy the trained parameters and buffers to the targets."""
        if self.initialized:
            warn("the targets were initialised before.")
        for name in self._names:
            target = getattr(self.loss_module, f"target_{name}")
            for key, leaf in getattr(self.loss_module, name).items(True, True):
                np.copyto(raw(target.get(key)), raw(leaf))
        self.initialized = True

    def step(self) -> None:
        """Update the target parameters."""
        for source, target in self._pairs():
            self._step(source, target)

    def _step(self, source: Array, target: Array) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """The state of the updater, without the parameters, which belong to the loss."""
        state: dict[str, Any] = {"initialized": self.initialized}
        if hasattr(self, "counter"):
            state["counter"] = self.counter
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore the state. KeyError if an entry is missing."""
        state = {name: state_dict[name] for name in self.state_dict()}
        vars(self).update(state)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._names)})"


class SoftUpdate(TargetNetUpdater):
    """Moves target parameters towards the trained ones: target = eps target + tau source.

    Args:
        loss_module: a loss with target parameters.
        eps: the factor of the old value, in [0, 1].
        tau: 1 - eps; one of the two is given.

    Raises:
        RuntimeError: neither is given, or the loss has no target parameters.
        ValueError: both are given, or a number is out of range.

    Source:
        Lillicrap et al. (2016), Continuous control with deep reinforcement learning (arXiv:1509.02971);
        torchrl.objectives.SoftUpdate.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> from lite.nn.losses import DQNLoss, SoftUpdate
        >>> net = nn.Linear(1, 2)
        >>> _ = net.bias.zero_()
        >>> loss = DQNLoss(net, action_space="categorical")
        >>> update = SoftUpdate(loss, tau=0.25)
        >>> _ = net.bias.fill_(1.0)
        >>> update.step()
        >>> loss.target_value_network_params["module", "0", "module", "bias"]
        array([0.25, 0.25], dtype=float32)
    """

    def __init__(
        self, loss_module: LossModule, *, eps: float | None = None, tau: float | None = None
    ) -> None:
        if eps is None and tau is None:
            raise RuntimeError("one of eps and tau must be given.")
        if eps is not None and tau is not None:
            raise ValueError(f"only one of eps and tau can be given, got eps={eps} and tau={tau}.")
        self.eps = 1 - tau if tau is not None else eps or 0.0
        if not 0 <= self.eps <= 1:
            raise ValueError(f"eps must be between 0 and 1, got {self.eps}.")
        if self.eps < 0.5:
            warn(f"eps={self.eps} keeps little of the targets; was tau meant?")
        super().__init__(loss_module)

    def _step(self, source: Array, target: Array) -> None:
        moved = source - target
        moved *= 1 - self.eps
        target += moved


class HardUpdate(TargetNetUpdater):
    """Copies the trained parameters to the target parameters at regular intervals.

    Args:
        loss_module: a loss with target parameters.
        value_network_update_interval: the number of steps between two copies.

    Raises:
        RuntimeError: the loss has no target parameters.
        ValueError: the interval is not a whole number, or negative.

    Source:
        Mnih et al. (2015); torchrl.objectives.HardUpdate, whose first update comes one step later, too.

    Example:
        >>> from lite import nn
        >>> from lite.nn.losses import DQNLoss, HardUpdate
        >>> net = nn.Linear(1, 2)
        >>> _ = net.bias.zero_()
        >>> loss = DQNLoss(net, action_space="categorical")
        >>> update = HardUpdate(loss, value_network_update_interval=2)
        >>> _ = net.bias.fill_(1.0)
        >>> for _ in range(3):
        ...     update.step()
        ...     print(loss.target_value_network_params["module", "0", "module", "bias"])
        [0. 0.]
        [0. 0.]
        [1. 1.]
    """

    _graph_numbers = ("counter",)
    counter: Any

    def __init__(self, loss_module: LossModule, *, value_network_update_interval: float = 1000) -> None:
        super().__init__(loss_module)
        if not value_network_update_interval >= 0 or value_network_update_interval % 1:  # it would never come
            raise ValueError(
                f"value_network_update_interval must be a whole number, got {value_network_update_interval}."
            )
        self.value_network_update_interval = value_network_update_interval
        self.counter = 0

    def step(self) -> None:
        """Count the step, and copy if the interval is over."""
        due = self.counter == self.value_network_update_interval
        if is_symbolic(due):  # a graph has both ways
            for source, target in self._pairs():
                target[...] = np.where(due, source, target)
            self.counter = np.where(due, 0, self.counter + 1)
        elif due:
            super().step()
            self.counter = 0
        else:
            self.counter += 1

    def _step(self, source: Array, target: Array) -> None:
        np.copyto(target, source)


belong_to("lite.nn.losses", HardUpdate, SoftUpdate, TargetNetUpdater)
