"""Bindings of a decoder graph on a GPU: logits stay there, and steps of fixed size are replayed.

What is here is queued on the stream of the session (`graph/cuda_stream.py`).

CUDA graphs: onnxruntime captures a run under the number that its options give, runs it a few times to
do so, and from then on replays it from and to the addresses that were bound. So a step that is to be
captured has inputs, logits and cache at addresses of its own (`_Fixed`); the number of prompts is -1,
which is never captured.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.decoder.binding import BoundGraph, PlacedGraph, RunInputs
from lite.models.decoder.device_logits import DeviceLogits, Logits
from lite.models.decoder.memory import DeviceBuffer, fetch, upload
from lite.models.graph.cuda_stream import CudaStream
from lite.models.graph.session import SessionLike, is_the_programs, run_options

CAPTURED_STEP = 8  # of the same rows; to capture it takes about three runs
_NEVER = -1  # the number of runs that are not captured
_numbers = itertools.count(1)


def bound_graph(graph: PlacedGraph) -> BoundGraph:
    """A binding of a graph, of the class for its device."""
    return BoundGraph(graph) if graph.device == "cpu" else GpuGraph(graph)


class GpuGraph(BoundGraph):
    """A binding of a graph on a GPU."""

    def __init__(self, graph: PlacedGraph) -> None:
        super().__init__(graph)
        self._placed = graph
        self._stream = graph.stream or CudaStream(graph.index)
        self._start = self._runner(_NEVER)
        self._fixed: _Fixed | None = None
        self._given: list[DeviceBuffer] = []  # states after the run

    def bind_input(self, name: str, values: NDArray[Any], at: int | None = None) -> None:
        """Remember `values`, in the graph's type: to bind them copies what they hold at that moment."""
        if self._held.get(name) is not values:
            as_bound = at is not None  # by the caller's word, see `BoundGraph`
            self._held[name] = values if as_bound else np.asarray(values, self._dtypes[name], order="C")

    def run_rows(self, inputs: RunInputs) -> list[Logits]:
        """As `BoundGraph.run_rows`; the rows are views of one array on the GPU."""
        count, kept = len(inputs.ids), self._bind_inputs(inputs)
        logits = self._bind_logits(count, kept)
        self._run_bound()
        return [logits[at : at + kept] for at in range(0, count * kept, kept)]

    def bind_step(
        self, ids: NDArray[Any], mask: NDArray[Any], positions: NDArray[Any], *, with_past: bool = True
    ) -> tuple[Callable[[], None], Logits]:
        """As `BoundGraph.bind_step`.

        Raises:
            MemoryError: the GPU has no room for the logits.
        """
        self._bind_inputs(RunInputs(ids, mask, positions, last=True, with_past=with_past))
        if not self._placed.cuda_graphs:
            return self._run_bound, self._bind_logits(len(ids), 1)
        if self._fixed is None:
            self._fixed = _Fixed(self._stream, self._held, self._new_logits(len(ids), 1))
            weakref.finalize(self, _release, self._placed.session, self._fixed).atexit = False
        self._bind_adapter()
        for name, array in self._held.items():
            buffer = self._fixed.inputs[name]
            shape, kind = list(array.shape), array.dtype.type
            self._binding.bind_input(name, self._device, kind, shape, buffer.pointer)
        self._bind_to(self._fixed.logits, len(ids), 1)
        return self._run_fixed, self._fixed.logits

    def _new_logits(self, count: int, kept: int) -> DeviceLogits:
        return DeviceLogits(count * kept, self._vocab_size, self._logits_dtype, self._stream)

    def _bind_logits(self, count: int, kept: int) -> DeviceLogits:
        logits = self._new_logits(count, kept)
        self._bind_to(logits, count, kept)
        return logits

    def _bind_to(self, logits: DeviceLogits, count: int, kept: int) -> None:
        shape = [count, kept, self._vocab_size]
        kind = logits.dtype.type
        self._binding.bind_output(self._spec.logits, self._device, kind, shape, logits.address)

    def _run_bound(self) -> None:
        self._bind_adapter()
        states, self._given = self._states, []
        arrays = self._bind_states(states) if states else []
        for name, array in self._held.items():
            address = array.__array_interface__["data"][0]
            self._binding.bind_input(name, self._cpu, array.dtype.type, list(array.shape), address)
        self._launch(self._start)
        for buffer, array in zip(self._given, arrays, strict=True):
            fetch(buffer, array)
        if states:
            states.put(arrays)

    def _bind_given(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        """Bind an output to new memory of the GPU; returns an array for what it will hold."""
        given = np.empty(shape, dtype)
        placed = self._placed
        buffer = DeviceBuffer(given.nbytes, placed.device, placed.index, "states", self._stream)
        self._binding.bind_output(name, self._device, dtype.type, list(shape), buffer.pointer)
        self._given.append(buffer)
        return given

    def _run_fixed(self) -> None:
        """A step whose inputs are on the GPU: new values are written there, without new bindings."""
        fixed = self._fixed
        assert fixed is not None
        for name, array in self._held.items():
            upload(fixed.inputs[name], array)
        fixed.steps += 1
        start = self._runner(fixed.number) if fixed.steps == CAPTURED_STEP else fixed.start
        try:
            self._launch(start or self._start)
        except RuntimeError as error:
            if fixed.steps == CAPTURED_STEP:
                error.add_note("This step was captured as a CUDA graph: without cuda_graphs=True it may run.")
            raise
        fixed.start = start

    def _launch(self, start: Callable[[float | None], None]) -> None:
        try:
            start(None if self._limit is None else self._limit + self._held["input_ids"].size)
        except TimeoutError:
            raise
        except Exception as error:
            if is_the_programs(error):
                raise
            raise self._explained(error) from error
        self._stream.queued = True
        self._limit = None

    def _runner(self, number: int) -> Callable[[float | None], None]:
        """The function that runs the graph, as a captured CUDA graph if the session captures."""
        # Each run is waited for: only then onnxruntime gives back what it holds on the host for the GPU, and
        # a session that ends with such memory aborts the process (seen on an H200).
        options = run_options({"gpu_graph_id": str(number)}) if self._placed.cuda_graphs else None
        binding = self._binding  # not this object, which the closure would keep alive
        return lambda seconds: binding.run(seconds, options)


class _Fixed:
    """Inputs and logits of a step at addresses that stay.

    Attributes:
        number: under which the step is captured; no two have the same one.
        inputs: one buffer for each array of the host.
        logits: what each step gives.
        steps: how many there were.
        start: runs the step once it is captured.
    """

    def __init__(self, stream: CudaStream, arrays: dict[str, NDArray[Any]], logits: DeviceLogits) -> None:
        self.number = next(_numbers)
        self.inputs = {
            name: DeviceBuffer(array.nbytes, "cuda", stream.index, "inputs", stream)
            for name, array in arrays.items()
        }
        self.logits = logits
        self.steps = 0
        self.start: Callable[[float | None], None] | None = None


def _release(session: SessionLike, fixed: _Fixed) -> None:
    """Discard a captured step of a session; older onnxruntimes cannot."""
    release = getattr(session, "release_captured_graph", None)
    if release is not None and fixed.start is not None:
        release(fixed.number)
