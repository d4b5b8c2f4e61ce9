"""What runs the graph of a step: arguments go in by pointer, state stays in two buffers that take turns."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from lite._arrays.types import Array, ArrayHolder, Shape, raw
from lite._transforms.graphs.sizes import Size
from lite._transforms.graphs.writer import model_bytes
from lite._transforms.jit.tracing import Program
from lite._tree.methods import LazyModule

_sessions = LazyModule("lite.models.graph.step_session")


class Runner:
    """A traced function that can be called.

    Args:
        program: the traced function.
        pairs: leaves of the arguments that stay in the session, with the outputs that are their next values.
        options: of the session: `providers` and `threads`.
    """

    def __init__(self, program: Program, pairs: dict[int, str], options: dict[str, Any]) -> None:
        self.program = program
        self.pairs = pairs
        self._options = options
        self._lock = threading.Lock()
        traced = program.traced
        used = {x.name for x in traced.inputs}
        self._inputs = [
            (i, name)
            for i, name in enumerate(program.arguments)
            if name is not None and name in used and i not in pairs
        ]
        shapes = {x.name: x.shape for x in traced.inputs}
        self._labels = {}
        for i, name in enumerate(program.arguments):
            for axis, label in enumerate(shapes.get(name, ())):
                if isinstance(label, str):
                    self._labels.setdefault(label, (i, axis))
        self._dtypes = {x.name: x.dtype for x in traced.inputs}
        paired = set(pairs.values())
        self._outputs = [output for output in traced.outputs if output[0] not in paired]
        self._model = model_bytes(traced)
        self._pid = -1
        self._open(None)

    def _open(self, leaves: Sequence[Any] | None) -> None:
        """The session, and the buffers of what stays in it."""
        program = self.program
        session = self._session = _sessions.open_step(self._model, self._options)
        self._pid = os.getpid()
        kept = {i: name for i, name in enumerate(program.arguments) if i in self.pairs}
        shapes = {x.name: x.shape for x in program.traced.inputs}
        self.turn = 0
        self.buffers = [
            {i: np.empty(shapes[name], self._dtypes[name]) for i, name in kept.items()} for _ in range(2)
        ]
        self._bindings = []
        for turn in range(2):
            binding = session.binding()
            for i, name in kept.items():
                binding.bind_input(name, self.buffers[turn][i])
                binding.bind_output(self.pairs[i], self.buffers[1 - turn][i])
            self._bindings.append(binding)
        self._captured: list[dict[str, Any]] = [{}, {}]

    def __call__(self, leaves: Sequence[Any]) -> dict[str, Array]:
        """The outputs by name for the leaves of the arguments."""
        with self._lock:
            if self._pid != os.getpid():
                self._open(leaves)
            return self._run(leaves)

    def _run(self, leaves: Sequence[Any]) -> dict[str, Array]:
        turn = self.turn
        binding, state = self._bindings[turn], self.buffers[turn]
        for i, buffer in state.items():
            value = leaves[i]
            value = value.data if isinstance(value, ArrayHolder) else value
            if value is not buffer:
                np.copyto(buffer, value)
        kept = []
        for i, name in self._inputs:
            value = leaves[i]
            if type(value) is not np.ndarray:
                value = np.asarray(raw(value), self._dtypes[name])
            if not value.flags.c_contiguous:
                value = np.ascontiguousarray(value)
            kept.append(value)
            binding.bind_input(name, value)
        for name, captured in self.program.captured.items():
            value = captured.array
            if self._captured[turn].get(name) is not value:
                self._capture(turn, name, value)
            elif not value.flags.c_contiguous:
                binding.bind_input(name, np.ascontiguousarray(value))
        for name, draw in self.program.draws.items():
            generator = leaves[draw.source] if isinstance(draw.source, int) else draw.source
            drawn = draw.make(generator, self._shape(draw.shape or (), leaves))
            value = np.ascontiguousarray(drawn, self._dtypes[name])
            kept.append(value)
            binding.bind_input(name, value)
        found: dict[str, Array] = {}
        new = []
        for name, shape, dtype in self._outputs:
            sizes = tuple([self._size(n, leaves) if type(n) is str else n for n in shape])
            if None in sizes or 0 in sizes:
                binding.bind_new_output(name)
                new.append(name)
            else:
                found[name] = out = np.empty(sizes, dtype)
                binding.bind_output(name, out)
        binding.run()
        if new:
            found.update(binding.new_outputs(new))
        for i, name in self.pairs.items():
            found[name] = self.buffers[1 - turn][i]
        self.turn = 1 - turn
        return found

    def _capture(self, turn: int, name: str, value: Array) -> None:
        shape = next(x.shape for x in self.program.traced.inputs if x.name == name)
        if value.shape != tuple(shape) or value.dtype != self._dtypes[name]:
            raise ValueError(
                f"an array that the function takes from elsewhere had the shape {tuple(shape)} and dtype "
                f"{self._dtypes[name]} when it was traced, and has {value.shape} and {value.dtype} now."
            )
        self._captured[turn][name] = value
        self._bindings[turn].bind_input(name, np.ascontiguousarray(value))

    def _size(self, label: str, leaves: Sequence[Any]) -> int:
        i, axis = self._labels[label]
        return int(leaves[i].shape[axis])

    def _shape(self, shape: Shape, leaves: Sequence[Any]) -> Shape:
        """The shape of a draw."""
        out = []
        for n in shape:
            rest = int(n)
            size = 1
            if type(n) is Size:
                for prime, label in self.program.primes.items():
                    while rest % prime == 0:
                        rest //= prime
                        size *= self._size(label, leaves)
            out.append(rest * size)
        return tuple(out)
