"""Steps of a program that are joined into one where a kernel computes them together."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lite._arrays.types import Array
from lite._files.onnx.attention import PathNode, ways_to_scores
from lite.nn._import.operators import Run, Step
from lite.nn.layers.activations import rectified
from lite.nn.layers.large_arrays import swiglu
from lite.nn.layers.masked_attention import (
    HIDDEN,
    KeyRanges,
    ScoreRule,
    attention_in_blocks,
    key_ranges,
    masked_attention,
)

Runs = Callable[[Iterable[Step], Any], None]
_IN_PLACE: dict[str, Callable[..., Any]] = {"Relu": rectified, "Tanh": np.tanh}


class _Graph(NamedTuple):
    """What a join looks at.

    Attributes:
        by_output: steps with one output, by its number.
        readers: how often a value is read, by its number.
        constants: values by number.
        run: computes steps, from and into values by number.
        weights: numbers of values that are given again at each call.
        fresh: gives the number of a new value.
        ranges: numbers of the ranges of keys that masks show, by the values that these are of.
    """

    by_output: dict[Any, Step]
    readers: Counter[int]
    constants: Mapping[int, Any]
    run: Runs
    weights: Collection[int]
    fresh: Callable[[], int]
    ranges: dict[Any, int]


class _Joined(NamedTuple):
    """One step in place of several, the last of which it stands for, and a new one before it."""

    step: Step
    gone: Sequence[Step]
    before: Sequence[Step] = ()


class _Mask(NamedTuple):
    """A mask of scores.

    Attributes:
        reads: the values that it is of: one that says which keys are seen; or those of `maker`.
        hides: whether that value says which keys are not.
        maker: a step that chooses numbers to add by a condition.
    """

    reads: tuple[int, ...]
    hides: bool = False
    maker: Step | None = None


def join(
    steps: list[Step], outputs: Sequence[int], constants: Mapping[int, Any], run: Runs,
    weights: Collection[int], fresh: Callable[[], int],
) -> None:  # fmt: skip
    """Join what can be, in place: gates, x * sigmoid(x) * y, and attention between its two products.

    Args:
        steps: steps of a program, in order.
        outputs: numbers of what it gives.
        constants: values by number.
        run: computes steps, from and into values by number.
        weights: numbers of values that are given again at each call.
        fresh: gives the number of a new value.
    """
    graph = _Graph(_by_output(steps), _readers(steps, outputs), constants, run, weights, fresh, {})
    gone: set[int] = set()
    joined: list[Step] = []
    for step in steps:
        found = _gate(step, graph) or _attention(step, graph)
        if found is None:
            joined.append(step)
            continue
        joined += [*found.before, found.step]
        gone.update(map(id, found.gone))
    joined = [step for step in joined if id(step) not in gone]
    readers = _readers(joined, outputs)
    # Numbers to add that attention has read from their condition are computed for others only.
    steps[:] = [step for step in joined if not _is_choice(step, graph) or readers[step.outputs]]  # type: ignore[index]
    graph = graph._replace(by_output=_by_output(steps), readers=_readers(steps, outputs))
    joined = []
    for step in reversed(steps):
        found = None if id(step) in gone else _layer(step, graph)
        joined.append(step if found is None else found.step)
        gone.update(() if found is None else map(id, found.gone))
    steps[:] = [step for step in reversed(joined) if id(step) not in gone]


def _by_output(steps: Iterable[Step]) -> dict[int, Step]:
    return {step.outputs: step for step in steps if isinstance(step.outputs, int)}


def _readers(steps: Iterable[Step], outputs: Iterable[int]) -> Counter[int]:
    readers = Counter(i for step in steps for i in step.inputs)
    readers.update(outputs)
    return readers


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


# -- layers ------------------------------------------------------------------------------------------------


def _layer(step: Step, graph: _Graph) -> _Joined | None:
    """A product with a weight, its bias, and an activation of these, as exporters write a layer."""
    last = step
    if step.op in _IN_PLACE and graph.readers[step.inputs[0]] == 1:
        last = graph.by_output.get(step.inputs[0], step)
    gone, inputs, turned, run = [last], last.inputs, None, last.run
    if last.op == "Gemm" and len(inputs) == 3:
        turned = _is_turned(last)
    elif last.op == "Add":
        for number, bias in (inputs, inputs[::-1]):
            product = graph.by_output.get(number)
            if product is None or product.op != "MatMul" or graph.readers[number] != 1:
                continue
            if all(i in graph.weights or i in graph.constants for i in (product.inputs[1], bias)):
                gone, inputs, turned = [product, last], (*product.inputs, bias), False
                run = _added_to(product.run, last.run)
    if turned is None:
        return None
    run = _dense(run, turned, None if last is step else step)
    return _Joined(Step(run, inputs, step.outputs, gone[0].label, "Layer"), gone)


def _is_turned(gemm: Step) -> bool | None:
    """Whether a step takes its weight as (out, in), by its numbers; None if it is more than a layer."""
    x, weight, bias = np.arange(6.0).reshape(2, 3), np.arange(12.0), np.arange(4.0)
    for turned, shape in ((True, (4, 3)), (False, (3, 4))):
        own = weight.reshape(shape)
        try:
            out = gemm.run(x, own, bias)
        except Exception:  # whatever is wrong with it, the node says when it runs
            continue
        if np.allclose(out, x @ (own.T if turned else own) + bias):
            return turned
    return None


def _added_to(product: Run, add: Run) -> Run:
    return lambda x, weight, bias: add(product(x, weight), bias)


def _dense(run: Run, turned: bool, last: Step | None) -> Run:
    """A layer of rows as NumPy computes it in the least time; of all else as its nodes are, by `run`."""
    ndarray, single, double = np.ndarray, np.dtype(np.float32), np.dtype(np.float64)
    function = None if last is None else _IN_PLACE[last.op]

    def layer(x: Array, weight: Array, bias: Array) -> Array:
        if type(x) is type(weight) is type(bias) is ndarray:
            dtype = x.dtype
            floats = (dtype is single or dtype is double) and weight.dtype is bias.dtype is dtype
            if floats and x.ndim == weight.ndim == 2:
                try:
                    out = x.dot(weight.T if turned else weight)
                    if len(x) == 1:
                        row = out[0]  # which takes half of the time of a loop over rows
                        row += bias
                    else:
                        out += bias
                except ValueError:  # of other shapes
                    pass
                else:
                    return out if function is None else function(out, out)
        out = run(x, weight, bias)
        return out if last is None else last.run(out)

    return layer


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

    for scores, path in ways_to_scores(step.inputs[0], node_of, capped=True):
        found = _steps_between(path, graph)
        if found is None:
            continue
        inner, empty_is_zero = found
        inner = [graph.by_output[scores], *inner]
        reads = Counter(i for one in (*inner, step) for i in one.inputs)
        made: set[Any] = {one.outputs for one in inner}
        if any(graph.readers[i] != reads[i] for i in made) or not _is_straight(inner, step, made):
            continue
        path = list(reversed(path))
        masks = _masks(path, graph)
        key = (tuple((mask.reads, mask.hides) for mask in masks), empty_is_zero)
        before = []
        if masks and key not in graph.ranges:
            graph.ranges[key] = graph.fresh()
            read = tuple(i for mask in masks for i in mask.reads)
            run = _ranged(masks, empty_is_zero)
            before = [Step(run, read, graph.ranges[key], step.label, "KeyRanges")]
        makers = [mask.maker for mask in masks if mask.maker is not None]
        made.update(one.outputs for one in makers)
        given = (i for one in (*makers, *inner, step) for i in one.inputs if i not in made)
        outer = tuple(dict.fromkeys([graph.ranges.get(key, 0), *given]))
        rule = ScoreRule(empty=1.0 if empty_is_zero else np.nan)
        run = _attended([*makers, *inner], step, path, outer, graph.run, inner[0], masks, rule)
        return _Joined(Step(run, outer, step.outputs, step.label, "Attention"), inner, before)
    return None


def _masks(path: Iterable[PathNode[int]], graph: _Graph) -> list[_Mask]:
    """The masks on the way from scores to the softmax."""
    found = []
    for output, followed in path:
        step = graph.by_output[output]
        if step.op == "Softmax":
            break
        if step.op == "Where":
            found.append(_Mask(step.inputs[:1], followed == 2))
        elif step.op == "Add":
            number = step.inputs[1 - followed]
            maker = graph.by_output.get(number)
            if maker is None or not _is_choice(maker, graph):
                found.append(_Mask((number,)))
            else:
                own = Step(maker.run, maker.inputs, maker.outputs, maker.label, maker.op)
                found.append(_Mask(maker.inputs, maker=own))
    return found


def _is_choice(step: Step, graph: _Graph) -> bool:
    """Whether a step chooses between numbers that no step computes."""
    return step.op == "Where" and all(i in graph.constants or i in graph.weights for i in step.inputs[1:])


def _ranged(masks: Sequence[_Mask], empty_is_zero: bool) -> Run:
    """The ranges of keys that masks show, which all attentions of these read; None for no ranges."""

    def run(*given: Any) -> KeyRanges | None:
        if any(type(x) is not np.ndarray for x in given):
            return None
        values = iter(given)
        return key_ranges([_shown(mask, [next(values) for _ in mask.reads]) for mask in masks], empty_is_zero)

    return run


def _shown(mask: _Mask, values: Sequence[Any]) -> Any:
    """A mask as `key_ranges` takes it; of a choice between 0 and a low number its condition."""
    if mask.maker is None:
        return ~values[0] if mask.hides else values[0]
    condition, *numbers = values
    if all(x.size == 1 and x.ndim <= condition.ndim for x in numbers):
        first, second = (float(x.reshape(())) for x in numbers)
        if first == 0 and second <= HIDDEN:
            return condition
        if second == 0 and first <= HIDDEN:
            return ~condition
    return mask.maker.run(*values)


def _steps_between(path: Sequence[PathNode[int]], graph: _Graph) -> tuple[list[Step], bool] | None:
    """The steps from scores to weights in order, and whether weights that are not numbers become zeros.

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
    inner: Sequence[Step], last: Step, path: Sequence[PathNode[int]], outer: tuple[int, ...], run_steps: Runs,
    product: Step, masks: Sequence[_Mask], rule: ScoreRule,
) -> Run:  # fmt: skip
    """Attention of the values that `outer` numbers, first the ranges of keys, or 0 where all are seen."""
    by_output = {one.outputs: one for one in inner}
    query, key = product.inputs
    value = last.inputs[1]
    kept: set[Any] = {*outer, last.outputs}
    for one in (last, *reversed(inner)):
        ended: set[Any] = {one.outputs, *one.inputs} - kept
        one.done = tuple(ended)
        kept |= ended

    def run(*given: Any) -> Any:
        values = dict(zip(outer, given, strict=True))
        ranges = given[0]
        scale, cap = _scale([(by_output[name], at) for name, at in path], values)
        known = ranges is not None or not outer[0]
        if known and scale and not cap and all(values[i].ndim > 2 for i in (query, key, value)):
            q, k, v = values[query], values[key].swapaxes(-1, -2), values[value]
            out = masked_attention(q, k, v, scale, ranges)
            if out is not None:
                return out
        bias = None if known or not scale else _added(masks, values)
        if bias is not None or (known and cap):
            q = values[query] * np.asarray(scale, values[query].dtype)
            own = rule._replace(softcap=cap, seen=ranges and ranges.seen)
            out = attention_in_blocks(q, values[key].swapaxes(-1, -2), values[value], bias, own)
            if out is not None:
                return out
        run_steps((*inner, last), values)
        return values[last.outputs]  # type: ignore[index]

    return run


