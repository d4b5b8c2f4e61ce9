"""Noise in layers: NoisyLinear, whose weights have learnt noise; gSDE, noise that follows the state."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite import get_default_dtype
from lite._arrays.caller import warn
from lite._arrays.formulas import softplus
from lite._arrays.public import belong_to
from lite._arrays.types import Array, HostArray, is_symbolic
from lite._transforms.grad.tape import value_of
from lite.nn._modules.initial import (
    Rng,
    UninitializedBuffer,
    UninitializedParameter,
    empty_array,
    empty_parameter,
    fill,
    fill_uniform,
    reset,
)
from lite.nn._modules.lazy import LazyLayer, LazyModuleMixin
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn.layers.dropout import generator
from lite.nn.layers.linear import linear
from lite.nn.layers.normal_params import inv_softplus
from lite.nn.settings import InteractionType, interaction_type


class NoisyLinear(Module):
    """An affine map with noisy weights: each is mu + sigma epsilon.

    The noise epsilon stays the same until `reset_noise`. It takes part while `interaction_type()` is RANDOM;
    or, with `use_exploration_type=False`, in training mode.

    Args:
        in_features: size of the last dimension of the input.
        out_features: size of the last dimension of the output.
        bias: whether there is a bias.
        device: "cpu", or "meta" for parameters without data.
        dtype: dtype of the parameters; the default float dtype if not given.
        std_init: initial values of sigma, times √in_features or, for the bias, √out_features.
        use_exploration_type: whether the interaction type says when there is noise; None means True.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy; mu is drawn from
            U(-1/√in_features, 1/√in_features), then the noise, also at each `reset_noise`.

    Shapes:
        input (*B, in_features), `weight_mu`, `weight_sigma` and the buffer `weight_epsilon` (out_features,
        in_features), `bias_mu`, `bias_sigma` and the buffer `bias_epsilon` (out_features,), output
        (*B, out_features).

    Dtypes:
        as of `Linear`.

    Raises:
        RuntimeError: if the last dimension of the input is not `in_features`.

    Source:
        torchrl.modules.NoisyLinear; Fortunato et al. (2018), arXiv:1706.10295.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.NoisyLinear(3, 4, rng=0)
        >>> x = np.ones((2, 3), np.float32)
        >>> with nn.set_interaction_type("random"):
        ...     noisy = layer(x)
        >>> noisy.shape, bool((noisy == layer(x)).any())
        ((2, 4), False)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        std_init: float = 0.5,
        use_exploration_type: bool | None = True,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.std_init = std_init
        self.use_exploration_type = use_exploration_type is not False
        for name, shape in (("weight", (out_features, in_features)), ("bias", (out_features,))):
            some = name == "weight" or bias
            for part in ("_mu", "_sigma"):
                self.register_parameter(name + part, empty_parameter(shape, device, dtype) if some else None)
            self.register_buffer(f"{name}_epsilon", empty_array(shape, device, dtype) if some else None)
        self._rng: Rng = np.random.default_rng(rng)
        reset(self, self._rng)
        self.reset_noise()

    def reset_parameters(self, rng: Rng = None) -> None:
        """Redraw mu, and set sigma to its initial values, in place; the noise stays."""
        drawing = np.random.default_rng(rng)
        bound = 1.0 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
        fill_uniform(self._held("weight_mu"), bound, drawing)
        fill(self._held("weight_sigma"), self.std_init * bound)
        fill_uniform(self._held("bias_mu"), bound, drawing)
        if self.bias_sigma is not None:
            fill(self._held("bias_sigma"), self.std_init / math.sqrt(self.out_features))

    def reset_noise(self) -> None:
        """Redraw the noise, in place: products of one number per input and one per output."""
        rng = generator(self)
        of_inputs, of_outputs = (
            np.sign(x) * np.sqrt(np.abs(x))
            for x in (rng.standard_normal(self.in_features), rng.standard_normal(self.out_features))
        )
        for buffer, noise in (
            (self.weight_epsilon, np.outer(of_outputs, of_inputs)),
            (self.bias_epsilon, of_outputs),
        ):
            if isinstance(buffer, np.ndarray | HostArray):
                buffer[...] = noise

    @property
    def weight(self) -> Array:
        """The weight that a call multiplies with now."""
        return self._noisy("weight")

    @property
    def bias(self) -> Array | None:
        """The bias that a call adds now."""
        return self._noisy("bias")

    def _noisy(self, name: str) -> Any:
        mu = self._tensor(f"{name}_mu")
        if mu is None or not self._has_noise():
            return mu
        return mu + self._tensor(f"{name}_sigma") * getattr(self, f"{name}_epsilon")

    def _has_noise(self) -> bool:
        return interaction_type() is InteractionType.RANDOM if self.use_exploration_type else self.training

    def forward(self, input: Array) -> Array:
        """Map input (*B, in_features) to (*B, out_features)."""
        return linear(input, self._noisy("weight"), self._noisy("bias"))

    def extra_repr(self) -> str:
        """The sizes, and whether there is a bias."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias_mu is not None}"
        )


class NoisyLazyLinear(LazyLayer, NoisyLinear):
    """A `NoisyLinear` that infers `in_features` from its first input, and then becomes a `NoisyLinear`.

    Args:
        out_features, bias, device, dtype, std_init, use_exploration_type, rng: as of `NoisyLinear`.

    Shapes:
        as of `NoisyLinear`; parameters and buffers have none before the first call.

    Dtypes:
        as of `Linear`.

    Raises:
        RuntimeError: an input without dimensions.

    Source:
        torchrl.modules.NoisyLazyLinear.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> layer = nn.NoisyLazyLinear(4)
        >>> layer(np.zeros((2, 3), np.float32)).shape, layer
        ((2, 4), NoisyLinear(in_features=3, out_features=4, bias=True))
    """

    cls_to_become = NoisyLinear
    _size_name = "in_features"

    def __init__(
        self,
        out_features: int,
        bias: bool = True,
        device: Device | None = None,
        dtype: DTypeLike | None = None,
        std_init: float = 0.5,
        use_exploration_type: bool | None = True,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__(0, 0, False, std_init=std_init, use_exploration_type=use_exploration_type, rng=rng)
        self.out_features = out_features
        names = ("weight", "bias") if bias else ("weight",)
        for name in names:
            for part in ("_mu", "_sigma"):
                setattr(self, name + part, UninitializedParameter(device=device, dtype=dtype))
        for name in names:
            self.register_buffer(f"{name}_epsilon", UninitializedBuffer(device=device, dtype=dtype))

    def _shapes(self, size: int) -> dict[str, tuple[int, ...]]:
        sizes = {"weight": (self.out_features, size), "bias": (self.out_features,)}
        return {name + part: sizes[name] for name in sizes for part in ("_mu", "_sigma", "_epsilon")}

    def _known_size(self) -> int:
        return int(self._tensor("weight_mu").shape[-1])

    def initialize_parameters(self, input: Any) -> None:
        """Infer `in_features` from the input, and draw initial values and noise."""
        fresh = self.has_uninitialized_params()
        drawing = self._rng
        super().initialize_parameters(input)
        self._rng = drawing  # the noise goes on from the generator of the initial values
        if fresh:
            self.reset_noise()

    def reset_noise(self) -> None:
        """As of `NoisyLinear`; does nothing while parameters are uninitialised."""
        if not self.has_uninitialized_params():
            super().reset_noise()


def reset_noise(layer: Module) -> None:
    """Redraw the noise of a layer if it has any: for `Module.apply`.

    Source:
        torchrl.modules.reset_noise.

    Example:
        >>> from lite import nn
        >>> net = nn.Sequential(nn.NoisyLinear(3, 4), nn.ReLU(), nn.NoisyLinear(4, 2))
        >>> before = net[0].weight_epsilon.copy()
        >>> _ = net.apply(nn.reset_noise)
        >>> bool((before == net[0].weight_epsilon).any())
        False
    """
    if hasattr(layer, "reset_noise"):
        layer.reset_noise()


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
            warn("the scale of gSDEModule is not finite.")
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


belong_to("lite.nn", NoisyLazyLinear, NoisyLinear, LazygSDEModule, gSDEModule)
