"""Operators that run graphs inside of them: branches, loops, scans."""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._arrays.types import Array, HostArray, stored
from lite._files.onnx.arrays import dtype_of
from lite._files.onnx.model import Value
from lite._transforms.grad.tape import value_of
from lite.nn._import.integers import checked
from lite.nn._import.limits import check_time, time_limit
from lite.nn._import.operators import Run, Spec, operator

MAX_SECONDS = 120.0  # of one loop: a graph may never end
_OF_AN_ARRAY = 32  # numbers whose memory an array takes besides its own


@operator("If")
def _if(spec: Spec) -> Run:
    yes, no = spec.bodies["then_branch"], spec.bodies["else_branch"]

    def run(condition: Array, *captured: Any) -> list[Any]:
        split = len(yes.captures)
        plain: Any = value_of(condition)
        if not isinstance(plain, HostArray) or not (plain.layered or plain.symbolic):
            return yes(captured[:split]) if bool(np.asarray(condition).all()) else no(captured[split:])
        # Of a graph, and of elements that choose each for itself, both are computed. The derivative of the
        # one that is not taken may be NaN: it ends at what the branch reads.
        condition = condition.reshape(())

        def read(x: Any, taken: Array) -> Any:
            return x if stored(x) is x else np.where(taken, x, stored(x))

        ways = (yes, condition, captured[:split]), (no, ~condition, captured[split:])
        pairs = list(zip(*(way([read(x, taken) for x in given]) for way, taken, given in ways), strict=True))
        if any((a.shape, a.dtype) != (b.shape, b.dtype) for a, b in pairs):
            raise NotImplementedError("If whose branches have other shapes, under jit or vmap")
        return [np.where(condition, a, b) for a, b in pairs]

    return run


def _counted(held: int, value: Any) -> int:
    """The numbers that a loop has put by, with one more array. Raises ValueError if they are too many."""
    held += _OF_AN_ARRAY + (value.size if isinstance(value, np.ndarray) else 0)
    checked((held,))
    return held


def _stacked(spec: Spec, rows: list[Any], told: Value, axis: int = 0) -> Any:
    """What the steps of a loop gave; of none an array of the type that the graph tells, with no rows."""
    if rows:
        return np.stack(rows, axis)
    shape = [size if isinstance(size, int) else 0 for size in told.shape or ()]
    shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 0)
    return np.zeros(shape, spec.computed_in(dtype_of(told.element_type or 1)))


@operator("Loop")
def _loop(spec: Spec) -> Run:
    body = spec.bodies["body"]
    states = len(body.inputs) - 2
    given = len(spec.given) - 2

    def run(count: Array | None, condition: Array | None, *rest: Any) -> list[Any]:
        state, captured = list(rest[:given]), rest[given:]
        stacks: list[list[Any]] = [[] for _ in body.outputs[1 + states :]]
        most = None if count is None else int(np.asarray(count).reshape(()))
        goes_on = condition is None or bool(np.asarray(condition).all())
        held, i = 0, 0
        with time_limit(MAX_SECONDS, "a loop"):
            while goes_on and (most is None or i < most):
                found = body([np.asarray(i, np.int64), np.asarray(goes_on), *state, *captured])
                goes_on = bool(np.asarray(found[0]).all())
                state = found[1 : 1 + states]
                for stack, value in zip(stacks, found[1 + states :], strict=True):
                    stack.append(value)
                    held = _counted(held, value)
                i += 1
                check_time()
        rows = zip(stacks, body.types[1 + states :], strict=True)
        return [*state, *(_stacked(spec, *each) for each in rows)]

    return run


@operator("Scan")
def _scan(spec: Spec) -> Run:
    body, scanned = spec.bodies["body"], spec.get("num_scan_inputs")
    if not 0 < scanned <= len(body.inputs):  # before tuples of that length are made
        raise ValueError(f"Scan {spec.name!r}: num_scan_inputs is {scanned}, of {len(body.inputs)} inputs")
    states = len(body.inputs) - scanned
    outputs = len(body.outputs) - states
    before_9 = spec.opset < 9
    in_axes = spec.ints("scan_input_axes") or (0,) * scanned
    out_axes = spec.ints("scan_output_axes") or (0,) * outputs
    in_turns = spec.ints("scan_input_directions") or spec.ints("directions") or (0,) * scanned
    out_turns = spec.ints("scan_output_directions") or (0,) * outputs

    def walk(state: list[Any], sequences: list[Any], captured: tuple[Any, ...]) -> list[Any]:
        moved = [np.moveaxis(x, axis, 0) for x, axis in zip(sequences, in_axes, strict=True)]
        moved = [np.flip(x, 0) if turn else x for x, turn in zip(moved, in_turns, strict=True)]
        stacks: list[list[Any]] = [[] for _ in range(outputs)]
        held = 0
        with time_limit(MAX_SECONDS, "a loop"):
            for t in range(int(moved[0].shape[0])):
                found = body([*state, *(x[t] for x in moved), *captured])
                state = found[:states]
                for stack, value in zip(stacks, found[states:], strict=True):
                    stack.append(value)
                    held = _counted(held, value)
                check_time()
        whole = []
        for stack, axis, turn, told in zip(stacks, out_axes, out_turns, body.types[states:], strict=True):
            whole.append(_stacked(spec, stack[::-1] if turn else stack, told, axis))
        return [*state, *whole]

    def run(*values: Any) -> list[Any]:
        if not before_9:
            return walk(
                list(values[:states]), list(values[states : states + scanned]), values[states + scanned :]
            )
        values = values[1:]  # lengths of the sequences come first, and the batch is a dimension
        rows = []
        for row in range(values[0].shape[0]):
            mine = [x[row] for x in values[: states + scanned]]
            rows.append(walk(mine[:states], mine[states:], values[states + scanned :]))
        return [np.stack(column) for column in zip(*rows, strict=True)]

    return run
