"""Tracing twice: what hangs on a size is an error."""

from typing import Any

import numpy as np
import pytest

from lite._transforms.graphs.trace import Input, Traced, trace

FLOAT = np.dtype(np.float32)


def traced(function: Any, *shapes: tuple[int | str, ...], avoid: tuple[int, ...] = ()) -> Traced:
    inputs = [Input(f"x{i}", shape, FLOAT) for i, shape in enumerate(shapes)]

    def run(graph: Any, arrays: list[Any]) -> dict[str, Any]:
        out = function(*arrays)
        return out if isinstance(out, dict) else {"y": out}

    return trace(run, inputs, avoid)


def test_the_graph() -> None:
    found = traced(lambda x: np.tanh(x) * 2, ("n", 3))
    np.testing.assert_equal([node.op for node in found.nodes], ["Tanh", "Mul"])
    np.testing.assert_equal(found.outputs, (("y", ("n", 3), FLOAT),))
    np.testing.assert_equal((found.nodes[-1].outputs, len(found.arrays)), (("y",), 1))


def test_what_no_output_needs_is_left_out() -> None:
    found = traced(lambda x: (np.exp(x), np.tanh(x))[1], ("n", 3))
    np.testing.assert_equal([node.op for node in found.nodes], ["Tanh"])


def test_outputs_that_are_inputs_constants_or_the_same() -> None:
    found = traced(
        lambda x: {"a": x, "b": np.tanh(x), "c": np.tanh(x), "d": np.ones(2, np.float32)}, ("n", 3)
    )
    np.testing.assert_equal([node.op for node in found.nodes].count("Identity"), 3)
    np.testing.assert_equal([name for name, *_ in found.outputs], ["a", "b", "c", "d"])


def test_sizes_of_outputs() -> None:
    found = traced(
        lambda x, y: {"s": x.reshape(-1), "p": x[:, None] + y, "c": np.sum(x, 0)}, ("n", 3), ("m", 3)
    )
    np.testing.assert_equal([shape for _, shape, _ in found.outputs], [(None,), ("n", "m", 3), (3,)])


def test_two_dimensions() -> None:
    found = traced(lambda x, y: x @ y, ("n", 3), (3, "m"))
    np.testing.assert_equal(found.outputs[0][1], ("n", "m"))


def test_what_hangs_on_a_size_is_refused() -> None:
    for function in [
        lambda x: x + len(x),
        lambda x: sum(x[i] for i in range(x.shape[0])),
        lambda x: x * 2 if x.shape[0] > 600 else x,
        lambda x: x * np.float32(x.shape[0]),
        lambda x: x / np.prod(x.shape),
    ]:
        with pytest.raises(
            NotImplementedError, match="the graph would fit one size of the dynamic dimensions n alone"
        ):
            traced(function, ("n", 3))


def test_fixed_sizes_may_be_looped_over() -> None:
    found = traced(lambda x: sum(x[i] for i in range(x.shape[0])), (3, 4))
    np.testing.assert_equal((found.outputs[0][1], len(found.nodes)), ((4,), 6))


def test_a_size_that_happens_to_be_the_prime_of_a_dimension() -> None:
    weight = np.ones((3, 503), np.float32)
    weight[0] = np.arange(503)
    found = traced(lambda x: (x @ weight) * 2, ("n", 3), avoid=(503,))
    np.testing.assert_equal(found.outputs[0][1], ("n", 503))


def test_means_over_the_batch() -> None:
    found = traced(lambda x: x - x.mean(0), ("n", 3))
    np.testing.assert_equal([node.op for node in found.nodes], ["ReduceMean", "Sub"])
