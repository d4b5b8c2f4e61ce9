"""`Module.to_onnx`: from a module and examples of its inputs, by a trace, to a graph and its contract."""

from __future__ import annotations

import copy
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from lite import NestedKey
from lite._arrays.types import raw
from lite._files.commit import new_file
from lite._files.onnx.writer import tensor, tensor_elsewhere
from lite._transforms.grad.running import state
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.trace import Input, Traced, trace
from lite._transforms.graphs.writer import model_bytes
from lite._transforms.vmap.running import maps
from lite._tree.collection import TensorCollection
from lite._tree.keys import unravel_key
from lite.nn._export.contract import DIGEST, Contract, ContractTensor, contract_path, digest
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
from lite.nn._export.native import NATIVE, plain
from lite.nn._modules.initial import UninitializedBuffer, UninitializedParameter
from lite.nn._modules.meta import MetaArray
from lite.nn._modules.module import Module
from lite.nn.settings import InteractionType, set_interaction_type, set_skip_existing
from lite.nn.tensordict_modules.base import TensorDictModuleBase


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
        graph: the graph that gets the nodes.
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


# Protobuf takes messages of less than 2 GiB; the nodes need some of it, too.
_LARGEST = (1 << 31) - (64 << 20)
_SMALL = 1024  # bytes of an array that stays in the graph
_PAGE = 4096  # onnxruntime maps large arrays into memory if they begin at a page


def save(
    path: Path, traced: Traced, about: Mapping[str, Any], contract: bytes | None, external_data: bool | None
) -> None:
    """Write all files; each takes its place at once, complete, and replaces the one that was there.

    The weights have a name of their own for each content, so that the graph before keeps its own until the
    new one is in its place; a contract that belongs to the other graph is refused when it is read.

    Args:
        path: path of the graph.
        traced: the graph.
        about: what else `model_bytes` takes.
        contract: the content of its file; None for no such file.
        external_data: whether arrays go into a file beside the graph; None for those that are too large.

    Raises:
        ValueError: arrays of more than 2 GB are to be in the graph.
    """
    arrays = traced.arrays
    total = sum(array.nbytes for array in arrays.values())
    if external_data is False and total > _LARGEST:
        raise ValueError(f"external_data=False is for weights up to 2 GB, got {total} bytes.")
    apart = total > _LARGEST if external_data is None else external_data
    outside = {name: a for name, a in arrays.items() if apart and a.nbytes >= _SMALL}
    data = f"{path.name}.{_digest(outside)}.data" if outside else ""
    offset, tensors = 0, []
    for name, array in arrays.items():
        if name not in outside:
            tensors.append(tensor(name, _plain(array)))
            continue
        start = offset + -offset % _PAGE
        tensors.append(tensor_elsewhere(name, array.dtype, array.shape, data, start, array.nbytes))
        offset = start + array.nbytes
    if outside:
        with new_file(str(path.with_name(data))) as file:
            for array in outside.values():
                file.write(b"\0" * (-file.tell() % _PAGE))
                for part in _parts(array):
                    file.write(part)
    content = model_bytes(traced, **about, tensors=tensors)
    beside = contract_path(path)
    with ExitStack() as at_the_end:
        if contract is not None:  # complete before the graph takes its place
            other = at_the_end.enter_context(new_file(str(beside)))
            other.write(contract)
            other.flush()
        with new_file(str(path)) as file:
            file.write(content)
    if contract is None:
        with suppress(FileNotFoundError):
            beside.unlink()
    _remove_others(path, data)


def _remove_others(path: Path, kept: str) -> None:
    """Drop weights of graphs that were in this place before."""
    ours = re.compile(re.escape(path.name) + r"\.[0-9a-f]{16}\.data")
    for name in os.listdir(path.parent):
        if name != kept and ours.fullmatch(name):
            with suppress(OSError):
                (path.parent / name).unlink()


def _digest(arrays: dict[str, np.ndarray[Any, Any]]) -> str:
    found = hashlib.sha256()
    for array in arrays.values():
        for part in _parts(array):
            found.update(part)
    return found.hexdigest()[:16]


def _parts(array: np.ndarray[Any, Any]) -> Iterator[memoryview]:
    """The bytes of an array, little-endian and in order, without a copy of all where it has them so."""
    flat = _plain(array).reshape(-1).view(np.uint8)
    for start in range(0, flat.size, 1 << 26):
        yield flat[start : start + (1 << 26)].data


def _plain(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Contiguous and little-endian."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)


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
    kept = example.inputs

    def run(graph: Graph, arrays: list[GraphArray]) -> dict[str, Any]:
        pairs = zip(example.inputs, arrays, strict=True)
        with set_interaction_type(how), set_skip_existing(False), alone(graph):
            given = [_normalized(graph, one, array, normalizers) for one, array in pairs]
            results = example.call(symbolic(graph, module), given)
        names = names_of_outputs(list(results), output_names, kept)
        found.clear()
        found.update({name: key for key, name in names.items()})
        return {names[key]: value for key, value in results.items()}

    sizes = {n for part in (module, *normalizers.values()) for a in arrays_of(part).values() for n in a.shape}
    try:
        traced = trace(run, [one.symbolic for one in example.inputs], sorted(sizes))
    except Exception as error:
        if len(inputs) == 1 and isinstance(inputs[0], tuple):  # as torch.onnx.export takes its args
            error.add_note("The example was one argument, a tuple: write to_onnx(path, *inputs) for several.")
        raise
    read = {name for node in traced.nodes for name in node.reads}
    given = inputs[0].keys(True, True) if of_frame and has_transforms(module) else ()
    unread = {one.name: one for one in example.inputs if one.name not in read and one.key in given}
    if unread and not (input_names or dynamic_axes):
        # Rewards and the like, which who runs the graph has not; outputs may have their names.
        kept = [one for one in example.inputs if one.name not in unread]
        for name, one in unread.items():
            one.name = f"unread {name}"
        traced = trace(run, [one.symbolic for one in example.inputs], sorted(sizes))
        traced = replace(traced, inputs=tuple(one.symbolic for one in kept))
        example.inputs = kept
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
