"""Networks of several agents: MultiAgentMLP, whose agents share parameters and observations or do not, and
VDNMixer and QMixer, which join the values of all agents to one."""

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
from lite.nn.layers.activations import ReLU, Tanh
from lite.nn.layers.containers import Sequential
from lite.nn.layers.linear import Linear
from lite.nn.layers.mlp import MLP


class MultiAgentMLP(Module):
    """An `MLP` of each agent.

    Args:
        n_agent_inputs: size of an agent's input.
        n_agent_outputs: size of an agent's output.
        n_agents: how many there are.
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
        centralized = kwargs.pop("centralised", centralized)
        for name, flag in (("centralized", centralized), ("share_params", share_params)):
            if flag is None:
                raise TypeError(f"{name} must be given.")
        if n_agent_inputs is None:
            raise ValueError("n_agent_inputs must be given, got None.")
        self.n_agent_inputs = n_agent_inputs
        self.n_agent_outputs = n_agent_outputs
        self.n_agents = n_agents
        self.centralized = bool(centralized)
        self.share_params = bool(share_params)
        net = MLP(
            n_agent_inputs * (n_agents if centralized else 1),
            n_agent_outputs,
            depth,
            num_cells,
            Tanh if activation_class is None else activation_class,
            device=device,
            **kwargs,
        )
        # No child: its parameters are those of `params`, which take the place of its own.
        self.__dict__["_net"] = net
        params = TensorDict.from_module(net).data
        params = params.clone() if share_params else params.expand(n_agents).clone()
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
        if x.ndim < 2 or x.shape[-2] != self.n_agents:
            raise ValueError(
                f"the input must be (*batch, {self.n_agents} agents, size), got shape {x.shape}."
            )
        if self.centralized:
            x = x.reshape(*x.shape[:-2], self.n_agents * x.shape[-1])
        if not self.share_params:
            from lite import vmap  # its rules are imported on first use

            in_dims = (0, None if self.centralized else -2)
            return vmap(self._call, in_dims, -2, randomness="different")(self.params, x)
        out = self._call(self.params, x)
        if not self.centralized:
            return out
        return np.broadcast_to(out[..., None, :], (*out.shape[:-1], self.n_agents, out.shape[-1])).copy()

    def _call(self, params: Any, x: Array) -> Array:
        with params.to_module(self._net):
            return self._net(x)

    def __repr__(self) -> str:
        lines = [repr(self._net), f"n_agents={self.n_agents}", f"share_params={self.share_params}"]
        body = ",\n".join([*lines, f"centralized={self.centralized}", f"agent_dim={self.agent_dim}"])
        return f"{type(self).__name__}(\n    {indented(body, 4)})"


class VDNMixer(Module):
    """The sum of the values of all agents.

    Args:
        n_agents: how many there are.
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
        n_agents: how many there are.
        device: "cpu".
        rng: a `numpy.random.Generator`, a seed, or None for fresh entropy, for the initial values.

    Shapes:
        inputs (*B, n_agents, 1) and (*B, *state_shape), output (*B, 1).

    Raises:
        TypeError: a size that is no integer, a state_shape that is no tuple of them.
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


belong_to("lite.nn", MultiAgentMLP, QMixer, VDNMixer)
