"""NoisyLinear: a linear layer whose weights have noise that is learnt."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng, empty_array, empty_parameter, fill, fill_uniform, reset
from lite.nn._modules.lazy import LazyLayer
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn._modules.uninitialized import UninitializedBuffer, UninitializedParameter
from lite.nn.layers.dropout import generator
from lite.nn.layers.linear import linear
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
        self._rng: Rng = rng
        shapes = {"weight": (out_features, in_features), "bias": (out_features,)}
        for name, shape in shapes.items():
            some = name == "weight" or bias
            for part in ("_mu", "_sigma"):
                self.register_parameter(name + part, empty_parameter(shape, device, dtype) if some else None)
        for name, shape in shapes.items():
            some = name == "weight" or bias
            self.register_buffer(f"{name}_epsilon", empty_array(shape, device, dtype) if some else None)
        self._rng = np.random.default_rng(rng)
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
            if isinstance(buffer, np.ndarray):
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


belong_to("lite.nn", NoisyLazyLinear, NoisyLinear)
