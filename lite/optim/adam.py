"""Adam and AdamW."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from lite.optim.optimizer import Optimizer, Options


class Adam(Optimizer):
    """Adam: the running mean of gradients divided by the root of the running mean of their squares.

    Args:
        params: the learning rate, or a function of the step's number from 0 on, for `update(params, grads,
            state)`; or Parameters, or dicts of them with options of their own, for `step()`. See `Optimizer`.
        lr: the learning rate, if it is not the first argument.
        betas: the decays of the two means, in [0, 1).
        eps: added to the root, against division by 0.
        weight_decay: this times the parameter is added to its gradient.
        amsgrad: divide by the root of the largest mean so far.
        foreach: taken as torch does, and ignored, as are `capturable` and `fused`: all parameters are stepped
            together anyway, on the CPU.
        maximize: go along the gradient instead of against it.
        capturable, fused: see `foreach`.
        decoupled_weight_decay: shrink parameters by lr * weight_decay instead, as `AdamW` does.

    Raises:
        TypeError: an argument of another type.
        ValueError: an argument out of its range.

    Source:
        Kingma and Ba (2015), Adam: a method for stochastic optimization; Reddi et al. (2018), On the
        convergence of Adam and beyond; torch.optim.Adam.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, nn, optim
        >>> params, grads = TensorDict(w=np.zeros(2)), TensorDict(w=np.array([3.0, -0.5]))
        >>> params, state = optim.Adam(0.1).update(params, grads)
        >>> params["w"].round(6), state["exp_avg", "w"].round(6)
        (array([-0.1,  0.1]), array([ 0.3 , -0.05]))
        >>> net = nn.Linear(2, 1)
        >>> optimizer = optim.Adam(net.parameters(), lr=0.1)
        >>> for p in net.parameters():
        ...     p.grad = np.ones_like(p.data)
        >>> optimizer.step()
        >>> optimizer.zero_grad()
    """

    _slots = {"exp_avg": None, "exp_avg_sq": None, "max_exp_avg_sq": "amsgrad"}  # noqa: RUF012
    _kernel = "adam"
    _options = ("lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "decoupled_weight_decay")
    _not_negative = ("lr", "weight_decay", "eps")

    def __init__(
        self,
        params: Any = None,
        lr: Any = None,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(params, locals(), 1e-3)

    def _check(self, options: Options) -> None:
        super()._check(options)
        betas = options["betas"]
        if not isinstance(betas, Collection) or len(betas) != 2 or not all(0 <= beta < 1 for beta in betas):
            raise ValueError(f"betas must be two numbers from 0 to below 1, got {betas}.")

    def _numbers(self, options: Options, lr: float, step: int) -> tuple[float, ...]:
        first, second = map(float, options["betas"])
        decay = float(options["weight_decay"])
        apart = bool(options.get("decoupled_weight_decay"))
        # What corrects the second mean multiplies two numbers here, instead of dividing each root of it.
        root: float = (1 - second**step) ** 0.5
        return (
            -1.0 if options["maximize"] else 1.0,
            0.0 if apart else decay,
            1 - lr * decay if apart else 1.0,
            1 - first,
            second,
            1 - second,
            root * lr / (1 - first**step),
            root * float(options["eps"]),
        )


class AdamW(Adam):
    """Adam whose weight decay shrinks parameters, and takes no part in the means.

    Args: those of `Adam`; `weight_decay` is 0.01 unless given, and always decoupled.

    Source:
        Loshchilov and Hutter (2019), Decoupled weight decay regularization; torch.optim.AdamW.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict, optim
        >>> params, grads = TensorDict(w=np.ones(1)), TensorDict(w=np.zeros(1))
        >>> optim.AdamW(0.1, weight_decay=0.5).update(params, grads)[0]["w"]
        array([0.95])
    """

    def __init__(
        self,
        params: Any = None,
        lr: Any = None,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True
        )
