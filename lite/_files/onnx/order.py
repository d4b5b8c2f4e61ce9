"""Topological order of the nodes of a graph."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from lite._files.onnx.model import Operation, OperationGraph


def in_order(nodes: Sequence[Operation]) -> list[Operation]:
    """The nodes in topological order; a node moves only if it stands before one whose output it reads.

    Nodes of a cycle, and those that read from it, come last.
    """
    makers = {name: i for i, node in enumerate(nodes) for name in node.outputs if name}
    needed = [{makers[name] for name in reads_of(node) if name in makers} for node in nodes]
    if all(max(before, default=-1) < i for i, before in enumerate(needed)):
        return list(nodes)
    readers: dict[int, list[int]] = defaultdict(list)
    for i, before in enumerate(needed):
        for maker in before:
            readers[maker].append(i)
    ready, found = [i for i, before in enumerate(needed) if not before], []
    while ready:
        i = heapq.heappop(ready)
        found.append(i)
        for reader in readers[i]:
            needed[reader].discard(i)
            if not needed[reader]:
                heapq.heappush(ready, reader)
    rest = set(range(len(nodes))).difference(found)
    return [nodes[i] for i in (*found, *sorted(rest))]


def reads_of(node: Operation) -> set[str]:
    """The names of the values that a node reads, including those that its subgraphs read from outside."""
    names = set(node.inputs)
    for inner in graphs_of(node.attributes):
        names.update(x.name for x in inner.outputs)
        for each in inner.nodes:
            names |= reads_of(each)
    return names


def graphs_of(attributes: Mapping[str, Any]) -> list[OperationGraph]:
    """The subgraphs among a node's attributes."""
    return [value for value in attributes.values() if isinstance(value, OperationGraph)]
