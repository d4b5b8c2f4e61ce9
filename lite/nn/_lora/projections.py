"""The products of a graph with constant matrices, which can have adapters, and their names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from lite._files.onnx.model import Operation, OperationGraph, Weight
from lite._files.onnx.reader import Span, read_tensor
from lite._files.onnx.wire import Buffer, fields

# Names of attention's projections in models: Llama and similar ones, fused forms, GPT-2, ViT, BERT,
# DeBERTa, ModernBERT, Phi, BLOOM, DistilBERT, timm, T5, diffusers.
ATTENTION = (
    "q_proj", "k_proj", "v_proj", "o_proj", "out_proj", "qkv_proj", "query_key_value", "c_attn",
    "attn.c_proj", "attention.query", "attention.key", "attention.value", "attention.dense",
    "attention.output.dense", "attention.self.query", "attention.self.key", "attention.self.value",
    "query_proj", "key_proj", "value_proj", "Wqkv", "attn.Wo", "self_attn.dense", "self_attention.dense",
    "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "attn.qkv", "attn.proj",
    "SelfAttention.[qkvo]", "EncDecAttention.[qkvo]", "to_q", "to_k", "to_v", "to_out.0",
)  # fmt: skip
_FLOATS = frozenset({1, 10, 11, 16})  # ONNX's numbers of the types that adapters can have
_MAX_STEPS = 8  # nodes between a weight and the product that reads it
_SCOPES = b"pkg.torch.onnx.name_scopes"  # where torch's exporter notes the module of a node
# `q_proj/MatMul`, `q_proj/MatMul_Q4`: the last part of a node's name, if that is made of modules' names.
_OPERATOR = re.compile(r"(MatMul|Gemm|FusedMatMul)(_\w+)?$")
_OF_WEIGHT = re.compile(r"(\.MatMul|\.Gemm)?\.(weight|qweight)(_\w+)?$")
# onnxruntime-genai's name of `self_attn`; GPT-J has an `attn` of its own, below `transformer.h`.
_SHORT = re.compile(r"(?<=\.)(layers\.\d+)\.attn(?=\.(q|k|v|o|qkv)_proj$)")
# Of a module around transformers' model, as torch.onnx.export wants one for a cache.
_AROUND = re.compile(r"model\.(?=(model|gpt_neox|backbone|transformer\.h|\w*bert\w*)\.)")


@dataclass(frozen=True)
class Projection:
    """A product of an input with a constant matrix.

    Attributes:
        name: path of its module in PEFT's form, such as `model.layers.0.self_attn.q_proj`.
        graph_name: the same path in the graph's form.
        span: position of the node in the file.
        label: the node, for messages.
        weight: name of the initializer.
        turned: whether the initializer is (out, in).
        inputs, outputs: sizes of the input's and the output's last dimension.
        element_type: ONNX's number of the dtype of the computation.
        quantised: whether the matrix is integers with scales.
        factor: the factor of the product.
    """

    name: str
    graph_name: str
    span: Span
    label: str
    weight: str
    turned: bool
    inputs: int
    outputs: int
    element_type: int
    quantised: bool
    factor: float


def projections(model: Buffer, graph: OperationGraph) -> list[Projection]:
    """All products of a graph with constant matrices, in order; each module's name stands for one matrix."""
    found: list[Projection] = []
    taken: dict[str, str] = {}  # name -> weight
    for one in _products(model, graph, {}, {}):
        name, count = one.name, 1
        while taken.setdefault(name, one.weight) != one.weight:
            count += 1
            name = f"{one.name}_{count}"
        suffix = name[len(one.name) :]
        found.append(replace(one, name=name, graph_name=one.graph_name + suffix))
    return found


def peft_name(path: str) -> str:
    """A path in PEFT's form, which starts at transformers' model."""
    around = _AROUND.match(path)
    return _SHORT.sub(r"\1.self_attn", path[around.end() :] if around else path)


def chosen(names: Iterable[str], targets: Iterable[str] | str | None) -> set[str]:
    """The names that match a target: a whole name, its last parts, or a pattern of either.

    Args:
        names: paths of the layers that can have adapters.
        targets: names or patterns; None for the projections of attention.

    Raises:
        ValueError: there are no names; a target matches none; without targets, none is a projection of
            attention.
    """
    names = list(dict.fromkeys(names))
    if not names:
        raise ValueError(
            "targets: the module has no layer that takes adapters, which are Linear layers, and products of "
            "graphs with constant matrices (MatMul, Gemm, MatMulNBits; no MatMulInteger)."
        )
    patterns = ATTENTION if targets is None else (targets,) if isinstance(targets, str) else tuple(targets)
    found: set[str] = set()
    for pattern in patterns:
        own = {x for x in names if fnmatchcase(x, pattern) or fnmatchcase(x, f"*.{pattern}")}
        if not own and targets is not None:
            raise ValueError(f"targets: no layer is called {pattern!r}; there are {_listing(names)}.")
        found |= own
    if not found:
        reason = "it is empty" if targets is not None else "no name is one of attention's projections"
        raise ValueError(f"targets: {reason}; choose from {_listing(names)}.")
    return found


def _listing(names: list[str]) -> str:
    """Names for a message, those that differ in a number only as one."""
    alike = list(dict.fromkeys(re.sub(r"(?<=\.)\d+(?=\.)", "*", name) for name in names))
    return ", ".join(map(repr, alike[:40])) + (", ..." if len(alike) > 40 else "")


