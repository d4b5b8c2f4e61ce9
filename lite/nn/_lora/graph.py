"""Adapters beside the products of a `GraphModule`: nodes that are put into its graph."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.types import Array
from lite._files.onnx.arrays import dtype_of
from lite._files.onnx.model import Operation, OperationGraph, Weight
from lite._files.onnx.reader import Span, read_tensor
from lite.nn._import.module import GraphModule, Source
from lite.nn._import.operators import Run, Spec, operator
from lite.nn._import.program import compiled
from lite.nn._lora.linear import Adapter, low_rank, matrices
from lite.nn._lora.projections import Projection
from lite.nn._modules.parameter import Parameter

DOMAIN = "lite"


@operator("LowRank", domain=DOMAIN)
def _low_rank(spec: Spec) -> Run:
    scale = spec.get("scale")

    def run(x: Array, out: Array, a: Array, b: Array) -> Array:
        return out + low_rank(x, a, b, scale).astype(out.dtype, copy=False)

    return run


class AdaptedSource(Source):
    """A graph with adapters.

    Args:
        base: the graph without adapters.
        chosen: the matrix products that get adapters.
        scale: alpha / rank.
    """

    def __init__(self, base: Source, chosen: tuple[Projection, ...], scale: float) -> None:
        self.__dict__.update(base.__dict__)
        self.base, self.projections, self.scale = base, chosen, scale
        names = {name for one in chosen for name in matrices(one.name)}
        self.weights = (*base.weights, *sorted(names))
        self.graph = _with_adapters(base.graph, {one.span: one for one in chosen}, scale)
        self.program = compiled(
            self.model, self.graph, self.weights, self.compute_dtype, str(self.path or "the model")
        )

    def __reduce__(self) -> Any:
        return AdaptedSource, (self.base, self.projections, self.scale)


def adapt(
    module: GraphModule, chosen: list[Projection], rank: int, alpha: float, rng: np.random.Generator
) -> None:
    """Put adapters into a module, in place."""
    source = AdaptedSource(module._source, tuple(chosen), alpha / rank)
    arrays = {}
    for one in {one.name: one for one in chosen}.values():
        dtype = _dtype(one, source.compute_dtype)
        bound = 1 / math.sqrt(one.inputs)  # what kaiming_uniform_ with a = √5 draws from
        a, b = matrices(one.name)
        arrays[a] = rng.uniform(-bound, bound, (rank, one.inputs)).astype(dtype)
        arrays[b] = np.zeros((one.outputs, rank), dtype)
    module._rebase(source, {name: Parameter(array) for name, array in arrays.items()})


def with_outputs(module: GraphModule, names: Sequence[str]) -> GraphModule:
    """A module whose outputs are other values of the graph; it shares the parameters of this one."""
    source = module._source
    base = source.base if isinstance(source, AdaptedSource) else source
    other = Source(base.path, base._content, tuple(names), base.compute_dtype)
    if isinstance(source, AdaptedSource):
        other = AdaptedSource(other, source.projections, source.scale)
    twin = copy.copy(module)
    twin._rebase(other, {})
    twin.output_names = tuple(names)
    return twin


def adapters_of(module: GraphModule) -> list[Adapter]:
    """The adapters in a module, in the order of the graph."""
    source, found = module._source, {}
    if isinstance(source, AdaptedSource):
        places = module._placed()
        for one in source.projections:
            a, b = matrices(one.name)
            dtype = dtype_of(one.element_type)
            found[one.name] = Adapter(one.name, one.graph_name, places[a], places[b], source.scale, dtype)
    return list(found.values())


def merge(module: GraphModule) -> None:
    """Add the adapters of a module to its weights, which become new arrays, and remove the adapters.

    Raises:
        ValueError: a weight is quantised, or something else reads it, too.
    """
    source = module._source
    assert isinstance(source, AdaptedSource)
    adapters = {one.name: one for one in adapters_of(module)}
    places, reads = module._placed(), _reads(source.base.graph)
    done: dict[str, NDArray[Any]] = {}
    for one in source.projections:
        _check_merges(one, source, reads)
        if one.weight not in done:
            owner, local = places[one.weight]
            added = adapters[one.name].product() / one.factor
            weight = owner._held(local)
            done[one.weight] = weight + (added if one.turned else added.T).astype(weight.dtype, copy=False)
    for name, array in done.items():
        owner, local = places[name]
        owner._set_parameter(local, Parameter(array, requires_grad=False))
    for adapter in adapters.values():
        for owner, local in (adapter.a, adapter.b):
            del owner._parameters[local]
    _remove_empty(module)
    module._rebase(source.base, {})


def _check_merges(one: Projection, source: AdaptedSource, reads: Mapping[str, int]) -> None:
    """Raise ValueError if the adapter of a projection cannot be merged into its weight."""
    reason = None
    if one.quantised:
        reason = "its weight is quantised: keep the adapter beside it, and save that (save_adapter)"
    elif one.weight not in source.base.weights:
        reason = f"its weight {one.weight!r} is not a parameter of the module"
    elif reads[one.weight] != sum((x.weight, x.name) == (one.weight, one.name) for x in source.projections):
        reason = f"something else reads its weight {one.weight!r}, too"
    if reason:
        raise ValueError(f"the adapter of {one.name!r} cannot be merged: {reason}.")


def _reads(graph: OperationGraph) -> dict[str, int]:
    """The number of reads of each name, by nodes and as outputs."""
    found: dict[str, int] = {}
    for name in (*(x.name for x in graph.outputs), *(name for node in graph.nodes for name in node.inputs)):
        found[name] = found.get(name, 0) + 1
    for node in graph.nodes:
        for body in [value for value in node.attributes.values() if isinstance(value, OperationGraph)]:
            for name, count in _reads(body).items():
                found[name] = found.get(name, 0) + count
    return found


def _remove_empty(module: Any) -> None:
    """Remove children without parameters, buffers and children."""
    for name, child in list(module._modules.items()):
        _remove_empty(child)
        if not (child._modules or child._parameters or child._buffers):
            delattr(module, name)


def _dtype(one: Projection, compute_dtype: str | None) -> np.dtype[Any]:
    """The dtype of an adapter's matrices: that of the product's computation."""
    dtype = dtype_of(one.element_type)
    return np.dtype(compute_dtype) if compute_dtype is not None and dtype.itemsize < 4 else dtype


def _with_adapters(graph: OperationGraph, chosen: Mapping[Span, Projection], scale: float) -> OperationGraph:
    """The graph with a node for each adapter behind the product that it belongs to."""
    nodes: list[Operation] = []
    for node in without_own_adapters(graph):
        bodies = {
            key: _with_adapters(value, chosen, scale)
            for key, value in node.attributes.items()
            if isinstance(value, OperationGraph)
        }
        node = replace(node, attributes={**node.attributes, **bodies})
        one = chosen.get(node.span)
        if one is None:
            nodes.append(node)
            continue
        out = node.outputs[0]
        alone = f"{out}/without_adapter"
        inputs = (node.inputs[0], alone, *matrices(one.name))
        nodes.append(replace(node, outputs=(alone,)))
        label = f"{node.name or out}/lora"
        nodes.append(Operation("LowRank", DOMAIN, label, inputs, (out,), {"scale": scale}, node.span))
    return replace(graph, nodes=tuple(nodes))


def without_own_adapters(graph: OperationGraph) -> list[Operation]:
    """The nodes of a graph without the adapters that it has as optional inputs, whose rank is 0.

    They add nothing until a runtime gives them values, and would only take time.
    """
    empty = {x.name for x in graph.inputs if x.name in graph.weights and _is_empty(graph.weights[x.name])}
    if not empty:
        return list(graph.nodes)
    zeros: set[str] = set()
    nodes: list[Operation] = []
    for node in graph.nodes:
        if node.op == "MatMul" and node.inputs[1] in empty:
            zeros.update(node.outputs)
        elif node.op == "Add" and len(zeros.intersection(node.inputs)) == 1:
            (kept,) = (name for name in node.inputs if name not in zeros)
            nodes.append(replace(node, op="Identity", domain="", inputs=(kept,), attributes={}))
        else:
            nodes.append(node)
    read = {name for node in nodes for name in node.inputs} | {x.name for x in graph.outputs}
    return list(graph.nodes) if zeros & read else nodes


def _is_empty(weight: Weight) -> bool:
    return 0 in read_tensor(weight.model, weight.span).dims
