"""Functions in torch's style: `backward()`, `optimizer.step()` and the like change objects that they name.

Such a function becomes one of what these objects hold: arrays that are donated (parameters, buffers, states
of optimisers), and inputs (learning rates, numbers of steps, gradients from before the call). While it is
traced the objects hold the arrays of the graph; after each run they get the new ones.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Any, Protocol

import numpy as np

from lite._arrays.types import raw
from lite._transforms.grad.mode import enable_grad
from lite._tree.protocol import class_registry

Arrays = list[Any]


class Part(Protocol):
    """Some of the state of an object.

    An optimiser gives one by its method `in_graphs`; those of modules are below.
    """

    def arrays(self) -> Arrays:
        """What is donated."""

    def inputs(self) -> list[Any]:
        """Floats and arrays that the graph reads."""

    def options(self) -> Any:
        """What decides about the graph; hashable."""

    def installed(self, arrays: Arrays, inputs: list[Any]) -> Any:
        """A context in which the object holds the arrays of a graph. It gives a function of no arguments.

        That is called when the traced function has run. It returns what each run gives beside the donated
        arrays: some arrays, and what is the same for each run.
        """

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        """Take what a run gave."""


class Parameters:
    """The arrays of parameters, and their gradients."""

    def __init__(self, holders: list[Any]) -> None:
        self.holders = holders

    def arrays(self) -> Arrays:
        return self.holders

    def inputs(self) -> list[Any]:
        return [holder.grad for holder in self.holders if holder.grad is not None]

    def options(self) -> Any:
        return tuple([(holder.grad is not None, holder.requires_grad) for holder in self.holders])

    @contextmanager
    def installed(self, arrays: Arrays, inputs: list[Any]) -> Iterator[Callable[[], tuple[Arrays, Any]]]:
        before = [(holder, holder.data, holder.grad) for holder in self.holders]
        grads = iter(inputs)
        for holder, array in zip(self.holders, arrays, strict=True):
            holder.data = array
            if holder.grad is not None:
                holder.grad = next(grads)

        def finish() -> tuple[Arrays, Any]:
            for holder, array in zip(self.holders, arrays, strict=True):
                if holder.data is not array:
                    array[...] = holder.data
            grads = [holder.grad for holder in self.holders]
            return [g for g in grads if g is not None], tuple([g is not None for g in grads])

        try:
            yield finish
        finally:
            for holder, data, grad in before:
                holder.data, holder.grad = data, grad

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        found = iter(given)  # a run has replaced their arrays itself
        for holder, has_gradient in zip(self.holders, same, strict=True):
            holder.grad = np.asarray(next(found)) if has_gradient else None


class Buffers:
    """Arrays of modules that are no parameters, among them targets.

    They are written in place, as modules that the function does not name may share them.

    Args:
        places: the dicts and keys where an array is: of each array one or more.
    """

    def __init__(self, places: list[list[tuple[Any, str]]]) -> None:
        self.places = places

    def arrays(self) -> Arrays:
        """The arrays as they are now."""
        return [same[0][0][same[0][1]] for same in self.places]

    @contextmanager
    def installed(self, arrays: Arrays) -> Iterator[None]:
        """The modules hold arrays of a graph; what they hold in the end is written to these."""
        before = self.arrays()
        self._put(arrays)
        try:
            yield
            for array, same in zip(arrays, self.places, strict=True):
                for entries, key in same:
                    if entries[key] is not array:
                        array[...] = entries[key]
        finally:
            self._put(before)

    def _put(self, arrays: Arrays) -> None:
        for array, same in zip(arrays, self.places, strict=True):
            for entries, key in same:
                entries[key] = array


class Attributes:
    """Numbers and texts of objects: those that a class names in `_graph_numbers` are inputs, others stay."""

    def __init__(self, objects: list[Any]) -> None:
        self.objects = objects
        self.numbers = [(one, name) for one in objects for name in getattr(one, "_graph_numbers", ())]

    def _now(self) -> list[tuple[Any, dict[str, Any]]]:
        kinds = (bool, int, float, str)
        return [
            (one, {name: x for name, x in vars(one).items() if isinstance(x, kinds)}) for one in self.objects
        ]

    def arrays(self) -> Arrays:
        return []

    def inputs(self) -> list[Any]:
        return [np.array(getattr(one, name)) for one, name in self.numbers]

    def options(self) -> Any:
        return None

    @contextmanager
    def installed(self, arrays: Arrays, inputs: list[Any]) -> Iterator[Callable[[], tuple[Arrays, Any]]]:
        before, numbers = self._now(), {(id(one), name) for one, name in self.numbers}
        for (one, name), number in zip(self.numbers, inputs, strict=True):
            setattr(one, name, number)

        def finish() -> tuple[Arrays, Any]:
            given = [getattr(one, name) for one, name in self.numbers]
            for (one, old), (_, new) in zip(before, self._now(), strict=True):
                for name, x in old.items():  # a seed may have become its generator
                    if (id(one), name) not in numbers and name in new and new[name] != x:
                        raise RuntimeError(
                            f"cannot be traced: the function changes {name} of a {type(one).__name__}, which "
                            "a graph would not: do that outside of it."
                        )
            return given, None

        try:
            yield finish
        finally:
            for (one, old), (_, new) in zip(before, self._now(), strict=True):
                vars(one).update({k: x for k, x in old.items() if k in new or (id(one), k) in numbers})

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        for (one, name), number in zip(self.numbers, given, strict=True):
            setattr(one, name, number.item())


@dataclass(frozen=True)
class Same:
    """What is the same for each run of a graph: one item of its result, in place of many."""

    values: tuple[Any, ...]


class Stateful:
    """A function, and the objects that it changes.

    Args:
        fn: the function.
        parts: what these objects hold.
        buffers: arrays that are written in place.
        names: of the positional parameters of the function.
    """

    def __init__(self, fn: Callable[..., Any], parts: list[Part], buffers: Buffers, names: list[str]) -> None:
        self.fn = fn
        self.parts = parts
        self.buffers = buffers
        self._arrays: Any = class_registry.dense({})
        self._ends: list[int] = []
        functools.update_wrapper(self, fn, updated=())
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        own = ["held_arrays", "held_buffers", "held_inputs", "held_options", *names]
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(name, kind) for name in own]
            + ([inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL)] if not names else [])
        )

    def held(self, with_gradients: bool) -> tuple[Any, Any, list[list[Any]], tuple[Any, ...]]:
        """What the function gets before its own arguments."""
        found = [part.arrays() for part in self.parts]
        self._ends = list(itertools.accumulate(map(len, found)))
        arrays = list(itertools.chain(*found))
        if len(arrays) != len(self._arrays._data):
            self._arrays = class_registry.dense({str(i): array for i, array in enumerate(arrays)})
        elif not all(map(is_, arrays, self._arrays._data.values())):
            self._arrays._data.update(zip(list(self._arrays._data), arrays, strict=True))
        buffers = {str(i): array for i, array in enumerate(self.buffers.arrays())}
        inputs = [part.inputs() for part in self.parts]
        options = (with_gradients, *[part.options() for part in self.parts])
        return self._arrays, class_registry.dense(buffers), inputs, options

    def __call__(
        self,
        held_arrays: Any,
        held_buffers: Any,
        held_inputs: Any,
        held_options: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        with ExitStack() as stack:
            stack.enter_context(self.buffers.installed(list(held_buffers._data.values())))
            own = zip(self.parts, self._shares(held_arrays), held_inputs, strict=True)
            ends = [stack.enter_context(part.installed(share, inputs)) for part, share, inputs in own]
            if held_options[0]:
                stack.enter_context(enable_grad())
            result = self.fn(*args, **kwargs)
            found = [end() for end in ends]
            return result, [given for given, _ in found], Same(tuple([same for _, same in found]))

    def store(self, found: list[Arrays], same: Same) -> None:
        """Give the objects what a run gave."""
        shares = self._shares(self._arrays)
        for part, share, given, constant in zip(self.parts, shares, found, same.values, strict=True):
            part.store(share, given, constant)

    def _shares(self, td: Any) -> list[Arrays]:
        """The arrays of each part."""
        arrays = [raw(x) for x in td._data.values()]
        return [arrays[start:end] for start, end in itertools.pairwise([0, *self._ends])]


def stateful(objects: Iterable[Any], backward: bool) -> tuple[list[Part], Buffers]:
    """What is held by modules, optimisers over parameters, and updaters of targets.

    Args:
        objects: all that a function names.
        backward: whether it calls `backward`, so that modules have other gradients afterwards.

    Returns:
        The parts, none if the function changes nothing of these objects, and the buffers.
    """
    objects = list(objects)
    optimizers = [one for one in objects if is_optimizer(one)]
    updaters = [one for one in objects if is_updater(one)]
    if not optimizers and not updaters and not backward:
        return [], Buffers([])
    modules = [one for one in objects if is_module(one)]
    modules += [one.loss_module for one in updaters]
    holders: dict[int, Any] = {}
    places: dict[int, list[tuple[Any, str]]] = {}
    seen: dict[int, Any] = {}
    for root in modules:
        for holder in root.parameters():
            holders.setdefault(id(holder), holder)
        for module in root.modules():
            if seen.setdefault(id(module), module) is module:
                _collect(module, places)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for holder in group["params"]:
                holders.setdefault(id(holder), holder)
    watched = [*seen.values(), *updaters, *[one for one in objects if is_schedule(one)]]
    parts = [one.in_graphs() for one in optimizers]
    parts = [Parameters(list(holders.values())), *parts, Attributes(watched)]
    return parts, Buffers(list(places.values()))


def is_module(value: Any) -> bool:
    """Whether an object has a mode, parameters and buffers."""
    return isinstance(getattr(value, "training", None), bool) and hasattr(value, "_buffers")


def is_optimizer(value: Any) -> bool:
    """Whether an object is an optimiser over parameters of its own."""
    return hasattr(type(value), "in_graphs") and bool(value.param_groups)


def is_updater(value: Any) -> bool:
    """Whether an object moves the targets of a loss."""
    return is_module(getattr(value, "loss_module", None))


def is_schedule(value: Any) -> bool:
    """Whether an object changes the learning rates of an optimiser."""
    return is_optimizer(getattr(value, "optimizer", None))


def _collect(module: Any, places: dict[int, list[tuple[Any, str]]]) -> None:
    """The arrays among the buffers of a module, or of a container of parameters."""
    held = [vars(module)["_buffers"]]
    nodes = [vars(module).get("_param_td")]
    while nodes:
        node = nodes.pop()
        if node is not None:
            held.append(node._data)
            nodes += [x for x in node._data.values() if hasattr(x, "_data")]
    for entries in held:
        for key, x in entries.items():
            if type(x) is np.ndarray:
                found = places.setdefault(id(x), [])
                if not any(old is entries and name == key for old, name in found):
                    found.append((entries, key))
