"""Rewrites the attention of exported graphs in memory to read the key/value cache in place.

Exporters spell attention out: the past and the new keys are concatenated into a new tensor at every step,
copied once more for each query head that shares them, multiplied, masked and normalised, each by a node of
its own. onnxruntime has one operator for all of it, GroupQueryAttention, which appends to a buffer in place
and keeps rows of different length apart by itself (`Padding.SLOTS`).

Only the skeleton of an attention is looked for here: two products of what is concatenated, with a softmax
between them. That all the rest (masks, scales, copies, layouts) amounts to what the operator does is not
concluded but tried: for each form of attention in a graph there is an `Experiment` with its nodes alone and
what replaces them, to be run on the same numbers (see `attention_experiment.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lite._files.onnx import writer as onnx
from lite._files.onnx.attention import MAX_STEPS, ways_to_scores
from lite._files.onnx.reader import (
    Graph,
    Node,
    Span,
    attribute_numbers,
    constant,
    dimensions,
    named_integers,
    numbers,
    read_graph,
    read_tensor,
    size_names,
)
from lite._files.onnx.rewriting import with_nodes
from lite._files.onnx.wire import field, fields, integer, read_varint, text, varint

MAX_NODES = 4096  # of one attention with its mask
MAX_WIDTH = 1 << 16  # of the embedding, and of all heads
MAX_LONGEST = 1 << 13  # positions of an experiment
MAX_NUMBERS = 1 << 24  # of its keys
MAX_FORMS = 16  # of attention in a graph

_FLOAT = 1  # ONNX's number of the type float32
_FLOAT32 = np.dtype(np.float32)
_Name = str | bytes
_SWAPPED = (0, 2, 1, 3)  # heads and positions
_NO_POSITION = 1 << 31  # numbers from here on stand for "all" or "never"
_MASK = b"attention_mask"
_LENGTHS, _TOTAL = b"lite_lengths", b"lite_total"
_JOINED, _SPLIT = b"lite_heads_joined", b"lite_heads_split"
_GIVEN = (_MASK, b"input_ids", b"position_ids")
_DOMAINS = {b"", b"ai.onnx", b"com.microsoft"}  # not functions of the file's own
_COPIES = frozenset({b"Unsqueeze", b"Expand", b"Reshape", b"Transpose", b"Identity", b"Cast", b"Tile"})
_SCALES = frozenset({b"Mul", b"Div"})


class Attention(NamedTuple):
    """Names of the tensors between which an attention lies.

    Attributes:
        query, key, value: new ones (batch, heads, S, size), with positions applied, the query not scaled.
        past_key, past_value, present_key, present_value: the cache.
        out: (batch, heads, S, size).
        scale: scale of the products.
    """

    query: bytes
    key: bytes
    value: bytes
    past_key: bytes
    past_value: bytes
    present_key: bytes
    present_value: bytes
    out: bytes
    scale: float


class AttentionShape(NamedTuple):
    """Numbers of query heads and of key/value heads, and the length of their vectors."""

    heads: int
    kv_heads: int
    size: int


class Experiment(NamedTuple):
    """One attention of a graph and what replaces it, as models of their own with the same names.

    Attributes:
        exported, replaced: serialised; inputs are the attention's new tensors and inputs of the graph.
        names: the tensors.
        shape: their sizes.
        longest: the largest number in the exported nodes that may be one of positions.
    """

    exported: bytes
    replaced: bytes
    names: Attention
    shape: AttentionShape
    longest: int


class Replaced(NamedTuple):
    """A model with other attention, which is right if all experiments succeed."""

    model: bytes
    experiments: list[Experiment]


def replace_attention(model: bytes, heads: int | None, graph: Graph | None = None) -> Replaced | None:
    """Replace all attention of a decoder with a float32 cache by GroupQueryAttention.

    Args:
        model: a serialised ONNX decoder; it is not changed.
        heads: query heads; None if they are as many as key/value heads.
        graph: the model as `read_graph` reads it, if that was done before.

    Returns:
        The changed model, with the same inputs and outputs, and what has to be tried before it is used. None
        if attention is of an unknown form, or something else in the graph depends on its mask or cache.

    Raises:
        ValueError: if `model` is not an ONNX file.
    """
    graph = graph or read_graph(model)
    caches = _caches(graph)
    shape = _shape(model, graph, caches, heads)
    if shape is None or _opset(model) < 13:  # before, axes were not inputs
        return None
    found = list(_attentions(model, graph, caches, shape.size))
    read = {name for one in found for name in (one.present_key, one.present_value)}
    if read != caches.keys() or 2 * len(found) != len(caches):
        return None
    kept = _live(graph, found)
    used = {name for node in kept if not _counts_rows(model, node) for name in node.inputs}
    if used & {_MASK, *caches, *(past for past, _ in caches.values())} or _nested(model, kept):
        return None
    experiments: dict[str, Experiment] = {}
    for one in found:
        nodes, leaves = _part(graph, one)
        form = _form(model, graph, nodes, one)
        if form not in experiments:
            experiment = _experiment(model, graph, caches, nodes, leaves, one, shape)
            if experiment is None or len(experiments) == MAX_FORMS:
                return None
            experiments[form] = experiment
    new = b"".join(_operator(one, shape) for one in found) + _lengths(shape)
    left = {node.span for node in kept}
    dropped = {node.span: b"" for node in graph.nodes if node.span not in left}
    changed = with_nodes(model, dropped, new) + _own_operators(model)
    return Replaced(changed, list(experiments.values()))


# -- what there is -----------------------------------------------------------------------------


def _caches(graph: Graph) -> dict[bytes, tuple[bytes, bytes]]:
    """Outputs that are an input with something behind it: their names -> those two."""
    found = {}
    for node in graph.nodes:
        if node.kind == b"Concat" and len(node.inputs) == 2 and len(node.outputs) == 1:
            past, new = node.inputs
            if node.outputs[0] in graph.outputs and past in graph.inputs and past not in graph.weights:
                found[node.outputs[0]] = past, new
    return found


def _shape(
    model: bytes, graph: Graph, caches: Mapping[bytes, tuple[bytes, bytes]], heads: int | None
) -> AttentionShape | None:
    """The sizes of all attention; None if they differ, or other things than the cache go in or out."""
    if not caches or set(graph.outputs) != {b"logits", *caches} or _MASK not in graph.inputs:
        return None
    if _shares_sizes(model, graph):
        return None
    sizes = [dimensions(model, graph.inputs[past]) for past, _ in caches.values()]
    kind, dims = sizes[0]
    if kind != _FLOAT or len(dims) != 4 or any(other != sizes[0] for other in sizes):
        return None
    _, kv_heads, _, size = dims
    heads = heads or kv_heads
    if not kv_heads or not size or heads % kv_heads or heads * size > MAX_WIDTH:
        return None
    return AttentionShape(heads, kv_heads, size)


def _shares_sizes(model: bytes, graph: Graph) -> bool:
    """Whether inputs of several adapters have a size of one name, such as `lora_r`.

    Adapters give sizes that differ where names say equal, so what shares memory may not change.
    """
    optional = [span for name, span in graph.inputs.items() if name in graph.weights]
    counts = Counter(name for span in optional for name in size_names(model, span))
    return any(count > 2 for count in counts.values())


def _attentions(
    model: bytes, graph: Graph, caches: Mapping[bytes, tuple[bytes, bytes]], size: int
) -> Iterator[Attention]:
    """Pairs of products, of what two of the caches hold, with a softmax between them."""
    readers: dict[bytes, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    products = {}  # what a product gives -> the cache that it reads, and the scale of that
    for present in caches:
        product = _product(model, graph, readers, present)
        if product is not None:
            products[product[0]] = present, product[1]
    for out, (value, factor) in products.items():
        found = _scores(model, graph, graph.makers[out].inputs[0], products)
        if found is None or factor != 1:
            continue
        scores, scale = found
        key, factor = products[scores]
        query, factor = _unscaled(model, graph, graph.makers[scores].inputs[0], scale * factor)
        yield Attention(
            query, caches[key][1], caches[value][1], caches[key][0], caches[value][0], key, value, out,
            size**-0.5 if math.isnan(factor) else factor,
        )  # fmt: skip


def _product(
    model: bytes, graph: Graph, readers: Mapping[bytes, list[Node]], present: bytes
) -> tuple[bytes, float] | None:
    """The output of the only product with copies of a cache, and the scale of the copies."""
    name, scale = present, 1.0
    for _ in range(MAX_STEPS):
        nodes = [node for node in readers.get(name, []) if node.kind != b"Shape"]
        if len(nodes) != 1 or len(nodes[0].outputs) != 1:
            return None
        node = nodes[0]
        if node.kind == b"MatMul" and node.inputs[0] != name:
            return node.outputs[0], scale
        if node.kind in _SCALES and len(node.inputs) == 2:
            other = node.inputs[node.inputs[0] == name]
            scale *= _factor(model, graph, node, other)
        elif node.kind not in _COPIES or node.inputs[0] != name:
            return None
        name = node.outputs[0]
    return None


def _scores(
    model: bytes, graph: Graph, name: bytes, products: Mapping[bytes, Any]
) -> tuple[bytes, float] | None:
    """The product whose softmax `name` is, and by how much it is scaled before."""

    def node_of(name: bytes) -> tuple[str, tuple[bytes, ...]] | None:
        node = graph.makers.get(name)
        return None if node is None else (node.kind.decode(errors="replace"), tuple(node.inputs))

    for scores, links in ways_to_scores(name, node_of):
        if scores not in products:
            continue
        scale = 1.0
        for output, followed in links:
            node = graph.makers[output]
            if node.kind in _SCALES:
                scale *= _factor(model, graph, node, node.inputs[1 - followed])
        return scores, scale
    return None


def _unscaled(model: bytes, graph: Graph, name: bytes, scale: float) -> tuple[bytes, float]:
    """The value that is scaled by constants to give `name`, and the product of the constants with `scale`."""
    for _ in range(MAX_STEPS):
        node = graph.makers.get(name)
        if node is None or node.kind not in _SCALES or len(node.inputs) != 2:
            break
        first, second = node.inputs
        if _is_factor(model, graph, second):
            name, other = first, second
        elif node.kind == b"Mul" and _is_factor(model, graph, first):
            name, other = second, first
        else:
            break
        scale *= _factor(model, graph, node, other)
    return name, scale


def _is_factor(model: bytes, graph: Graph, name: bytes) -> bool:
    node = graph.makers.get(name)
    value = constant(model, graph, name)
    return (value is not None and value.size == 1) or (node is not None and node.kind == b"Sqrt")


def _factor(model: bytes, graph: Graph, node: Node, name: bytes) -> float:
    """The factor of a node; nan if it is not a constant, which counts as the usual factor."""
    value = constant(model, graph, name)
    if value is None or value.size != 1 or not value[0]:
        return math.nan
    return float(value[0]) if node.kind == b"Mul" else 1 / float(value[0])


def _opset(model: bytes) -> int:
    """The version of ONNX's own operators."""
    for number, wire, a, b in fields(model, 0, len(model)):
        if number == 8 and wire == 2:
            inside = {n: (c, d) for n, w, c, d in fields(model, a, b) if n in (1, 2)}
            domain = model[slice(*inside.get(1, (0, 0)))]
            if domain in (b"", b"ai.onnx") and 2 in inside:
                return read_varint(model, *inside[2])[0]
    return 0


