"""`GraphModule`: an ONNX graph as a module whose parameters are the graph's weights."""

from __future__ import annotations

import functools
import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.caller import warn
from lite._arrays.dtypes import is_floating
from lite._arrays.public import belong_to
from lite._arrays.types import HostArray, is_array
from lite._files.onnx.arrays import dtype_of
from lite._files.onnx.batch_axes import batch_axes, from_rows, row_axes, to_rows
from lite._files.onnx.constants import FLOATS, constant_weights, float_weights, is_table
from lite._files.onnx.model import (
    Operation,
    OperationGraph,
    Value,
    constants_as_weights,
    in_order,
    read_model,
    reads_of,
)
from lite._files.system import WINDOWS
from lite._transforms.grad.running import state as grad_state
from lite.nn._import.program import compiled
from lite.nn._import.saving import save
from lite.nn._modules.module import Module
from lite.nn._modules.parameter import Parameter

Selection = bool | Iterable[str] | Any


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
            if not float_weights(self.graph):  # a function that torch traced, say
                self.graph = constants_as_weights(self.graph, self.bytes, folder)
            self.weights = float_weights(self.graph) if weights is None else weights
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
        self._places: list[tuple[Module, str]] = []  # of weights, in the order of the program's
        self.input_names = tuple(x.name for x in source.inputs)
        self.output_names = tuple(x.name for x in source.graph.outputs)
        self._dtypes = {x.name: _float_dtype(x, source.compute_dtype) for x in source.graph.inputs}
        self._checks = [
            (x.name, self._dtypes[x.name], rank) for x, rank in zip(source.inputs, source.ranks, strict=True)
        ]
        self._has_fixed_rows = any(map(_fixed_rows, source.inputs))
        self._reshaped = _behind_reshapes(source) if self._has_fixed_rows else set()
        placed = {}
        for name in sorted(source.weights, key=lambda name: name.count("."), reverse=True):
            owner, local = placed[name] = _owner(self, name)
            owner.register_parameter(local, Parameter(arrays[name], requires_grad=trained[name]))
        self._places += [placed[name] for name in source.program.weights]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs for inputs by position or name: an array, or a tuple of several.

        An input of another float dtype is cast to that of the graph.

        Raises:
            TypeError: an input is missing, given twice or unknown.
            ValueError: an output lacks the batch that inputs have beyond the graph's dimensions, or a graph
                of fixed sizes has folded other rows of inputs into as many as it says.
        """
        own = self.__dict__  # attribute access is slow on a class that has __getattr__
        weights = []
        if grad_state.leaf is None:
            for owner, local in own["_places"]:
                held = owner.__dict__["_parameters"].get(local)
                weights.append(held.data if type(held) is Parameter else owner._tensor(local))
        else:
            weights += [owner._tensor(local) for owner, local in own["_places"]]
        checks, ndarray, inputs = own["_checks"], np.ndarray, []
        if kwargs or len(args) != len(checks):
            args = self._by_name(args, kwargs, weights)
        told = own.get("_told_axes")
        differ = told is not None
        for x, (name, dtype, rank) in zip(args, checks):  # noqa: B905 - they are as many
            if type(x) is not ndarray or x.dtype is not dtype:
                x = self._fitting(name, x)
            if rank is not None and x is not None and x.ndim != rank:
                differ = True
            inputs.append(x)
        try:
            if differ:
                found = self._in_rows(inputs, weights, told)
            else:
                found = own["_source"].program(inputs, weights, own["checkpoint"])
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
        self, inputs: list[Any], weights: list[Any], told: dict[str, int | None] | None
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

    def _by_name(self, args: tuple[Any, ...], kwargs: dict[str, Any], weights: list[Any]) -> tuple[Any, ...]:
        """The inputs in the order of the graph; weights among the arguments take the place of others."""
        names = self.input_names
        if not args and kwargs.keys() == set(names):
            return tuple([kwargs[name] for name in names])
        if len(args) > len(names):
            raise TypeError(f"the graph has {len(names)} inputs, {', '.join(names)}; got {len(args)}.")
        given = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise TypeError(f"the input {name!r} is given twice.")
            given[name] = value
        places = {name: i for i, name in enumerate(self._source.program.weights)}
        for name in [name for name in given if name not in names]:
            if name not in places:
                raise TypeError(f"the graph has no input {name!r}, but {', '.join(names)}.")
            weights[places[name]] = self._fitting(name, given.pop(name))
        try:
            return tuple([given[name] for name in names])
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
        return dict(zip(self._source.program.weights, self._places, strict=True))

    def _rebase(self, source: Source, more: Mapping[str, Parameter]) -> None:
        """Take another graph, with `more` parameters; those that it does not have are left out."""
        placed = self._placed()
        for name, parameter in more.items():
            owner, local = _owner(self, name)
            owner.register_parameter(local, parameter)
            placed[name] = owner, local
        self._places = [placed[name] for name in source.program.weights]
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
        owner, local = self._placed()[name]
        return owner._held(local)

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
    for name in source.weights:
        try:
            arrays[name] = source.graph.weights[name].array()
        except (ValueError, FileNotFoundError) as error:
            raise type(error)(f"{source.path or 'the model'}: the weight {name!r}: {error}") from None
    fixed = constant_weights(source.graph)
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
    for name, array in arrays.items():
        constant = name in fixed or is_table(array)
        train = _is_trained(trainable, name, not constant)
        if source.compute_dtype is not None and array.dtype.name in ("float16", "bfloat16"):
            array = array.astype(source.compute_dtype)
        elif train:
            array = array.copy()
        arrays[name], trained[name] = array, train
    joined = _of_several_layers(source.graph, {name: x for name, x in arrays.items() if trained[name]})
    if joined:
        warn(
            f"{source.path or 'the model'}: several nodes read {', '.join(joined)}, which learn as one. If "
            "these are fresh layers that begin alike, torch.onnx.export keeps them apart with optimize=False "
            "(where dynamo=False, with keep_initializers_as_inputs=True).",
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


def _float_dtype(value: Value, compute_dtype: str | None) -> np.dtype[Any] | None:
    """The dtype that an input is cast to; None for one that is no array of floats."""
    if value.element_type not in FLOATS:
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
