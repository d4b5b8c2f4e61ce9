"""The state of a step in torch's style as a file: arrays by key, and how a run changes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lite._arrays.device import is_device_leaf, move
from lite._arrays.types import raw
from lite._transforms.jit.arguments import Argument
from lite._transforms.jit.stateful import Arrays, Buffers, Held, Keys, Same, Stateful
from lite._transforms.jit.structure import ARRAY
from lite._transforms.jit.tracing import Program
from lite._tree.protocol import class_registry

Places = list[tuple[dict[str, Any], str]]  # where one array is


def in_file(held: Stateful, keys: Keys, program: Program, given: Sequence[Argument]) -> tuple[Any, Any]:
    """The keys of the state's leaves in a file, and the state by these keys.

    Raises:
        NotImplementedError: the graph of the next call would be another one.
    """
    same = program.structure[3][2]
    found = [part.in_file(keys, one) for part, (_, one) in zip(held.parts, same.values, strict=True)]
    arrays, inputs = ([x for share in shares for x in share] for shares in zip(*found, strict=True))
    buffers = [keys[array] for array in held.buffers.arrays()]
    leaves = [leaf for argument in given for leaf in argument.leaves]
    state: dict[str, dict[str, Any]] = {}
    for places, leaf in zip([*arrays, *buffers, *[places for places, _ in inputs]], leaves, strict=True):
        array = np.asarray(move(leaf, "cpu") if is_device_leaf(leaf) else raw(leaf))
        for name, key in places:
            state.setdefault(name, {})[key] = array
    constants = [(name, key) for name, key in keys.arrays if key not in state.get(name, {})]
    for name, key in constants:  # such as a loss's coefficients, which its state dict has
        state.setdefault(name, {})[key] = np.array(keys.arrays[name, key])
    plan = {"arrays": arrays, "buffers": buffers, "inputs": inputs, "constants": constants}
    return plan, class_registry.dense(state)


class SavedPart:
    """Arrays and numbers of a state that was loaded.

    Args:
        arrays: the donated arrays.
        inputs: the other leaves, each with the number that a run adds to it; None if the run returns it.
    """

    def __init__(self, arrays: list[Places], inputs: list[tuple[Places, int | None]]) -> None:
        self.arrays = arrays
        self.inputs = inputs

    def held(self) -> tuple[Arrays, list[Any], Any]:
        """As of `Part`."""
        firsts = [places[0] for places in self.arrays], [places[0] for places, _ in self.inputs]
        arrays, inputs = ([entries[key] for entries, key in places] for places in firsts)
        return arrays, inputs, None

    def store(self, arrays: Arrays, given: Arrays, same: Any) -> None:
        """As of `Part`."""
        for places, array in zip(self.arrays, arrays, strict=True):
            for entries, key in places:
                entries[key] = array
        numbers = iter(given)
        for places, added in self.inputs:
            if added != 0:
                entries, key = places[0]
                following = np.asarray(next(numbers) if added is None else entries[key] + added)
                for entries, key in places:
                    entries[key] = following


class Loaded(Held):
    """The state of a step that was loaded from a file.

    Args:
        plan: the keys of the leaves, from `in_file`.
        found: the saved state, which is copied.

    Attributes:
        state: the arrays by these keys, as the last call left them.
        names: names of the leaves, for errors.
        donated: the number of donated leaves.
        given: the structure of the arrays that a run returns.

    Raises:
        ValueError: the state lacks a key.
    """

    def __init__(self, plan: dict[str, Any], found: Any) -> None:
        nodes: dict[str, Any] = {}

        def places(keys: Any) -> Places:
            paths = [(str(name), str(key)) for name, key in keys]
            array = found.get(paths[0], None)
            if type(array) is not np.ndarray:
                raise ValueError(f"there is no {paths[0]}")
            array = np.array(array, order="C")
            for name, key in paths:
                nodes.setdefault(name, class_registry.dense({}))._data[key] = array
            return [(nodes[name]._data, key) for name, key in paths]

        arrays = [places(keys) for keys in plan["arrays"]]
        buffers = [places(keys) for keys in plan["buffers"]]
        inputs = [(places(keys), added if added is None else int(added)) for keys, added in plan["inputs"]]
        for key in plan["constants"]:
            places([key])
        super().__init__([SavedPart(arrays, inputs)], Buffers(buffers))
        leaves = [*plan["arrays"], *plan["buffers"], *[keys for keys, _ in plan["inputs"]]]
        self.names = [f"state{keys[0]}" for keys in leaves]
        self.state = class_registry.dense(nodes).lock_()
        count = sum(added is None for _, added in inputs)
        self._same = Same(((count, None),))
        self.given = ("list", *[(ARRAY,)] * count)
        self.donated = len(arrays)
        self._changed = True  # whether there are arrays that `check` has not seen

    def arguments_now(self, check: Callable[[list[Any], list[str]], None]) -> list[Argument]:
        """The state's arguments of the graph, in front of those of a call.

        Args:
            check: called with the leaves and their names if they are not those of the last run.
        """
        try:
            given = self.arguments((), self._noted)
        except KeyError as error:
            raise KeyError(f"the state lacks {error}.") from None
        if self._changed:
            leaves = [leaf for argument in given for leaf in argument.leaves]
            check(leaves, self.names)
            self.buffers.put([np.array(x) for x in given[1].leaves])  # written in place, perhaps in a file
            given = self.arguments((), self._noted)
            self._changed = False
        return given

    def _noted(self, argument: Argument) -> Argument:
        self._changed = True
        return argument

    def take(self, given: Arrays) -> None:
        """Store the arrays that a run returned as the state."""
        self.store(given, self._same)


def no_state(name: str) -> RuntimeError:
    """The error of a state that is requested before it exists."""
    return RuntimeError(f"{name} has no state: it keeps the arguments of donate=... from a call on.")
