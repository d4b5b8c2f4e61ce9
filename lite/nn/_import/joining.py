"""Steps of a program that are joined into one where a kernel computes them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.types import Array
from lite._files.onnx.attention import PathNode, ways_to_scores
from lite.nn._import.operators import Run, Step
from lite.nn.layers.large_arrays import swiglu
from lite.nn.layers.masked_attention import HIDDEN, masked_attention

Runs = Callable[[Iterable[Step], Any], None]


class _Graph(NamedTuple):
    """What a join looks at.

    Attributes:
        by_output: steps with one output, by its number.
        readers: how often a value is read, by its number.
        constants: values by number.
        run: computes steps, from and into values by number.
    """

    by_output: dict[Any, Step]
    readers: Counter[int]
    constants: Mapping[int, Any]
    run: Runs


class _Joined(NamedTuple):
    """One step in place of several, the last of which it stands for."""

    step: Step
    gone: Sequence[Step]


def join(steps: list[Step], outputs: Iterable[int], constants: Mapping[int, Any], run: Runs) -> None:
    """Join what can be, in place: gates, x * sigmoid(x) * y, and attention between its two products.

    Args:
        steps: steps of a program, in order.
        outputs: numbers of what it gives.
        constants: values by number.
        run: computes steps, from and into values by number.
    """
    readers = Counter(i for step in steps for i in step.inputs)
    readers.update(outputs)
    by_output = {step.outputs: step for step in steps if isinstance(step.outputs, int)}
    graph = _Graph(by_output, readers, constants, run)
    gone: set[int] = set()
    for i, step in enumerate(steps):
        found = _gate(step, graph) or _attention(step, graph)
        if found is not None:
            steps[i] = found.step
            gone.update(map(id, found.gone))
    steps[:] = [step for step in steps if id(step) not in gone]


# -- gates -------------------------------------------------------------------------------------------------


def _gate(step: Step, graph: _Graph) -> _Joined | None:
    """x * sigmoid(x) * y, the gate of most language models."""
    if step.op != "Mul":
        return None
    for inner, y in (step.inputs, step.inputs[::-1]):
        silu = graph.by_output.get(inner)
        if silu is None or silu.op != "Mul" or graph.readers[inner] != 1:
            continue
        for x, s in (silu.inputs, silu.inputs[::-1]):
            sigmoid = graph.by_output.get(s)
            if sigmoid is None or sigmoid.op != "Sigmoid" or sigmoid.inputs != (x,) or graph.readers[s] != 1:
                continue
            gate = Step(_gated(sigmoid, silu, step), (x, y), step.outputs, step.label, "Gate")
            return _Joined(gate, (sigmoid, silu))
    return None


def _gated(sigmoid: Step, silu: Step, last: Step) -> Run:
    def run(x: Array, y: Array) -> Any:
        out = swiglu(x, y)
        return last.run(silu.run(x, sigmoid.run(x)), y) if out is None else out

    return run


# -- attention ---------------------------------------------------------------------------------------------


def _attention(step: Step, graph: _Graph) -> _Joined | None:
    """The nodes from the product of queries and keys to that with values, as exporters spell them out.

    They run as they are where their numbers do not amount to what `masked_attention` computes: masks that are
    more than that, small arrays, graphs that are traced.
    """
    if step.op != "MatMul":
        return None

    def node_of(number: int) -> tuple[str, tuple[int, ...]] | None:
        maker = graph.by_output.get(number)
        return None if maker is None else (maker.op, maker.inputs)

    for scores, path in ways_to_scores(step.inputs[0], node_of):
        found = _steps_between(path, graph)
        if found is None:
            continue
        inner, empty_is_zero = found
        inner = [graph.by_output[scores], *inner]
        reads = Counter(i for one in (*inner, step) for i in one.inputs)
        made: set[Any] = {one.outputs for one in inner}
        if any(graph.readers[i] != reads[i] for i in made) or not _is_straight(inner, step, made):
            continue
        outer = tuple(dict.fromkeys(i for one in (*inner, step) for i in one.inputs if i not in made))
        run = _attended(inner, step, list(reversed(path)), outer, graph.run, empty_is_zero)
        return _Joined(Step(run, outer, step.outputs, step.label, "Attention"), inner)
    return None


def _steps_between(path: Sequence[PathNode[int]], graph: _Graph) -> tuple[list[Step], bool] | None:
    """The steps from scores to weights in order, and whether weights that are no numbers become zeros.

    None if there is one among them that attention does not have.
    """
    found: list[Step] = []
    after_softmax, empty_is_zero = True, False
    for output, followed in path:
        step = graph.by_output[output]
        found.append(step)
        if step.op == "Softmax":
            after_softmax = False
            if not _is_along_last(step):
                return None
        elif step.op in ("Cast", "Identity", "Dropout"):
            if not _is_nothing(step, graph.constants):
                return None
        elif step.op == "Div" and followed == 1:
            return None
        elif after_softmax:
            condition = graph.by_output.get(step.inputs[0])
            zero: Any = graph.constants.get(step.inputs[1])
            if step.op != "Where" or followed != 2 or condition is None or condition.op != "IsNaN":
                return None
            if condition.inputs != step.inputs[2:] or np.size(zero) != 1 or np.any(zero):
                return None
            found.append(condition)
            empty_is_zero = True
    return found[::-1], empty_is_zero


def _is_straight(inner: Sequence[Step], last: Step, made: set[Any]) -> bool:
    """Whether each step reads one value of those before it, but for choices behind a softmax."""
    return all(
        sum(i in made for i in one.inputs) == (one is not inner[0])
        or (one.op == "Where" and one.inputs[0] in made)
        for one in (*inner, last)
    )


def _is_along_last(softmax: Step) -> bool:
    """Whether a step normalises the last of four dimensions, by its numbers."""
    x = np.arange(16, dtype=np.float32).reshape(2, 1, 2, 4) % 5
    powers = np.exp(x)
    try:
        return np.allclose(softmax.run(x), powers / powers.sum(-1, keepdims=True), atol=1e-5)
    except Exception:  # whatever is wrong with it, the node says when it runs
        return False


def _is_nothing(step: Step, constants: Mapping[int, Any]) -> bool:
    """Whether a step gives float32 back as it is."""
    x = np.array([0.25, -3.5], np.float32)
    others = step.inputs[1:]
    if any(i and i not in constants for i in others):
        return False
    try:
        out = step.run(x, *(constants.get(i) for i in others))
    except Exception:  # as above
        return False
    return isinstance(out, np.ndarray) and out.dtype == x.dtype and np.array_equal(out, x)


def _attended(
    inner: Sequence[Step],
    last: Step,
    path: Sequence[PathNode[int]],
    outer: tuple[int, ...],
    run_steps: Runs,
    empty_is_zero: bool,
) -> Run:
    by_output = {one.outputs: one for one in inner}
    query, key = inner[0].inputs
    value = last.inputs[1]
    kept: set[Any] = {*outer, last.outputs}
    for one in (last, *reversed(inner)):
        ended: set[Any] = {one.outputs, *one.inputs} - kept
        one.done = tuple(ended)
        kept |= ended

    def run(*given: Any) -> Any:
        values = dict(zip(outer, given, strict=True))
        factors = _factors([(by_output[name], at) for name, at in path], values)
        if factors is not None and all(values[i].ndim > 2 for i in (query, key, value)):
            scale, masks = factors
            q, k, v = values[query], values[key].swapaxes(-1, -2), values[value]
            out = masked_attention(q, k, v, scale, masks, empty_is_zero=empty_is_zero)
            if out is not None:
                return out
        run_steps((*inner, last), values)
        return values[last.outputs]  # type: ignore[index]

    return run


def _factors(path: Iterable[tuple[Step, int]], values: Mapping[int, Any]) -> tuple[float, list[Any]] | None:
    """The scale of scores, and the masks behind it; None if the steps are more than these."""
    scale: float = 1.0
    masks: list[Any] = []
    for step, followed in path:
        if step.op == "Softmax":
            break
        if step.op in ("Cast", "Identity", "Dropout"):
            continue
        other = values[step.inputs[(3 if step.op == "Where" else 1) - followed]]
        if step.op == "Add":
            masks.append(other)
            continue
        if type(other) is not np.ndarray or other.size != 1:
            return None
        number = float(other.reshape(()))
        if step.op == "Where":
            condition = values[step.inputs[0]]
            if not number <= HIDDEN or type(condition) is not np.ndarray:
                return None
            masks.append(condition if followed == 1 else ~condition)
        elif masks or not number > 0:  # a factor of masks, too; or the least score is the largest
            return None
        else:
            scale = scale * number if step.op == "Mul" else scale / number
    return scale, masks
