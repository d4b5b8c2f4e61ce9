"""Layers that are one operator, the operators, and when `forward` is traced instead."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, noting, raises
from helpers.compared import assert_same
from helpers.graphs import flat, numbers, open_graph, operators_of, run_graph

from lite import nn
from lite.nn._export.native import NATIVE, native, plain


def exported(
    layer: Any, path: Path, example: Any, *others: Any, atol: float = 1e-5, **axes: Any
) -> list[str]:
    """The operators of a layer's graph, whose results for the example, or for others, are the layer's."""
    session = open_graph(layer.to_onnx(path, example, **axes))
    for x in others or (example,):
        (found,) = run_graph(session, [x])
        np.testing.assert_allclose(found, layer.eval()(x), rtol=atol, atol=atol, strict=True)
    return operators_of(path)


# -- activations --------------------------------------------------------------------------------------------

ACTIVATIONS = [
    (nn.ReLU(), ["Relu"]), (nn.Tanh(), ["Tanh"]), (nn.Sigmoid(), ["Sigmoid"]),
    (nn.SiLU(), ["Sigmoid", "Mul"]), (nn.LeakyReLU(0.2), ["LeakyRelu"]), (nn.ELU(0.5), ["Elu"]),
    (nn.GELU(), ["Gelu"]), (nn.GELU("tanh"), ["Gelu"]), (nn.Softplus(), ["Softplus"]),
    (nn.Softplus(2.0), ["Mul", "Softplus", "Div"]), (nn.Softmax(-1), ["Softmax"]),
    (nn.LogSoftmax(0), ["LogSoftmax"]),
]  # fmt: skip


@each_case(("layer", "wanted"), ACTIVATIONS, ids=[repr(layer) for layer, _ in ACTIVATIONS])
def test_activations(layer: Any, wanted: list[str], tmp_path: Path) -> None:
    ends = np.float32([[0, -0.0, 1e-6, -1e-6], [30, -30, 100, -100], [5, 6, -7, 3]])
    assert exported(layer, tmp_path / "net.onnx", numbers(5, 4), ends) == wanted


def test_activations_of_other_dtypes(tmp_path: Path) -> None:
    layers = [nn.ReLU(), nn.Softplus(2.0), nn.GELU("tanh"), nn.LogSoftmax(0)]
    for layer, dtype in itertools.product(layers, [np.float64, np.int64, np.float16]):
        with noting(layer, dtype):
            tolerance = 2e-3 if dtype is np.float16 else 1e-5
            exported(layer, tmp_path / "net.onnx", numbers(5, 4, dtype=dtype), atol=tolerance)


@each_case("kind", [nn.ReLU, nn.SiLU, nn.LeakyReLU, nn.ELU])
def test_activations_in_place(kind: Any, tmp_path: Path) -> None:
    exported(nn.Sequential(nn.Linear(4, 4), kind(inplace=True)), tmp_path / "net.onnx", numbers(5, 4))


# -- layers with weights ------------------------------------------------------------------------------------

LAYERS = [
    (nn.Linear(4, 3), numbers(5, 4), ["Gemm"]),
    (nn.Linear(4, 3, bias=False), numbers(5, 4), ["Gemm"]),
    (nn.Linear(4, 3), numbers(5, 2, 4), ["Transpose", "MatMul", "Add"]),
    (nn.Linear(4, 3), numbers(4), ["Transpose", "MatMul", "Add"]),
    (nn.Linear(4, 3), numbers(5, 4, dtype=np.int64), None),
    (nn.Linear(4, 3).half(), numbers(5, 4), None),
    (nn.LayerNorm(4), numbers(5, 4), ["LayerNormalization"]),
    (nn.LayerNorm((3, 4), elementwise_affine=False), numbers(5, 3, 4), ["LayerNormalization"]),
    (nn.BatchNorm1d(4), numbers(5, 4), ["BatchNormalization"]),
    (nn.BatchNorm1d(4, affine=False), numbers(5, 4, 3), ["BatchNormalization"]),
]


@each_case(("layer", "x", "wanted"), LAYERS)
def test_layers(layer: Any, x: Any, wanted: list[str] | None, tmp_path: Path) -> None:
    for name in ("running_mean", "running_var"):
        if hasattr(layer, name):
            getattr(layer, name)[...] = np.abs(numbers(4, seed=3)) + 0.5
    found = exported(layer, tmp_path / "net.onnx", x, dynamic_axes={} if x.ndim == 1 else None)
    assert wanted is None or found == wanted


def test_a_module_in_training_mode_is_exported_as_for_evaluation(tmp_path: Path) -> None:
    layer = nn.BatchNorm1d(4).train()
    layer.to_onnx(tmp_path / "net.onnx", numbers(5, 4))
    assert (layer.training, int(layer.num_batches_tracked)) == (True, 0)
    exported(layer, tmp_path / "net.onnx", numbers(5, 4))


def test_long_rows_of_embeddings_are_scaled_without_writing(tmp_path: Path) -> None:
    net, ids = nn.Embedding(6, 3, max_norm=0.5), np.array([1, 2, 5])
    before = net.weight.data.copy()
    session = open_graph(net.to_onnx(tmp_path / "net.onnx", ids))
    np.testing.assert_array_equal(net.weight.data, before)
    for numbers_ in (ids, np.array([0])):
        np.testing.assert_allclose(run_graph(session, [numbers_])[0], net(numbers_), rtol=1e-5, atol=1e-6)


IMAGES = [
    nn.Conv2d(3, 4, 3, padding=1),
    nn.Conv2d(3, 6, (3, 2), stride=2, groups=3, dilation=2),
    nn.MaxPool2d(3, 2, 1),
    nn.Conv2d(3, 4, 3, padding="same", padding_mode="reflect"),
    nn.AvgPool2d(2, padding=1),
    nn.AvgPool2d(3, 2, 1, count_include_pad=False),
]


@each_case("layer", IMAGES, ids=repr)
def test_images(layer: Any, tmp_path: Path) -> None:
    batches = [numbers(rows, 3, 9, 8) for rows in (1, 5)]
    found = exported(layer, tmp_path / "net.onnx", numbers(5, 3, 9, 8), *batches)
    assert set(found) <= {"Conv", "MaxPool", "AveragePool", "Pad"}
    if layer in IMAGES[:3]:
        axes = {"input": {0: "batch", 2: "height", 3: "width"}}
        others = numbers(1, 3, 9, 8), numbers(2, 3, 12, 7)
        exported(layer, tmp_path / "net.onnx", numbers(5, 3, 9, 8), *others, dynamic_axes=axes)


@pytest.mark.parametrize(
    ("kind", "bias", "bidirectional"),
    [(nn.RNN, True, True), (nn.GRU, False, True), (nn.LSTM, True, False), (nn.LSTM, False, True)],
)
def test_states_go_in_and_out(kind: Any, bias: bool, bidirectional: bool, tmp_path: Path) -> None:
    layer = kind(3, 4, num_layers=2, bias=bias, bidirectional=bidirectional)
    count = 2 * (1 + bidirectional)
    state = numbers(count, 5, 4, seed=1)
    hx = (state, numbers(count, 5, 4, seed=2)) if kind is nn.LSTM else state
    x = numbers(6, 5, 3)
    axes = {"input": {0: "time", 1: "batch"}}
    axes |= {name: {1: "batch"} for name in (("hx_0", "hx_1") if kind is nn.LSTM else ("hx",))}
    path = layer.to_onnx(tmp_path / "net.onnx", x, hx, dynamic_axes=axes)
    np.testing.assert_equal(operators_of(path).count(kind.__name__), 2)
    session = open_graph(path)
    for time, rows in ((1, 1), (9, 3)):
        x = numbers(time, rows, 3)
        hx = tuple(numbers(count, rows, 4, seed=i) for i in (1, 2))
        want = flat(layer(x, hx if kind is nn.LSTM else hx[0]))
        given = [x, *hx] if kind is nn.LSTM else [x, hx[0]]
        assert_same(run_graph(session, given), want, rtol=1e-5, atol=1e-5, strict=True)


@pytest.mark.parametrize("layer", [nn.LSTM(3, 4, proj_size=2), nn.GRU(3, 4, dtype=np.float64)], ids=repr)
def test_what_has_no_operator_is_a_loop(layer: Any, tmp_path: Path) -> None:
    x = numbers(6, 5, 3, dtype=layer.weight_ih_l0.dtype)
    path = layer.to_onnx(tmp_path / "net.onnx", x, dynamic_axes={"input": {0: "time", 1: "batch"}})
    np.testing.assert_equal({"LSTM", "GRU"}.isdisjoint(operators_of(path)), True)
    session = open_graph(path)
    for time, rows in ((1, 1), (9, 8)):
        x = numbers(time, rows, 3, dtype=x.dtype)
        assert_same(run_graph(session, [x]), flat(layer(x)), rtol=1e-5, atol=1e-5, strict=True)


def test_errors_are_those_of_the_layer(tmp_path: Path) -> None:
    for error, message, layer, *given in (
        (RuntimeError, "must be in_features=4", nn.Linear(4, 3), numbers(5, 3)),
        (TypeError, "looked up by integers", nn.Embedding(4, 3), numbers(5)),
        (RuntimeError, "must end in the dimensions", nn.LayerNorm(4), numbers(5, 3)),
        (RuntimeError, "must be num_features=4", nn.BatchNorm1d(4), numbers(5, 3)),
        (RuntimeError, "in_channels=3", nn.Conv2d(3, 4, 3), numbers(5, 2, 8, 8)),
        (RuntimeError, "exceeds the input", nn.MaxPool2d(9), numbers(5, 3, 4, 4)),
        (RuntimeError, "must be input_size=3", nn.LSTM(3, 4), numbers(6, 5, 2)),
        (RuntimeError, r"hx\[0\] must have shape", nn.LSTM(3, 4), numbers(6, 5, 3), (numbers(1, 5, 3),) * 2),
    ):
        raises(error, message, layer.to_onnx, tmp_path / "net.onnx", *given, dynamic_axes={})


# -- which layers -------------------------------------------------------------------------------------------


def test_subclasses_are_traced(tmp_path: Path) -> None:
    class Doubled(nn.Linear):
        def forward(self, input: Any) -> Any:
            return 2 * super().forward(input)

    net, x = Doubled(4, 3), numbers(5, 4)
    path = net.to_onnx(tmp_path / "net.onnx", x)
    np.testing.assert_equal(operators_of(path), ["Transpose", "MatMul", "Add", "Mul"])
    np.testing.assert_allclose(run_graph(open_graph(path), [x])[0], net(x), rtol=1e-5, atol=1e-6)


def test_registering() -> None:
    class Layer(nn.Module):
        pass

    @native(Layer)
    def write(graph: Any, layer: Any) -> Any:
        return NotImplemented

    np.testing.assert_equal(NATIVE.pop(Layer) is write, True)


def test_mapped_parameters_are_not_plain() -> None:
    from lite import vmap

    layer = nn.Linear(4, 3)
    np.testing.assert_equal(plain(layer), True)
    found = []

    def call(weight: Any) -> Any:
        layer.weight.data = weight
        found.append(plain(layer))
        return weight

    vmap(call)(np.zeros((2, 3, 4), np.float32))
    np.testing.assert_equal(found, [False])


def test_hooks_run(tmp_path: Path) -> None:
    net, x = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), numbers(5, 4)
    net[0].register_forward_hook(lambda module, args, out: out * 3)
    net[1].register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    path = net.to_onnx(tmp_path / "net.onnx", x)
    np.testing.assert_equal(operators_of(path), ["Gemm", "Mul", "Add", "Tanh"])
    np.testing.assert_allclose(run_graph(open_graph(path), [x])[0], net(x), rtol=1e-5, atol=1e-6)
