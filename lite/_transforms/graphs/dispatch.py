"""From a call of a NumPy function to the rule that writes its nodes."""

from __future__ import annotations

from typing import Any

import lite._transforms.rules  # noqa: F401 - which registers them
from lite._arrays.types import Function
from lite._transforms.graphs.array import GraphArray, rules
from lite._transforms.graphs.graph import graph_of
from lite._transforms.graphs.indexing import get_index, set_index
from lite._transforms.graphs.ufuncs import call_ufunc, write
from lite._transforms.registry import ONNX, NoRule, name_of, without_out
from lite._tree.collection import TensorCollection


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


def _index_batch(td: TensorCollection, index: Any) -> None:
    items = index if isinstance(index, tuple) else (index,)
    for item in items:
        if isinstance(item, GraphArray):
            item.graph.fail("indexes the batch of a TensorDict with an array that is computed")


def _because(error: NoRule) -> str:
    return f": {error}" if str(error) else ""


rules.ufunc = call_ufunc
rules.function = call_function
rules.get_index = get_index
rules.set_index = set_index
rules.index_batch = _index_batch
rules.elementwise = call_elementwise
rules.cast = lambda x, dtype: x.graph.cast(x, dtype)
