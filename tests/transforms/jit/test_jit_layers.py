"""Layers of every kind and their gradients as graphs."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.compared import assert_same
from helpers.layer_cases import CASES

import lite
from lite import TensorDict, nn


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [item for part in value for item in flat(part)]
    return [] if value is None else [value]


LAYERS = (
    *("LayerNorm", "RMSNorm of a vector", "BatchNorm1d in training", "BatchNorm1d with averages"),
    *("Bilinear of vectors, without bias", "NoisyLinear 3", "MLP", "DuelingCnnDQNet 6", "DdpgCnnQNet 10"),
    *("Embedding with max_norm", "Embedding with padding", "Conv1d of a sequence", "Conv2d by channel"),
    *("RNN", "GRU of a sequence", "GRUCell without bias", "LSTM with a projection", "LSTMCell of a vector"),
    *("MultiheadAttention with more keys", "TransformerEncoderLayer, norm first", "Transformer"),
)


@pytest.mark.parametrize("title", LAYERS)
def test_values_and_gradients(title: str) -> None:
    (case,) = (case for case in CASES if case.title == title)
    layer = case.make(nn)
    layer.to(np.float64)
    inputs, options = case.arrays(np.float64), case.call_options(np.float64)
    layer(*inputs, **options)  # lazy layers get their parameters
    layer.eval()
    params = TensorDict.from_module(layer).clone().data

    def step(params: TensorDict, inputs: Any) -> Any:
        def loss(params: TensorDict) -> Any:
            with params.to_module(layer):
                out = flat(layer(*inputs, **options))
            return sum((np.sum(np.square(x)) for x in out if x.dtype.kind == "f"), 0.0), out

        return lite.value_and_grad(loss, has_aux=True)(params)

    (value, out), grads = step(params, inputs)
    (got, found), slopes = lite.jit(step, donate="params", threads=1)(params.clone(), inputs)
    np.testing.assert_allclose(got, value, rtol=1e-8)
    assert_same(found, out, rtol=1e-6, atol=1e-8)
    assert_same(slopes, grads, rtol=1e-6, atol=1e-8)


@each_case("layer", [nn.Linear(5, 5, rng=0), nn.Conv1d(2, 2, 2, rng=0)])
def test_gradients_inside_of_layers_whose_weight_does_not_learn(layer: Any) -> None:
    """A layer computes with arrays of two gradients, and of none, in one graph."""
    layer.weight.requires_grad_(False)

    @lite.enable_grad()
    def step(x: Any) -> Any:
        slope = lite.grad(lambda x: (flat(layer(x))[0] ** 2).sum())(x)
        (slope**2).sum().backward()
        grad = layer.bias.grad
        layer.zero_grad()
        return slope.detach(), grad

    x = np.random.default_rng(0).random((2, 2, 5)).astype(np.float32)
    assert_same(lite.jit(step, threads=1)(x), step(x), rtol=1e-4)


def test_gradients_of_rows_in_half_precision() -> None:
    def slopes(table: Any, ids: Any) -> Any:
        return lite.grad(lambda table: (table[ids] ** 2).sum())(table)

    table, ids = np.arange(8, dtype=np.float16).reshape(4, 2), np.array([[0, 1], [1, 3]])
    assert_same(lite.jit(slopes, threads=1)(table, ids), slopes(table, ids), rtol=1e-3)


def test_layers_side_by_side_turn_no_gradient() -> None:
    layer = nn.Linear(3, 5)
    rng = np.random.default_rng(0)
    stacked = TensorDict(weight=rng.random((4, 5, 3)), bias=rng.random((4, 5)), batch_size=[4])
    x = rng.random((7, 3))

    def one(params: TensorDict, x: Any) -> Any:
        with params.to_module(layer):
            return layer(x)

    def slopes(params: TensorDict, x: Any) -> Any:
        return lite.grad(lambda p: (lite.vmap(one, (0, None))(p, x) ** 3).sum())(params)

    step = lite.jit(slopes, threads=1)
    assert_same(step(stacked, x), slopes(stacked, x), rtol=1e-10)
    # Of the weights, and of what the output's gradient is multiplied with; none of the products.
    assert step.graph(stacked, x).operators["Transpose"] == 2
