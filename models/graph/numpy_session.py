"""Sessions on NumPy, which have the part of onnxruntime's interface that lite uses.

A graph is read by `lite.nn`'s importer and runs node by node on NumPy's functions. Weights stay in the file's
pages; those of float16 and quantised ones are made float32 once, within `HELD_BYTES`. A key/value cache of
GroupQueryAttention that is bound as input and output at once is written in place, as onnxruntime does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.dtypes import as_dtype
from lite._files.onnx.arrays import STRING, dtype_of
from lite._files.onnx.model import OperationGraph, Value, Weight, read_model
from lite._files.onnx.wire import fields, read_varint
from lite._files.onnx.writer import ELEMENT_TYPES
from lite.nn._import.limits import Memory, time_limit
from lite.nn._import.operators import MICROSOFT

HELD_BYTES = 1 << 30  # most memory for weights as floats; what is beyond is rebuilt at each run, in blocks
_CALLED = {"float32": "float", "float64": "double"}
_TYPES = {number: f"tensor({_CALLED.get(name, name)})" for name, number in ELEMENT_TYPES.items()}
_CACHES = ((3, 1), (4, 2))  # of GroupQueryAttention: an input, and the output with the new entries in it


@dataclass
class NumpyArg:
    """An input or output of a graph, as onnxruntime describes it."""

    name: str
    type: str
    shape: Sequence[int | str | None]


@dataclass(frozen=True)
class _Given(Weight):
    """A weight with another value than in the file."""

    model: Any = None
    span: Any = (0, 0)
    folder: Path | None = None
    value: Any = None

    def array(self) -> NDArray[Any]:
        return _read_only(np.array(self.value))


class NumpyValue:
    """An array with the methods of onnxruntime's `OrtValue` that lite calls."""

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array

    def numpy(self) -> NDArray[Any]:
        return self._array

    def shape(self) -> list[int]:
        return list(self._array.shape)

    def data_type(self) -> str:
        return _TYPES[ELEMENT_TYPES[self._array.dtype.name]]

    def data_ptr(self) -> int:
        return self._array.ctypes.data


