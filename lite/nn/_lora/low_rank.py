"""Low-rank adapters: their formula, and the names of their matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lite._arrays.types import Array
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter
from lite.nn.layers.linear import linear


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
        name: path of what it is beside, as PEFT has it in its files.
        graph_name: the same as the graph of a decoder has it in the names of its inputs.
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
        """Have other matrices in place of these, whose product is multiplied with a scale."""
        for parameter, array in zip(self.parameters, (a, b * (scale / self.scale)), strict=True):
            parameter.data = np.array(array, parameter.dtype, order="C")

    def product(self) -> Any:
        """scale B A (out, in): what merging adds to a weight of torch's layout."""
        a, b = (parameter.data for parameter in self.parameters)
        return np.matmul(b, a) * self.scale
