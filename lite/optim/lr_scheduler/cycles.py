"""Schedules that rise again: cosines with restarts, and one cycle of rate and momentum."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lite._arrays.types import is_interpreted
from lite.optim.lr_scheduler.schedules import LRScheduler, for_groups, is_over_groups

_ENDS = ("initial_lr", "max_lr", "min_lr")


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}.")


class CosineAnnealingWarmRestarts(LRScheduler):
    """From the learning rate down to `eta_min` along half a cosine, again and again.

    Args:
        optimizer: an optimiser over parameters, or a learning rate; see `LRScheduler`.
        T_0: the number of steps until the first restart.
        T_mult: how many times longer each way down is than the one before.
        eta_min: the limit below.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: `T_0` or `T_mult` is not a positive integer, or `eta_min` is not a number.

    Source:
        Loshchilov and Hutter (2017), SGDR; torch.optim.lr_scheduler.CosineAnnealingWarmRestarts.

    Example:
        >>> from lite import optim
        >>> [round(optim.CosineAnnealingWarmRestarts(1.0, T_0=2)(step), 6) for step in range(5)]
        [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    def __init__(
        self, optimizer: Any, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        _check_count("T_0", T_0)
        _check_count("T_mult", T_mult)
        if not isinstance(eta_min, int | float):
            raise ValueError(f"eta_min must be a number, got {type(eta_min).__name__}.")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [self._below(base, self.T_cur, self.T_i) for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the learning rates for the next step of the optimiser; call it after the optimiser's.

        Args:
            epoch: go to this place, such as `epoch + batch / batches`, in place of one step on.

        Raises:
            ValueError: `epoch` is negative.
            RuntimeError: the schedule was made with a learning rate, and has no optimiser.
        """
        self._check_optimizer()
        if epoch is not None and epoch < 0:
            raise ValueError(f"epoch must not be negative, got {epoch}.")
        self._step_count += 1
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = epoch or 0
            self.T_cur, self.T_i = self._place(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())

    def _place(self, step: Any) -> tuple[Any, Any]:
        """How far a step is from the last restart, and how far the next restart is from that one."""
        if self.T_mult == 1:
            return step % self.T_0, self.T_0
        more = self.T_mult - 1
        if not is_interpreted(step):
            length, begun = self.T_0, 0
            while step >= begun + length:
                begun, length = begun + length, length * self.T_mult
            return step - begun, length
        # A logarithm may come out below the integer that it is; the next smaller step is farther below.
        number = np.floor(np.log(step / self.T_0 * more + 1) / math.log(self.T_mult) + 1e-9)
        length = self.T_0 * float(self.T_mult) ** number
        return step - (length - self.T_0) / more, length

    def _below(self, base: float, done: Any, length: Any) -> float:
        cos = np.cos if is_interpreted(done) else math.cos
        return self.eta_min + (base - self.eta_min) * (1 + cos(math.pi * done / length)) / 2

    def _at(self, base: float, step: int) -> float:
        return self._below(base, *self._place(step))


class OneCycleLR(LRScheduler):
    """From a low learning rate up to `max_lr` and down to a far lower one, in a known number of steps.

    Momentum, or the first beta of Adam, goes the other way. Under `lite.jit` each step is a graph of its own
    then, as graphs hold these as constants: set `cycle_momentum=False` there.

    Args:
        optimizer: an optimiser over parameters, or any learning rate for a function of the step. The cycle
            replaces the rate by `max_lr / div_factor`.
        max_lr: the highest learning rate; or one for each group.
        total_steps: the number of steps; `epochs` times `steps_per_epoch` if None.
        epochs, steps_per_epoch: see `total_steps`.
        pct_start: the share of the steps that go up, from 0 to 1; a part without steps is passed over.
        anneal_strategy: "cos" for half cosines, "linear" for straight lines.
        cycle_momentum: whether momentum changes, too; False for a function of the step.
        base_momentum: the momentum at `max_lr`; or one for each group.
        max_momentum: the momentum at both ends; or one for each group.
        div_factor: `max_lr` over the first learning rate.
        final_div_factor: the first learning rate over the last one.
        three_phase: whether there are as many steps down to the first rate as up, before those to the last.
        last_epoch: see `LRScheduler`.

    Raises:
        ValueError: an argument out of its range, no number of steps, an optimiser without momentum, a step
            after the last one.

    Source:
        Smith and Topin (2018), Super-convergence: very fast training of neural networks using large learning
        rates (arXiv:1708.07120); torch.optim.lr_scheduler.OneCycleLR.

    Example:
        >>> from lite import optim
        >>> rate = optim.OneCycleLR(
        ...     0.0, 1.0, 5, pct_start=0.6, anneal_strategy="linear", cycle_momentum=False, div_factor=2
        ... )
        >>> [round(rate(step), 4) for step in range(5)]
        [0.5, 0.75, 1.0, 0.5, 0.0]
    """

    _not_saved = frozenset({"optimizer", "_ends"})

    def __init__(
        self,
        optimizer: Any,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        is_over = is_over_groups(optimizer)
        if total_steps is not None:
            _check_count("total_steps", total_steps)
        elif epochs is None or steps_per_epoch is None:
            raise ValueError("total_steps must be given, or epochs and steps_per_epoch.")
        else:
            _check_count("epochs", epochs)
            _check_count("steps_per_epoch", steps_per_epoch)
            total_steps = epochs * steps_per_epoch
        if not 0 <= pct_start <= 1:
            raise ValueError(f"pct_start must be from 0 to 1, got {pct_start}.")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}.")
        self.total_steps = total_steps
        self.cycle_momentum = cycle_momentum
        self._anneal_func_type = anneal_strategy
        up = float(pct_start * total_steps)
        phases = [(up - 1, "initial_lr", "max_lr")]
        if three_phase:
            phases += [(2 * up - 2, "max_lr", "initial_lr"), (total_steps - 1, "initial_lr", "min_lr")]
        else:
            phases += [(total_steps - 1, "max_lr", "min_lr")]
        momentum = {"max_lr": "base_momentum"}  # by the rate that goes with it
        self._schedule_phases: list[dict[str, Any]] = [
            {
                "end_step": end,
                "start_lr": start,
                "end_lr": stop,
                "start_momentum": momentum.get(start, "max_momentum"),
                "end_momentum": momentum.get(stop, "max_momentum"),
            }
            for end, start, stop in phases
        ]
        groups = optimizer.param_groups if is_over else [{}]
        if cycle_momentum:
            options = optimizer.defaults if is_over else {}
            if "momentum" not in options and "betas" not in options:
                raise ValueError(
                    f"cycle_momentum=True needs an optimiser with momentum or betas, got "
                    f"{type(optimizer).__name__}."
                )
            self.use_beta1 = "betas" in options
        each = {
            name: for_groups(name, value, optimizer)
            for name, value in (
                ("max_lr", max_lr),
                ("max_momentum", max_momentum),
                ("base_momentum", base_momentum),
            )
        }
        if last_epoch == -1:
            for number, group in enumerate(groups):
                highest = each["max_lr"][number]
                first = highest / div_factor
                group.update(initial_lr=first, max_lr=highest, min_lr=first / final_div_factor)
                if cycle_momentum:
                    for name in ("max_momentum", "base_momentum"):
                        group[name] = each[name][number]
        self._ends = {name: value for name, value in groups[0].items() if name in _ENDS}
        super().__init__(optimizer, last_epoch)
        if not is_over:
            self.base_lrs = [self._ends["initial_lr"]]

    def get_lr(self) -> list[float]:
        groups = self.optimizer.param_groups
        rates = [self._between(group, "lr", self.last_epoch) for group in groups]
        for group in groups if self.cycle_momentum else ():
            value = self._between(group, "momentum", self.last_epoch)
            group.update({"betas": (value, *group["betas"][1:])} if self.use_beta1 else {"momentum": value})
        return rates

    def _restart(self) -> None:
        self.last_epoch = 0
        self._set(self.get_lr())

    def _at(self, base: float, step: int) -> float:
        return self._between(self._ends, "lr", step)

    def _between(self, ends: Mapping[str, Any], what: str, step: Any) -> Any:
        """The "lr" or "momentum" of a step, between those of a group that the phases name."""
        traced = is_interpreted(step)
        if not traced and step > self.total_steps:
            raise ValueError(f"step {step} comes after the last of total_steps={self.total_steps}.")
        cos = np.cos if traced else math.cos
        out, begun = None, 0.0
        for phase in self._schedule_phases:
            start, stop, end = ends[phase[f"start_{what}"]], ends[phase[f"end_{what}"]], phase["end_step"]
            done = (step - begun) / (end - begun) if end != begun else 1.0
            if self._anneal_func_type == "cos":
                here = stop + (start - stop) / 2.0 * (cos(math.pi * done) + 1)
            else:
                here = (stop - start) * done + start
            if out is None:
                out = here
            else:
                out = np.where(step > begun, here, out) if traced else here if step > begun else out
            begun = end
        return out
