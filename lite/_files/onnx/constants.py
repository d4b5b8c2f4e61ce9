"""Which weights of a graph are constants: statistics, masks, rotations, tables, settings of operators."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._files.onnx.model import Operation, OperationGraph, reads_of
from lite._files.onnx.reader import read_tensor

# Weights that are not parameters to learn, by operator and input: statistics, tables, quantised numbers.
_FIXED: dict[str, frozenset[int]] = {
    "BatchNormalization": frozenset({3, 4}),
    "RotaryEmbedding": frozenset({2, 3}),
    "GroupQueryAttention": frozenset({7, 8, 12, 13}),
    "MatMulNBits": frozenset(range(1, 7)),
    "GatherBlockQuantized": frozenset(range(1, 5)),
    "DequantizeLinear": frozenset(range(1, 3)),
    "QuantizeLinear": frozenset(range(1, 3)),
}
FLOATS = (1, 10, 11, 16)  # float32, float16, float64, bfloat16
_MASKED = {"Add": frozenset({0, 1}), "Where": frozenset({1, 2})}
_SCALED = {"Mul": frozenset({0, 1}), "Div": frozenset({0, 1})}
# Operators that normalise an input, in pairs, and operators that may stand between them.
_NORMALIZE = (("Sub", "Div"), ("Sub", "Mul"), ("Mul", "Add"))
_MOVES = frozenset({"Cast", "CastLike", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_BETWEEN = _MOVES | {"Clip", "Concat", "Flatten", "Gather", "Pad", "Resize", "Slice", "Transpose"}
_LOWEST = -65504.0  # the lowest float16, which masks add; weights are never so low
# Inputs that are settings of an operator, such as a size.
_SETTINGS: dict[str, frozenset[int]] = {
    "Clip": frozenset({1, 2}), "Dropout": frozenset({1}), "Pad": frozenset({2}), "Pow": frozenset({1}),
    "Range": frozenset({0, 1, 2}), "Resize": frozenset({1, 2}), "Upsample": frozenset({1}),
}  # fmt: skip


def float_weights(graph: OperationGraph) -> tuple[str, ...]:
    """Initializers that are arrays of floats, without scalars, settings of operators and parts of these.

    Empty arrays, such as those of optional adapters, are left out.
    """
    found = []
    settings = _used(graph, _SETTINGS)
    for node in reversed(graph.nodes):
        if node.op in (*_MOVES, "Concat") and not settings.isdisjoint(node.outputs):
            settings.update(node.inputs)
    for name, weight in graph.weights.items():
        tensor = read_tensor(weight.model, weight.span)
        if tensor.kind in FLOATS and tensor.dims and 0 not in tensor.dims and name not in settings:
            found.append(name)
    return tuple(found)


def constant_weights(graph: OperationGraph) -> frozenset[str]:
    """Weights that do not learn unless they are named: `_FIXED`, masks, rotations, statistics, factors.

    Exporters write causal masks, rotary frequencies, factors of attention and the epsilon of a norm as
    weights. Tables of sinusoids, ALiBi slopes and grids are recognised by their numbers alone.
    """
    found = _used(graph, _FIXED) | _rotations(graph) | _statistics(graph) | _frozen(graph)
    reshaped = {x for node in graph.nodes if node.op == "Reshape" for x in (node.inputs[0], *node.outputs)}
    neutral, others = set[str](), set[str]()
    for node in graph.nodes:  # exporters write GroupNorm as Reshape, InstanceNormalization, Reshape
        if node.op == "InstanceNormalization" and reshaped >= {node.inputs[0], *node.outputs}:
            given = zip(node.inputs[1:], (1, 0), strict=True)
            neutral |= {x for x, y in given if x in graph.weights and (graph.weights[x].array() == y).all()}
        else:
            others |= reads_of(node)
    found |= neutral - others  # not those of a fresh layer, which exporters join with them
    for name in _used(graph, _MASKED) & graph.weights.keys():
        array = graph.weights[name].array()
        if array.dtype.kind == "f" and array.size and array.min() <= _LOWEST:
            found.add(name)
    numbers = _used(graph, _SCALED)
    roots = {x for node in graph.nodes if node.op == "Sqrt" for x in node.inputs}
    products = {x for node in graph.nodes if node.op == "MatMul" for x in node.outputs}  # take a bias
    for node in graph.nodes:
        root = node.op == "Add" and not roots.isdisjoint(node.outputs) and products.isdisjoint(node.inputs)
        if root or (node.op == "Where" and not found.isdisjoint(node.inputs[1:])):
            numbers.update(node.inputs)
    for name in numbers & graph.weights.keys():
        if tuple(read_tensor(graph.weights[name].model, graph.weights[name].span).dims) == (1,):
            found.add(name)
    return frozenset(found)


def _statistics(graph: OperationGraph) -> set[str]:
    """Weights that normalise an input before anything else, or scale a last Tanh or layer to actions.

    These are a mean and a deviation, or a factor and an offset. The latter may be a layer that learns, unless
    there is a product beside them, which could do the same: behind a convolution without an offset of its own
    they are a batch normalisation that is frozen. Matrices behind a new dimension are centres and widths.
    """
    steps: dict[str, tuple[tuple[str, str], ...]]
    steps = {x.name: () for x in graph.inputs if x.name not in graph.weights}
    products = {x for node in graph.nodes if node.op in ("Conv", "Gemm", "MatMul") for x in node.inputs}
    others = {x for node in graph.nodes if node.op not in ("Conv", "Gemm", "MatMul") for x in node.inputs}
    constants = {x for x, weight in graph.weights.items() if not read_tensor(weight.model, weight.span).dims}
    for node in graph.nodes:
        if node.op == "Constant" or (node.op in _MOVES and node.inputs[0] in constants):
            constants.update(node.outputs)
    sums = {x for node in graph.nodes if node.op == "MatMul" for x in node.outputs}
    results, found, widened = {x.name for x in graph.outputs}, set[str](), set[str]()
    for node in reversed(graph.nodes):
        if node.op in _BETWEEN and not results.isdisjoint(node.outputs):
            results.add(node.inputs[0])
    for node in graph.nodes:
        if node.op == "Add":
            last = not sums.isdisjoint(node.inputs) and not graph.weights.keys().isdisjoint(node.inputs)
        else:
            last = node.op in ("Conv", "Tanh") or (node.op == "Gemm" and len(node.inputs) > 2)
        if last:
            steps[node.outputs[0]] = ((node.op if len(node.inputs) < 3 else "Add", ""),)
            continue
        turned = node.op in ("Add", "Mul") and node.inputs[1] in steps
        names = node.inputs[::-1] if turned else node.inputs
        if not names or names[0] not in steps:
            continue
        before, (out, *_), second = steps[names[0]], node.outputs, names[-1]
        bounded, bare = before[:1] and before[0][1] == "", before[:1] == (("Conv", ""),)
        calculates, weight = any(node.op in pair for pair in _NORMALIZE), graph.weights.get(second)
        dims = [1] if weight is None else read_tensor(weight.model, weight.span).dims
        alone = weight is not None and prod(dims) == 1
        between = node.op in _BETWEEN and (node.op != "Concat" or all(steps.get(x) == before for x in names))
        if not before and (node.op in ("Reshape", "Unsqueeze") or names[0] in widened):
            widened.add(out)
        if between or (calculates and ((alone and (bare or not bounded)) or second in constants)):
            steps[out] = before
        elif calculates and weight is not None and (prod(dims) == max(dims) or names[0] not in widened):
            steps[out] = (*before, (node.op, second))
            pair = tuple(op for op, _ in steps[out][-2:])
            beside = (bare and len(before) == 2) or out in results
            followed = beside if bounded else pair[0] == "Sub" or out in products - others
            if pair in _NORMALIZE and followed:
                found.update(name for _, name in steps[out][-2:])
    return found


def _frozen(graph: OperationGraph) -> set[str]:
    """Weights of frozen batch normalisations: of these alone a factor is made, by the root of a variance.

    An offset less the mean times that factor tells them from deviations that learn.
    """
    origins = {name: {name} for name in graph.weights}  # of what is computed from weights alone, these
    origins |= {node.outputs[0]: set[str]() for node in graph.nodes if node.op == "Constant"}
    plain, sums, roots, found = set(graph.weights), set[str](), set[str](), set[str]()
    for node in graph.nodes:
        reads = reads_of(node) - {""}
        if not reads or not reads <= origins.keys():
            continue
        origins |= dict.fromkeys(node.outputs, set[str]().union(*(origins[x] for x in reads)))
        if node.op in _MOVES and node.inputs[0] in plain:
            plain.update(node.outputs)
        elif node.op == "Add" and not plain.isdisjoint(reads):
            sums.update(node.outputs)
        elif (node.op == "Sqrt" and not sums.isdisjoint(reads)) or not roots.isdisjoint(reads):
            roots.update(node.outputs)
            if node.op == "Sub":
                found |= origins[node.outputs[0]]
    return found


def _rotations(graph: OperationGraph) -> set[str]:
    """Weights that are only multiplied with positions to angles, of which cosine and sine are computed.

    Angles of an input of floats are features of it, whose weights learn unless they are a geometric series,
    as those of times are.
    """
    of_floats = {x.name for x in graph.inputs if x.element_type in FLOATS} - graph.weights.keys()
    readers: dict[str, list[Operation]] = {}
    for node in graph.nodes:
        for name in (reads := reads_of(node) - {""}):
            readers.setdefault(name, []).append(node)
        if node.op != "Shape" and not of_floats.isdisjoint(reads):
            of_floats.update(node.outputs)
    waves = [{x for node in graph.nodes if node.op == op for x in node.inputs} for op in ("Cos", "Sin")]
    results = {x.name for x in graph.outputs}

    def makers(angles: set[str]) -> set[str]:
        found = set[str]()

        def makes_angles(name: str) -> bool:
            return name not in results and all(
                node.op == "Shape"
                or (node.op in ("Cos", "Sin") and name in angles)
                or found.issuperset(node.outputs)
                for node in readers.get(name, ())
            )

        for node in reversed(graph.nodes):
            found.update(filter(makes_angles, node.outputs))
        return set(filter(makes_angles, graph.weights.keys() & readers.keys())) if angles else set()

    angles = set.intersection(*waves)
    of_times = {x for x in makers(angles & of_floats) if _are_rates(graph.weights[x].array())}
    return makers(angles - of_floats) | of_times


def is_table(array: NDArray[Any]) -> bool:
    """Whether an array is a table of sinusoids, ALiBi slopes or a grid, by its numbers."""
    return array.ndim > 1 and (_are_waves(array) or _are_slopes(array) or _are_places(array))


def _are_rates(array: NDArray[Any]) -> bool:
    """Whether an array is a geometric series, as rotary frequencies are."""
    if array.size < 4 or not array.min() > 0:
        return False
    steps = np.diff(np.log(array.ravel().astype(np.float64)))
    return bool(np.ptp(steps) < 1e-3 * abs(steps[0]))


def _are_waves(array: NDArray[Any]) -> bool:
    """Whether columns are sines and cosines of the row's number, except for a few rows, such as a padding.

    In a sinusoid, the sum of the two neighbours of an element is the element times a constant.
    """
    *others, rows, columns = array.shape
    table = array.reshape(-1, columns)
    if prod(others) != 1 or rows < 8 or (rows > 64 and not _are_waves(table[:64])):  # of many read few
        return False
    top = np.abs(table := table.astype(np.float64)).max(0)
    if not (0.9 < top.max() < 1.01 and np.ptp(table) > 1):
        return False
    sums, middle = table[:-2] + table[2:], table[1:-1]
    large = np.abs(middle) > 0.5 * top
    ratios = np.ma.masked_where(~large, sums / np.where(large, middle, 1))
    factors = np.ma.median(ratios, 0).filled(2)  # type: ignore[no-untyped-call]
    precision = 1e-3 if array.itemsize > 2 else 1e-2
    fits = (np.abs(sums - factors * middle) <= precision * top).all(1) & large.any(1)
    return bool(factors.min() <= 1.99 and fits.mean() >= 0.9)  # straight lines, as of centres, may learn


def _are_places(array: NDArray[Any]) -> bool:
    """Whether columns, or a row, are coordinates of a grid, as of a spatial softmax, in equal steps."""
    if array.ndim != 2 or 2 not in (array.shape[1], len(array) + 1):
        return False
    for line in array if len(array) == 1 else array.T:
        places, counts = np.unique(line, return_counts=True)
        steps = np.diff(places.astype(np.float64))
        if len(places) < 3 or counts.min() < 2 or np.ptp(counts) or np.ptp(steps) > 2e-3 * steps[0]:
            return False
    return True


def _are_slopes(array: NDArray[Any]) -> bool:
    """Whether an array has ALiBi's slopes of attention heads."""
    count = max(array.shape)
    if count < 4 or count != array.size or not array.min() > 0:
        return False
    whole = 1 << (count.bit_length() - 1)
    powers = np.sort(np.r_[2 : 2 * whole + 1 : 2, 1 : 2 * (count - whole) : 2]) * (4 / whole)
    return np.allclose(np.sort(-np.log2(array.ravel().astype(np.float64))), powers, 0, 0.02)


def _used(graph: OperationGraph, where: Mapping[str, frozenset[int]]) -> set[str]:
    return {node.inputs[i] for node in graph.nodes for i in where.get(node.op, ()) if i < len(node.inputs)}
