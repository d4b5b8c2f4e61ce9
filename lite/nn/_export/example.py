"""Example arguments of a module as inputs of a graph, with names and dynamic sizes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lite import NestedKey, TensorDict
from lite._arrays.types import HostArray, raw
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.trace import Input
from lite._tree.collection import TensorCollection
from lite._tree.keys import to_path
from lite._tree.nontensor import NonTensorBase

Axes = Mapping[str, Any]
GivenNames = Sequence[str] | Mapping[NestedKey, str] | None
BATCH = "batch"


@dataclass
class Example:
    """The inputs of a graph, and how the module is called with arrays for them.

    Attributes:
        inputs: name, key, example array and dynamic axes of each.
        call: a function of a module and arrays that gives the outputs by key.
        batch: the name of the dynamic size that is the batch.
        rewritten: entries that are not states where inputs and outputs both have them.
    """

    inputs: list[ExampleInput]
    call: Callable[[Any, list[GraphArray]], dict[NestedKey, Any]]
    batch: str | None
    rewritten: frozenset[NestedKey] = frozenset()


@dataclass
class ExampleInput:
    """One input of the graph."""

    name: str
    key: NestedKey
    array: np.ndarray[Any, Any]
    axes: dict[int, str] = field(default_factory=dict)

    @property
    def symbolic(self) -> Input:
        """As the graph has it."""
        shape = tuple(self.axes.get(axis, n) for axis, n in enumerate(self.array.shape))
        return Input(self.name, shape, self.array.dtype)


def joined(key: NestedKey) -> str:
    """The name of a key in a graph: its parts joined by dots."""
    return key if isinstance(key, str) else ".".join(key)


# -- a TensorDict ----------------------------------------------------------------------------------------


def of_entries(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    input_names: GivenNames,
    dynamic_axes: Axes | None,
) -> Example:
    """The same for arrays in place of a TensorDict, as such a module takes them: by position, or by name.

    Raises:
        TypeError: an array that belongs to no key.
    """
    keys = list(module.in_keys)
    named = {key if isinstance(key, str) else "_".join(key): key for key in keys}
    unknown = [name for name in kwargs if name not in named]
    if len(args) > len(keys) or unknown:
        raise TypeError(f"the module reads {keys}, got {len(args)} arrays and the names {list(kwargs)}.")
    td = TensorDict({})
    for key, value in (*zip(keys, args, strict=False), *((named[name], v) for name, v in kwargs.items())):
        td.set(key, value)
    return of_tensordict(module, td, input_names, dynamic_axes, as_arrays=True)


def of_tensordict(
    module: Any, td: Any, input_names: GivenNames, dynamic_axes: Axes | None, as_arrays: bool = False
) -> Example:
    """The entries that a module reads of a TensorDict.

    Its batch is dynamic, unless `dynamic_axes` says otherwise; or, `as_arrays`, the first axis of all.

    Raises:
        KeyError: the module needs an entry that is not there.
        ValueError: names that do not fit; a state whose shape is not known.
    """
    node = TensorDict._as_node(td)
    leaves: dict[NestedKey, Any] = {}
    others: dict[NestedKey, Any] = {}
    read = getattr(module, "in_keys", None)
    if any(getattr(part, "reads_all", False) for part in module.modules()):
        read = None
    keys = [*read, *_left_to_the_program(module)] if read else node.keys(True, True)
    for path, entry in _leaves_at(node, keys):
        (others if isinstance(entry, NonTensorBase) else leaves)[path] = entry
    states = _states_of(module, tuple(node.batch_size))
    missing = {key: _state(key, state, node) for key, state in states.items() if key not in leaves}
    if missing and as_arrays:
        raise ValueError(
            f"the module has states {list(missing)}: give an example as a TensorDict, whose batch is theirs."
        )
    leaves = {**missing, **leaves}
    names = _names(list(leaves), input_names, "input_names")
    inputs = [ExampleInput(names[key], key, _host(leaf, joined(key))) for key, leaf in leaves.items()]
    dims = len(node.batch_size)
    batch: str | None = None
    if dynamic_axes is not None:
        _set_axes(inputs, dynamic_axes)
    elif as_arrays:
        _first_axes(inputs)
    else:
        labels = [name or (BATCH if i == 0 else f"{BATCH}_{i}") for i, name in enumerate(node.names)]
        batch = labels[0] if labels else None
        for one in inputs:
            one.axes = dict(enumerate(labels))
    batch = batch or _first_batch(inputs)

    def call(twin: Any, arrays: list[GraphArray]) -> dict[NestedKey, Any]:
        sizes = arrays[0].shape[:dims] if arrays else tuple(node.batch_size)
        fresh = TensorDict({}, sizes)
        for one, array in zip(inputs, arrays, strict=True):
            fresh.set(one.key, array)
        for key, entry in others.items():
            fresh.set(key, entry)
        keeping = [part for part in twin.modules() if states and hasattr(part, "graph_states")]
        for part in keeping:
            part.next_states = {}
        for part in twin.modules():
            if hasattr(part, "keeps_all"):
                part.keeps_all = True
        try:
            out = TensorDict._as_node(twin(fresh))
        except KeyError as error:  # which knows of what was taken of the example alone
            error.add_note(f"The example has {sorted(node.keys(True, True), key=str)}.")
            raise
        keys = list(twin.out_keys) if hasattr(twin, "out_keys") else list(out.keys(True, True))
        # Transforms of rewards, and counters of steps, write nothing in a graph, which acts.
        found = dict(_leaves_at(out, [key for key in keys if key != "_"]))
        for key, entry in found.items():
            if isinstance(entry, NonTensorBase):
                raise NotImplementedError(f"cannot be exported: the output {key!r} must be an array.")
        for part in keeping:
            for key, value in part.next_states.items():
                found["next", *to_path(key)] = value
        return found

    return Example(inputs, call, batch, _rewritten(module, states))


def _states_of(module: Any, batch: tuple[int, ...]) -> dict[NestedKey, Any]:
    """Examples of what modules that keep something from step to step take in its place (`graph_states`)."""
    states: dict[NestedKey, Any] = {}
    for part in module.modules():
        if hasattr(part, "graph_states"):
            states.update(part.graph_states(batch))
    return states


def has_transforms(module: Any) -> bool:
    """Whether transforms of `lite.envs` are among its parts, which name rewards and ends of episodes."""
    return any(hasattr(part, "_needs_environment") for part in module.modules())


def _left_to_the_program(module: Any) -> list[NestedKey]:
    """Entries that parts read and that only an environment writes: graphs leave those transforms out."""
    parts = [part for part in module.modules() if hasattr(part, "in_keys")]
    out = [part for part in parts if getattr(part, "_needs_environment", None) is not None]
    written = {key for part in out for key in part.out_keys}
    return [key for part in parts if part not in out for key in part.in_keys if key in written]


def _state(key: NestedKey, state: Any, example: Any) -> Any:
    given = example.get(key, state)
    if given is None:
        raise ValueError(
            f"the shape of the state {key!r} is not known before the first step: give it in the example, as "
            "zeros of the shape that the next state has (of CatFrames the batch and the joined frames, of "
            "TimeMaxPool the batch, T and an observation)."
        )
    return given


def _rewritten(module: Any, states: Iterable[NestedKey]) -> frozenset[NestedKey]:
    """Entries that such modules write, but for their next states: they are not states themselves."""
    following = {("next", *to_path(key)) for key in states}
    parts = [part for part in module.modules() if hasattr(part, "graph_states")]
    return frozenset(key for part in parts for key in part.out_keys if key not in following)


def _leaves_at(node: Any, keys: Iterable[NestedKey]) -> Iterator[tuple[NestedKey, Any]]:
    """The entries at some keys, of nested ones their leaves; what is missing is left out."""
    for key in keys:
        entry = node.get(key, None)
        if isinstance(entry, TensorCollection) and not isinstance(entry, NonTensorBase):
            for inner, leaf in TensorDict._as_node(entry).items(True, True):
                yield (*to_path(key), *to_path(inner)), leaf
        elif entry is not None:
            yield key, entry


# -- arrays ----------------------------------------------------------------------------------------------


def of_arrays(
    module: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    input_names: GivenNames,
    dynamic_axes: Axes | None,
) -> Example:
    """Arguments of `forward`: arrays, also in tuples, lists and dicts; other objects stay as they are."""
    found: list[tuple[str, Any]] = []
    parameters = _parameter_names(module, len(args))
    for name, value in (*zip(parameters, args, strict=True), *kwargs.items()):
        found.extend(_arrays_in(name, value))
    if not found:
        given = [type(value).__name__ for value in (*args, *kwargs.values())] or "none"
        raise TypeError(f"to_onnx needs examples of the inputs: arrays as forward takes them, got {given}.")
    names = _names([name for name, _ in found], input_names, "input_names")
    inputs = [ExampleInput(names[name], names[name], _host(value, name)) for name, value in found]
    if dynamic_axes is None:
        _first_axes(inputs)
    else:
        _set_axes(inputs, dynamic_axes)

    def call(twin: Any, arrays: list[GraphArray]) -> dict[NestedKey, Any]:
        rest = iter(arrays)
        given = [_replaced(value, rest) for value in args]
        named = {name: _replaced(value, rest) for name, value in kwargs.items()}
        return dict(_results("output", twin(*given, **named)))

    return Example(inputs, call, _first_batch(inputs))


def _parameter_names(module: Any, count: int) -> list[str]:
    names: list[str] = []
    for parameter in inspect.signature(module.forward).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    if len(names) < count:
        raise TypeError(f"{type(module).__name__}.forward takes {len(names)} arguments, got {count}.")
    return names[:count]


def _is_array(value: Any) -> bool:
    return isinstance(raw(value), np.ndarray | np.generic)


def _arrays_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if _is_array(value):
        yield name, value
    elif isinstance(value, HostArray) or hasattr(value, "__cuda_array_interface__"):
        raise TypeError(f"the example {name!r} must be a NumPy array, got {type(value).__name__}.")
    elif isinstance(value, tuple | list):
        for i, item in enumerate(value):
            yield from _arrays_in(f"{name}_{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _arrays_in(f"{name}.{key}", item)


def _replaced(value: Any, arrays: Iterator[GraphArray]) -> Any:
    if _is_array(value):
        return next(arrays)
    if isinstance(value, tuple | list):
        items = [_replaced(item, arrays) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: _replaced(item, arrays) for key, item in value.items()}
    return value


def _results(name: str, value: Any) -> Iterator[tuple[NestedKey, Any]]:
    if value is None:
        return
    if isinstance(value, tuple | list):
        for i, item in enumerate(value):
            yield from _results(f"{name}_{i}", item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _results(str(key) if name == "output" else f"{name}.{key}", item)
    elif isinstance(value, TensorCollection):
        yield from TensorDict._as_node(value).items(True, True)
    else:
        yield name, value


# -- names and axes --------------------------------------------------------------------------------------


def _names(keys: Sequence[NestedKey], given: GivenNames, argument: str) -> dict[NestedKey, str]:
    """The name of each key."""
    if given is None:
        names = {key: joined(key) for key in keys}
    elif isinstance(given, Mapping):
        unknown = [key for key in given if key not in keys]
        if unknown:
            raise ValueError(f"{argument} has {unknown}, the keys are {list(keys)}.")
        names = {key: given.get(key, joined(key)) for key in keys}
    else:
        listed = [given] if isinstance(given, str) else list(given)
        if len(listed) != len(keys):
            raise ValueError(f"{argument} must have {len(keys)} names, for {list(keys)}, got {listed}.")
        names = dict(zip(keys, listed, strict=True))
    for name in names.values():
        if not isinstance(name, str) or not name:
            raise ValueError(f"{argument} must be names, got {name!r}.")
    if len(set(names.values())) < len(names):
        raise ValueError(f"two keys have one name: {names}; give others by {argument}.")
    return names


def names_of_outputs(
    keys: Sequence[NestedKey], given: GivenNames, inputs: Sequence[ExampleInput]
) -> dict[NestedKey, str]:
    """The names of the outputs: as of the inputs, with "new_" before one that is an input's already."""
    taken = {one.name for one in inputs}
    if given is None:
        given = {key: f"new_{joined(key)}" for key in keys if joined(key) in taken}
    names = _names(keys, given, "output_names")
    both = taken.intersection(names.values())
    if both:
        raise ValueError(f"output_names must not be names of inputs, got {sorted(both)}.")
    return names


