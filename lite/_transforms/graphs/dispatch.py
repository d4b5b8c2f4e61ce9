"""From a call of a NumPy function to the rule that writes its nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

import lite._transforms.rules  # noqa: F401 - which registers them
from lite._arrays.types import Function, Names, Shape, computed
from lite._transforms.graphs.array import GraphArray, rules
from lite._transforms.graphs.graph import Graph, graph_of
from lite._transforms.graphs.indexing import get_index, set_index, without_masks
from lite._transforms.graphs.ufuncs import call_ufunc, write
from lite._transforms.registry import ONNX, NoRule, name_of, without_out
from lite._tree.batch_ops import BatchOp
from lite._tree.indexing import normalise, result_names


def call_function(func: Function, args: Any, kwargs: Any) -> Any:
    """Write the nodes of a function; NotImplementedError names the one that has no rule."""
    graph = graph_of((args, kwargs))
    args, kwargs, out = without_out(func, args, kwargs)
    if func not in ONNX.rules:
        graph.fail(f"calls {name_of(func)}, which has no rule for ONNX")
    try:
        result = ONNX.rules[func](graph, *args, **kwargs)
    except NoRule as error:
        graph.fail(f"calls {name_of(func)} with arguments that have no rule for ONNX{_because(error)}")
    return result if out is None else write(graph, (out,), result)


def call_elementwise(x: GraphArray, function: Function, *args: Any) -> Any:
    """Write the nodes of an elementwise function of lite."""
    if function not in ONNX.rules:
        x.graph.fail(f"calls {name_of(function)}, which has no rule for ONNX")
    return ONNX.rules[function](x.graph, *(args or (x,)))


class ComputedIndex(BatchOp):
    """Every entry indexed by something that has arrays of a graph in it."""

    __slots__ = ("alike", "graph", "items")
    keeps_lock = False

    def __init__(self, graph: Graph, batch_size: Shape, items: tuple[Any, ...]) -> None:
        self.graph = graph
        self.items = items if any(item is Ellipsis for item in items) else (*items, Ellipsis)
        zeros = tuple([np.zeros(x.shape, np.intp) if isinstance(x, GraphArray) else x for x in items])
        self.alike = normalise(zeros, batch_size)
        rows: Any = np.broadcast_to(graph.operand(False), batch_size)
        super().__init__(len(batch_size), rows[items].shape)

    def array(self, value: object) -> Any:
        found: Any = computed(value)
        return (self.graph.operand(found) if isinstance(found, np.ndarray) else found)[self.items]

    def names(self, names: list[str | None]) -> Names:
        return result_names(self.alike, names, len(self.shape))

    def on_stack(self, stack: Any) -> Any:
        return stack.contiguous()._run(self)


def _index_batch(td: Any, index: Any) -> Any:
    """`td[index]`, where computed arrays are in the index."""
    graph = graph_of((index,))
    return td._run(ComputedIndex(graph, td.batch_size, tuple(without_masks(graph, index))))


def _because(error: NoRule) -> str:
    return f": {error}" if str(error) else ""


rules.ufunc = call_ufunc
rules.function = call_function
rules.get_index = get_index
rules.set_index = set_index
rules.index_batch = _index_batch
rules.elementwise = call_elementwise
rules.cast = lambda x, dtype: x.graph.cast(x, dtype)
