"""gSDEModule: actions with noise that depends on the state and stays the same for an episode."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from lite import get_default_dtype
from lite._arrays.formulas import softplus
from lite._arrays.public import belong_to
from lite._arrays.types import Array, is_symbolic
from lite._transforms.grad.tape import value_of
from lite.nn._modules.initial import Rng, empty_array, empty_parameter, fill
from lite.nn._modules.lazy import LazyModuleMixin
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn._modules.uninitialized import UninitializedBuffer, UninitializedParameter
from lite.nn.layers.dropout import generator
from lite.nn.layers.normal_params import inv_softplus
from lite.nn.settings import InteractionType, interaction_type

_UNEXPLORED = (InteractionType.MODE, InteractionType.MEAN, InteractionType.DETERMINISTIC)


class gSDEModule(Module):
    """Add noise to an action that is linear in the state: action = mu + (sigma epsilon) state.

    The matrix epsilon, of standard normal numbers, is given along with the state and given back: it is drawn
    where all that is given is one zero for each element of the batch, as `lite.envs.gSDENoise` writes at the
    start of an episode, and stays the same until then. It is drawn, too, if None is given while
    `interaction_type()` is RANDOM. There is noise while it is RANDOM; for "mode", "mean" and "deterministic"
    the action is mu.

    Args:
        action_dim: size of the action.
        state_dim: size of the state.
        sigma_init: sigma at first if it does not learn; √((1 - scale_min) / state_dim) if not given. A sigma
            that learns starts at softplus(0).
        scale_min, scale_max: limits of sigma.
        learn_sigma: whether sigma = softplus(`log_sigma`) learns.
        transform: what the action is mapped by, such as a `tanh`.
        device: "cpu", or "meta" for parameters without data.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy, for the noise.

    Shapes:
        mu (*B, action_dim), state (*B, state_dim), epsilon (*B, 1) of zeros, (*B, action_dim, state_dim), or
        None; the results are mu, the scale of the action's distribution (*B, action_dim), the action
        (*B, action_dim) and epsilon (*B, action_dim, state_dim). The parameter `log_sigma`, or the buffer
        `_sigma`, is (action_dim, state_dim). Dtypes are that of mu, state and sigma together.

    Raises:
        RuntimeError: batches of mu, state and epsilon differ, or the interaction type is None or "median".

    Source:
        Raffin et al. (2021), arXiv:2005.05719; torchrl.modules.gSDEModule.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> module = nn.gSDEModule(2, 3, rng=0)
        >>> with nn.set_interaction_type("random"):
        ...     _, scale, action, epsilon = module(np.zeros((4, 2)), np.ones((4, 3)), np.zeros((4, 1)))
        >>> scale.shape, action.shape, epsilon.shape
        ((4, 2), (4, 2), (4, 2, 3))
    """

    def __init__(
        self,
        action_dim: int,
        state_dim: int,
        sigma_init: float | None = None,
        scale_min: float = 0.01,
        scale_max: float = 10.0,
        learn_sigma: bool = True,
        transform: Callable[[Any], Any] | None = None,
        device: Device | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        self.action_dim = action_dim
        self.state_dim = state_dim
        self.scale_min = scale_min
        self.scale_max = scale_max
        self.learn_sigma = learn_sigma
        self.transform = transform
        self._rng: Rng = rng
        shape = (action_dim, state_dim)
        if sigma_init is None:
            usual = math.sqrt((1.0 - scale_min) / state_dim)
            sigma_init = inv_softplus(usual) if learn_sigma else usual
        if learn_sigma:
            self.register_parameter("log_sigma", empty_parameter(shape, device))
            fill(self._held("log_sigma"), 0.0)
        else:
            self.register_buffer("_sigma", empty_array(shape, device))
            fill(self._sigma, sigma_init)
        if sigma_init != 0:
            self.register_buffer("sigma_init", np.array(sigma_init, get_default_dtype()))

    @property
    def sigma(self) -> Array:
        """The factor of the noise, (action_dim, state_dim), at least `scale_min`."""
        own = softplus(self._tensor("log_sigma")) if self.learn_sigma else self._sigma
        return np.maximum(own, value_of(own).dtype.type(self.scale_min))

    def forward(self, mu: Array, state: Array, _eps_gSDE: Array | None) -> tuple[Array, Array, Array, Array]:
        """Mean, scale, action and epsilon."""
        kind, batch = interaction_type(), state.shape[:-1]
        sigma = self.sigma
        dtype = value_of(sigma).dtype
        sigma = np.minimum(sigma, dtype.type(self.scale_max))
        if batch != mu.shape[:-1]:
            raise RuntimeError(f"mu and state must have the same batch, got {mu.shape} and {state.shape}.")
        epsilon = _eps_gSDE
        if epsilon is not None and epsilon.shape[: len(batch)] != batch:
            raise RuntimeError(
                f"_eps_gSDE and state must have the same batch, got {epsilon.shape} and {state.shape}."
            )
        random = kind is InteractionType.RANDOM
        if epsilon is None and not random:
            epsilon = np.zeros((*batch, *sigma.shape), dtype)
        elif epsilon is None or _is_unknown(epsilon, batch):
            epsilon = generator(self).standard_normal((*batch, *sigma.shape)).astype(dtype)
        action = mu
        if random:
            action = mu + ((sigma * epsilon) @ state[..., None])[..., 0]
        elif kind not in _UNEXPLORED:
            raise RuntimeError(f"gSDEModule needs the interaction type 'random' or 'mode', got {kind}.")
        squares = (sigma * state[..., None, :]) ** 2
        scale = np.sqrt(np.maximum(squares.sum(-1), dtype.type(1e-5)))
        values = value_of(scale)
        if isinstance(values, np.ndarray) and not np.isfinite(values).all():
            warnings.warn("the scale of gSDEModule is not finite.", stacklevel=2)
        return mu, scale, action if self.transform is None else self.transform(action), epsilon


class LazygSDEModule(LazyModuleMixin, gSDEModule):
    """A `gSDEModule` whose first call tells its sizes; with it, it becomes a `gSDEModule`.

    States of the first call that are many set sigma for each of their entries, such that the action has
    the deviation `sigma_init`, 1 by default.

    Args:
        sigma_init, scale_min, scale_max, learn_sigma, transform, device, rng: as of `gSDEModule`.

    Shapes:
        as of `gSDEModule`; parameters and buffers have none before the first call.

    Dtypes:
        as of `gSDEModule`.

    Raises:
        RuntimeError: as of `gSDEModule`.

    Source:
        torchrl.modules.LazygSDEModule.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> module = nn.LazygSDEModule(rng=0)
        >>> with nn.set_interaction_type("mode"):
        ...     *_, epsilon = module(np.zeros((5, 2), np.float32), np.ones((5, 3), np.float32), None)
        >>> type(module).__name__, module.log_sigma.shape, epsilon.shape
        ('gSDEModule', (2, 3), (5, 2, 3))
    """

    cls_to_become = gSDEModule

    def __init__(
        self,
        sigma_init: float | None = None,
        scale_min: float = 0.01,
        scale_max: float = 10.0,
        learn_sigma: bool = True,
        transform: Callable[[Any], Any] | None = None,
        device: Device | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__(0, 0, 0.0, scale_min, scale_max, learn_sigma, transform, device, rng=rng)
        self._deviation = 1.0 if sigma_init is None else sigma_init
        self._least = scale_min if sigma_init is None and learn_sigma else 0.0
        if learn_sigma:
            self.log_sigma = UninitializedParameter(device=device)
        else:
            self._set_buffer("_sigma", UninitializedBuffer(device=device))
        self.register_buffer("sigma_init", UninitializedBuffer(device=device))

    def initialize_parameters(self, mu: Any, state: Any, _eps_gSDE: Any) -> None:
        """Infer the sizes, and sigma from the states' squares."""
        if not self.has_uninitialized_params():
            return
        size = state.shape[-1]
        rows = value_of(state).reshape(-1, size)
        inverse = 1 / (rows * rows).mean(0) if state.ndim > 1 else np.ones(1, rows.dtype)
        start = self._deviation * np.sqrt(np.maximum(inverse, self._least) / size)
        if self.learn_sigma:
            start = inv_softplus(start)
        name = "log_sigma" if self.learn_sigma else "_sigma"
        for own, shape in (("sigma_init", start.shape), (name, (mu.shape[-1], size))):
            if own in self._parameters:
                self.__dict__["_parameters"][own].materialize(shape)
            else:
                self._set_buffer(own, self._buffers[own].materialize(shape))
            held = self._held(own) if own in self._parameters else self._buffers[own]
            held[...] = np.broadcast_to(start, shape)


def _is_unknown(epsilon: Array, batch: tuple[int, ...]) -> bool:
    """Whether it is one zero for each element of the batch."""
    if is_symbolic(epsilon) or epsilon.size != math.prod(batch):
        return False
    return not value_of(epsilon).any()


belong_to("lite.nn", LazygSDEModule, gSDEModule)
