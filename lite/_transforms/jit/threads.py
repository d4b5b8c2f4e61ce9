"""How many threads a graph is worth: one, where no operator has enough to do for two.

A second thread has to be woken for each operator. Below these sizes it made no step faster on two cores
and took up to twice the processor time (`bench/jit_threads.py`, bench/results/jit_threads.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from lite._transforms.graphs.graph import Node

_PRODUCT = 15_000_000  # multiply-adds of one operator: 13 million gain nothing, 17 million up to a quarter
_ELEMENTS = 200_000  # of one array: 65 thousand gain nothing, a quarter of a million up to a fifth
_UNKNOWN = frozenset({"Einsum", "GRU", "LSTM", "RNN"})


def threads_for(nodes: Iterable[Node], shapes: Mapping[str, tuple[int, ...]]) -> int | None:
    """The number of threads by default: 1, or None for one per core.

    Args:
        nodes: the operators. Those of a loop count as in one of its rounds.
        shapes: shapes of the values.
    """
    for node in nodes:
        arrays = [shapes.get(name, ()) for name in (*node.inputs, *node.outputs)]
        if node.op in _UNKNOWN or _multiply_adds(node, shapes) > _PRODUCT:
            return None
        if max(map(math.prod, arrays), default=0) > _ELEMENTS:
            return None
        if node.body is not None and threads_for(node.body.nodes, shapes) is None:
            return None
    return 1


def _multiply_adds(node: Node, shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Of an operator that is a product; 0 of others."""
    if node.op not in ("Conv", "ConvTranspose", "Gemm", "MatMul"):
        return 0
    x, w, out = (shapes.get(name, ()) for name in (*node.inputs[:2], node.outputs[0]))
    if node.op == "Conv":
        return math.prod(out) * math.prod(w[1:])
    if node.op == "ConvTranspose":
        return math.prod(x) * math.prod(w[1:])
    inner = x[0 if node.op == "Gemm" and node.attributes.get("transA") else -1] if x else 1
    return math.prod(out) * inner
