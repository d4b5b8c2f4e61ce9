"""Low-rank matrices, and `Linear` with such an adapter beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite.nn._modules.initial import fill
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn.layers.linear import Linear, linear


class LoraLinear(Linear):
    """A `Linear` with y = x Wᵀ + b + scale (x Aᵀ) Bᵀ; its children `lora_A` and `lora_B` hold the matrices.

    Modules that read the weight of a child instead of calling it, as `MultiheadAttention` does, get W +
    scale B A.
    """

    lora_A: Linear
    lora_B: Linear
    _scale: float
    _plain: type[Linear]

    @classmethod
    def _of(cls, layer: Linear, rank: int, alpha: float, rng: np.random.Generator) -> None:
        """Make a layer one with an adapter, in place."""
        plain, dtype = type(layer), layer.weight.dtype
        layer.__class__ = cls
        layer._plain, layer._scale = plain, alpha / rank
        for name, (wide, narrow) in {
            "lora_A": (layer.in_features, rank),
            "lora_B": (rank, layer.out_features),
        }.items():
            layer.add_module(name, Linear(wide, narrow, False, dtype=dtype, rng=rng))
        fill(layer.lora_B._held("weight"), 0.0)

    def _adapter(self, name: str) -> Adapter:
        return Adapter(name, name, (self.lora_A, "weight"), (self.lora_B, "weight"), self._scale)

    def _merge(self) -> None:
        """Make it a layer without an adapter again, in place, whose weight is the sum."""
        weight = self._held("weight") + self._adapter("").product().astype(self.weight.dtype, copy=False)
        self._set_parameter("weight", Parameter(weight, requires_grad=False))
        del self.lora_A, self.lora_B
        plain = self.__dict__.pop("_plain")
        del self.__dict__["_scale"]
        self.__class__ = plain

    def forward(self, input: Array) -> Array:
        """Map input (*B, in_features) to (*B, out_features)."""
        out = linear(input, Module._tensor(self, "weight"), self._tensor("bias"))
        a, b = self.lora_A._tensor("weight"), self.lora_B._tensor("weight")
        return out + low_rank(input, a, b, self._scale)

    def _tensor(self, name: str) -> Any:
        value = super()._tensor(name)
        if name != "weight":
            return value
        return value + np.matmul(self.lora_B._tensor("weight"), self.lora_A._tensor("weight")) * self._scale


def low_rank(x: Array, a: Array, b: Array, scale: float) -> Array:
    """scale (x Aᵀ) Bᵀ, for x (*B, in), A (rank, in) and B (out, rank)."""
    return linear(linear(x, a, None) * scale, b, None)


def matrices(name: str) -> tuple[str, str]:
    """The names of an adapter's matrices."""
    return f"{name}.lora_A.weight", f"{name}.lora_B.weight"


@dataclass
class Adapter:
    """An adapter of a module.

    Attributes:
        name: path of its layer in PEFT's form.
        graph_name: this path in the names of a decoder graph's inputs.
        a, b: the modules that hold the matrices, each with the name of its parameter there.
        scale: alpha / rank.
        dtype: of the graph's inputs for them; None for their own.
    """

    name: str
    graph_name: str
    a: tuple[Module, str]
    b: tuple[Module, str]
    scale: float
    dtype: Any = None

    @property
    def parameters(self) -> tuple[Parameter, Parameter]:
        """The matrices A (rank, in) and B (out, rank)."""
        (a, of_a), (b, of_b) = self.a, self.b
        return a.get_parameter(of_a), b.get_parameter(of_b)

    def take(self, a: Any, b: Any, scale: float) -> None:
        """Replace the matrices by others, whose product has the factor `scale`."""
        for parameter, array in zip(self.parameters, (a, b * (scale / self.scale)), strict=True):
            parameter.data = np.array(array, parameter.dtype, order="C")

    def product(self) -> Any:
        """scale B A (out, in): what merging adds to a weight of torch's layout."""
        a, b = (parameter.data for parameter in self.parameters)
        return np.matmul(b, a) * self.scale