def _products(
    model: Buffer, graph: OperationGraph, weights: Mapping[str, Weight], makers: Mapping[str, Operation]
) -> Iterator[Projection]:
    """The products of a graph and of those in its nodes; `weights` and `makers` are those around it."""
    own = {x.name for x in graph.inputs}
    if own.issuperset(graph.weights):  # as exporters write all that is not an optional input of a runtime
        own = set()
    weights = {**weights, **{name: weight for name, weight in graph.weights.items() if name not in own}}
    makers = {**makers, **{name: node for node in graph.nodes for name in node.outputs if name}}
    for node in graph.nodes:
        one = _product(model, node, weights, makers)
        if one is not None:
            yield one
        for body in node.attributes.values():
            if isinstance(body, OperationGraph):
                yield from _products(model, body, weights, makers)


def _product(
    model: Buffer, node: Operation, weights: Mapping[str, Weight], makers: Mapping[str, Operation]
) -> Projection | None:
    """The projection of a node that multiplies by a weight matrix; None for another node."""
    if node.op not in ("MatMul", "Gemm", "FusedMatMul", "MatMulNBits") or len(node.inputs) < 2:
        return None
    attributes = node.attributes
    if any(attributes.get(name, 0) for name in ("transA", "transBatchA", "transBatchB")):
        return None
    matrix = _matrix(node.inputs[1], weights, makers)
    if matrix is None:
        return None
    name, turned, kind = matrix
    array = weights[name].array()  # whose data has the size that the file says
    if node.op == "MatMulNBits":
        sizes, turned = (int(attributes.get("K") or 0), int(attributes.get("N") or 0)), True
        kind = _kind_of(node.inputs[2], weights) if len(node.inputs) > 2 else 0
        if 8 * array.size < sizes[0] * sizes[1] * int(attributes.get("bits", 4)):
            raise ValueError(f"{node.name!r} has {array.size} bytes for a matrix of {sizes}")
    elif array.ndim == 2:
        turned ^= bool(attributes.get("transB", 0))
        sizes = (array.shape[1], array.shape[0]) if turned else array.shape
    else:
        return None
    stored = _kind_of(name, weights)
    kind = kind or stored
    if kind not in _FLOATS or min(sizes) < 1:
        return None
    path = _path(model, node, name)
    return Projection(
        peft_name(path),
        path,
        node.span,
        node.name or node.outputs[0],
        name,
        turned,
        *sizes,
        kind,
        stored not in _FLOATS,
        float(attributes.get("alpha", 1.0)),
    )


def _matrix(
    name: str, weights: Mapping[str, Weight], makers: Mapping[str, Operation]
) -> tuple[str, bool, int] | None:
    """The initializer of a matrix, whether it is transposed, and its dtype if a cast changes that."""
    turned, kind = False, 0
    for _ in range(_MAX_STEPS):
        if name in weights:
            return name, turned, kind
        node = makers.get(name)
        if node is None or not node.inputs:
            return None
        if node.op == "Transpose" and node.attributes.get("perm", [1, 0]) == [1, 0]:
            turned = not turned
        elif node.op == "Cast":
            kind = kind or int(node.attributes.get("to", 0))
        elif node.op == "DequantizeLinear" and len(node.inputs) > 1:
            kind = kind or _kind_of(node.inputs[1], weights)
        elif node.op != "Identity":
            return None
        name = node.inputs[0]
    return None


def _kind_of(name: str, weights: Mapping[str, Weight]) -> int:
    """ONNX's number of the type of an initializer; 0 if there is none."""
    return read_tensor(weights[name].model, weights[name].span).kind if name in weights else 0


def _path(model: Buffer, node: Operation, weight: str) -> str:
    """The path of the module that a node comes from, as far as the exporter kept it."""
    scopes = _scopes(model, node)
    if scopes:
        return scopes
    parts = [part for part in node.name.split("/") if part]
    of_weight = _OF_WEIGHT.sub("", weight)
    if len(parts) > 1:
        parts = parts[:-1] if _OPERATOR.match(parts[-1]) else parts
        # torch's older exporter has nn.Sequential, and then its name again with a number.
        short = [a for a, b in zip(parts, [*parts[1:], ""], strict=True) if not b.startswith(f"{a}.")]
        return ".".join(parts if of_weight == ".".join(parts) else short)
    return of_weight if of_weight != weight or not node.name else node.name


def _scopes(model: Buffer, node: Operation) -> str:
    """The module path in a node's metadata, where torch's exporter lists the modules around the node."""
    for number, wire, a, b in fields(model, *node.span):
        if (number, wire) == (9, 2):
            pair = {n: bytes(model[c:d]) for n, w, c, d in fields(model, a, b) if w == 2}
            if pair.get(1) == _SCOPES and len(pair.get(2, b"")) < 4096:
                try:
                    listed: Any = ast.literal_eval(pair[2].decode("utf-8", "replace"))
                except (ValueError, SyntaxError, MemoryError, RecursionError):
                    return ""
                names = [x for x in listed if isinstance(x, str)] if isinstance(listed, list) else []
                return next((x for x in reversed(names[:-1]) if x), "")
    return ""