def _nested(model: bytes, nodes: Sequence[Node]) -> bool:
    """Whether nodes hold graphs, which may read any name."""
    inside = (at for node in nodes for span in node.attributes for at in fields(model, *span))
    return any(number in (6, 11) and wire == 2 for number, wire, *_ in inside)


def _counts_rows(model: bytes, node: Node) -> bool:
    """Whether a node tells the first size of a tensor alone, which is the same of a cache in place."""
    integers = named_integers(model, node)
    return node.kind == b"Shape" and integers.get(b"start", 0) == 0 and integers.get(b"end") == 1


def _live(graph: Graph, found: Sequence[Attention]) -> list[Node]:
    """The nodes that are needed once attention is replaced."""
    made = {name for one in found for name in (one.out, one.present_key, one.present_value)}
    seen, wanted = set(made), [b"logits", *(n for one in found for n in (one.query, one.key, one.value))]
    while wanted:
        name = wanted.pop()
        if name not in seen:
            seen.add(name)
            wanted += graph.makers[name].inputs if name in graph.makers else ()
    seen -= made
    return [node for node in graph.nodes if not seen.isdisjoint(node.outputs)]


# -- experiments -------------------------------------------------------------------------------


def _part(graph: Graph, one: Attention) -> tuple[list[Node], list[bytes]]:
    """The nodes between an attention's new tensors and its result, and the names of their outside inputs.

    The order depends only on the connections of the nodes.
    """
    nodes: dict[Span, Node] = {}
    leaves: dict[bytes, None] = {}
    wanted, seen = [one.present_value, one.present_key, one.out], {one.query, one.key, one.value, b""}
    while wanted:
        name = wanted.pop()
        if name in seen:
            continue
        seen.add(name)
        node = graph.makers.get(name)
        if node is None:
            leaves[name] = None
        elif node.span not in nodes:
            nodes[node.span] = node
            wanted += reversed(node.inputs)
    return list(nodes.values()), list(leaves)


