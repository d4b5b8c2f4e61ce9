"""Copies of modules on symbolic arrays."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.graphs import numbers, open_graph, run_graph

from lite import nn
from lite._transforms.graphs.array import GraphArray
from lite._transforms.graphs.graph import Graph
from lite._transforms.vmap.running import generator_for
from lite.nn._export.to_onnx import alone, arrays_of, symbolic


def test_a_copy_has_symbolic_weights_and_shares_nothing_else() -> None:
    net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    graph = Graph({})
    twin = symbolic(graph, net)
    np.testing.assert_equal({type(p.data) for p in twin.parameters()}, {GraphArray})
    np.testing.assert_equal({type(b) for b in twin.buffers()}, {GraphArray})
    np.testing.assert_equal({type(p.data) for p in net.parameters()}, {np.ndarray})
    np.testing.assert_equal((twin.training, net.training), (False, True))
    np.testing.assert_equal(set(graph.weights), set(net.state_dict()))
    for name, array in arrays_of(net).items():
        np.testing.assert_equal(graph.weights[name] is array, True)


def test_shared_parameters_stay_shared() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    net[1].weight = net[0].weight
    twin = symbolic(Graph({}), net)
    np.testing.assert_equal(twin[0].weight is twin[1].weight, True)


@each_case("layer", [nn.LazyLinear(3), nn.LazyConv1d(3, 2), nn.LazyBatchNorm1d()], ids=repr)
def test_lazy_layers_before_their_first_call_are_refused(layer: Any, tmp_path: Path) -> None:
    x = numbers(5, 4, 6)
    net = nn.Sequential(layer)
    with pytest.raises(RuntimeError, match=r"'0\.\w+' has no shape before the first call"):
        net.to_onnx(tmp_path / "net.onnx", x)
    net(x)
    got = run_graph(open_graph(net.to_onnx(tmp_path / "net.onnx", x)), [x])[0]
    np.testing.assert_allclose(got, net.eval()(x), rtol=1e-5, atol=1e-6, strict=True)


def test_modules_without_data_are_refused() -> None:
    with pytest.raises(RuntimeError, match="'weight' is on the device 'meta' and has no numbers"):
        arrays_of(nn.Linear(2, 2, device="meta"))


def test_modules_that_cannot_be_copied_are_refused() -> None:
    class Stubborn(nn.Module):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("not me")

    with pytest.raises(RuntimeError, match=r"copying Sequential failed \(not me\)"):
        symbolic(Graph({}), nn.Sequential(Stubborn()))


def test_draws_are_refused_inside_only() -> None:
    with alone(Graph({})), pytest.raises(NotImplementedError, match="draws random numbers"):
        generator_for(None)
    np.testing.assert_equal(generator_for(None), None)


def test_parameters_that_require_gradients_are_weights(tmp_path: Path) -> None:
    from lite import enable_grad

    net, x = nn.MLP(4, 2, num_cells=[8]), numbers(5, 4)
    plain = net.to_onnx(tmp_path / "a.onnx", x).read_bytes()
    with enable_grad():
        np.testing.assert_equal(net.to_onnx(tmp_path / "b.onnx", x).read_bytes() == plain, True)
        np.testing.assert_equal(net(x).requires_grad, True)


def test_a_parameter_that_only_a_function_holds_is_in_the_graph(tmp_path: Path) -> None:
    kept = nn.Linear(4, 3)
    net = nn.TensorDictModule(lambda x: kept(x), ["x"], ["y"])
    x = numbers(5, 4)
    session = open_graph(net.to_onnx(tmp_path / "net.onnx", x))
    np.testing.assert_equal([arg.name for arg in session.get_inputs()], ["x"])
    np.testing.assert_allclose(run_graph(session, [x])[0], kept(x), rtol=1e-5, atol=1e-6)
