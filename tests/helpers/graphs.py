"""Functions and modules as ONNX graphs, run by onnxruntime and compared with NumPy."""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from helpers.central_differences import seed_of

from lite import nn
from lite._transforms.graphs.graph import Graph
from lite._transforms.graphs.sizes import Size


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.__dict__["function"] = function

    def forward(self, *x: Any) -> Any:
        return self.function(*x)


def open_graph(path: Path) -> Any:
    """A session of onnxruntime that says nothing."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def flat(value: Any) -> list[Any]:
    """The arrays in nested tuples, lists and dicts."""
    if value is None:
        return []
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [item for part in value for item in flat(part)]
    return [value]


def run_graph(session: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs for arrays in the order of the inputs."""
    return session.run(None, {arg.name: x for arg, x in zip(session.get_inputs(), arrays, strict=True)})


def resized(array: np.ndarray, sizes: Mapping[int, int]) -> np.ndarray:
    """An array with other sizes along some axes, of the same numbers again and again."""
    for axis, size in sizes.items():
        array = np.take(array, np.arange(size) % array.shape[axis], axis)
    return array


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """One for all graphs of this process: to make and remove one takes 0.4 ms, on slow disks 3."""
    return tempfile.TemporaryDirectory(ignore_cleanup_errors=True)


def check(
    function: Callable[..., Any],
    *arrays: np.ndarray,
    axes: dict[int, Mapping[int, str]] | None = None,
    sizes: tuple[int, ...] = (1, 4),
    rtol: float = 1e-5,
    atol: float = 1e-6,
) -> Any:
    """Export a function of arrays, and compare it with NumPy at the sizes of the examples and at others.

    `axes` are the dynamic axes of arrays by position, by default the first of all; `sizes` those to try.
    Returns the traced operators.
    """
    axes = {i: {0: "n"} for i in range(len(arrays))} if axes is None else axes
    path = Function(function).to_onnx(
        f"{_folder().name}/f.onnx", *arrays, dynamic_axes={f"x_{i}": named for i, named in axes.items()}
    )
    session = open_graph(path)
    operators = operators_of(path)
    labels = sorted({label for named in axes.values() for label in named.values()})
    tried = [None, *(range(len(sizes)) if labels else ())]
    for turn in tried:
        given = list(arrays)
        if turn is not None:
            wanted = {label: sizes[(turn + i) % len(sizes)] for i, label in enumerate(labels)}
            for i, named in axes.items():
                given[i] = resized(arrays[i], {axis: wanted[label] for axis, label in named.items()})
        with np.errstate(all="ignore"):
            expected = flat(function(*given))
        for got, want in zip(run_graph(session, given), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=rtol, atol=atol, strict=True)
    return operators


def operators_of(path: Path) -> list[str]:
    """The operators of a graph."""
    import onnx

    return [node.op_type for node in onnx.load(str(path), load_external_data=False).graph.node]


def new_graph(**sizes: int) -> tuple[Graph, list[Any]]:
    """A graph with an input (size, 3) of float32 for each dynamic dimension."""
    graph = Graph(sizes)
    return graph, [graph.input(name, (Size(n), 3), np.float32) for name, n in sizes.items()]


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> np.ndarray:
    """Normal numbers; integers from -5 to 5."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(-5 if np.dtype(dtype).kind == "i" else 0, 6, shape).astype(dtype)
    if np.dtype(dtype).kind == "b":
        return rng.random(shape) < 0.5
    return rng.standard_normal(shape).astype(dtype)


def check_onnx(cases: Sequence[tuple[str, Callable[..., Any], Any]]) -> None:
    """One graph of all cases gives what NumPy gives; `TABLE.md` lists the functions without a rule."""
    drawn, refused = {}, set()
    for name, _, specs in cases:
        rng = seed_of(name)
        drawn[name] = [np.asarray(spec.draw(rng, ())) for spec in specs]
    assert len(drawn) == len(cases), "two cases have one name"

    def run(*args: Any) -> list[Any]:
        found, rest = [], iter(args)
        for name, fn, _ in cases:
            inputs = [next(rest) for _ in drawn[name]]
            try:
                found.append(fn(*inputs))
            except NotImplementedError:
                refused.add(name)
        return found

    arrays = [array for of_case in drawn.values() for array in of_case]
    session = open_graph(Function(run).to_onnx(f"{_folder().name}/f.onnx", *arrays, dynamic_axes={}))
    outputs = iter(run_graph(session, arrays))
    for name, fn, _ in cases:
        for expected in flat(fn(*drawn[name])) if name not in refused else ():
            np.testing.assert_allclose(next(outputs), expected, 1e-5, 1e-5, err_msg=name, strict=True)
    assert next(outputs, None) is None
