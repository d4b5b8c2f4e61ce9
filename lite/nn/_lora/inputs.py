"""The file of an exported graph again, with optional inputs for adapters."""

from __future__ import annotations

import filecmp
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np

from lite._files.commit import new_file
from lite._files.onnx import writer
from lite._files.onnx.arrays import check_external_files, dtype_of
from lite._files.onnx.model import Operation, OperationGraph, read_model
from lite._files.onnx.rewriting import with_nodes
from lite._files.onnx.wire import Buffer, field, fields, text, varint
from lite.nn._export.contract import contract_path
from lite.nn._import.module import mapped
from lite.nn._import.saving import external_files, nodes_of
from lite.nn._lora.linear import matrices
from lite.nn._lora.projections import Projection, chosen, projections


def add_adapter_inputs(
    path: str | os.PathLike[str],
    new_path: str | os.PathLike[str],
    *,
    rank: int | None = None,
    targets: str | Iterable[str] | None = None,
) -> Path:
    """Write an exported graph again, with optional inputs for low-rank adapters beside its projections.

    Without an adapter the graph computes what it did. An adapter gives values to the inputs
    ``<path>.lora_A.weight`` (in, rank) and ``<path>.lora_B.weight`` (rank, out), the names that Olive has,
    where a path is that of the nodes: onnxruntime's own files do so, `OnnxDecoder(adapters=...)`, and
    `OnnxDecoder.set_adapter` with `LoraModule.adapter_inputs`. The matrices beside float weights have their
    type, beside quantised ones that of the scales. A projection that has such inputs keeps them.

    Args:
        path: path of the ONNX file. Weights in files beside it stay as they are.
        new_path: path of the new file. In the same folder it shares these files; in another they are copied.
        rank: rank of the adapters; None for any, which may differ from input to input.
        targets: as for `lora`.

    Returns:
        `new_path`.

    Raises:
        FileNotFoundError: there is no such file, or one of its external data is missing.
        ValueError: no ONNX model; a target is for nothing (the message says what there is); `rank` is not
            positive; something else in the graph is called as an input would be; another file has the place
            of external data.

    Source:
        Olive, ExtractAdapters; onnxruntime, "Run LoRA models".

    Example:
        >>> import tempfile
        >>> from lite import nn
        >>> from lite.models import OnnxDecoder, embedded_model_path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = nn.add_adapter_inputs(embedded_model_path() / "model.onnx", f"{folder}/model.onnx")
        ...     OnnxDecoder(path).spec.optional[0]
        'model.layers.0.self_attn.o_proj.lora_A.weight'
    """
    source, target = Path(path).resolve(), Path(new_path)
    if not source.is_file():
        raise FileNotFoundError(f"path: there is no ONNX file {os.fspath(path)!r}.")
    if rank is not None and (isinstance(rank, bool) or not isinstance(rank, int) or rank < 1):
        raise ValueError(f"rank must be a positive integer or None, got {rank!r}.")
    content = mapped(source)
    try:
        graph = read_model(content, source.parent).graph
        found = projections(content, graph)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    names = chosen((one.name for one in found), targets)
    changed = _with_inputs(content, graph, [one for one in found if one.name in names], rank)
    outside = set(external_files(graph))
    check_external_files(source, outside)
    for name in outside:
        _copy(source.parent / name, target.parent / name)
    with new_file(str(target)) as file:
        file.write(changed)
    if contract_path(source).is_file() and not contract_path(target).exists():
        shutil.copyfile(contract_path(source), contract_path(target))
    return target


