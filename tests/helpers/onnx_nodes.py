"""Single operators as modules, and what every rule of an operator must do: gradients, maps, graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from helpers.cases import noting
from helpers.compared import assert_same

from lite import TensorDict, jit, nn, value_and_grad, vmap
from lite._files.onnx import writer


class Case(NamedTuple):
    """An operator with its inputs.

    Attributes:
        op: its name.
        inputs: arrays, None for one that is left out; those of float64 are differentiated.
        attributes: of the node.
        domain: of the operator.
        outputs: how many there are.
        opset: the version of ONNX's operators.
        traces: whether `jit` runs it.
        maps: whether `vmap` does.
        has_values: whether onnxruntime has values to compare with.
    """

    op: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = {}
    domain: str = ""
    outputs: int = 1
    opset: int = 21
    traces: bool = True
    maps: bool = True
    has_values: bool = True

    def __str__(self) -> str:
        return "-".join([self.op, *(f"{key}={value}" for key, value in self.attributes.items())])[:60]


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers in float64."""
    return np.random.default_rng(seed).normal(size=shape)


def model_of(
    nodes: Sequence[bytes],
    inputs: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 21,
) -> bytes:
    """A model as bytes; no output has a shape."""
    given = [writer.value(name, x.dtype, [None] * x.ndim) for name, x in inputs.items()]
    kept = [writer.tensor(name, x) for name, x in (weights or {}).items()]
    results = [writer.text(1, name) for name in outputs]
    graph = writer.graph("graph", nodes, kept, given, results)
    return writer.model(graph, opset, ("tests", ""), domains={"com.microsoft": 1, "ai.onnx.ml": 3})


def graph_of(case: Case) -> bytes:
    """The operator as a model."""
    names = ["" if x is None else f"x{i}" for i, x in enumerate(case.inputs)]
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = writer.node(case.op, "node", names, outputs, case.attributes, case.domain)
    inputs = {name: x for name, x in zip(names, case.inputs, strict=True) if name}
    return model_of([node], inputs, outputs, opset=case.opset)


def untyped(op: str, count: int = 1, **attributes: Any) -> nn.Module:
    """An operator of inputs whose type the graph does not say, such as texts."""
    names = [f"x{i}" for i in range(count)]
    node = writer.node(op, "node", names, ["y"], attributes)
    graph = writer.graph("graph", [node], [], [writer.text(1, name) for name in names], [writer.text(1, "y")])
    return nn.from_onnx(writer.model(graph, 21, ("tests", "")))


def module_of(case: Case) -> nn.Module:
    """The operator as a module of its inputs."""
    return nn.from_onnx(graph_of(case), dtype=None)


def check_all(cases: Sequence[Case]) -> None:
    for case in cases:
        with noting(str(case)):
            check(case)


def check(case: Case) -> None:
    """Gradients equal differences, a map a loop, and a graph the function itself.

    Values are those of onnxruntime, where it has the operator.
    """
    if case.has_values:
        _check_values(case)
    net = module_of(case)
    given = [x for x in case.inputs if x is not None]
    moved = [i for i, x in enumerate(given) if x.dtype == np.float64 and x.ndim]
    if not moved:
        return
    weights = [numbers(*np.shape(y), seed=7) for y in _floats(net(*given))]

    def loss(params: Any) -> Any:
        arrays = [params[str(i)] if i in moved else x for i, x in enumerate(given)]
        return sum((w * y).sum() for w, y in zip(weights, _floats(net(*arrays)), strict=True))

    params = TensorDict({str(i): given[i] for i in moved})
    value, grads = value_and_grad(loss)(params)
    for i in moved:
        step = numbers(*given[i].shape, seed=3)
        ahead, back = (params.clone().set(str(i), given[i] + e * step) for e in (1e-6, -1e-6))
        np.testing.assert_allclose(
            (grads[str(i)] * step).sum(), (loss(ahead) - loss(back)) / 2e-6, 1e-4, 1e-5
        )
    if case.maps and moved:
        pairs = TensorDict({str(i): np.stack([given[i], 2 * given[i]]) for i in moved}, [2])
        np.testing.assert_allclose(vmap(loss)(pairs), [loss(pairs[0]), loss(pairs[1])], 1e-9, 1e-9)
    if case.traces:
        again, of_graph = jit(value_and_grad(loss))(params)
        np.testing.assert_allclose(again, value, 1e-9, 1e-9)
        for i in moved:
            np.testing.assert_allclose(of_graph[str(i)], grads[str(i)], 1e-9, 1e-9)


def _check_values(case: Case) -> None:
    short = [x.astype(np.float32) if x is not None and x.dtype == np.float64 else x for x in case.inputs]
    case = case._replace(inputs=short)
    session = pytest.importorskip("onnxruntime").InferenceSession(graph_of(case))
    given = [x for x in short if x is not None]
    feeds = dict(zip([value.name for value in session.get_inputs()], given, strict=True))
    found = module_of(case)(*given)
    assert_same(
        found if isinstance(found, tuple) else (found,), session.run(None, feeds), rtol=1e-4, atol=1e-5
    )


def _floats(found: Any) -> list[Any]:
    return [
        y for y in (found if isinstance(found, tuple) else (found,)) if y is not None and y.dtype.kind == "f"
    ]
