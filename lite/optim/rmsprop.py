"""RMSprop."""

from __future__ import annotations

from typing import Any

from lite.optim.optimizer import Optimizer, Options


class RMSprop(Optimizer):
    """RMSprop: steps by the gradient over the root of the mean of its squares.

    Args:
        params: the learning rate, or a function of the step's number from 0 on, for `update(params, grads,
            state)`; or Parameters, or dicts of them with options of their own, for `step()`. See `Optimizer`.
        lr: the learning rate, if it is not the first argument; 0.01 if none is given.
        alpha: the decay of the mean of squares.
        eps: added to the root, against division by 0.
        weight_decay: this times the parameter is added to its gradient.
        momentum: the factor of the last change; 0 for none.
        centered: divide by the standard deviation, which takes the mean of gradients off.
        capturable: see `foreach`.
        foreach: taken as torch does, and ignored: all parameters are stepped together anyway, on the CPU.
        maximize: go along the gradient instead of against it.

    Raises:
        TypeError: an argument of another type.
        ValueError: an argument out of its range.

    Source:
        Hinton (2012), lecture 6 of Neural networks for machine learning; Graves (2013), Generating sequences
        with recurrent neural networks (centered); torch.optim.RMSprop.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, optim
        >>> params, grads = TensorDict(w=np.zeros(1)), TensorDict(w=np.ones(1))
        >>> optim.RMSprop(0.5, alpha=0.75).update(params, grads)[0]["w"].round(6)
        array([-1.])
    """

    _slots = {"square_avg": None, "grad_avg": "centered", "momentum_buffer": "momentum"}  # noqa: RUF012
    _kernel = "rmsprop"
    _options = ("lr", "momentum", "alpha", "eps", "centered", "weight_decay", "maximize")
    _not_negative = ("lr", "alpha", "eps", "weight_decay", "momentum")

    def __init__(
        self,
        params: Any = None,
        lr: Any = None,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, locals(), 1e-2)

    def _numbers(self, options: Options, lr: float, step: int) -> tuple[float, ...]:
        alpha = float(options["alpha"])
        return (
            -1.0 if options["maximize"] else 1.0,
            float(options["weight_decay"]),
            lr,
            alpha,
            1 - alpha,
            float(options["eps"]),
            float(options["momentum"]),
        )
