"""Sessions of onnxruntime for the steps of `lite.jit`, whose inputs and outputs are bound by pointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.models.graph.session import FIRST_RUN_SECONDS, PointerBinding, open_session
from lite.models.graph.summary import scan_bytes

# It keeps a factor of float64 in single precision, as an attribute of the operator.
_INEXACT = ("MatMulScaleFusion",)


class StepSession:
    """A graph that is run with its inputs and outputs in NumPy's memory.

    Args:
        session: of onnxruntime.
    """

    def __init__(self, session: Any) -> None:
        self.session = session

    def binding(self) -> StepBinding:
        """A new set of inputs and outputs."""
        return StepBinding(self.session)


class StepBinding:
    """Where a session reads its inputs and writes its outputs. It keeps the arrays alive."""

    def __init__(self, session: Any) -> None:
        self._binding = PointerBinding(session)
        self._device = self._binding.device("cpu", 0)
        self._run = self._first_run
        self._kept: dict[str, NDArray[Any]] = {}
        self._order: list[str] = []

    def bind_input(self, name: str, array: NDArray[Any]) -> None:
        """Read an input from a contiguous array."""
        self._kept[name] = array
        self._binding.bind_input(
            name, self._device, array.dtype, list(array.shape), array.__array_interface__["data"][0]
        )

    def bind_output(self, name: str, array: NDArray[Any]) -> None:
        """Write an output to a contiguous array."""
        self._bound(name)
        self._kept[name] = array
        self._binding.bind_output(
            name, self._device, array.dtype, list(array.shape), array.__array_interface__["data"][0]
        )

    def bind_new_output(self, name: str) -> None:
        """Let onnxruntime allocate an output, whose shape is not known before."""
        self._bound(name)
        self._binding.bind_new_output(name, self._device)

    def run(self) -> None:
        """Run the graph.

        Raises:
            TimeoutError: the first run took more than two minutes: the graph may never end.
        """
        self._run()

    def _first_run(self) -> None:
        self._binding.run(FIRST_RUN_SECONDS)
        self._run = self._binding.runner()

    def new_outputs(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Copies of outputs that onnxruntime allocated."""
        values = self._binding.outputs()
        return {name: np.array(values[self._order.index(name)].numpy()) for name in names}

    def _bound(self, name: str) -> None:
        if name not in self._order:
            self._order.append(name)


def open_step(model: bytes, options: Mapping[str, Any]) -> StepSession:
    """Open the graph of a step.

    Args:
        model: a serialised ONNX model.
        options: `providers` and `threads`; see `open_session`.

    Raises:
        ValueError: the model keeps data outside of itself, which no step does.
    """
    if files := scan_bytes(model).external_files:
        raise ValueError(f"a step has its arrays inside, this one refers to {sorted(files)}.")
    return StepSession(
        open_session(
            "step.onnx",
            content=model,
            num_threads=options.get("threads"),
            providers=options.get("providers"),
            memory_pattern=True,
            disabled_optimizers=_INEXACT,
        )
    )
