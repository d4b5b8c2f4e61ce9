"""Sessions of onnxruntime for the steps of `lite.jit`, whose inputs and outputs are bound by pointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite._arrays.device import is_device_leaf, require_cuda
from lite.kernels._install import install
from lite.models.graph.session import FIRST_RUN_SECONDS, PointerBinding, open_session
from lite.models.graph.summary import scan_bytes

_CPU, _CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
# This fusion stores a float64 factor as a float32 attribute of the operator.
_INEXACT = ("MatMulScaleFusion",)


class StepSession:
    """A graph that reads and writes NumPy's arrays, or arrays on a GPU, without a copy.

    Args:
        session: a session of onnxruntime.

    Attributes:
        gpu: the number of the GPU that runs the graph, if Numba can use it, else None.
    """

    def __init__(self, session: Any) -> None:
        self.session = session
        self.gpu: int | None = None
        first = session.get_providers()[0]
        self._copies = first != _CPU
        if first == _CUDA:
            index = int(session.get_provider_options()[_CUDA].get("device_id", 0))
            with suppress(RuntimeError):  # without Numba for CUDA, onnxruntime copies NumPy's arrays
                require_cuda(f"cuda:{index}")
                self.gpu = index

    def binding(self) -> StepBinding:
        """A new set of inputs and outputs."""
        return StepBinding(self.session, self.gpu, self._copies)

    def memory(self, shape: Sequence[int], dtype: Any) -> Any:
        """An uninitialized array for state that the graph keeps: Numba's on the GPU, else NumPy's."""
        if self.gpu is None:
            return np.empty(shape, dtype)
        cuda = require_cuda(f"cuda:{self.gpu}")
        with cuda.gpus[self.gpu]:
            return cuda.device_array(tuple(shape), dtype)


class StepBinding:
    """The arrays that a session reads and writes, bound by their addresses and kept alive.

    Args:
        session: a session of onnxruntime.
        gpu: the number of the GPU that runs the graph; None if there is none.
        copies: whether onnxruntime copies inputs when they are bound, as it does for a GPU. Inputs in NumPy's
            memory are then bound again before each run.
    """

    def __init__(self, session: Any, gpu: int | None, copies: bool) -> None:
        self._binding = PointerBinding(session)
        self._device = self._binding.device("cpu", 0)
        self._gpu = None if gpu is None else (gpu, self._binding.device("cuda", gpu))
        self._copies = copies
        self._run = self._first_run
        self._alive: dict[str, Any] = {}
        self._copied: dict[str, NDArray[Any]] = {}  # inputs in NumPy's memory, if `copies`
        self._outputs: list[str] = []  # in the order of their first binding, which is onnxruntime's

    def bind_input(self, name: str, array: Any) -> None:
        """Read an input from a contiguous array."""
        self._alive[name] = array
        device, pointer = self._place(array)
        if self._copies:
            self._copied.pop(name, None)
            if device is self._device:
                self._copied[name] = array
                return
        self._binding.bind_input(name, device, array.dtype, list(array.shape), pointer)

    def bind_output(self, name: str, array: Any) -> None:
        """Write an output to a contiguous array."""
        self._note_output(name)
        self._alive[name] = array
        device, pointer = self._place(array)
        self._binding.bind_output(name, device, array.dtype, list(array.shape), pointer)

    def _place(self, array: Any) -> tuple[Any, int]:
        """The device and the address of an array."""
        if self._gpu is not None and is_device_leaf(array):
            return self._gpu[1], array.__cuda_array_interface__["data"][0]
        return self._device, array.__array_interface__["data"][0]

    def bind_new_output(self, name: str) -> None:
        """Let onnxruntime allocate an output whose shape is known only after the run."""
        self._note_output(name)
        self._binding.bind_new_output(name, self._device)

    def run(self) -> None:
        """Run the graph.

        Raises:
            TimeoutError: the first run took more than two minutes: the graph may never end.
        """
        self._run()

    def _first_run(self) -> None:
        self._copy_inputs()
        self._binding.run(FIRST_RUN_SECONDS)
        self._run = self._run_with_copies if self._copies else self._binding.runner()

    def _run_with_copies(self) -> None:
        self._copy_inputs()
        self._binding.runner()()

    def _copy_inputs(self) -> None:
        for name, array in self._copied.items():
            device, pointer = self._place(array)
            self._binding.bind_input(name, device, array.dtype, list(array.shape), pointer)
        if self._gpu is not None:  # onnxruntime uses another stream: wait until Numba's writes are done
            require_cuda(f"cuda:{self._gpu[0]}").synchronize()

    def new_outputs(self, names: Sequence[str]) -> Mapping[str, NDArray[Any]]:
        """Copies of outputs that onnxruntime allocated."""
        values = self._binding.outputs()
        return {name: np.array(values[self._outputs.index(name)].numpy()) for name in names}

    def _note_output(self, name: str) -> None:
        if name not in self._outputs:
            self._outputs.append(name)


def open_step(model: bytes, options: Mapping[str, Any]) -> StepSession:
    """Open the graph of a step.

    Args:
        model: a serialised ONNX model.
        options: `providers` and `threads`; see `open_session`.

    Raises:
        ValueError: the model refers to other files for its data.
        RuntimeError: onnxruntime cannot use the first of `providers`.
    """
    if files := scan_bytes(model).external_files:
        raise ValueError(f"the model of a step must contain its data, this one refers to {sorted(files)}.")
    providers = options.get("providers")
    session: Any = open_session(
        "step.onnx",
        content=model,
        num_threads=options.get("threads"),
        providers=providers,
        memory_pattern=True,
        memory_reuse=False,  # steps of sequences have tens of thousands of operators
        spinning=False,  # NumPy and environments use the processors between two steps
        disabled_optimizers=_INEXACT,
    )
    first = providers[0] if providers else _CPU
    wanted = first if isinstance(first, str) else first[0]
    found = session.get_providers()
    if wanted not in found:
        raise RuntimeError(
            f"providers: onnxruntime runs the step on {found[0]} in place of {wanted}; what it wrote to "
            "standard error says why. For CUDA check `nvidia-smi`; the libraries come with " + install("cuda")
        )
    return StepSession(session)
