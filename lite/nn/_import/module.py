"""`GraphModule`: an ONNX graph as a module whose parameters are the graph's weights.

It has more than 600 lines, as where a weight stands in the graph tells whether it learns.
"""

from __future__ import annotations

import functools
import mmap
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.dtypes import is_floating
from lite._arrays.public import belong_to
from lite._arrays.types import HostArray, is_array
from lite._files.onnx.arrays import dtype_of
from lite._files.onnx.batch_axes import batch_axes, from_rows, row_axes, to_rows
from lite._files.onnx.model import (
    Operation,
    OperationGraph,
    Value,
    constants_as_weights,
    in_order,
    read_model,
    reads_of,
)
from lite._files.onnx.reader import read_tensor
from lite._files.system import WINDOWS
from lite._transforms.grad.running import state as grad_state
from lite.nn._import.program import compiled
from lite.nn._import.saving import save
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter

Selection = bool | Iterable[str] | Any
# Weights that are no parameters to learn, by operator and input: statistics, tables, quantised numbers.
_FIXED: dict[str, frozenset[int]] = {
    "BatchNormalization": frozenset({3, 4}),
    "RotaryEmbedding": frozenset({2, 3}),
    "GroupQueryAttention": frozenset({7, 8, 12, 13}),
    "MatMulNBits": frozenset(range(1, 7)),
    "GatherBlockQuantized": frozenset(range(1, 5)),
    "DequantizeLinear": frozenset(range(1, 3)),
    "QuantizeLinear": frozenset(range(1, 3)),
}
_FLOATS = (1, 10, 11, 16)  # float32, float16, float64, bfloat16
_MASKED = {"Add": frozenset({0, 1}), "Where": frozenset({1, 2})}
_SCALED = {"Mul": frozenset({0, 1}), "Div": frozenset({0, 1})}
# What normalises an input: its operators after another, and those that go between.
_NORMALIZE = (("Sub", "Div"), ("Sub", "Mul"), ("Mul", "Add"))
_MOVES = frozenset({"Cast", "CastLike", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_BETWEEN = _MOVES | {"Clip", "Concat", "Flatten", "Gather", "Pad", "Resize", "Slice", "Transpose"}
_LOWEST = -65504.0  # of float16: no weight, but what a mask adds
# Inputs whose numbers say what is computed, such as a size.
_SETTINGS: dict[str, frozenset[int]] = {
    "Clip": frozenset({1, 2}), "Dropout": frozenset({1}), "Pad": frozenset({2}), "Pow": frozenset({1}),
    "Range": frozenset({0, 1, 2}), "Resize": frozenset({1, 2}), "Upsample": frozenset({1}),
}  # fmt: skip


class Source:
    """Where a graph is from, and the program that runs it. Copies share it; a pickle reads the graph again.

    Args:
        path: path of the model's file; None for one that was given as bytes.
        content: the model's bytes; None to read the file.
        outputs: names of the outputs that are computed; None for all.
        compute_dtype: name of the dtype that float16 and bfloat16 are computed in; None for themselves.
        weights: names of the initializers that are parameters; None to find them.
    """

    def __init__(
        self, path: Path | None, content: bytes | None, outputs: tuple[str, ...] | None,
        compute_dtype: str | None, weights: tuple[str, ...] | None = None,
    ) -> None:  # fmt: skip
        self.path, self._content = path, content
        self.chosen, self.compute_dtype = outputs, compute_dtype
        self.bytes: bytes | mmap.mmap = (
            mapped(path) if content is None and path is not None else content or b""
        )
        folder = None if path is None else path.parent
        try:
            self.model = read_model(self.bytes, folder)
            self.graph = _chosen(self.model.graph, outputs)
            if not _float_weights(self.graph):  # a function that torch traced, say
                self.graph = constants_as_weights(self.graph, self.bytes, folder)
            self.weights = _float_weights(self.graph) if weights is None else weights
        except ValueError as error:
            raise ValueError(f"{path or 'the model'}: {error}") from None
        self.inputs = tuple(x for x in self.graph.inputs if x.name not in self.graph.weights)
        self.program = compiled(self.model, self.graph, self.weights, compute_dtype, str(path or "the model"))
        sizes = _sizes(self.inputs), _sizes(self.graph.outputs)
        self.axes = _with_states(self.graph, row_axes(*sizes)) or batch_axes(*sizes)
        self.ranks = tuple(_rank(x, self.axes) for x in self.inputs)

    def __deepcopy__(self, memo: dict[int, Any]) -> Source:
        return self

    def __reduce__(self) -> Any:
        content = bytes(self._content) if self._content is not None else None
        return Source, (self.path, content, self.chosen, self.compute_dtype, self.weights)


class GraphModule(Module):
    """An ONNX graph that runs by NumPy's functions; `lite.nn.from_onnx` makes it.

    Its parameters are the graph's weights under their names, split at dots as torch's are. So gradients,
    `vmap`, optimisers, state dicts and `TensorDict.from_module` work on it as on any module.

    An input with more or fewer dimensions than the graph's has any number of batch dimensions in front, which
    the graph sees as one, at its own batch axis, and which lead the outputs again (see `OnnxModule`).

    Attributes:
        input_names: names of the inputs, in the order of the graph.
        output_names: names of the outputs that a call gives.
        checkpoint: whether gradients keep less and compute again, as of `from_onnx`; it may be changed.

    Example:
        >>> import numpy as np, tempfile
        >>> from lite import nn
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     x = np.zeros((1, 3), np.float32)
        ...     net = nn.from_onnx(nn.Linear(3, 2).to_onnx(f"{folder}/net.onnx", x, contract=False))
        >>> net.input_names, sorted(name for name, _ in net.named_parameters())
        (('input',), ['bias', 'weight'])
        >>> net(np.zeros((5, 3), np.float32)).shape
        (5, 2)
    """

    def __init__(
        self, source: Source, arrays: Mapping[str, NDArray[Any]], trained: Mapping[str, bool]
    ) -> None:
        super().__init__()
        self._source = source
        self.checkpoint: bool | int = False
        self._places: list[tuple[Module, str, int]] = []
        self.input_names = tuple(x.name for x in source.inputs)
        self.output_names = tuple(x.name for x in source.graph.outputs)
        self._dtypes = {x.name: _float_dtype(x, source.compute_dtype) for x in source.graph.inputs}
        self._has_fixed_rows = any(map(_fixed_rows, source.inputs))
        self._reshaped = _behind_reshapes(source) if self._has_fixed_rows else set()
        for name in sorted(source.weights, key=lambda name: name.count("."), reverse=True):
            owner, local = _owner(self, name)
            owner.register_parameter(local, Parameter(arrays[name], requires_grad=trained[name]))
            self._places.append((owner, local, source.program.weights[name]))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs for inputs by position or name: an array, or a tuple of several.

        An input of another float dtype is cast to that of the graph.

        Raises:
            TypeError: an input is missing, given twice or unknown.
            ValueError: an output lacks the batch that inputs have beyond the graph's dimensions, or a graph
                of fixed sizes has folded other rows of inputs into as many as it says.
        """
        own = self.__dict__  # attribute access is slow on a class that has __getattr__
        program, names = own["_source"].program, own["input_names"]
        weights, leaf = [], grad_state.leaf
        for owner, local, number in own["_places"]:
            held = owner.__dict__["_parameters"].get(local)
            plain = leaf is None and type(held) is Parameter
            weights.append((number, held.data if plain else owner._tensor(local)))
        if not kwargs and len(args) == len(names):
            inputs, dtypes, ndarray = [], own["_dtypes"], np.ndarray
            for name, x in zip(names, args, strict=True):
                fits = type(x) is ndarray and x.dtype is dtypes[name]
                inputs.append(x if fits else self._fitting(name, x))
        else:
            inputs = self._by_name(args, kwargs, weights)
        told = own.get("_told_axes")
        try:
            if told is None and not _differ(inputs, own["_source"].ranks):
                found = program(inputs, weights, own["checkpoint"])
            else:
                found = self._in_rows(inputs, weights, told)
        except ValueError as error:
            if own["_has_fixed_rows"]:
                error.add_note(f"the graph is of the sizes {dict(_sizes(own['_source'].inputs))}")
            raise
        if own["_reshaped"]:
            self._check_rows(inputs, found)
        return found[0] if len(found) == 1 else tuple(found)

    def _check_rows(self, inputs: list[Any], outputs: list[Any]) -> None:
        """Raise ValueError where an output has the shape of the graph, and inputs have other rows."""
        given = [
            (rows, int(x.shape[0]))
            for rows, x in zip(map(_fixed_rows, self._source.inputs), inputs, strict=True)
            if rows and is_array(x) and x.ndim
        ]
        changed = {rows: n for rows, n in given if n != rows}
        kept = {n for _, n in given}  # an output may have its rows of these
        for tensor, y in zip(self._source.graph.outputs, outputs, strict=True):
            rows = _fixed_rows(tensor) if tensor.name in self._reshaped else 0
            if rows in changed.keys() - kept and tuple(map(int, y.shape)) == tensor.shape:
                raise ValueError(
                    f"the output {tensor.name!r} has {rows} rows for {changed[rows]} of the inputs: the "
                    f"graph is of a batch of {rows}, and folds others. Export it with a dynamic batch."
                )

    def _in_rows(
        self, inputs: list[Any], weights: list[tuple[int, Any]], told: dict[str, int | None] | None
    ) -> list[Any]:
        """The outputs for inputs with their batch in front; as they are where these differ in it."""
        source, checkpoint = self._source, self.checkpoint
        axes, ranks = source.axes, source.ranks
        if told is not None:
            axes, ranks = told, tuple(_rank(x, told) for x in source.inputs)
        lead = _lead(inputs, ranks)
        if lead is None:
            return source.program(inputs, weights, checkpoint)
        rows = []
        for tensor, value in zip(source.inputs, inputs, strict=True):
            axis = axes[tensor.name]
            rows.append(value if value is None or axis is None else to_rows(value, len(lead), axis))
        outputs, count = source.program(rows, weights, checkpoint), prod(lead)
        for i, (tensor, value) in enumerate(zip(source.graph.outputs, outputs, strict=True)):
            axis = 0 if tensor.shape is None else axes[tensor.name]
            if axis is not None and axis < value.ndim and value.shape[axis] == count:
                outputs[i] = from_rows(value, lead, axis)
            elif axis is not None and len(lead) != 1:
                raise ValueError(
                    f"the output {tensor.name!r} has shape {value.shape} for a batch of {lead}, which are "
                    f"{count} rows of the graph: give inputs of its shapes, {dict(_sizes(source.inputs))}."
                )
        return outputs

    def _keep_batch_first(self, told: Mapping[str, int | None]) -> None:
        """Take and give entries of TensorDicts: the batch is in front, wherever the graph has its own."""
        axes = {**self._source.axes, **told}
        if axes != self._source.axes or any(axes.values()):
            self._told_axes = axes

    def _by_name(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], weights: list[tuple[int, Any]]
    ) -> list[Any]:
        """The inputs in the order of the graph; weights among the arguments go to the others."""
        names, numbers = self.input_names, self._source.program.weights
        if len(args) > len(names):
            raise TypeError(f"the graph has {len(names)} inputs, {', '.join(names)}; got {len(args)}.")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"the input {name!r} is given twice.")
            given[name] = value
        for name in [name for name in given if name not in names]:
            if name not in numbers:
                raise TypeError(f"the graph has no input {name!r}, but {', '.join(names)}.")
            weights.append((numbers[name], self._fitting(name, given.pop(name))))
        try:
            return [self._fitting(name, given[name]) for name in names]
        except KeyError as error:
            raise TypeError(f"the input {error.args[0]!r} is missing: {', '.join(names)}.") from None

    def _fitting(self, name: str, value: Any) -> Any:
        wanted = self._dtypes.get(name)
        if value is None or isinstance(value, list):  # a sequence, or an optional input
            return value
        if type(value) is not np.ndarray and not isinstance(value, HostArray):
            value = value if is_array(value) else np.asarray(value)
        if wanted is not None and value.dtype != wanted and is_floating(value.dtype):
            return value.astype(wanted)
        return value

    def save_onnx(self, path: str | os.PathLike[str]) -> Path:
        """Write the graph again with the weights that the module has now: all else stays, byte for byte.

        So caches, quantised parts, metadata and the names of everything are those of the file that the module
        was made of, and whatever ran that file runs this one. Weights that were in files beside it are in
        files of the same names beside this one. float16 and bfloat16 weights are rounded to what they were.
        A contract beside the file comes along.

        Args:
            path: path of the new file; its folder must be another one if weights are beside the file.

        Raises:
            ValueError: a weight has another shape than in the graph; files beside would be written over.
        """
        return save(self._source, {name: self._array(name) for name in self._source.weights}, Path(path))

    def _placed(self) -> dict[str, tuple[Module, str]]:
        """Where each parameter is: the module that has it, and its name there."""
        names = {number: name for name, number in self._source.program.weights.items()}
        return {names[number]: (owner, local) for owner, local, number in self._places}

    def _rebase(self, source: Source, more: Mapping[str, Parameter]) -> None:
        """Take another graph, with `more` parameters; those that it does not have are left out."""
        placed, numbers = self._placed(), source.program.weights
        for name, parameter in more.items():
            owner, local = _owner(self, name)
            owner.register_parameter(local, parameter)
            placed[name] = owner, local
        self._places = [(*place, numbers[name]) for name, place in placed.items() if name in numbers]
        self._source = source

    def learning_weights(self) -> list[str]:
        """The graph's names of the weights that learn."""
        found = {name: owner._parameters[local] for name, (owner, local) in self._placed().items()}
        return [name for name, held in found.items() if held is not None and held.requires_grad]

    def weights(self, names: Iterable[str]) -> dict[str, Any]:
        """The arrays of weights by the names that the graph has for them."""
        placed = self._placed()
        return {name: placed[name][0]._held(placed[name][1]) for name in names}

    def _array(self, name: str) -> Any:
        number = self._source.program.weights[name]
        return next(owner._held(local) for owner, local, n in self._places if n == number)

    def extra_repr(self) -> str:
        """Inputs, outputs and the number of nodes."""
        steps = len(self._source.program.steps)
        return f"inputs={list(self.input_names)}, outputs={list(self.output_names)}, nodes={steps}"


def _sizes(values: Iterable[Value]) -> list[tuple[str, tuple[int | str | None, ...]]]:
    return [(x.name, x.shape or ()) for x in values]


def _with_states(graph: OperationGraph, axes: dict[str, int | None]) -> dict[str, int | None]:
    """Axes of rows, which states of recurrent nodes have second, also of one layer (1, 1, size)."""
    second: set[str] = set()
    for node in reversed(graph.nodes if axes else ()):
        if node.op in ("GRU", "LSTM", "RNN") and not node.attributes.get("layout"):
            second.update(node.inputs[5:7], node.outputs[1:])
        elif node.op in ("Cast", "Identity", "Mul") and not second.isdisjoint(node.outputs):
            second.update(node.inputs)  # a state may be multiplied by 0 where an episode starts
    values = [x for x in (*graph.inputs, *graph.outputs) if x.name in second]
    return axes | {x.name: 1 for x in values if (x.shape or ())[1:2] == (1,)}


def _fixed_rows(value: Value) -> int:
    """The first size of a value if its shape says one, else 0."""
    first = value.shape[0] if value.shape else 0
    return first if isinstance(first, int) else 0


def _behind_reshapes(source: Source) -> set[str]:
    """Outputs computed of inputs that a Reshape has laid out anew, which may fold a batch."""
    read, behind = {x.name for x in source.inputs}, set[str]()
    for node in source.graph.nodes:
        names = reads_of(node)
        if names & read:
            read.update(node.outputs)
            if node.op == "Reshape" or names & behind:
                behind.update(node.outputs)
    return behind & {x.name for x in source.graph.outputs}


def _rank(value: Value, axes: Mapping[str, int | None]) -> int | None:
    """The number of dimensions of an input that has a batch; None for others."""
    return None if axes[value.name] is None or value.shape is None else len(value.shape)


def _differ(inputs: list[Any], ranks: tuple[int | None, ...]) -> bool:
    """Whether an input has another number of dimensions than in the graph."""
    for value, rank in zip(inputs, ranks, strict=True):
        if rank is not None and value is not None and value.ndim != rank:
            return True
    return False


def _lead(inputs: list[Any], ranks: tuple[int | None, ...]) -> tuple[int, ...] | None:
    """The batch dimensions, which all inputs that have a batch share; None if they do not.

    An input of one number a row may have a one behind, as flags of environments have; it loses it here.
    """
    lead: tuple[int, ...] | None = None
    for i in sorted(range(len(ranks)), key=lambda i: ranks[i] == 1):
        value, rank = inputs[i], ranks[i]
        if rank is None or value is None:
            continue
        if rank == 1 and lead is not None and value.shape == (*lead, 1):
            inputs[i] = value.reshape(lead)
            continue
        if value.ndim < rank - 1:
            return None
        own = value.shape[: value.ndim - rank + 1]
        if lead is not None and own != lead:
            return None
        lead = own
    return lead


def graph_module(source: Source, trainable: Selection) -> GraphModule:
    """The module of a graph, with its weights as they are in the file.

    Args:
        source: the graph.
        trainable: see `from_onnx`.
    """
    arrays, trained = {}, {}
    fixed = _fixed(source.graph)
    if not (trainable is None or isinstance(trainable, bool) or callable(trainable)):
        several = isinstance(trainable, Iterable) and not isinstance(trainable, str)
        given: tuple[Any, ...] = tuple(trainable) if several else (trainable,)
        if wrong := [x for x in given if not isinstance(x, str)]:
            raise TypeError(f"trainable must be a bool, a function, or names and patterns, got {wrong[0]!r}.")
        trainable = given
        unknown = [x for x in trainable if not any(matches(name, x) for name in source.weights)]
        if unknown:
            known = ", ".join(source.weights[:40]) + ", ..." * (len(source.weights) > 40)
            raise ValueError(f"trainable: no weight is called {unknown}; there is {known}.")
    for name in source.weights:
        try:
            array = source.graph.weights[name].array()
        except (ValueError, FileNotFoundError) as error:
            raise type(error)(f"{source.path or 'the model'}: the weight {name!r}: {error}") from None
        constant = name in fixed or (array.ndim > 1 and any(known(array) for known in _TABLES))
        train = _is_trained(trainable, name, not constant)
        if source.compute_dtype is not None and array.dtype.name in ("float16", "bfloat16"):
            array = array.astype(source.compute_dtype)
        elif train:
            array = array.copy()
        arrays[name], trained[name] = array, train
    joined = _of_several_layers(source.graph, {name: x for name, x in arrays.items() if trained[name]})
    if joined:
        warnings.warn(
            f"{source.path or 'the model'}: several nodes read {', '.join(joined)}, which learn as one. If "
            "these are fresh layers that begin alike, torch.onnx.export keeps them apart with optimize=False "
            "(where dynamo=False, with keep_initializers_as_inputs=True).",
            stacklevel=3,
        )
    return GraphModule(source, arrays, trained)


def _of_several_layers(graph: OperationGraph, arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    """Weights of one number alone in several nodes, unless these share others, too, as those of a loop do."""
    readers: dict[str, list[Operation]] = {}
    for node in graph.nodes:
        for name in reads_of(node) & arrays.keys():
            readers.setdefault(name, []).append(node)

    @functools.cache  # a node may read thousands of weights, and each may be large
    def is_plain(name: str) -> bool:
        return arrays[name].size > 1 and bool(np.ptp(arrays[name]) == 0)

    return sorted(
        name
        for name, nodes in readers.items()
        if len(nodes) > 1
        and is_plain(name)
        and not any(
            len(readers[other]) == len(nodes) and not is_plain(other)
            for other in reads_of(nodes[0]) & arrays.keys()
        )
    )


def _is_trained(trainable: Selection, name: str, by_default: bool) -> bool:
    if trainable is None:
        return by_default
    if isinstance(trainable, bool):
        return trainable and by_default
    if callable(trainable):
        return bool(trainable(name))
    return any(matches(name, pattern) for pattern in trainable)


def matches(name: str, pattern: str) -> bool:
    """Whether a name is the pattern, or fits it as a file name fits `*` and `?`."""
    return name == pattern or fnmatchcase(name, pattern)


def mapped(path: Path) -> bytes | mmap.mmap:
    """The bytes of a file, which are read when they are used."""
    with open(path, "rb") as file:
        try:
            # Windows replaces no mapped file.
            return file.read() if WINDOWS else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (ValueError, OSError) as error:  # an empty file, or one that is too large
            raise ValueError(f"{path}: {error}") from None


def _chosen(graph: OperationGraph, names: Sequence[str] | None) -> OperationGraph:
    """The graph with the outputs of these names and what they need."""
    by_name = {x.name: x for x in graph.outputs}
    inside = {name for node in graph.nodes for name in node.outputs} | graph.weights.keys()
    unknown = [name for name in names or () if name not in by_name and name not in inside]
    if unknown:
        raise ValueError(f"outputs has {unknown}; the graph has {list(by_name)}, and values inside of it.")
    chosen = by_name if names is None else dict.fromkeys(names)
    outputs = tuple(by_name.get(name) or Value(name, 0, None) for name in chosen)
    needed = {x.name for x in outputs}
    nodes = []
    for node in reversed(in_order(graph.nodes)):
        if needed.intersection(node.outputs):
            nodes.append(node)
            needed.update(reads_of(node))
    weights = {name: weight for name, weight in graph.weights.items() if name in needed}
    inputs = tuple(x for x in graph.inputs if x.name in weights or x.name not in graph.weights)
    return OperationGraph(tuple(reversed(nodes)), weights, inputs, outputs)


def _float_weights(graph: OperationGraph) -> tuple[str, ...]:
    """Initializers that are arrays of floats, but for numbers alone and what operators take as settings.

    Empty arrays, such as those of optional adapters, are left out.
    """
    found = []
    settings = _used(graph, _SETTINGS)
    for name, weight in graph.weights.items():
        tensor = read_tensor(weight.model, weight.span)
        if tensor.kind in _FLOATS and tensor.dims and 0 not in tensor.dims and name not in settings:
            found.append(name)
    return tuple(found)


def _fixed(graph: OperationGraph) -> frozenset[str]:
    """Weights that do not learn unless they are named: of `_FIXED`, masks, rotations, statistics, factors.

    Exporters write causal masks, rotary frequencies, factors of attention and what is added below the root of
    a norm as weights; and tables of waves, slopes and places, which are known by their numbers alone.
    """
    found = _used(graph, _FIXED) | _rotations(graph) | _statistics(graph) | _frozen(graph)
    reshaped = {x for node in graph.nodes if node.op == "Reshape" for x in (node.inputs[0], *node.outputs)}
    neutral, others = set[str](), set[str]()
    for node in graph.nodes:  # what GroupNorm is written with, between two, before its own factor and offset
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
    """Weights that make angles of positions, and nothing else: their cosine and sine are taken.

    Angles of an input of floats are features of it, whose weights learn unless they are a geometric series,
    as those of times are.
    """
    of_floats = {x.name for x in graph.inputs if x.element_type in _FLOATS} - graph.weights.keys()
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


def _are_rates(array: NDArray[Any]) -> bool:
    """Whether these are a geometric series."""
    if array.size < 4 or not array.min() > 0:
        return False
    steps = np.diff(np.log(array.ravel().astype(np.float64)))
    return bool(np.ptp(steps) < 1e-3 * abs(steps[0]))


def _are_waves(array: NDArray[Any]) -> bool:
    """Whether columns are sines and cosines of the row's number, but for a few rows, as of a filler.

    Of a wave, the two neighbours of a number have the number times a constant as their sum.
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
    """Whether columns, or a row, are places on a grid, as of a spatial softmax: even steps, each as often."""
    if array.ndim != 2 or 2 not in (array.shape[1], len(array) + 1):
        return False
    for line in array if len(array) == 1 else array.T:
        places, counts = np.unique(line, return_counts=True)
        steps = np.diff(places.astype(np.float64))
        if len(places) < 3 or counts.min() < 2 or np.ptp(counts) or np.ptp(steps) > 2e-3 * steps[0]:
            return False
    return True


def _are_slopes(array: NDArray[Any]) -> bool:
    """Whether these are the slopes of heads that ALiBi has."""
    count = max(array.shape)
    if count < 4 or count != array.size or not array.min() > 0:
        return False
    whole = 1 << (count.bit_length() - 1)
    powers = np.sort(np.r_[2 : 2 * whole + 1 : 2, 1 : 2 * (count - whole) : 2]) * (4 / whole)
    return np.allclose(np.sort(-np.log2(array.ravel().astype(np.float64))), powers, 0, 0.02)


_TABLES = _are_waves, _are_slopes, _are_places


def _used(graph: OperationGraph, where: Mapping[str, frozenset[int]]) -> set[str]:
    return {node.inputs[i] for node in graph.nodes for i in where.get(node.op, ()) if i < len(node.inputs)}


def _float_dtype(value: Value, compute_dtype: str | None) -> np.dtype[Any] | None:
    """The dtype that an input is cast to; None for one that is no array of floats."""
    if value.element_type not in _FLOATS:
        return None
    is_half = compute_dtype is not None and value.element_type in (10, 16)
    return np.dtype(compute_dtype) if is_half else dtype_of(value.element_type)


def _owner(root: Module, name: str) -> tuple[Module, str]:
    """The module that has the parameter of a name, and what it is called there."""
    *path, local = name.split(".")
    if all((*path, local)):
        module = root
        try:
            for part in path:
                child = module._modules.get(part)
                if child is None:
                    child = Module()
                    module.add_module(part, child)
                module = child
            if local not in module._modules and local not in module._parameters:
                module._check_name(local, module._parameters, "parameter")
                return module, local
        except KeyError:  # an attribute of modules has the name
            pass
    local = name.replace(".", "_") or "_"
    while local in root._parameters or hasattr(root, local):
        local += "_"
    return root, local


belong_to("lite.nn", GraphModule)
