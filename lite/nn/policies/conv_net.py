"""ConvNet and dueling networks: convolutions with activations, and layers that merge or drop dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng, fill, is_uninitialized
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn.layers.activations import ELU, ReLU
from lite.nn.layers.containers import Sequential
from lite.nn.layers.convolution import Conv2d, LazyConv2d
from lite.nn.layers.linear import Linear
from lite.nn.layers.mlp import MLP, Options, made_activation, of_each

_CELLS = [32, 32, 32]


class SquashDims(Module):
    """Merge the last dimensions.

    Args:
        ndims_in: how many.

    Shapes:
        input (*B, *merged), output (*B, prod(merged)).

    Source:
        torchrl.modules.models.utils.SquashDims.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.SquashDims()(np.zeros((2, 3, 4, 5))).shape
        (2, 60)
    """

    def __init__(self, ndims_in: int = 3) -> None:
        super().__init__()
        self.ndims_in = ndims_in

    def forward(self, value: Array) -> Array:
        """Merge the last dimensions of the input."""
        first = value.ndim - self.ndims_in
        return value.reshape(*value.shape[:first], math.prod(value.shape[first:]))


class SqueezeLayer(Module):
    """Drop dimensions of size 1.

    Args:
        dims: which ones, counted from the end.

    Raises:
        RuntimeError: a dimension that is not negative; in a call, one of another size.
        IndexError: in a call, an input of fewer dimensions.

    Source:
        torchrl.modules.SqueezeLayer.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.SqueezeLayer()(np.zeros((2, 3, 1))).shape
        (2, 3)
    """

    def __init__(self, dims: Sequence[int] = (-1,)) -> None:
        super().__init__()
        if any(dim >= 0 for dim in dims):
            raise RuntimeError(f"dims must be negative, got {tuple(dims)}.")
        self.dims = tuple(dims)

    def forward(self, value: Array) -> Array:
        """Drop the dimensions."""
        if value.ndim < -min(self.dims):
            raise IndexError(f"the input must have {-min(self.dims)} dimensions, got shape {value.shape}.")
        if any(value.shape[dim] != 1 for dim in self.dims):
            raise RuntimeError(f"the dimensions {self.dims} must be of size 1, got shape {value.shape}.")
        return value.squeeze(self.dims)


class Squeeze2dLayer(SqueezeLayer):
    """Drop the last two dimensions, those of an image of one pixel.

    Raises:
        RuntimeError: in a call, a larger image.

    Source:
        torchrl.modules.Squeeze2dLayer.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.Squeeze2dLayer()(np.zeros((2, 3, 1, 1))).shape
        (2, 3)
    """

    def __init__(self) -> None:
        super().__init__((-2, -1))


class ConvNet(Sequential):
    """Convolutions, each followed by an activation, and what makes one vector of their output.

    Args:
        in_features: channels of the input; None for a first layer that finds them out at its first call.
        depth: number of convolutions; by default as many as the lists below have entries.
        num_cells: channels of each, or one number for all of them; [32, 32, 32] by default.
        kernel_sizes, strides, paddings: those of each layer, or one for all of them; see `Conv2d`.
        activation_class: what makes the activations.
        activation_kwargs: its keyword arguments, or a list of them, one per activation.
        norm_class: what makes the normalisations after the activations, if any.
        norm_kwargs: its keyword arguments, or a list of them.
        bias_last_layer: whether the last convolution has a bias.
        aggregator_class: what makes the layer after all convolutions; None for no such layer.
        aggregator_kwargs: its keyword arguments.
        squeeze_output: whether a `Squeeze2dLayer` ends the network.
        device: "cpu", or "meta" for parameters without data.
        rng: as of `Conv2d`; all layers draw from it.

    Shapes:
        input (*B, in_features, H, W), output (*B, channels * H' * W') with `SquashDims`.

    Raises:
        ValueError: `depth` is not given, and no argument is a list; keyword arguments of another number.
        RuntimeError: lists of different lengths; in a call, as `Conv2d`.

    Source:
        torchrl.modules.ConvNet, with the same names in its state dict.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> net = nn.ConvNet(3, num_cells=[4, 8], kernel_sizes=[8, 4], strides=[4, 2])
        >>> net(np.zeros((2, 5, 3, 84, 84), np.float32)).shape
        (2, 5, 648)
    """

    def __init__(
        self,
        in_features: int | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        kernel_sizes: Sequence[Any] | int = 3,
        strides: Sequence[Any] | int = 1,
        paddings: Sequence[Any] | int = 0,
        activation_class: Callable[..., Any] = ELU,
        activation_kwargs: Options = None,
        norm_class: Callable[..., Any] | None = None,
        norm_kwargs: Options = None,
        bias_last_layer: bool = True,
        aggregator_class: Callable[..., Any] | None = SquashDims,
        aggregator_kwargs: dict[str, Any] | None = None,
        squeeze_output: bool = False,
        device: Device | None = None,
        rng: Rng = None,
    ) -> None:
        given = {
            "num_cells": _CELLS if num_cells is None else num_cells,
            "kernel_sizes": kernel_sizes,
            "strides": strides,
            "paddings": paddings,
        }
        count = _depth(depth, given)
        cells, kernels, steps, rims = (
            list(value) if isinstance(value, Sequence) else [value] * count for value in given.values()
        )
        activations, norms = of_each(activation_kwargs, count), of_each(norm_kwargs, count)
        placed: dict[str, Any] = {} if device is None else {"device": device}
        drawn: dict[str, Any] = {} if rng is None else {"rng": np.random.default_rng(rng)}
        layers: list[Any] = []
        channels = in_features
        for i in range(count):
            options: dict[str, Any] = {
                "kernel_size": kernels[i],
                "stride": steps[i],
                "padding": rims[i],
                **placed,
                **drawn,
            }
            options["bias"] = bias_last_layer or i < count - 1
            if channels is None:
                layers.append(LazyConv2d(cells[i], **options))
            else:
                layers.append(Conv2d(channels, cells[i], **options))
            channels = cells[i]
            layers.append(made_activation(activation_class, next(activations)))
            if norm_class is not None:
                layers.append(norm_class(**next(norms), **placed))
        if aggregator_class is not None:
            layers.append(aggregator_class(**(aggregator_kwargs or {})))
        if squeeze_output:
            layers.append(Squeeze2dLayer())
        super().__init__(*layers)
        self.in_features = in_features
        self.out_features = channels
        self.depth = count

    @classmethod
    def default_atari_dqn(cls, num_actions: int) -> Sequential:
        """The network of Mnih et al. (2015): frames (*B, 4, 84, 84), or others, to values (*B, num_actions).

        Source:
            torchrl.modules.ConvNet.default_atari_dqn, with the same names in its state dict;
            https://www.nature.com/articles/nature14236.
        """
        convolutions = ConvNet(None, None, [32, 64, 64], [8, 4, 3], [4, 2, 1], activation_class=ReLU)
        return Sequential(convolutions, MLP(None, num_actions, num_cells=[512], activation_class=ReLU))

    def _make(self, modules: Iterable[Module]) -> Any:
        return Sequential(*modules)  # a slice is not a ConvNet: the constructor takes sizes

    def forward(self, inputs: Array) -> Array:
        """Map (*B, in_features, H, W) to (*B, size)."""
        if inputs.ndim < 3:
            raise ValueError(f"the input must be (*batch, channels, H, W), got shape {inputs.shape}.")
        batch = inputs.shape[:-3]
        if len(batch) == 1:
            return super().forward(inputs)
        out = super().forward(inputs.reshape(-1, *inputs.shape[-3:]))
        return out.reshape(*batch, *out.shape[1:])


def _depth(depth: int | None, given: dict[str, Any]) -> int:
    """The number of convolutions, which all lists agree on."""
    lengths = {name: len(value) for name, value in given.items() if isinstance(value, Sequence)}
    if depth is None and not lengths:
        raise ValueError(f"depth must be given where none of {list(given)} is a list.")
    count = next(iter(lengths.values())) if depth is None else depth
    if any(length != count for length in lengths.values()):
        raise RuntimeError(f"depth and lists must agree, got depth={depth} and the lengths {lengths}.")
    return count


class _Dueling(Module):
    """Features, and value plus advantage minus its mean of them."""

    features: Module
    advantage: MLP
    value: MLP

    def _heads(
        self, out_features: Any, out_features_value: int, options: dict[str, Any], device: Any
    ) -> None:
        self.out_features = out_features
        self.out_features_value = out_features_value
        self.advantage = MLP(out_features=out_features, device=device, **options)
        self.value = MLP(out_features=out_features_value, device=device, **options)
        for module in self.modules():
            # Lazy layers draw their biases later, so these stay; TorchRL has the same.
            if isinstance(module, Linear | Conv2d) and not is_uninitialized(module.bias):
                fill(module._held("bias"), 0.0)

    def forward(self, x: Array) -> Array:
        """Action values (*B, out_features) of the input."""
        x = self.features(x)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(-1, keepdims=True)


class DuelingMlpDQNet(_Dueling):
    """A dueling network of vectors.

    Args:
        out_features: number of actions.
        out_features_value: size of the value of the state.
        mlp_kwargs_feature: arguments of the `MLP` of the features that are not to be 4 layers of 256: by
            default `num_cells=[256, 256]`, `out_features=256`, `activation_class=ELU`,
            `activate_last_layer=True`.
        mlp_kwargs_output: arguments of the `MLP`s of value and advantage that are not the default,
            `num_cells=512`, `depth=1`, `activation_class=ELU`.
        device: "cpu", or "meta" for parameters without data.

    Shapes:
        input (*B, size), output (*B, out_features).

    Source:
        torchrl.modules.models.models.DuelingMlpDQNet; Wang et al. (2016), Dueling network architectures for
        deep reinforcement learning (arXiv:1511.06581).

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.DuelingMlpDQNet(4)(np.zeros((5, 3), np.float32)).shape
        (5, 4)
    """

    def __init__(
        self,
        out_features: int,
        out_features_value: int = 1,
        mlp_kwargs_feature: dict[str, Any] | None = None,
        mlp_kwargs_output: dict[str, Any] | None = None,
        device: Device | None = None,
    ) -> None:
        super().__init__()
        features: dict[str, Any] = {"num_cells": [256, 256], "out_features": 256, "activation_class": ELU}
        features |= {"activate_last_layer": True, **(mlp_kwargs_feature or {})}
        self.features = MLP(device=device, **features)
        heads = {"depth": 1, "num_cells": 512, "activation_class": ELU, **(mlp_kwargs_output or {})}
        self._heads(out_features, out_features_value, heads, device)


class DuelingCnnDQNet(_Dueling):
    """A dueling network of images.

    Args:
        out_features: number of actions.
        out_features_value: size of the value of the state.
        cnn_kwargs: arguments of the `ConvNet` of the features that are not the default, `num_cells=[32, 64,
            64]`, `strides=[4, 2, 1]`, `kernel_sizes=[8, 4, 3]`.
        mlp_kwargs: arguments of the `MLP`s of value and advantage that are not the default, `num_cells=512`,
            `depth=1`, `activation_class=ELU`.
        device: "cpu", or "meta" for parameters without data.

    Shapes:
        input (*B, channels, H, W), output (*B, out_features).

    Source:
        torchrl.modules.DuelingCnnDQNet; Wang et al. (2016), arXiv:1511.06581.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.DuelingCnnDQNet(4)(np.zeros((2, 3, 64, 64), np.float32)).shape
        (2, 4)
    """

    def __init__(
        self,
        out_features: int,
        out_features_value: int = 1,
        cnn_kwargs: dict[str, Any] | None = None,
        mlp_kwargs: dict[str, Any] | None = None,
        device: Device | None = None,
    ) -> None:
        super().__init__()
        features: dict[str, Any] = {
            "num_cells": [32, 64, 64],
            "strides": [4, 2, 1],
            "kernel_sizes": [8, 4, 3],
        }
        self.features = ConvNet(device=device, **{**features, **(cnn_kwargs or {})})
        heads = {"depth": 1, "num_cells": 512, "activation_class": ELU, **(mlp_kwargs or {})}
        self._heads(out_features, out_features_value, heads, device)


belong_to("lite.nn", ConvNet, SquashDims, Squeeze2dLayer, SqueezeLayer, DuelingCnnDQNet, DuelingMlpDQNet)
