"""Schedules of learning rates: torch's, and the same as functions of the step."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np

from lite._arrays.types import is_interpreted
from lite.kernels._integer import integer
from lite.optim.optimizer import Optimizer


class LRScheduler:
    """Base of all schedules. The first argument chooses one of two interfaces:

    - An optimiser over parameters: the schedule sets the "lr" of its groups, now and at each `step`.
    - A number, the learning rate to start from: the schedule is a function, `schedule(step)`, which an
      optimiser without parameters takes in place of its learning rate.

    Args:
        optimizer: see above.
        last_epoch: the number of the last step, -1 to start; groups must have "initial_lr" otherwise.

    Raises:
        TypeError: `optimizer` is neither, or an optimiser without parameters.
        ValueError: groups without "initial_lr".
    """

    _not_saved: ClassVar[frozenset[str]] = frozenset({"optimizer"})
    _is_of_steps: ClassVar[bool] = True  # False: what `step` is given sets the rates

    def __init__(self, optimizer: Any, last_epoch: int = -1) -> None:
        self.optimizer: Any = None
        self.last_epoch = last_epoch
        self._step_count = 0
        self._is_initial = False
        self._last_lr: list[float] = []
        if not is_over_groups(optimizer):
            self.base_lrs = [float(optimizer)]
            return
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ValueError(
                    f"group {number} of the optimiser has no 'initial_lr', which last_epoch={last_epoch} "
                    f"needs: load the optimiser's state first."
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self._begin()

    def _begin(self) -> None:
        self._step_count = 0
        self._is_initial = True
        self.step()
        self._is_initial = False

    def _at(self, base: float, step: int) -> float:
        """The learning rate of a step, counted from 0, that started from `base`."""
        raise NotImplementedError

    def __call__(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return self._at(self.base_lrs[0], step)

    def get_lr(self) -> list[float]:
        """The next learning rates of the groups, from those that they have."""
        return [self._at(base, self.last_epoch) for base in self.base_lrs]

    def get_last_lr(self) -> list[float]:
        """The learning rates of the groups as `step` has last set them."""
        return self._last_lr

    def step(self) -> None:
        """Set the learning rates for the next step of the optimiser; call it after the optimiser's.

        Raises:
            RuntimeError: the schedule was made with a learning rate, and has no optimiser.
        """
        self._check_optimizer()
        self._step_count += 1
        self.last_epoch += 1
        self._set(self.get_lr())

    def _check_optimizer(self) -> None:
        if self.optimizer is None:
            raise RuntimeError(
                f"this {type(self).__name__} has no optimiser: call it with the step's number."
            )

    def _restart(self) -> None:
        """Set the learning rates of step 0."""
        self.last_epoch = 0
        self._set([self._at(base, 0) for base in self.base_lrs])

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """The attributes of the schedule under torch's names, without the optimiser."""
        return {name: value for name, value in vars(self).items() if name not in self._not_saved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state of another schedule of this class, or of torch's of the same name.

        Args:
            state_dict: what `state_dict` gave; names that this class does not have are left out.

        Raises:
            KeyError: it does not say where that one stopped.
        """
        if "last_epoch" not in state_dict:
            raise KeyError("last_epoch")
        known = vars(self).keys() - self._not_saved
        vars(self).update({name: value for name, value in state_dict.items() if name in known})


def is_over_groups(optimizer: Any) -> bool:
    """Whether it is an optimiser, with groups, or else a learning rate."""
    if not isinstance(optimizer, Optimizer):
        if isinstance(optimizer, bool) or not isinstance(optimizer, (int, float)):
            raise TypeError(
                f"optimizer must be an optimiser or a learning rate, got {type(optimizer).__name__}."
            )
        return False
    if not optimizer.param_groups:
        raise TypeError(
            f"this {type(optimizer).__name__} has no parameters: give the schedule a learning rate in "
            f"place of the optimiser, and the optimiser the schedule in place of its learning rate."
        )
    return True


def for_groups(name: str, value: Any, optimizer: Any) -> list[Any]:
    """A value for each group of an optimiser, from one or from a list; a learning rate counts as a group."""
    groups = len(optimizer.param_groups) if isinstance(optimizer, Optimizer) else 1
    if not isinstance(value, list | tuple):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(f"{name} must be one or {groups}, got {len(value)}.")
    return list(value)


class LambdaLR(LRScheduler):
    """The learning rate times a function of the step.

    Args:
        optimizer: an optimiser over parameters, or a learning rate; see `LRScheduler`.
        lr_lambda: gives the factor from the number of the step; or one function for each group.
        last_epoch: see `LRScheduler`.

    Source:
        torch.optim.lr_scheduler.LambdaLR.

    Example:
        >>> from lite import optim
        >>> [optim.LambdaLR(0.5, lambda step: 0.5**step)(step) for step in range(3)]
        [0.5, 0.25, 0.125]
    """

    _not_saved = frozenset({"optimizer", "lr_lambdas"})

    def __init__(
        self,
        optimizer: Any,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = for_groups("lr_lambda", lr_lambda, optimizer)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [
            base * factor(self.last_epoch)
            for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]

    def _at(self, base: float, step: int) -> float:
        rate: Any = base * self.lr_lambdas[0](step)
        return rate if is_interpreted(rate) else float(rate)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "lr_lambdas": [None] * len(self.lr_lambdas)}


class ConstantLR(LRScheduler):
    """A share of the learning rate for some steps, then all of it.

    Args:
        optimizer: an optimiser over parameters, or a learning rate; see `LRScheduler`.
        factor: the share, from 0 to 1.
        total_iters: the number of steps.
        last_epoch: see `LRScheduler`.

    Source:
        torch.optim.lr_scheduler.ConstantLR.

    Example:
        >>> from lite import optim
        >>> [optim.ConstantLR(1.0, factor=0.5, total_iters=2)(step) for step in range(4)]
        [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(
        self, optimizer: Any, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"factor must be from 0 to 1, got {factor}.")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [rate * self.factor for rate in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        return [rate * (1.0 / self.factor) for rate in self._rates()]

    def _at(self, base: float, step: int) -> float:
        return base * (self.factor + (step >= self.total_iters) * (1 - self.factor))


class LinearLR(LRScheduler):
    """From one share of the learning rate to another in a straight line, such as a warm-up.

    Args:
        optimizer: an optimiser over parameters, or a learning rate; see `LRScheduler`.
        start_factor: the share of the first step, above 0 and at most 1.
        end_factor: the share after `total_iters` steps, from 0 to 1.
        total_iters: the number of steps in between.
        last_epoch: see `LRScheduler`.

    Source:
        torch.optim.lr_scheduler.LinearLR.

    Example:
        >>> from lite import optim
        >>> warm_up = optim.LinearLR(1.0, start_factor=0.25, total_iters=3)
        >>> [warm_up(step) for step in range(5)]
        [0.25, 0.5, 0.75, 1.0, 1.0]
        >>> adam = optim.Adam(warm_up)  # its `update` asks for the rate of each step
    """

    def __init__(
        self,
        optimizer: Any,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError(f"start_factor must be above 0 and at most 1, got {start_factor}.")
        if not 0 <= end_factor <= 1:
            raise ValueError(f"end_factor must be from 0 to 1, got {end_factor}.")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in rates]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [rate * (1.0 + rise / before) for rate in rates]

    def _at(self, base: float, step: int) -> float:
        rise = self.end_factor - self.start_factor
        done = np.minimum(self.total_iters, step) if is_interpreted(step) else min(self.total_iters, step)
        return base * (self.start_factor + rise * done / self.total_iters)


class ExponentialLR(LRScheduler):
    """The learning rate times `gamma` at each step.

    Args:
        optimizer: an optimiser over parameters, or a learning rate; see `LRScheduler`.
        gamma: the factor.
        last_epoch: see `LRScheduler`.

    Source:
        torch.optim.lr_scheduler.ExponentialLR.

    Example:
        >>> from lite import optim
        >>> [optim.ExponentialLR(1.0, gamma=0.5)(step) for step in range(4)]
        [1.0, 0.5, 0.25, 0.125]
    """

    step_size = 1

    def __init__(self, optimizer: Any, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        stays = self._is_initial or self.last_epoch % self.step_size
        return [rate * (1.0 if stays else self.gamma) for rate in self._rates()]

    def _at(self, base: float, step: int) -> float:
        return base * self.gamma ** (step // self.step_size)


class StepLR(ExponentialLR):
    """The learning rate times `gamma` at each `step_size`-th step.

    Args:
        optimizer: an optimiser over parameters, or a learning rate; see `LRScheduler`.
        step_size: the number of steps.
        gamma: the factor.
        last_epoch: see `LRScheduler`.

    Source:
        torch.optim.lr_scheduler.StepLR.

    Example:
        >>> from lite import optim
        >>> [optim.StepLR(1.0, step_size=2)(step) for step in range(4)]
        [1.0, 1.0, 0.1, 0.1]
    """

    def __init__(self, optimizer: Any, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = integer("step_size", step_size, least=1)
        super().__init__(optimizer, gamma, last_epoch)


class MultiStepLR(LRScheduler):
    """The learning rate times `gamma` at each step that is named.

    Args:
        optimizer: an optimiser over parameters, or a learning rate; see `LRScheduler`.
        milestones: the steps; one that is named twice counts twice.
        gamma: the factor.
        last_epoch: see `LRScheduler`.

    Source:
        torch.optim.lr_scheduler.MultiStepLR.

    Example:
        >>> from lite import optim
        >>> [optim.MultiStepLR(1.0, milestones=[1, 3], gamma=0.5)(step) for step in range(5)]
        [1.0, 0.5, 0.5, 0.25, 0.25]
    """

    def __init__(
        self, optimizer: Any, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        times = self.milestones.get(self.last_epoch)  # a plain dict, once it comes from a file
        return [rate * self.gamma**times if times else rate for rate in self._rates()]

    def _at(self, base: float, step: int) -> float:
        return base * self.gamma ** sum((step >= at) * times for at, times in self.milestones.items())


class CosineAnnealingLR(LRScheduler):
    """From the learning rate down to `eta_min` along half a cosine, and up again after that.

    Args:
        optimizer: an optimiser over parameters, or a learning rate; see `LRScheduler`.
        T_max: the number of steps down.
        eta_min: the lowest learning rate.
        last_epoch: see `LRScheduler`.

    Source:
        Loshchilov and Hutter (2017), SGDR, without restarts; torch.optim.lr_scheduler.CosineAnnealingLR.

    Example:
        >>> from lite import optim
        >>> [round(optim.CosineAnnealingLR(1.0, T_max=2)(step), 6) for step in range(4)]
        [1.0, 0.5, 0.0, 0.5]
    """

    def __init__(self, optimizer: Any, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        rates = self._rates()
        if self._is_initial:
            return rates
        if self._step_count == 1 and self.last_epoch > 0:
            return [self._at(base, self.last_epoch) for base in self.base_lrs]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # from the lowest: no ratio to it
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [
                rate + (base - self.eta_min) * rise for rate, base in zip(rates, self.base_lrs, strict=True)
            ]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (rate - self.eta_min) + self.eta_min for rate in rates]

    def _at(self, base: float, step: int) -> float:
        cos = np.cos if is_interpreted(step) else math.cos
        return self.eta_min + (base - self.eta_min) * (1 + cos(math.pi * step / self.T_max)) / 2


class SequentialLR(LRScheduler):
    """One schedule after another, each from its own beginning.

    Args:
        optimizer: that of all schedules; None for schedules that were made with a learning rate.
        schedulers: in their order.
        milestones: the steps at which the second and each later one begin.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: no schedules, schedules of another optimiser, a `ReduceLROnPlateau`, not one milestone
            less than schedules.

    Source:
        torch.optim.lr_scheduler.SequentialLR.

    Example:
        >>> from lite import optim
        >>> warm_up, down = optim.LinearLR(1.0, 0.5, total_iters=2), optim.CosineAnnealingLR(1.0, T_max=2)
        >>> rate = optim.SequentialLR(None, [warm_up, down], milestones=[2])
        >>> [round(rate(step), 6) for step in range(5)]
        [0.5, 0.75, 1.0, 0.5, 0.0]
    """

    _not_saved = frozenset({"optimizer", "_schedulers"})

    def __init__(
        self, optimizer: Any, schedulers: Sequence[Any], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        if not schedulers:
            raise ValueError("schedulers must not be empty.")
        for number, schedule in enumerate(schedulers):
            if not isinstance(schedule, LRScheduler):
                raise TypeError(f"schedulers[{number}] must be a schedule, got {type(schedule).__name__}.")
            if not schedule._is_of_steps:
                raise ValueError(
                    f"schedulers[{number}] must follow the steps alone, got {type(schedule).__name__}."
                )
            if schedule.optimizer is not optimizer:
                raise ValueError(f"schedulers[{number}] is not of the optimiser that was given.")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                f"milestones must be one less than schedulers, {len(schedulers) - 1}, got {len(milestones)}."
            )
        self._schedulers = list(schedulers)
        self._milestones = list(milestones)
        self.optimizer = optimizer
        self.last_epoch = last_epoch + 1
        self._last_lr = []
        if optimizer is None:
            return
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        self._undo()
        first = self._schedulers[bisect_right(self._milestones, 0)]
        first._begin()
        self._last_lr = first.get_last_lr()

    def _undo(self) -> None:
        """Undo the steps that the schedules took in their constructors."""
        for schedule in self._schedulers:
            if isinstance(schedule, SequentialLR):
                schedule._undo()
            else:
                schedule.last_epoch -= 1

    def __call__(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        if is_interpreted(step):
            rate: Any = self._schedulers[0](step)
            for milestone, schedule in zip(self._milestones, self._schedulers[1:], strict=True):
                rate = np.where(step >= milestone, schedule(step - milestone), rate)
            return rate
        number = bisect_right(self._milestones, step)
        return self._schedulers[number](step - (self._milestones[number - 1] if number else 0))

    def step(self) -> None:
        """Set the learning rates for the next step of the optimiser; call it after the optimiser's."""
        self._check_optimizer()
        self.last_epoch += 1
        number = bisect_right(self._milestones, self.last_epoch)
        schedule = self._schedulers[number]
        if number and self._milestones[number - 1] == self.last_epoch:
            schedule._restart()
        else:
            schedule.step()
        self._last_lr = schedule.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """As `LRScheduler.state_dict`, with those of all schedules."""
        return {**super().state_dict(), "_schedulers": [each.state_dict() for each in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As `LRScheduler.load_state_dict`."""
        states = state_dict["_schedulers"]
        super().load_state_dict(state_dict)
        for schedule, state in zip(self._schedulers, states, strict=True):
            schedule.load_state_dict(state)