def _form(model: bytes, graph: Graph, nodes: Sequence[Node], one: Attention) -> Any:
    """A description of an attention that is equal for attentions that differ only in names."""
    number = {name: i for i, name in enumerate((one.query, one.key, one.value, one.past_key, one.past_value))}
    form: list[Any] = [one.scale]
    for node in nodes:
        for name in (*node.outputs, *node.inputs):
            if name in number:
                continue
            number[name] = len(number)
            if name in graph.weights:
                form.append([model[a:b] for n, _, a, b in fields(model, *graph.weights[name]) if n != 8])
            elif name in graph.inputs:
                form.append(name)
        attributes = [model[slice(*at)] for at in node.attributes]
        names = [number[name] for name in (*node.outputs, *node.inputs)]
        form.append((node.kind, node.domain, len(node.outputs), *names, *attributes))
    return repr(form)


def _experiment(
    model: bytes, graph: Graph, caches: Mapping[bytes, tuple[bytes, bytes]], nodes: Sequence[Node],
    leaves: Sequence[bytes], one: Attention, shape: AttentionShape,
) -> Experiment | None:  # fmt: skip
    """The experiment for an attention; None if it depends on too much to make one."""
    domains = {node.domain for node in nodes}
    if len(nodes) > MAX_NODES or domains - _DOMAINS or _nested(model, nodes) or _reads_ids(nodes):
        return None
    parts = [field(1, model[slice(*node.span)]) for node in nodes]
    sizes = [_longest(model, node) for node in nodes]
    pasts = {past for past, _ in caches.values()}
    for name in leaves:
        if name in graph.weights:
            weight, longest = _weight(model, graph, nodes, name)
            parts.append(weight)
            sizes.append(longest)
        elif name in graph.inputs and (name in _GIVEN or name in pasts):
            parts.append(field(11, model[slice(*graph.inputs[name])]))
        else:
            return None
    most = min(MAX_LONGEST, MAX_NUMBERS // (shape.kv_heads * shape.size))
    if not all(parts) or max(sizes) > most:
        return None
    new = [(one.query, shape.heads), (one.key, shape.kv_heads), (one.value, shape.kv_heads)]
    given = b"".join(
        field(11, onnx.value(name, _FLOAT32, ("lite_0", heads, "lite_2", shape.size))) for name, heads in new
    )
    made = (one.out, one.present_key, one.present_value)
    results = b"".join(field(12, onnx.value(name, _FLOAT32)) for name in made)
    own = b"".join(field(11, model[slice(*graph.inputs[n])]) for n in (one.past_key, one.past_value, _MASK))
    name = field(2, b"lite_experiment")
    exported = name + b"".join(parts) + given + results
    replaced = name + _operator(one, shape) + _lengths(shape) + given + own + results
    head = _head(model)
    return Experiment(head + field(7, exported), head + field(7, replaced), one, shape, int(max(sizes)))


def _reads_ids(nodes: Sequence[Node]) -> bool:
    """Whether more is read of the tokens than how many they are: an experiment has one token only."""
    of_ids = {b"input_ids"}
    for _ in range(MAX_STEPS):
        readers = [node for node in nodes if not of_ids.isdisjoint(node.inputs) and node.kind != b"Shape"]
        if any(node.kind not in (b"Reshape", b"Cast", b"Identity", b"Gather") for node in readers):
            return True
        more = {name for node in readers for name in node.outputs} - of_ids
        if not more:
            return False
        of_ids |= more
    return True


def _longest(model: bytes, node: Node) -> float:
    """The largest number in a node's attributes that may be one of positions; infinite if they are many."""
    found = 0.0
    for values in attribute_numbers(model, node):
        if values is None:
            return math.inf
        found = max(found, _largest(values))
    return found


def _largest(values: NDArray[Any]) -> float:
    with np.errstate(invalid="ignore"):  # a file may hold any bits
        sizes = values.astype(np.float64)
    if values.dtype.kind != "f":  # those that are negative are what masks add
        sizes = np.abs(sizes)
    return float(np.max(sizes, initial=0, where=sizes < _NO_POSITION))


def _weight(model: bytes, graph: Graph, nodes: Sequence[Node], name: bytes) -> tuple[bytes, float]:
    """An initializer for an experiment and `_longest` of it; nothing if it is too large for one.

    Of the embedding only the shape of what is looked up in it is asked for, as by exporters' masks.
    """
    span = graph.weights[name]
    tensor = read_tensor(model, span)
    values = numbers(model, span)
    if values is not None:
        return field(5, model[slice(*span)]), _largest(values)
    readers = [node for node in nodes if name in node.inputs]
    looked_up = all(node.kind == b"Gather" and node.inputs[0] == name for node in readers)
    if not looked_up or tensor.kind != _FLOAT or len(tensor.dims) != 2 or tensor.dims[1] > MAX_WIDTH:
        return b"", 0
    return field(5, onnx.tensor(name, np.zeros((1, tensor.dims[1]), np.float32))), 0


# -- what is written ---------------------------------------------------------------------------


def _operator(one: Attention, shape: AttentionShape) -> bytes:
    """The nodes that replace an attention."""
    parts, inputs = [], []
    for kind, name in zip((b"query/", b"key/", b"value/"), (one.query, one.key, one.value), strict=True):
        turned = b"lite_turned_" + kind + one.out
        inputs.append(b"lite_joined_" + kind + one.out)
        parts.append(_node("Transpose", [name], [turned], perm=_SWAPPED))
        parts.append(_node("Reshape", [turned, _JOINED], [inputs[-1]]))
    result, split = b"lite_joined/" + one.out, b"lite_split/" + one.out
    inputs += [one.past_key, one.past_value, _LENGTHS, _TOTAL]
    outputs = [result, one.present_key, one.present_value]
    heads = {"num_heads": shape.heads, "kv_num_heads": shape.kv_heads}
    parts += [
        _node("GroupQueryAttention", inputs, outputs, "com.microsoft", **heads, scale=float(one.scale)),
        _node("Reshape", [result, _SPLIT], [split]),
        _node("Transpose", [split], [one.out], perm=_SWAPPED),
    ]
    return b"".join(parts)


def _lengths(shape: AttentionShape) -> bytes:
    """The inputs shared by all attentions: the last position of each row, and the largest number of
    positions.
    """
    int32, int64 = 6, 7
    nodes = (
        _node("Cast", [_MASK], ["lite_mask"], to=int64),
        _node("ReduceSum", ["lite_mask", "lite_axis"], ["lite_counts"], keepdims=0),
        _node("Sub", ["lite_counts", "lite_one"], ["lite_ends"]),
        _node("Cast", ["lite_ends"], [_LENGTHS], to=int32),
        _node("Shape", [_MASK], ["lite_shape"]),
        _node("Gather", ["lite_shape", "lite_one"], ["lite_width"]),
        _node("Cast", ["lite_width"], [_TOTAL], to=int32),
    )
    weights: dict[_Name, list[int] | int] = {
        "lite_axis": [1],
        "lite_one": 1,
        _JOINED: [0, 0, -1],
        _SPLIT: [0, 0, shape.heads, shape.size],
    }
    tensors = (onnx.tensor(name, np.array(values, np.int64)) for name, values in weights.items())
    return b"".join([*nodes, *(field(5, tensor) for tensor in tensors)])


def _head(model: bytes) -> bytes:
    """The versions that a model declares."""
    whole = [at for at in fields(model, 0, len(model)) if at[0] in (1, 8)]
    return b"".join(_raw(model, at) for at in whole) + _own_operators(model)


def _own_operators(model: bytes) -> bytes:
    """The declaration of onnxruntime's operators, if a model lacks it."""
    declared = [model[a:b] for number, wire, a, b in fields(model, 0, len(model)) if (number, wire) == (8, 2)]
    if any(part.startswith(field(1, b"com.microsoft")) for part in declared):
        return b""
    return field(8, text(1, "com.microsoft") + integer(2, 1))


def _raw(model: bytes, at: tuple[int, int, int, int]) -> bytes:
    """A field as it is."""
    number, wire, start, end = at
    return varint(number << 3 | wire) + (varint(end - start) if wire == 2 else b"") + model[start:end]


def _node(
    op: str,
    inputs: Sequence[str | bytes],
    outputs: Sequence[str | bytes],
    domain: str = "",
    **attributes: Any,
) -> bytes:
    """A node, as a field of a graph."""
    return field(1, onnx.node(op, "", inputs, outputs, attributes, domain))
