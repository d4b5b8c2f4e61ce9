"""`Linear` with an adapter beside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite.nn._lora.low_rank import Adapter, low_rank
from lite.nn._modules.initial import fill
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn.layers.linear import Linear, linear


class LoraLinear(Linear):
    """A `Linear` with y = x Wᵀ + b + scale (x Aᵀ) Bᵀ; its children `lora_A` and `lora_B` hold the matrices.

    Modules that read the weight of a child instead of calling it, as `MultiheadAttention` does, get that of
    the sum.
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
