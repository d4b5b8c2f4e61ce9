"""The last product of a decoder's graph: hidden states and the matrix that makes them logits.

Logits of all tokens of a batch are by far the largest array of a training step. So the graph is cut before
this product, which `linear_log_probs` computes a few tokens at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._files.onnx.model import Operation, OperationGraph
from lite.nn._import.quantized import QuantizedRows

MOST_CLIMBED = 16  # nodes between the product and the logits; a file may also hold a circle
_OF_WEIGHTS = frozenset({"Transpose", "Identity", "Cast", "DequantizeLinear"})


@dataclass(frozen=True)
class OutputLayer:
    """How a graph makes logits: `scale * (hidden @ matrix + bias)`.

    Attributes:
        hidden: name of the hidden states (..., D).
        weight: name of the matrix, or the rows of one that is quantised.
        by_token: the matrix is (V, D); otherwise (D, V).
        bias: name of the bias (V,), None without one.
        scale: a positive number.
    """

    hidden: str
    weight: str | QuantizedRows
    by_token: bool
    bias: str | None
    scale: float = 1.0

    @property
    def names(self) -> list[str]:
        """Outputs that a graph must have: hidden states, and the matrix and the bias if they are computed."""
        return [name for name in (self.hidden, self.weight, self.bias) if isinstance(name, str)]


def find_output_layer(graph: OperationGraph, logits: str = "logits") -> OutputLayer | None:
    """The last product of a graph.

    Args:
        graph: the graph.
        logits: name of the output.

    Returns:
        It, or None where the logits are made in another way: soft caps, adapters beside the matrix, indices
        of a group-wise quantisation.
    """
    makers = {name: node for node in graph.nodes for name in node.outputs}
    scale, bias, name = 1.0, None, logits
    for _ in range(MOST_CLIMBED):
        node = makers.get(name)
        if node is None:
            return None
        found = _product(graph, makers, node)
        if found is not None:
            if bias is not None and (found.bias is not None or found.scale != 1.0):
                return None
            scale *= found.scale
            return replace(found, bias=found.bias or bias, scale=scale) if scale > 0 else None
        if node.op in ("Cast", "Identity", "Reshape"):
            name = node.inputs[0]
        elif node.op in ("Mul", "Div") and bias is None:
            name, number = _by_number(graph, makers, node)
            scale = scale * number if node.op == "Mul" else scale / number if number else 0.0
        elif node.op == "Add" and bias is None and len(node.inputs) == 2:
            sides = [side for side in node.inputs if _is_vector(graph, side)]
            if len(sides) != 1:
                return None
            bias = sides[0]
            name = next(side for side in node.inputs if side != bias)
        else:
            return None
        if scale <= 0:
            return None
    return None


def _product(graph: OperationGraph, makers: Mapping[str, Operation], node: Operation) -> OutputLayer | None:
    """A node as the product, if it is one with a matrix of weights."""
    get = node.attributes.get
    if node.op == "MatMulNBits":
        return _quantized(graph, node)
    if node.op not in ("MatMul", "Gemm", "FusedMatMul") or not _is_matrix(graph, makers, node.inputs[1]):
        return None
    if get("transA") or get("transBatchA") or get("transBatchB"):
        return None
    hidden, weight = node.inputs[:2]
    alpha = float(get("alpha", 1.0))
    bias = node.inputs[2] if len(node.inputs) > 2 and node.inputs[2] else None
    if bias is not None and not (_is_vector(graph, bias) and alpha == float(get("beta", 1.0)) == 1.0):
        return None
    return OutputLayer(hidden, weight, bool(get("transB", 0)), bias, alpha)


def _quantized(graph: OperationGraph, node: Operation) -> OutputLayer | None:
    arrays: list[NDArray[Any] | None] = [None] * 4
    for i, name in enumerate(node.inputs[1:5]):
        if name and name not in graph.weights:
            return None
        arrays[i] = graph.weights[name].array() if name else None
    packed, scales, zeros, order = arrays
    get = node.attributes.get
    bits = get("bits", 4)
    if packed is None or scales is None or order is not None or bits not in (4, 8):
        return None
    bias = node.inputs[5] if len(node.inputs) > 5 and node.inputs[5] else None
    if bias is not None and not _is_vector(graph, bias):
        return None
    rows = QuantizedRows(
        packed, scales, zeros, bits, get("block_size", 32), (int(get("N", 0)), int(get("K", 0)))
    )
    return OutputLayer(node.inputs[0], rows, True, bias)


def _is_matrix(graph: OperationGraph, makers: Mapping[str, Operation], name: str) -> bool:
    """Whether a value is a weight, or made of weights alone."""
    for _ in range(MOST_CLIMBED):
        if name in graph.weights:
            return True
        node = makers.get(name)
        if node is None or node.op not in _OF_WEIGHTS:
            return False
        name = node.inputs[0]
    return False


def _is_vector(graph: OperationGraph, name: str) -> bool:
    weight = graph.weights.get(name)
    return weight is not None and weight.array().ndim == 1


def _by_number(graph: OperationGraph, makers: Mapping[str, Operation], node: Operation) -> tuple[str, float]:
    """The other factor of a node, and the number that it has as one; 0 if it has none."""
    for i in (1, 0) if node.op == "Mul" else (1,):
        name = node.inputs[i]
        maker = makers.get(name)
        value: Any = None
        if name in graph.weights:
            value = graph.weights[name].array()
        elif maker is not None and maker.op == "Constant":
            value = next(iter(maker.attributes.values()))
        if value is not None and np.size(value) == 1:
            return node.inputs[1 - i], float(np.asarray(value, np.float64).reshape(()))
    return node.inputs[0], 0.0