def with_adapter_inputs(content: Buffer, names: Collection[str], folder: Path | None) -> bytes:
    """A serialised model with optional inputs for adapters of any rank, as `add_adapter_inputs` writes it.

    Args:
        content: the model; it is not changed. Pieces of a graph that follow the graph stay behind it.
        names: names of the projections, as the graph has them.
        folder: folder of the model's external data.

    Raises:
        ValueError: the graph has no such projection.
    """
    graphs, done = 0, 0
    pieces: tuple[list[bytes], list[bytes]] = [], []
    for number, _, _, b in fields(content, 0, len(content)):
        graphs += number == 7
        pieces[number == 7 and graphs > 1].append(bytes(content[done:b]))
        done = b
    content = b"".join(pieces[0])
    graph = read_model(content, folder).graph
    found = projections(content, graph)
    missing = sorted(set(names) - {one.graph_name for one in found})
    if missing:
        raise ValueError(f"the graph has no product called {missing[0]!r} for an adapter to be beside")
    own = [one for one in found if one.graph_name in names]
    return _with_inputs(content, graph, own, None) + b"".join(pieces[1])


def _with_inputs(content: Buffer, graph: OperationGraph, own: list[Projection], rank: int | None) -> bytes:
    optional = {x.name for x in graph.inputs if x.name in graph.weights}
    own = [one for one in own if not optional.issuperset(matrices(one.graph_name))]
    spans, nodes = {one.span: one for one in own}, {}
    bias = _bias_of(graph)
    for node in nodes_of(graph):
        if node.span in spans:
            last = bias.get(node.outputs[0], node)
            nodes[last.span] = _beside(content, last, node.inputs[0], spans[node.span].graph_name)
    taken = {*graph.weights, *(name for node in nodes_of(graph) for name in node.outputs)}
    more = []
    for one in {one.graph_name: one for one in own}.values():
        dtype, any_rank = dtype_of(one.element_type), f"{one.graph_name}.rank"
        first, second = matrices(one.graph_name)
        if first in taken:
            raise ValueError(f"path: the graph has {first!r} already.")
        for name, zeros, shape in (
            (first, (one.inputs, rank or 0), (one.inputs, rank or any_rank)),
            (second, (rank or 0, one.outputs), (rank or any_rank, one.outputs)),
        ):
            more.append(field(5, writer.tensor(name, np.zeros(zeros, dtype))))
            more.append(field(11, writer.value(name, dtype, shape)))
    return with_nodes(content, nodes, b"".join(more))


def _bias_of(graph: OperationGraph) -> dict[str, Operation]:
    """For values that a weight is added to, and nothing else is done with: the node that does.

    Behind it adapters are added: runtimes compute such a sum with the product, and go on doing so.
    """
    reads = Counter(name for node in nodes_of(graph) for name in node.inputs)
    reads.update(x.name for x in graph.outputs)
    found = {}
    for node in graph.nodes:
        if node.op == "Add" and len(node.inputs) == 2:
            for name, other in (node.inputs, node.inputs[::-1]):
                if other in graph.weights and reads[name] == 1:
                    found[name] = node
    return found


def _beside(content: Buffer, node: Operation, x: str, path: str) -> bytes:
    """A node whose output has another name, and the nodes that add to it what an adapter computes of `x`."""
    out, place = node.outputs[0], f"{node.name or node.outputs[0]}/lora"
    alone, narrow, added = (f"{out}/{x}" for x in ("without_adapter", "lora_A", "lora_B"))
    renamed = []
    for number, wire, a, b in fields(content, *node.span):
        head = varint(number << 3 | wire) + (varint(b - a) if wire == 2 else b"")
        renamed.append(text(2, alone) if number == 2 else head + bytes(content[a:b]))
    first, second = matrices(path)
    return b"".join(
        field(1, one)
        for one in (
            b"".join(renamed),
            writer.node("MatMul", f"{place}_A/MatMul", [x, first], [narrow], {}),
            writer.node("MatMul", f"{place}_B/MatMul", [narrow, second], [added], {}),
            writer.node("Add", f"{place}/Add", [alone, added], [out], {}),
        )
    )


def _copy(source: Path, target: Path) -> None:
    """Have a file beside the new graph, too; no link, which other readers of ONNX refuse."""
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    elif not filecmp.cmp(source, target):
        raise ValueError(f"new_path: {target} has the place of the graph's external data.")
