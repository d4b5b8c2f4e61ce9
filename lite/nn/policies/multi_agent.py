"""Networks of several agents: MultiAgentMLP and MultiAgentConvNet, whose agents share parameters and
observations or do not, and VDNMixer and QMixer, which join the values of all agents to one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lite import TensorDict
from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.kernels._integer import integer
from lite.nn._modules.initial import Rng, reset
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module, indented
from lite.nn._parameters.params import TensorDictParams
from lite.nn.functional import elu
from lite.nn.layers.activations import ELU, ReLU, Tanh
from lite.nn.layers.containers import Sequential
from lite.nn.layers.linear import Linear
from lite.nn.layers.mlp import MLP
from lite.nn.policies.conv_net import ConvNet


class _NetOfEach(Module):
    """A network of each agent; subclasses make it, and say where the dimension of agents is, from the end."""

    agent_dim: int
    _form: str  # of an input

    def _set_agents(self, n_agents: int, centralized: bool | None, share_params: bool | None) -> None:
        for name, flag in (("centralized", centralized), ("share_params", share_params)):
            if flag is None:
                raise TypeError(f"{name} must be given.")
        self.n_agents = n_agents
        self.centralized, self.share_params = bool(centralized), bool(share_params)

    def _set_net(self, net: Any, rng: Rng) -> None:
        # No child: its parameters are those of `params`, which take the place of its own.
        self.__dict__["_net"] = net
        params = TensorDict.from_module(net).data
        params = params.clone() if self.share_params else params.expand(self.n_agents).clone()
        self.params = TensorDictParams(params)
        self.reset_parameters(rng)

    def reset_parameters(self, rng: Rng = None) -> None:
        """Redraw the parameters of each agent, in place."""
        drawing = np.random.default_rng(rng)
        arrays = self.params.data
        for part in [arrays] if self.share_params else arrays.unbind(0):
            with part.to_module(self._net):
                for layer in self._net:
                    if hasattr(layer, "reset_parameters"):
                        reset(layer, drawing)

    def forward(self, *inputs: Any) -> Array:
        """Map the inputs of all agents to their outputs."""
        x = inputs[0] if len(inputs) == 1 else np.concatenate(inputs, -1)
        place = x.ndim + self.agent_dim
        if place < 0 or x.shape[place] != self.n_agents:
            raise ValueError(
                f"the input must be (*batch, {self.n_agents} agents, {self._form}), got shape {x.shape}."
            )
        if self.centralized:
            x = x.reshape(*x.shape[:place], self.n_agents * x.shape[place + 1], *x.shape[place + 2 :])
        if not self.share_params:
            from lite import vmap  # its rules are imported on first use

            in_dims = (0, None if self.centralized else place)
            return vmap(self._call, in_dims, place, randomness="different")(self.params, x)
        out = self._call(self.params, x)
        if not self.centralized:
            return out
        shape = (*out.shape[:place], self.n_agents, *out.shape[place:])
        return np.broadcast_to(np.expand_dims(out, place), shape).copy()

    def _call(self, params: Any, x: Array) -> Array:
        with params.to_module(self._net):
            return self._net(x)

    def __repr__(self) -> str:
        lines = [repr(self._net), f"n_agents={self.n_agents}", f"share_params={self.share_params}"]
        body = ",\n".join([*lines, f"centralized={self.centralized}", f"agent_dim={self.agent_dim}"])
        return f"{type(self).__name__}(\n    {indented(body, 4)})"


class MultiAgentMLP(_NetOfEach):
    """An `MLP` of each agent.

    Args:
        n_agent_inputs: size of an agent's input.
        n_agent_outputs: size of an agent's output.
        n_agents: number of agents.
        centralized: whether each agent sees the inputs of all.
        share_params: whether all agents have the same parameters. Of centralized agents with the same
            parameters, all outputs are the same.
        device: "cpu".
        depth, num_cells, activation_class: as for `MLP`.
        kwargs: further arguments of `MLP`.
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy, for the initial values of each
            agent.

    Attributes:
        params: the parameters, those of agents that do not share them with a dimension of agents in front.

    Shapes:
        inputs (*B, n_agents, n_i) whose sizes add up to n_agent_inputs, output (*B, n_agents,
        n_agent_outputs).

    Raises:
        TypeError: `centralized` or `share_params` is not given.
        ValueError: `n_agent_inputs` is None; in a call, another number of agents.

    Source:
        torchrl.modules.MultiAgentMLP, with the same names in its state dict.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> net = nn.MultiAgentMLP(3, 2, n_agents=4, centralized=False, share_params=False, depth=2)
        >>> net(np.zeros((5, 4, 3), np.float32)).shape
        (5, 4, 2)
    """

    agent_dim = -2
    _form = "size"

    def __init__(
        self,
        n_agent_inputs: int | None,
        n_agent_outputs: int,
        n_agents: int,
        *,
        centralized: bool | None = None,
        share_params: bool | None = None,
        device: Device | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        activation_class: Callable[..., Any] | None = Tanh,
        rng: Rng = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._set_agents(n_agents, kwargs.pop("centralised", centralized), share_params)
        if n_agent_inputs is None:
            raise ValueError("n_agent_inputs must be given, got None.")
        self.n_agent_inputs = n_agent_inputs
        self.n_agent_outputs = n_agent_outputs
        net = MLP(
            n_agent_inputs * (n_agents if self.centralized else 1),
            n_agent_outputs,
            depth,
            num_cells,
            Tanh if activation_class is None else activation_class,
            device=device,
            **kwargs,
        )
        self._set_net(net, rng)


class MultiAgentConvNet(_NetOfEach):
    """A `ConvNet` of each agent.

    Args:
        n_agents: number of agents.
        centralized, share_params, rng: as for `MultiAgentMLP`.
        in_features: channels of an agent's image.
        device: "cpu".
        num_cells, kernel_sizes, strides, paddings, activation_class: as for `ConvNet`, but for the defaults.
        kwargs: further arguments of `ConvNet`.

    Attributes:
        params: as of `MultiAgentMLP`.

    Shapes:
        input (*B, n_agents, channels, height, width), output (*B, n_agents, size).

    Raises:
        TypeError: `centralized` or `share_params` is not given.
        ValueError: `in_features` is None; in a call, another number of agents.

    Source:
        torchrl.modules.MultiAgentConvNet, with the same names in its state dict.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> net = nn.MultiAgentConvNet(2, True, False, in_features=3, num_cells=[8, 8])
        >>> net(np.zeros((5, 2, 3, 20, 20), np.float32)).shape
        (5, 2, 32)
    """

    agent_dim = -4
    _form = "channels, height, width"

    def __init__(
        self, n_agents: int, centralized: bool | None = None, share_params: bool | None = None, *,
        in_features: int | None = None, device: Device | None = None, num_cells: Sequence[int] | None = None,
        kernel_sizes: Sequence[Any] | int = 5, strides: Sequence[Any] | int = 2,
        paddings: Sequence[Any] | int = 0, activation_class: Callable[..., Any] = ELU, rng: Rng = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self._set_agents(n_agents, kwargs.pop("centralised", centralized), share_params)
        if in_features is None:
            raise ValueError("in_features must be given, the channels of an agent's image; got None.")
        net = ConvNet(
            in_features * (n_agents if self.centralized else 1), num_cells=num_cells,
            kernel_sizes=kernel_sizes, strides=strides, paddings=paddings, activation_class=activation_class,
            device=device, **kwargs,
        )  # fmt: skip
        self._set_net(net, rng)


class VDNMixer(Module):
    """The sum of the values of all agents.

    Args:
        n_agents: number of agents.
        device: "cpu".

    Shapes:
        input (*B, n_agents, 1), output (*B, 1).

    Raises:
        ValueError: in a call, another shape.

    Source:
        Sunehag et al. (2017), Value-decomposition networks for cooperative multi-agent learning
        (arXiv:1706.05296); torchrl.modules.VDNMixer.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> nn.VDNMixer(2)(np.array([[1.0], [2.0]], np.float32))
        array([3.], dtype=float32)
    """

    def __init__(self, n_agents: int, device: Device | None = None) -> None:
        super().__init__()
        self.n_agents = n_agents

    def forward(self, chosen_action_value: Array) -> Array:
        """The value of all agents together."""
        _require_values(chosen_action_value, self.n_agents)
        return chosen_action_value.sum(-2)


class QMixer(Module):
    """The values of all agents joined by weights, all at least 0, and biases that come from a state.

    So what raises the value of an agent raises the value of all: each agent may choose by itself.

    Args:
        state_shape: shape of the state that all share, without batch dimensions.
        mixing_embed_dim: size of the hidden layer.
        n_agents: number of agents.
        device: "cpu".
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy, for the initial values.

    Shapes:
        inputs (*B, n_agents, 1) and (*B, *state_shape), output (*B, 1).

    Raises:
        TypeError: a size that is not an integer, a state_shape that is not a tuple of them.
        ValueError: no agents or no layer; in a call, another shape.

    Source:
        Rashid et al. (2018), QMIX (arXiv:1803.11485); torchrl.modules.QMixer, with the same names in its
        state dict.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> mixer = nn.QMixer((4,), 32, n_agents=2, rng=0)
        >>> mixer(np.ones((5, 2, 1), np.float32), np.ones((5, 4), np.float32)).shape
        (5, 1)
    """

    def __init__(
        self,
        state_shape: Sequence[int],
        mixing_embed_dim: int,
        n_agents: int,
        device: Device | None = None,
        *,
        rng: Rng = None,
    ) -> None:
        super().__init__()
        try:
            self.state_shape = tuple(state_shape)
        except TypeError as error:
            raise TypeError(f"state_shape must be a tuple of sizes, got {state_shape!r}.") from error
        self.n_agents = n_agents = integer("n_agents", n_agents, least=1)
        self.embed_dim = mixing_embed_dim = integer("mixing_embed_dim", mixing_embed_dim, least=1)
        self.state_dim = size = math.prod(self.state_shape)
        drawing = np.random.default_rng(rng)

        def layer(inputs: int, outputs: int) -> Linear:
            return Linear(inputs, outputs, device=device, rng=drawing)

        self.hyper_w_1 = layer(size, mixing_embed_dim * n_agents)
        self.hyper_w_final = layer(size, mixing_embed_dim)
        self.hyper_b_1 = layer(size, mixing_embed_dim)
        self.V = Sequential(layer(size, mixing_embed_dim), ReLU(), layer(mixing_embed_dim, 1))

    def forward(self, chosen_action_value: Array, state: Array) -> Array:
        """The value of all agents together."""
        _require_values(chosen_action_value, self.n_agents)
        batch = chosen_action_value.shape[:-2]
        if state.shape != (*batch, *self.state_shape):
            raise ValueError(
                f"the state must have the shape {(*batch, *self.state_shape)}, got {state.shape}."
            )
        state = state.reshape(*batch, self.state_dim)
        weights = np.abs(self.hyper_w_1(state)).reshape(*batch, self.n_agents, self.embed_dim)
        hidden = elu((chosen_action_value * weights).sum(-2) + self.hyper_b_1(state))
        return (hidden * np.abs(self.hyper_w_final(state))).sum(-1, keepdims=True) + self.V(state)


def _require_values(values: Array, n_agents: int) -> None:
    if values.shape[-2:] != (n_agents, 1):
        raise ValueError(f"the values must be (*batch, {n_agents} agents, 1), got shape {values.shape}.")


belong_to("lite.nn", MultiAgentConvNet, MultiAgentMLP, QMixer, VDNMixer)