class NumpySession:
    """A graph that runs on NumPy, for `open_session`.

    Args:
        path: path of the ONNX file; external data is read from beside it.
        content: the model to load instead of the file's.
        seconds: most that loading may take.
        values: values of weights by name, in place of those of the model.

    Raises:
        NotImplementedError: an operator has no rule; the message names it and its node.
        ValueError: no ONNX model, or one whose nodes are in no order; its data lie outside of its folder.
        FileNotFoundError: data of the graph are missing.
        TimeoutError: it takes too long.
    """

    runtime = "numpy"

    def __init__(
        self,
        path: Path,
        content: bytes | None,
        seconds: float,
        values: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        from lite.nn._import.module import mapped  # layers, which load when a graph is to run on NumPy
        from lite.nn._import.program import compiled

        self._bytes = mapped(path) if content is None else content
        with time_limit(seconds, "loading"), np.errstate(all="ignore"):
            model = read_model(self._bytes, path.parent)
            given = {name: _Given(value=value) for name, value in (values or {}).items()}
            graph = replace(model.graph, weights={**model.graph.weights, **given})
            weights = [x.name for x in graph.inputs if x.name in graph.weights]
            if _ir_version(self._bytes) < 4:  # it lists all initializers among its inputs
                weights = []
            memory = Memory(HELD_BYTES)
            self._program = compiled(
                model, graph, weights, "float32", "the graph", memory=memory, as_runtime=True
            )
        self._defaults = {name: graph.weights[name].array() for name in weights}
        self._types = {x.name: x.element_type for x in (*graph.inputs, *graph.outputs)}
        inputs = [x for x in graph.inputs if x.name not in graph.weights]
        self._inputs = [_described(x) for x in inputs]
        self._outputs = [_described(x) for x in graph.outputs]
        self._optional = [_described(x) for x in graph.inputs if x.name in weights]
        self._caches = _caches(graph)

    def get_inputs(self) -> Sequence[NumpyArg]:
        return self._inputs

    def get_outputs(self) -> Sequence[NumpyArg]:
        return self._outputs

    def get_overridable_initializers(self) -> list[NumpyArg]:
        return self._optional

    def get_providers(self) -> list[str]:
        return []

    def io_binding(self) -> NumpyBinding:
        return NumpyBinding()

    @np.errstate(all="ignore")
    def run_with_iobinding(self, binding: NumpyBinding, seconds: float | None = None) -> None:
        """Run the graph on what is bound.

        Raises:
            TimeoutError: it has not ended after `seconds`, or a loop in it after a time of its own.
            Exception: of the operator that fails, with a note that names the node.
        """
        given = {name: _read_only(array) for name, array in binding.inputs.items()}
        for past, present in self._caches:
            own = binding.inputs.get(past)
            if own is not None and binding.is_shared(past, present):
                given[past] = own  # to be written to
        found = self._results(given, seconds)
        binding.results = []
        for name, target in binding.outputs.items():
            value = found[name]
            if target is None:
                binding.results.append(NumpyValue(self._own(name, value)))
                continue
            if value.shape != target.shape:
                raise ValueError(
                    f"the output {name!r} has the shape {list(value.shape)}, bound is {list(target.shape)}"
                )
            if value is not given.get(next((past for past, own in self._caches if own == name), "")):
                target[...] = value
            binding.results.append(NumpyValue(target))

    @np.errstate(all="ignore")
    def run(
        self, outputs: Sequence[str] | None, feeds: Mapping[str, Any], seconds: float | None = None
    ) -> list[NDArray[Any]]:
        """The outputs of these names, or all, for arrays by the names of inputs."""
        found = self._results({name: _read_only(np.asarray(x)) for name, x in feeds.items()}, seconds)
        names = [x.name for x in self._outputs] if outputs is None else outputs
        return [self._own(name, found[name]) for name in names]

    def _results(self, given: Mapping[str, NDArray[Any]], seconds: float | None) -> dict[str, NDArray[Any]]:
        missing = [x.name for x in self._inputs if x.name not in given]
        if missing:
            raise ValueError(f"the inputs {missing} are missing")
        for arg in self._inputs:
            _check(arg, given[arg.name].shape)
        program = self._program
        values = [self._widened(given[x.name]) for x in self._inputs]
        weights = [self._widened(given.get(name, self._defaults[name])) for name in program.weights]
        limit = nullcontext() if seconds is None else time_limit(seconds, "its run")
        with limit:
            found = program(values, weights)
        return dict(zip((x.name for x in self._outputs), found, strict=True))

    def _widened(self, array: NDArray[Any]) -> NDArray[Any]:
        """Floats of two bytes as those that are computed with; a cache to be written stays as it is."""
        narrow = array.dtype.itemsize == 2 and array.dtype.kind in "fV"
        return array.astype(np.float32) if narrow and not array.flags.writeable else array

    def _own(self, name: str, value: NDArray[Any]) -> NDArray[Any]:
        """A copy of an output in the type that the graph gives it."""
        return np.array(value, dtype_of(self._types[name]) if self._types[name] else value.dtype, order="C")


class NumpyBinding:
    """Inputs and outputs of a run, with the methods of onnxruntime's `IOBinding` that lite calls.

    Attributes:
        inputs: views of what is bound, by name.
        outputs: likewise, in order; None for those to make.
        results: what the last run gave, in the order of the outputs.
    """

    def __init__(self) -> None:
        self.inputs: dict[str, NDArray[Any]] = {}
        self.outputs: dict[str, NDArray[Any] | None] = {}
        self.results: list[NumpyValue] = []

    def bind_input(
        self, name: str, device: str, index: int, element_type: Any, shape: Sequence[int], pointer: int
    ) -> None:
        self.inputs[name] = _view(element_type, shape, pointer)

    def bind_output(
        self, name: str, device: str, index: int, element_type: Any = None, shape: Sequence[int] = (),
        pointer: int | None = None,
    ) -> None:  # fmt: skip
        self.outputs[name] = None if pointer is None else _view(element_type, shape, pointer)

    def get_outputs(self) -> list[NumpyValue]:
        return self.results

    def copy_outputs_to_cpu(self) -> list[NDArray[Any]]:
        return [value.numpy() for value in self.results]

    def is_shared(self, source: str, target: str) -> bool:
        """Whether an input and an output are the same memory, in the same shape."""
        one, other = self.inputs.get(source), self.outputs.get(target)
        if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
            return False
        return one.__array_interface__["data"][0] == other.__array_interface__["data"][0]


def _view(element_type: Any, shape: Sequence[int], pointer: int) -> NDArray[Any]:
    """An array of the memory at an address, which the caller keeps alive."""
    dtype = dtype_of(element_type) if isinstance(element_type, int) else as_dtype(element_type)
    size = prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * size).from_address(pointer)
    return np.frombuffer(memory, dtype).reshape(shape)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _described(value: Value) -> NumpyArg:
    kind = "tensor(string)" if value.element_type == STRING else _TYPES.get(value.element_type, "no tensor")
    return NumpyArg(value.name, kind, list(value.shape or ()))


def _check(arg: NumpyArg, shape: tuple[int, ...]) -> None:
    """Raise ValueError for an input whose sizes are not those of the graph."""
    if not arg.shape:  # a scalar, or a graph that does not say
        return
    fits = len(arg.shape) == len(shape)
    if not fits or any(
        isinstance(a, int) and a >= 0 and a != b for a, b in zip(arg.shape, shape, strict=True)
    ):
        raise ValueError(f"the input {arg.name!r} has the shape {list(shape)}. Expected: {arg.shape}")


def _caches(graph: OperationGraph) -> list[tuple[str, str]]:
    """Inputs and outputs of the graph that are the old and the new cache of one GroupQueryAttention alone."""
    reads = [name for node in graph.nodes for name in node.inputs]
    given, asked = {x.name for x in graph.inputs}, {x.name for x in graph.outputs}
    found = []
    for node in graph.nodes:
        if (node.domain, node.op) != (MICROSOFT, "GroupQueryAttention") or len(node.outputs) < 3:
            continue
        pairs = [(node.inputs[i], node.outputs[j]) for i, j in _CACHES]
        if all(a in given and reads.count(a) == 1 and b in asked for a, b in pairs):
            found += pairs
    return found


def _ir_version(model: Any) -> int:
    """The version of the format that a model is written in."""
    found = (
        read_varint(model, a, b)[0] for n, wire, a, b in fields(model, 0, len(model)) if (n, wire) == (1, 0)
    )
    return next(found, 0)
