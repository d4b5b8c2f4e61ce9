"""`Module.to_onnx`: from a module and examples of its inputs to an ONNX graph and its contract."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from lite import NestedKey
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.trace import Input, trace
from lite._tree.collection import TensorCollection
from lite._tree.keys import unravel_key
from lite.nn._export.contract import DIGEST, Contract, ContractTensor, digest
from lite.nn._export.example import (
    Example,
    ExampleInput,
    GivenNames,
    has_transforms,
    names_of_outputs,
    of_arrays,
    of_entries,
    of_tensordict,
)
from lite.nn._export.files import save
from lite.nn._export.tracing import alone, arrays_of, symbolic
from lite.nn._modules.module import Module
from lite.nn.settings import InteractionType, set_interaction_type, set_skip_existing
from lite.nn.tensordict_modules.base import TensorDictModuleBase

_OPSETS = (20, 25)  # 20 is the first that has Gelu; onnxruntime knows it since 1.17
_FEW = 4096  # numbers of a normalisation that the contract repeats


def to_onnx(
    module: Module,
    path: str | os.PathLike[str],
    inputs: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
    input_names: GivenNames,
    output_names: GivenNames,
    dynamic_axes: Mapping[str, Any] | None,
    states: Mapping[NestedKey, NestedKey] | None,
    normalization: Mapping[NestedKey, Module] | None,
    interaction_type: InteractionType | str,
    external_data: bool | None,
    contract: bool,
    opset: int,
) -> Path:
    """Write a module as an ONNX graph; see `Module.to_onnx`, which this is."""
    how = InteractionType(interaction_type)
    if how is InteractionType.RANDOM:
        raise ValueError(
            "interaction_type must be deterministic, mode, mean or median: a graph draws nothing."
        )
    if not isinstance(opset, int) or not _OPSETS[0] <= opset <= _OPSETS[1]:
        raise ValueError(f"opset must be from {_OPSETS[0]} to {_OPSETS[1]}, got {opset!r}.")
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"path must be that of a file, got the folder {target}.")
    of_frame = len(inputs) == 1 and isinstance(inputs[0], TensorCollection)
    if of_frame:
        if kwargs:
            raise ValueError("kwargs are for a module of arrays: put entries into the TensorDict.")
        example = of_tensordict(module, inputs[0], input_names, dynamic_axes)
    elif isinstance(module, TensorDictModuleBase):
        example = of_entries(module, inputs, kwargs or {}, input_names, dynamic_axes)
    else:
        example = of_arrays(module, inputs, kwargs or {}, input_names, dynamic_axes)
    normalizers = _normalizers(normalization or {}, example)
    found: dict[str, NestedKey] = {}

    def run(graph: Graph, arrays: list[GraphArray]) -> dict[str, Any]:
        pairs = zip(example.inputs, arrays, strict=True)
        with set_interaction_type(how), set_skip_existing(False), alone(graph):
            given = [_normalized(graph, one, array, normalizers) for one, array in pairs]
            results = example.call(symbolic(graph, module), given)
        names = names_of_outputs(list(results), output_names, example.inputs)
        found.clear()
        found.update({name: key for key, name in names.items()})
        return {names[key]: value for key, value in results.items()}

    sizes = {n for part in (module, *normalizers.values()) for a in arrays_of(part).values() for n in a.shape}
    traced = trace(run, [one.symbolic for one in example.inputs], sorted(sizes))
    read = {name for node in traced.nodes for name in node.reads}
    given = inputs[0].keys(True, True) if of_frame and has_transforms(module) else ()
    unread = [one.key for one in example.inputs if one.name not in read and one.key in given]
    if unread and not (input_names or dynamic_axes):
        rest = inputs[0].exclude(*unread)  # rewards and the like, which who runs the graph has not
        named = None, output_names, None, states, normalization
        return to_onnx(module, path, [rest], None, *named, how, external_data, contract, opset)
    agreed = Contract(
        tuple(_described(one, normalizers.get(one.key)) for one in example.inputs),
        tuple(ContractTensor(name, found[name], shape, dtype.name) for name, shape, dtype in traced.outputs),
        _states(states, example, found),
        example.batch,
        how.value,
        opset,
        version(),
    )
    content = agreed.to_bytes() if contract else None
    about = {} if content is None else {DIGEST: digest(content)}
    about_graph = {"name": type(module).__name__, "opset": opset, "metadata": about}
    save(target, traced, {**about_graph, "producer": ("lite", version())}, content, external_data)
    return target


@cache  # 1 ms of each export
def version() -> str:
    """The version of lite that is installed; empty for files that were only copied."""
    try:
        return metadata.version("tensordict-lite")
    except metadata.PackageNotFoundError:
        return ""


def _normalizers(given: Mapping[NestedKey, Module], example: Example) -> dict[NestedKey, Module]:
    keys = {one.key for one in example.inputs}
    out: dict[NestedKey, Module] = {}
    for key, module in given.items():
        flat = unravel_key(key)
        if flat not in keys:
            raise ValueError(f"normalization has {key!r}, the inputs are {sorted(map(str, keys))}.")
        if not isinstance(module, Module):
            raise TypeError(f"normalization of {key!r} must be a Module, got {type(module).__name__}.")
        out[flat] = module
    return out


def _normalized(
    graph: Graph, one: ExampleInput, array: GraphArray, normalizers: Mapping[NestedKey, Module]
) -> GraphArray:
    module = normalizers.get(one.key)
    if module is None:
        return array
    out = symbolic(graph, module, f"normalization.{one.name}.")(array)
    if not isinstance(out, GraphArray) or tuple(out.shape) != tuple(array.shape):
        raise ValueError(f"normalization of {one.key!r} must give an array of the shape of the input.")
    return out


def _described(one: ExampleInput, normalizer: Module | None) -> ContractTensor:
    asked: Input = one.symbolic
    about = None
    if normalizer is not None:
        numbers = {name: a.tolist() for name, a in arrays_of(normalizer).items() if _is_few(a)}
        about = {"module": type(normalizer).__name__, "in_graph": True, "state": numbers}
    return ContractTensor(one.name, one.key, asked.shape, asked.dtype.name, about)


def _is_few(array: np.ndarray[Any, Any]) -> bool:
    """Whether numbers are repeated in the contract: not many, and of those that JSON has."""
    return array.size <= _FEW and array.dtype.kind in "biuf" and bool(np.isfinite(array).all())


def _states(
    given: Mapping[NestedKey, NestedKey] | None, example: Example, outputs: Mapping[str, NestedKey]
) -> dict[str, str]:
    """Inputs with the outputs that are their next values.

    Unless told, an entry `key` has its next value in ("next", *key), or in itself.
    """
    names = {one.key: one.name for one in example.inputs}
    targets = {key: name for name, key in outputs.items()}
    if given is not None:
        pairs = {unravel_key(key): unravel_key(new) for key, new in given.items()}
        for key, new in pairs.items():
            if key not in names or new not in targets:
                raise ValueError(
                    f"states pairs {key!r} with {new!r}; the inputs are {list(names)}, "
                    f"the outputs {list(targets)}."
                )
        return {names[key]: targets[new] for key, new in pairs.items()}
    out = {}
    for key, name in names.items():
        following = ("next", key) if isinstance(key, str) else ("next", *key)
        new = following if following in targets else key
        if new in targets and new not in example.rewritten:
            out[name] = targets[new]
    return out
