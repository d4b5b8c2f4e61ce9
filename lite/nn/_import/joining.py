"""Steps of a program that are joined into one where a kernel computes them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from lite._arrays.types import Array
from lite.nn._import.operators import Step
from lite.nn.layers.large_arrays import swiglu


def join(steps: list[Step], outputs: Iterable[int]) -> None:
    """Join what can be, in place: x * sigmoid(x) * y, the gate of most language models.

    Args:
        steps: of a program, in order.
        outputs: numbers of what it gives.
    """
    readers = Counter(i for step in steps for i in step.inputs)
    readers.update(outputs)
    by_output = {step.outputs: step for step in steps if isinstance(step.outputs, int)}
    gone: set[int] = set()
    for i, step in enumerate(steps):
        found = _gate(step, by_output, readers)
        if found is None:
            continue
        sigmoid, silu, x, y = found
        steps[i] = type(step)(_gated(sigmoid, silu, step), (x, y), step.outputs, step.label, "Gate")
        gone.update((id(sigmoid), id(silu)))
    steps[:] = [step for step in steps if id(step) not in gone]


def _gate(
    step: Step, by_output: dict[Any, Step], readers: Counter[int]
) -> tuple[Step, Step, int, int] | None:
    """Sigmoid, the product with its argument, that argument and the other factor, if the step ends a gate."""
    if step.op != "Mul":
        return None
    for inner, y in (step.inputs, step.inputs[::-1]):
        silu = by_output.get(inner)
        if silu is None or silu.op != "Mul" or readers[inner] != 1:
            continue
        for x, s in (silu.inputs, silu.inputs[::-1]):
            sigmoid = by_output.get(s)
            if sigmoid is not None and sigmoid.op == "Sigmoid" and sigmoid.inputs == (x,) and readers[s] == 1:
                return sigmoid, silu, x, y
    return None


def _gated(sigmoid: Step, silu: Step, last: Step) -> Any:
    def run(x: Array, y: Array) -> Any:
        out = swiglu(x, y)
        return last.run(silu.run(x, sigmoid.run(x)), y) if out is None else out

    return run
