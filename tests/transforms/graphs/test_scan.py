"""Loops over rows as one operator."""

from typing import Any

import numpy as np
import onnxruntime
import pytest

from lite._transforms.graphs.scan import scan
from lite._transforms.graphs.trace import Input, trace
from lite._transforms.graphs.writer import model_bytes

F = np.dtype(np.float64)


def run(
    step: Any,
    columns: dict[str, np.ndarray[Any, Any]],
    reverse: bool = False,
    shape: tuple[Any, ...] = ("time", 2),
) -> Any:
    def function(graph: Any, arrays: list[Any]) -> dict[str, Any]:
        last, kept = scan(
            graph, lambda state, rows: step(state, rows, arrays[0]), arrays[:1], arrays[1:], reverse
        )
        return {**{f"last{i}": x for i, x in enumerate(last)}, **{f"kept{i}": x for i, x in enumerate(kept)}}

    inputs = [Input("first", (2,), F), *(Input(name, shape, F) for name in columns)]
    session = onnxruntime.InferenceSession(
        model_bytes(trace(function, inputs)), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"first": np.array([1.0, 10.0]), **columns})


@pytest.mark.parametrize("reverse", [False, True])
def test_a_running_sum(reverse: bool) -> None:
    x = np.arange(8.0).reshape(4, 2)
    last, kept, before = run(
        lambda state, rows, first: ([state[0] + rows[0]], [state[0] + rows[0], state[0]]), {"x": x}, reverse
    )
    order = slice(None, None, -1 if reverse else 1)
    want = np.array([1.0, 10.0]) + np.cumsum(x[order], 0)[order]
    np.testing.assert_array_equal(kept, want)
    np.testing.assert_array_equal(before, want - x)
    np.testing.assert_array_equal(last, want[0 if reverse else -1])


def test_what_is_around_is_read_and_what_is_inside_stays_there() -> None:
    x = np.arange(6.0).reshape(3, 2)

    def step(state: Any, rows: Any, first: Any) -> Any:
        twice = first + first  # the same in each row, and an equal node outside is another
        return [state[0] * 1.0], [rows[0], twice, twice, first]

    last, *kept = run(step, {"x": x})
    np.testing.assert_array_equal(last, [1, 10])
    np.testing.assert_array_equal(kept[0], x)
    for found in kept[1:3]:
        np.testing.assert_array_equal(found, np.tile([2.0, 20.0], (3, 1)))
    np.testing.assert_array_equal(kept[3], np.tile([1.0, 10.0], (3, 1)))


def test_loops_in_loops() -> None:
    x = np.arange(12.0).reshape(2, 3, 2)

    def step(state: Any, rows: Any, first: Any) -> Any:
        (total,), (sums,) = scan(first.graph, lambda s, r: ([s[0] + r[0] * first], [s[0]]), state, [rows[0]])
        return [total], [sums]

    last, kept = run(step, {"x": x}, shape=("time", 3, 2))
    first = np.array([1.0, 10.0])
    np.testing.assert_array_equal(last, first + (x * first).sum((0, 1)))
    assert kept.shape == (2, 3, 2)