def _first_axes(inputs: Sequence[ExampleInput]) -> None:
    """The dynamic axes; by default the first axis of all inputs, as the batch."""
    sizes = {one.array.shape[0] for one in inputs if one.array.ndim}
    if len(sizes) > 1:
        shapes = {one.name: one.array.shape for one in inputs}
        raise ValueError(
            f"the inputs differ in their first size, so which axes are the batch? Their shapes are {shapes}; "
            "say it by dynamic_axes, such as {name: {0: 'batch'}}, or {} for none."
        )
    for one in inputs:
        if one.array.ndim:
            one.axes = {0: BATCH}


def _set_axes(inputs: Sequence[ExampleInput], dynamic_axes: Axes) -> None:
    by_name = {one.name: one for one in inputs}
    for name, axes in dynamic_axes.items():
        one = by_name.get(name)
        if one is None:
            raise ValueError(f"dynamic_axes names {name!r}; the inputs are {list(by_name)}.")
        ndim = one.array.ndim
        named = axes if isinstance(axes, Mapping) else {i: f"{name}_dim_{i % max(ndim, 1)}" for i in axes}
        for axis, label in named.items():
            if not isinstance(axis, int) or not -ndim <= axis < ndim:
                raise ValueError(f"dynamic_axes of {name!r} must be axes of {ndim} dimensions, got {axis!r}.")
            if not isinstance(label, str) or not label:
                raise ValueError(f"dynamic_axes of {name!r} must give names, got {label!r}.")
            one.axes[axis % ndim] = label
    sizes: dict[str, tuple[int, str]] = {}
    for one in inputs:
        for axis, label in one.axes.items():
            size, first = sizes.setdefault(label, (one.array.shape[axis], one.name))
            if size != one.array.shape[axis]:
                raise ValueError(
                    f"the dynamic size {label!r} is {size} in {first!r} and {one.array.shape[axis]} in "
                    f"{one.name!r}: give different sizes different names."
                )


def _first_batch(inputs: Sequence[ExampleInput]) -> str | None:
    labels = [label for one in inputs for label in one.axes.values()]
    return BATCH if BATCH in labels else labels[0] if labels else None


def _host(value: Any, name: str) -> np.ndarray[Any, Any]:
    array = raw(value)
    if not isinstance(array, np.ndarray | np.generic):
        raise TypeError(f"the example {name!r} must be a NumPy array, got {type(array).__name__}.")
    return np.asarray(array)
