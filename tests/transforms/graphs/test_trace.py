"""Tracing twice: what hangs on a size is an error."""

import gc
import os
import threading
from typing import Any

import numpy as np
import pytest

from lite._transforms.graphs.trace import Input, Traced, trace

FLOAT = np.dtype(np.float32)
TABLE = np.arange(10, dtype=np.float32)


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
        lambda x: x * TABLE[: x.shape[0]].sum(),  # whole in the traces for large sizes
        lambda x: x * TABLE[-x.shape[0] :][0],
        lambda x: x[2] * TABLE[: x.shape[0]].sum(),  # fails where there are two rows
        lambda x: sum(x + i for i, _ in zip(range(x.shape[0]), "abcdef", strict=False)),
        lambda x: x * (np.arange(10) < x.shape[0]).sum(),
    ]:
        with pytest.raises(
            NotImplementedError, match="the graph would fit one size of the dynamic dimensions n alone"
        ):
            traced(function, ("n", 3))


def test_which_of_two_sizes_is_larger_is_no_part_of_a_graph() -> None:
    for function in (
        lambda x, y: x * len(range(x.shape[0] - y.shape[0])),
        lambda x, y: x * 2 if x.shape[0] < y.shape[0] else x,
        lambda x, y: x + TABLE[: y.shape[0] - x.shape[0]].sum(),
    ):
        with pytest.raises(NotImplementedError, match="one size of the dynamic dimensions n, m alone"):
            traced(function, ("n", 3), ("m", 3))


def test_a_table_that_another_prime_cuts_is_no_table_of_the_graph() -> None:
    """600 entries are 503 in one trace and all in the other, of which both have only the shape."""

    def run(graph: Any, arrays: list[Any]) -> dict[str, Any]:
        table = np.arange(600.0)[: arrays[0].shape[0]]
        return {"y": arrays[0] * graph.input("table", table.shape, table.dtype).sum()}

    with pytest.raises(NotImplementedError, match=r"of shape \(503,\), is cut to \(600,\)"):
        trace(run, [Input("x", ("n", 3), FLOAT)])


def test_small_sizes_are_not_mistaken_for_others() -> None:
    """Each has one graph for all sizes, though a small prime is a factor, a sum or a fixed size."""
    for function in (
        lambda x: x / (9 * x.shape[0] * 2),
        lambda x: np.concatenate([x, x[:1]]) @ np.ones((3, 4), np.float32),
        lambda x: x.sum(0) / (x.shape[0] - 1) + 1 / (2 * x.shape[0] - 3),
        lambda x: x[x[:, 0] > 0].sum(0) * (x.shape[0] + 1),
        lambda x: x.reshape(x.shape[0] * 3)[5:],
        lambda x: np.lib.stride_tricks.sliding_window_view(x, 3, 0).mean(-1),  # of no rows at 2
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_cycles_are_collected_again_when_no_thread_traces() -> None:
    begun, may_end = threading.Event(), threading.Event()

    def waits(x: Any) -> Any:
        begun.set()
        assert may_end.wait(60)
        return x + 1

    thread = threading.Thread(target=traced, args=(waits, (3,)))
    thread.start()
    assert begun.wait(60)
    traced(np.tanh, (3,))
    meanwhile = gc.isenabled()
    child = os.fork()
    if child == 0:
        os._exit(gc.isenabled())
    found = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    may_end.set()
    thread.join()
    assert (meanwhile, found, gc.isenabled()) == (False, True, True)
