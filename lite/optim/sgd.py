"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite.optim.optimizer import Optimizer, Options


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if asked for.

    Args:
        params: the learning rate, or a function of the step's number from 0 on, for `update(params, grads,
            state)`; or Parameters, or dicts of them with options of their own, for `step()`. See `Optimizer`.
        lr: the learning rate, if it is not the first argument.
        momentum: the factor of the last direction; 0 for none.
        dampening: 1 less this is what the gradient adds to the direction, after the first step.
        weight_decay: this times the parameter is added to its gradient.
        nesterov: look one step ahead along the momentum.
        maximize: go along the gradient instead of against it.
        foreach: taken as torch does, and ignored, as is `fused`: all parameters are stepped together anyway.
        fused: see `foreach`.

    Raises:
        TypeError: an argument of another type.
        ValueError: an argument out of its range; `nesterov` without momentum, or with dampening.

    Source:
        Sutskever et al. (2013), On the importance of initialization and momentum in deep learning, as
        torch.optim.SGD has it.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, optim
        >>> sgd = optim.SGD(0.5, momentum=0.5)
        >>> params, grads = TensorDict(w=np.zeros(1)), TensorDict(w=np.ones(1))
        >>> params, state = sgd.update(params, grads)
        >>> params, state = sgd.update(params, grads, state)
        >>> params["w"], state["momentum_buffer", "w"]
        (array([-1.25]), array([1.5]))
    """

    _slots = {"momentum_buffer": "momentum"}  # noqa: RUF012
    _kernel = "sgd"
    _counts = False
    _options = ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize")
    _not_negative = ("lr", "momentum", "weight_decay")

    def __init__(
        self,
        params: Any = None,
        lr: Any = None,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, locals(), 1e-3)

    def _check(self, options: Options) -> None:
        super()._check(options)
        if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
            raise ValueError(
                f"nesterov needs a momentum above 0 and no dampening, got momentum={options['momentum']} and "
                f"dampening={options['dampening']}."
            )

    def _numbers(self, options: Options, lr: float, step: int) -> tuple[float, ...]:
        momentum = float(options["momentum"])
        return (
            -1.0 if options["maximize"] else 1.0,
            float(options["weight_decay"]),
            lr,
            momentum,
            _first(step, 1 - float(options["dampening"])),
            momentum if options["nesterov"] else 0.0,
        )


def _first(step: Any, otherwise: float) -> Any:
    """1 in the first step."""
    if isinstance(step, int):
        return 1.0 if step == 1 else otherwise
    return np.where(step == 1, 1.0, otherwise)  # while a graph is traced
