"""Networks of DDPG: actors and values of their actions, of vectors and of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import fill_uniform
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn.layers.activations import ELU
from lite.nn.layers.mlp import MLP
from lite.nn.layers.pooling import AdaptiveAvgPool2d
from lite.nn.policies.conv_net import ConvNet, SquashDims

Options = dict[str, Any] | None


class DdpgMlpActor(Module):
    """The actor of DDPG for vectors; the weights of its last layer are below 0.003 at first.

    Args:
        action_dim: size of an action.
        mlp_net_kwargs: arguments of the `MLP` that are not the default, `depth=2`, `num_cells=[400, 300]`,
            `activation_class=ELU`.
        device: "cpu", or "meta" for parameters without data.

    Shapes:
        input (*B, size), output (*B, action_dim).

    Source:
        torchrl.modules.DdpgMlpActor; Lillicrap et al. (2015), arXiv:1509.02971.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.DdpgMlpActor(2)(np.zeros((5, 3), np.float32)).shape
        (5, 2)
    """

    def __init__(self, action_dim: int, mlp_net_kwargs: Options = None, device: Device | None = None) -> None:
        super().__init__()
        options = {"depth": 2, "num_cells": [400, 300], "activation_class": ELU, **(mlp_net_kwargs or {})}
        self.mlp = MLP(out_features=action_dim, device=device, **options)
        _shrink(self.mlp, 3e-3)

    def forward(self, observation: Array) -> Array:
        """The action of an observation."""
        return self.mlp(observation)


class DdpgCnnActor(Module):
    """The actor of DDPG for images; the weights of its last layer are below 0.0003 at first.

    Args:
        action_dim: size of an action.
        conv_net_kwargs: arguments of the `ConvNet` that are not the default, `num_cells=[32, 64, 64]`,
            `kernel_sizes=[8, 4, 3]`, `strides=[4, 2, 1]`, `paddings=[0, 0, 1]`.
        mlp_net_kwargs: arguments of the `MLP` that are not the default, `depth=2`, `num_cells=200`,
            `activation_class=ELU`.
        use_avg_pooling: whether the mean over all pixels stands for them, instead of all in one vector.
        device: "cpu", or "meta" for parameters without data.

    Shapes:
        input (*B, channels, H, W), outputs (*B, action_dim) and the features (*B, size).

    Source:
        torchrl.modules.DdpgCnnActor; Lillicrap et al. (2015), arXiv:1509.02971.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> action, hidden = nn.DdpgCnnActor(2)(np.zeros((5, 3, 64, 64), np.float32))
        >>> action.shape, hidden.shape
        ((5, 2), (5, 2304))
    """

    def __init__(
        self,
        action_dim: int,
        conv_net_kwargs: Options = None,
        mlp_net_kwargs: Options = None,
        use_avg_pooling: bool = False,
        device: Device | None = None,
    ) -> None:
        super().__init__()
        self.convnet = _convolutions([32, 64, 64], use_avg_pooling, conv_net_kwargs, device)
        options = {"depth": 2, "num_cells": 200, "activation_class": ELU, **(mlp_net_kwargs or {})}
        self.mlp = MLP(out_features=action_dim, device=device, **options)
        _shrink(self.mlp, 3e-4)

    def forward(self, observation: Array) -> tuple[Array, Array]:
        """The action of an observation, and its features."""
        hidden = self.convnet(observation)
        return self.mlp(hidden), hidden


class DdpgMlpQNet(Module):
    """The value of an action in DDPG, for vectors; the weights of its last layer are below 0.003 at first.

    Args:
        mlp_net_kwargs_net1: arguments of the `MLP` of the observation that are not the default,
            `out_features=400`, `depth=0`, `num_cells=[]`, `activation_class=ELU`, `activate_last_layer=True`.
        mlp_net_kwargs_net2: arguments of the `MLP` of its output and the action that are not the default,
            `out_features=1`, `num_cells=[300]`, `activation_class=ELU`.
        device: "cpu", or "meta" for parameters without data.

    Shapes:
        inputs (*B, size) and (*B, action_dim), output (*B, 1).

    Source:
        torchrl.modules.DdpgMlpQNet; Lillicrap et al. (2015), arXiv:1509.02971.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.DdpgMlpQNet()(np.zeros((5, 3), np.float32), np.zeros((5, 2), np.float32)).shape
        (5, 1)
    """

    def __init__(
        self,
        mlp_net_kwargs_net1: Options = None,
        mlp_net_kwargs_net2: Options = None,
        device: Device | None = None,
    ) -> None:
        super().__init__()
        first: dict[str, Any] = {"out_features": 400, "depth": 0, "num_cells": [], "activation_class": ELU}
        first |= {"activate_last_layer": True, **(mlp_net_kwargs_net1 or {})}
        second: dict[str, Any] = {"out_features": 1, "num_cells": [300], "activation_class": ELU}
        second |= mlp_net_kwargs_net2 or {}
        self.mlp1 = MLP(device=device, **first)
        self.mlp2 = MLP(device=device, **second)
        _shrink(self.mlp2, 3e-3)

    def forward(self, observation: Array, action: Array) -> Array:
        """The value of an action, given an observation."""
        return self.mlp2(np.concatenate([self.mlp1(observation), action], -1))


class DdpgCnnQNet(Module):
    """The value of an action in DDPG, for images; the weights of its last layer are below 0.0003 at first.

    Args:
        conv_net_kwargs: arguments of the `ConvNet` that are not the default, `num_cells=[32, 64, 128]`,
            `kernel_sizes=[8, 4, 3]`, `strides=[4, 2, 1]`, `paddings=[0, 0, 1]`.
        mlp_net_kwargs: arguments of the `MLP` that are not the default, `out_features=1`,
            `depth=2`, `num_cells=200`, `activation_class=ELU`.
        use_avg_pooling: whether the mean over all pixels stands for them, instead of all in one vector.
        device: "cpu", or "meta" for parameters without data.

    Shapes:
        inputs (*B, channels, H, W) and (*B, action_dim), output (*B, 1).

    Source:
        torchrl.modules.DdpgCnnQNet; Lillicrap et al. (2015), arXiv:1509.02971.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.DdpgCnnQNet()(np.zeros((5, 3, 64, 64), np.float32), np.zeros((5, 2), np.float32)).shape
        (5, 1)
    """

    def __init__(
        self,
        conv_net_kwargs: Options = None,
        mlp_net_kwargs: Options = None,
        use_avg_pooling: bool = True,
        device: Device | None = None,
    ) -> None:
        super().__init__()
        self.convnet = _convolutions([32, 64, 128], use_avg_pooling, conv_net_kwargs, device)
        options: dict[str, Any] = {"out_features": 1, "depth": 2, "num_cells": 200, "activation_class": ELU}
        self.mlp = MLP(device=device, **{**options, **(mlp_net_kwargs or {})})
        _shrink(self.mlp, 3e-4)

    def forward(self, observation: Array, action: Array) -> Array:
        """The value of an action, given an observation."""
        return self.mlp(np.concatenate([self.convnet(observation), action], -1))


def _convolutions(cells: list[int], pooled: bool, given: Options, device: Device | None) -> ConvNet:
    options: dict[str, Any] = {
        "num_cells": cells,
        "kernel_sizes": [8, 4, 3],
        "strides": [4, 2, 1],
        "paddings": [0, 0, 1],
        "activation_class": ELU,
        "aggregator_class": AdaptiveAvgPool2d if pooled else SquashDims,
        "aggregator_kwargs": {"output_size": (1, 1)} if pooled else {"ndims_in": 3},
        "squeeze_output": pooled,
    }
    return ConvNet(device=device, **{**options, **(given or {})})


def _shrink(mlp: MLP, bound: float) -> None:
    """Redraw weight and bias of the last layer, from U(-bound, bound)."""
    rng = np.random.default_rng()
    for parameter in mlp[-1].parameters():
        fill_uniform(parameter.data, bound, rng)


belong_to("lite.nn", DdpgCnnActor, DdpgCnnQNet, DdpgMlpActor, DdpgMlpQNet)
