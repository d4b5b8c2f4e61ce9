"""MLP: linear layers with activations between them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from lite._arrays.public import belong_to
from lite._arrays.types import Array
from lite.nn._modules.initial import Rng
from lite.nn._modules.lazy import lazy_forms
from lite.nn._modules.meta import Device
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn.layers.activations import Tanh
from lite.nn.layers.containers import Sequential
from lite.nn.layers.dropout import Dropout
from lite.nn.layers.linear import Linear

Options = dict[str, Any] | list[dict[str, Any]] | None


class MLP(Sequential):
    """A multi-layer perceptron; several inputs are concatenated along the last dimension first.

    Args:
        in_features: size of the last dimension of the input; None for a first layer that infers it in its
            first call, such as `LazyLinear`.
        out_features: size of the last dimension of the output, or the sizes of several.
        depth: number of hidden layers; by default as many as `num_cells` lists, else none.
        num_cells: sizes of the hidden layers, or one for all of them (32 by default).
        activation_class: a callable that makes the activations, such as a class.
        activation_kwargs: its keyword arguments, or a list of them, one per activation.
        norm_class: a callable that makes normalisations before the activations; None for none.
        norm_kwargs: its keyword arguments, or a list of them.
        dropout: probability of a Dropout before each activation; None without Dropouts.
        bias_last_layer: whether the last layer has a bias.
        single_bias_last_layer: whether that bias is a single number.
        layer_class: a callable that makes the layers, such as `Linear`.
        layer_kwargs: its further keyword arguments, or a list of them.
        activate_last_layer: whether the last layer is followed by an activation, too.
        device: "cpu", or "meta" for parameters without data.
        rng: as of `Linear`; the layers and the Dropouts draw from it.

    Shapes:
        inputs (*B, n_i) whose sizes add up to in_features, output (*B, out_features) or (*B, *out_features).

    Raises:
        ValueError: out_features is missing.
        KeyError: in_features is missing, and `layer_class` has no lazy form.
        RuntimeError: depth and num_cells contradict each other.
        TypeError: activation_class is itself an activation, not a class of them; sizes are not integers.

    Source:
        TorchRL's MLP, with the same names in its state dict.

    Example:
        >>> import numpy as np
        >>> from lite import nn
        >>> net = nn.MLP(in_features=3, out_features=2, num_cells=[8, 8], activation_class=nn.ReLU)
        >>> [type(m).__name__ for m in net], net(np.zeros((5, 3), np.float32)).shape
        (['Linear', 'ReLU', 'Linear', 'ReLU', 'Linear'], (5, 2))
    """

    def __init__(
        self,
        in_features: int | None = None,
        out_features: int | Sequence[int] | None = None,
        depth: int | None = None,
        num_cells: Sequence[int] | int | None = None,
        activation_class: Callable[..., Any] = Tanh,
        activation_kwargs: Options = None,
        norm_class: Callable[..., Any] | None = None,
        norm_kwargs: Options = None,
        dropout: float | None = None,
        bias_last_layer: bool = True,
        single_bias_last_layer: bool = False,
        layer_class: Callable[..., Any] = Linear,
        layer_kwargs: Options = None,
        activate_last_layer: bool = False,
        device: Device | None = None,
        rng: Rng = None,
    ) -> None:
        if out_features is None:
            raise ValueError("out_features must be specified for MLP.")
        lazy: Any = lazy_forms.get(layer_class)
        if in_features is None and getattr(lazy, "_size_name", None) != "in_features":
            raise KeyError(
                f"in_features must be given: {layer_class!r} has no lazy form, such as Linear has."
            )
        cells = _hidden(depth, num_cells)
        shape = None if isinstance(out_features, int) else tuple(out_features)
        out_size = out_features if isinstance(out_features, int) else math.prod(out_features)
        activations = len(cells) + activate_last_layer
        activation_options = of_each(activation_kwargs, activations)
        norm_options = of_each(norm_kwargs, activations)
        layer_options = of_each(layer_kwargs, len(cells) + 1)
        placed = {} if device is None else {"device": device}
        drawn: dict[str, Any] = {} if rng is None else {"rng": np.random.default_rng(rng)}
        layers: list[Any] = []
        sizes: list[Any] = [in_features, *cells, out_size]
        for i, (size, next_size) in enumerate(itertools.pairwise(sizes)):
            last = i == len(cells)
            options = {**drawn, **next(layer_options)}
            bias = options.pop("bias", bias_last_layer if last else True)
            shared = last and single_bias_last_layer and bias
            options.update(bias=bias and not shared, **placed)
            if size is None:
                layers.append(lazy(next_size, **options))
            else:
                layers.append(layer_class(size, next_size, **options))
            if shared:
                layers.append(_SharedBias())
            if last and not activate_last_layer:
                continue
            if dropout is not None:
                layers.append(Dropout(p=dropout, **drawn))
            if norm_class is not None:
                layers.append(norm_class(**next(norm_options), **placed))
            layers.append(made_activation(activation_class, next(activation_options)))
        super().__init__(*(layer if isinstance(layer, Module) else _Call(layer) for layer in layers))
        self.in_features = in_features
        self.out_features = out_features
        self.depth = len(cells)
        self.num_cells = cells
        self._out_shape = shape

    def _make(self, modules: Iterable[Module]) -> Any:
        return Sequential(*modules)  # a slice is not an MLP: the constructor takes sizes

    def forward(self, *inputs: Any) -> Array:
        """Map inputs (*B, n_i), whose sizes add up to in_features, to (*B, *out_features)."""
        x = inputs[0] if len(inputs) == 1 else np.concatenate(inputs, axis=-1)
        out = super().forward(x)
        return out if self._out_shape is None else out.reshape(*out.shape[:-1], *self._out_shape)


class _SharedBias(Module):
    """One number that is added to all entries."""

    def __init__(self) -> None:
        super().__init__()
        self.bias = Parameter(np.zeros(1, np.float32))

    def forward(self, input: Array) -> Array:
        return input + self._tensor("bias")


class _Call(Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Array:
        return self.function(*args)


def _hidden(depth: int | None, num_cells: Sequence[int] | int | None) -> list[int]:
    """Sizes of the hidden layers."""
    if depth is not None and not isinstance(depth, int | np.integer):
        raise TypeError(f"depth must be an integer, got {depth!r}")
    if num_cells is None:
        return [32] * (depth or 0)
    if isinstance(num_cells, int | np.integer):
        if depth is None:
            raise RuntimeError("depth must be given when num_cells is one integer")
        return [int(num_cells)] * depth
    if isinstance(num_cells, str) or not isinstance(num_cells, Iterable):
        raise TypeError(f"num_cells must be an integer, or one for each hidden layer, got {num_cells!r}")
    cells = list(num_cells)
    if depth is not None and depth != len(cells):
        raise RuntimeError(f"depth {depth} contradicts num_cells, which lists {len(cells)} layers")
    return cells


def made_activation(activation_class: Any, options: dict[str, Any]) -> Any:
    """The activation that a class makes; TypeError if the class is an activation itself, or a name."""
    if not callable(activation_class) or isinstance(activation_class, Module | np.ufunc):
        raise TypeError(
            "activation_class must be a class such as nn.ReLU, or a function that makes a layer, "
            f"got {activation_class!r}."
        )
    return activation_class(**options)


def of_each(options: Options, count: int) -> Iterator[dict[str, Any]]:
    """The keyword arguments of each of `count` layers."""
    if isinstance(options, list):
        if len(options) != count:
            raise ValueError(f"{count} dicts of keyword arguments are needed, got {len(options)}.")
        return iter(options)
    return iter([options or {}] * count)


belong_to("lite.nn", MLP)