def _added(masks: Sequence[_Mask], values: Mapping[int, Any]) -> Any:
    """The sum of what masks add to scores; None if one of them chooses, which is no sum."""
    numbers = []
    for mask in masks:
        read = [values[i] for i in mask.reads]
        numbers.append(read[0] if mask.maker is None else mask.maker.run(*read))
        if mask.hides or numbers[-1].dtype.kind != "f":
            return None
    return functools.reduce(np.add, numbers)


def _scale(path: Iterable[tuple[Step, int]], values: Mapping[int, Any]) -> tuple[float, float]:
    """The scale of scores before masks, 0 if the steps are more than these; and their soft cap, or 0."""
    scale, cap, masked = 1.0, 0.0, False
    for step, followed in path:
        if step.op == "Softmax":
            break
        if step.op in ("Cast", "Identity", "Dropout"):
            continue
        if step.op == "Add":
            masked = True
            continue
        if step.op == "Tanh":
            if masked or cap:
                return 0.0, 0.0
            cap = 1.0
            continue
        other = values[step.inputs[(3 if step.op == "Where" else 1) - followed]]
        if type(other) is not np.ndarray or other.size != 1:
            return 0.0, 0.0
        number = float(other.reshape(()))
        if step.op == "Where":
            if not number <= HIDDEN:
                return 0.0, 0.0
            masked = True
        elif masked or not number > 0:  # a factor of masks, too; or the least score is the largest
            return 0.0, 0.0
        else:
            factor = number if step.op == "Mul" else 1 / number
            scale, cap = scale * factor, cap * factor
    return scale, cap
