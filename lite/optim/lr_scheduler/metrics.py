"""Learning rates that follow metrics of the training: a loss on a plateau, a divergence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lite.optim.lr_scheduler.schedules import LRScheduler, for_groups
from lite.optim.optimizer import Optimizer


def _number(value: Any) -> float:
    return float(value.item() if hasattr(value, "item") else value)


def _check_groups(optimizer: Any) -> None:
    if not getattr(optimizer, "param_groups", None):
        raise TypeError(
            f"optimizer must be an optimiser over parameters, got {type(optimizer).__name__} without any."
        )


class ReduceLROnPlateau(LRScheduler):
    """Learning rates that are cut once a metric has stopped getting better.

    It has the first interface of `LRScheduler` alone, over an optimiser: no rate follows from the number of a
    step. So it isn't called, and has no place in a `SequentialLR`.

    Args:
        optimizer: an optimiser over parameters.
        mode: "min" for a metric that is to fall, such as a loss; "max" for one that is to rise.
        factor: the factor of the rates, below 1.
        patience: the number of steps without a better metric before rates are cut at the next one.
        threshold: the smallest improvement of the metric that counts.
        threshold_mode: "rel" for a share of the best metric, "abs" for a difference from it.
        cooldown: the number of steps after a cut in which none is counted as bad.
        min_lr: the limit of the rates; or one for each group.
        eps: rates that would change by no more than this stay.

    Raises:
        TypeError: no optimiser, or one without parameters.
        ValueError: an argument out of its range.

    Source:
        torch.optim.lr_scheduler.ReduceLROnPlateau.

    Example:
        >>> import numpy as np
        >>> from lite import nn, optim
        >>> schedule = optim.ReduceLROnPlateau(optim.SGD([nn.Parameter(np.ones(2))], lr=1.0), patience=1)
        >>> for loss in (3.0, 2.0, 2.0, 2.5):
        ...     schedule.step(loss)
        >>> schedule.get_last_lr()
        [0.1]
    """

    _is_of_steps = False

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        _check_groups(optimizer)
        if factor >= 1:
            raise ValueError(f"factor must be below 1, got {factor}.")
        for name, got, known in (
            ("mode", mode, ("min", "max")),
            ("threshold_mode", threshold_mode, ("rel", "abs")),
        ):
            if got not in known:
                raise ValueError(f"{name} must be one of {known}, got {got!r}.")
        self.optimizer = optimizer
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.default_min_lr = None if isinstance(min_lr, list | tuple) else min_lr
        self.min_lrs: list[Any] = for_groups("min_lr", min_lr, optimizer)
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = self._rates()
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    def __call__(self, step: int) -> float:
        raise TypeError("a ReduceLROnPlateau follows a metric, and is not a function of the step.")

    def step(self, metrics: Any) -> None:  # type: ignore[override]  # torch's
        """Set the learning rates for the next step of the optimiser.

        Args:
            metrics: the metric, a number or an array of one; NaN is never an improvement.

        Raises:
            RuntimeError: groups were added, and `min_lr` has a number for each of those before.
        """
        current = _number(metrics)
        self.last_epoch += 1
        if self._is_better(current):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._cut()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._rates()

    def _is_better(self, current: float) -> bool:
        sign = 1 if self.mode == "max" else -1
        if self.threshold_mode == "rel":
            limit = self.best * (1 + sign * self.threshold)
        else:
            limit = self.best + sign * self.threshold
        return sign * current > sign * limit

    def _cut(self) -> None:
        rates = self._rates()
        if len(rates) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"min_lr has {len(self.min_lrs)} numbers, the optimiser now {len(rates)} groups: set "
                    f"`min_lrs` to one for each."
                )
            self.min_lrs = [self.default_min_lr] * len(rates)
        cut = [max(rate * self.factor, least) for rate, least in zip(rates, self.min_lrs, strict=True)]
        self._set([new if old - new > self.eps else old for old, new in zip(rates, cut, strict=True)])


class KLAdaptiveLR:
    """Learning rates that follow how far each update has moved the policy.

    If the divergence from the policy before an update is more than twice `target_kl`, rates are divided
    by `factor`; if it is less than half of `target_kl`, multiplied. A divergence of 0 changes nothing.

    Args:
        optimizer: an optimiser over parameters, whose groups' "lr" is set.
        target_kl: the intended divergence of an update, such as the mean of `ClipPPOLoss`'s "kl_approx".
        factor: above 1.
        min_lr, max_lr: the limits of every rate.

    Raises:
        TypeError: no optimiser, or one without parameters.
        ValueError: a number out of its range.

    Source:
        Rudin et al. (2021), Learning to walk in minutes using massively parallel deep reinforcement learning
        (arXiv:2109.11978); torchrl.objectives.KLAdaptiveLR.

    Example:
        >>> import numpy as np
        >>> from lite import nn, optim
        >>> adam = optim.Adam([nn.Parameter(np.ones(2))], lr=1e-3)
        >>> schedule = optim.KLAdaptiveLR(adam, target_kl=0.01, factor=2.0)
        >>> schedule.step(kl=0.05)
        >>> schedule.get_last_lr()
        [0.0005]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        target_kl: float,
        *,
        factor: float = 1.5,
        min_lr: float = 1e-5,
        max_lr: float = 1e-2,
    ) -> None:
        _check_groups(optimizer)
        if not 0 < target_kl < math.inf:
            raise ValueError(f"target_kl must be positive and finite, got {target_kl}.")
        if not 1 < factor < math.inf:
            raise ValueError(f"factor must be above 1 and finite, got {factor}.")
        if not 0 < min_lr <= max_lr < math.inf:
            raise ValueError(f"limits must be 0 < min_lr <= max_lr < inf, got {min_lr} and {max_lr}.")
        self.optimizer = optimizer
        self.target_kl = float(target_kl)
        self.factor = float(factor)
        self.min_lr = float(min_lr)
        self.max_lr = float(max_lr)
        self.last_kl: float | None = None

    def step(self, kl: Any) -> None:
        """Set the learning rates for the next update.

        Args:
            kl: the divergence of the last update, a number or an array of one.

        Raises:
            ValueError: it is not finite.
        """
        kl = _number(kl)
        if not math.isfinite(kl):
            raise ValueError(f"kl must be finite, got {kl}.")
        if kl > 2 * self.target_kl:
            scale = 1 / self.factor
        else:
            scale = self.factor if 0 < kl < self.target_kl / 2 else 1.0
        for group in self.optimizer.param_groups:
            group["lr"] = min(self.max_lr, max(self.min_lr, group["lr"] * scale))
        self.last_kl = kl

    def get_last_lr(self) -> list[float]:
        """The learning rates of the groups."""
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The attributes under torchrl's names, without the optimiser."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of another, or of torchrl's.

        Raises:
            KeyError: a name is missing.
        """
        names = ("target_kl", "factor", "min_lr", "max_lr")
        vars(self).update({name: float(state_dict[name]) for name in names})
        self.last_kl = state_dict.get("last_kl")
