"""Run a copy of a module on symbolic arrays."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import lite.nn._export.activations
import lite.nn._export.convolution
import lite.nn._export.linear
import lite.nn._export.normalization
import lite.nn._export.recurrent  # noqa: F401 - each registers its layers
from lite._arrays.types import raw
from lite._transforms.grad.running import state
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.vmap.running import maps
from lite.nn._export.native import NATIVE, plain
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.module import Module
from lite.nn._modules.uninitialized import UninitializedBuffer, UninitializedParameter


def arrays_of(module: Module) -> dict[str, np.ndarray[Any, Any]]:
    """Parameters and buffers by the names of the state dict; one that is shared, under its first name.

    Buffers without a shape are left out.

    Raises:
        RuntimeError: a parameter has no data.
    """
    found: dict[str, np.ndarray[Any, Any]] = {}
    for name, holder in (*module.named_parameters(), *module.named_buffers()):
        array = raw(holder)
        if isinstance(holder, UninitializedBuffer):
            continue  # such as kept frames, which a graph has as a state; others raise where they are read
        if isinstance(holder, UninitializedParameter):
            raise RuntimeError(f"cannot be exported: {name!r} has no shape before the first call.")
        if isinstance(array, MetaArray):
            raise RuntimeError(f"cannot be exported: {name!r} is on the device 'meta' and has no numbers.")
        if isinstance(array, np.ndarray):
            found[name] = array
    return found


@contextmanager
def alone(graph: Graph) -> Iterator[None]:
    """Nothing but the trace: no derivatives by parameters, no random numbers, which would never change."""
    leaf, state.leaf = state.leaf, None
    maps.running.append(_NoDraws(graph))
    try:
        yield
    finally:
        maps.running.pop()
        state.leaf = leaf


class _NoDraws:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    def generator(self, rng: Any) -> Any:
        self.graph.fail("draws random numbers")

    def reads(self, what: str) -> None:
        self.graph.fail(f"reads {what}")


def symbolic(graph: Graph, module: Module, prefix: str = "") -> Module:
    """A copy of the module, in evaluation mode, whose parameters and buffers are weights of the graph.

    Its modules say when they run, and those that are one operator write it. The module itself stays as it is,
    so that other threads may go on using it.

    Args:
        graph: where nodes go.
        module: the module to copy; the copy shares its arrays.
        prefix: in front of the names of weights and modules.
    """
    arrays = arrays_of(module)
    weights = {id(array): graph.weight(f"{prefix}{name}", array) for name, array in arrays.items()}
    memo: dict[int, Any] = {id(array): array for array in arrays.values()}
    try:
        twin = copy.deepcopy(module, memo).eval()
    except Exception as error:
        raise RuntimeError(
            f"cannot be exported: copying {type(module).__name__} failed ({error})."
        ) from error
    for (_, old), (_, new) in zip(module.named_parameters(), twin.named_parameters(), strict=True):
        new.data = weights.get(id(raw(old)), new.data)
    for old, new in zip(module.modules(), twin.modules(), strict=True):
        for name, buffer in old._buffers.items():
            if id(buffer) in weights:
                new._buffers[name] = weights[id(buffer)]
    for name, part in twin.named_modules():
        part.__dict__["forward"] = _with_scope(graph, f"{prefix}{name}".rstrip("."), part)
    return twin


def _with_scope(graph: Graph, path: str, module: Module) -> Callable[..., Any]:
    """`forward` of a module within the scope of its name, or the operator that replaces it."""
    forward = type(module).forward
    written = NATIVE.get(type(module))

    @functools.wraps(forward)
    def call(*args: Any, **kwargs: Any) -> Any:
        with graph.running(path):
            joined = args and isinstance(args[0], tuple | list)  # `forward` says that it takes an array
            if written and not joined and plain(module) and _all_symbolic((*args, *kwargs.values())):
                out = written(graph, module, *args, **kwargs)
                if out is not NotImplemented:
                    return out
            return forward(module, *args, **kwargs)

    return call


def _all_symbolic(values: Any) -> bool:
    return all(
        value is None
        or isinstance(value, GraphArray)
        or (isinstance(value, tuple | list) and _all_symbolic(value))
        for value in values
    )
