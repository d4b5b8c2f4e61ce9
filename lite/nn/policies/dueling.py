"""Dueling networks: action values as the value of the state and advantages."""

from __future__ import annotations

from typing import Any

from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import fill
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn._modules.uninitialized import is_uninitialized
from lite.nn.layers.activations import ELU
from lite.nn.layers.convolution import Conv2d
from lite.nn.layers.linear import Linear
from lite.nn.layers.mlp import MLP
from lite.nn.policies.conv_net import ConvNet

Options = dict[str, Any] | None


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
        mlp_kwargs_feature: Options = None,
        mlp_kwargs_output: Options = None,
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
        cnn_kwargs: Options = None,
        mlp_kwargs: Options = None,
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


belong_to("lite.nn", DuelingCnnDQNet, DuelingMlpDQNet)
