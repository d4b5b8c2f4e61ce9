"""A session of onnxruntime that runs a Python function: its inputs and outputs, and what is bound."""

from typing import Any

import numpy as np


class Arg:
    def __init__(self, name: str, shape: list[Any], type_: str = "tensor(float)") -> None:
        self.name, self.shape, self.type = name, shape, type_


class Binding:
    """Keeps what is bound; `run` calls the scripted function with arrays at the bound addresses."""

    def __init__(self) -> None:
        self.inputs: dict[str, tuple[Any, ...]] = {}
        self.outputs: list[tuple[str, str, int]] = []

    def bind_input(self, name: str, kind: str, index: int, dtype: Any, shape: list[int], at: int) -> None:
        self.inputs[name] = (kind, index, dtype, shape, at)

    def bind_output(self, name: str, kind: str, index: int) -> None:
        self.outputs.append((name, kind, index))

    def copy_outputs_to_cpu(self) -> list[np.ndarray]:
        return self.results

    def get_outputs(self) -> list[Any]:
        return self.results


class Session:
    def __init__(self, ins: list[Arg], outs: list[Arg], function: Any = None) -> None:
        self.ins, self.outs, self.function = ins, outs, function
        self.binding: Any = None

    def get_inputs(self) -> list[Arg]:
        return self.ins

    def get_outputs(self) -> list[Arg]:
        return self.outs

    def io_binding(self) -> Binding:
        self.binding = Binding()
        return self.binding

    def run_with_iobinding(self, binding: Binding) -> None:
        binding.results = self.function(**{name: bound[3] for name, bound in binding.inputs.items()})
