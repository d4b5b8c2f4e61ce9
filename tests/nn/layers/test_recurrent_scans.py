"""Recurrent layers in graphs: the numbers and derivatives of NumPy's, for sequences of any length."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lite
from lite import TensorDict, nn

LAYERS: dict[str, Any] = {
    "relu": lambda: nn.RNN(3, 4, nonlinearity="relu", bias=False, rng=0),
    "gru": lambda: nn.GRU(3, 4, num_layers=2, rng=0),
    "gru without biases": lambda: nn.GRU(3, 4, bias=False, rng=0),
    "both directions": lambda: nn.LSTM(3, 4, bidirectional=True, rng=0),
    "projected": lambda: nn.LSTM(3, 4, proj_size=2, bidirectional=True, rng=0),
}


def both(layer: Any) -> Any:
    """A loss of outputs and last states, and its derivatives by parameters and input."""

    def run(params: TensorDict, x: Any) -> Any:
        def loss(params: TensorDict, x: Any) -> Any:
            with params.to_module(layer):
                out, last = layer(x)
            ends = last if isinstance(last, tuple) else (last,)
            return (out * np.cos(out)).sum() + sum((k * h * h).sum() for k, h in enumerate(ends, 2))

        return lite.value_and_grad(loss, argnums=(0, 1))(params, x)

    return run


@pytest.mark.parametrize("name", LAYERS)
def test_derivatives(name: str) -> None:
    dtype = np.float32 if name == "gru" else np.float64
    layer = LAYERS[name]().to(dtype)
    rng = np.random.default_rng(1)
    params = TensorDict.from_module(layer).data
    step = lite.jit(both(layer), dynamic_axes={"x": {0: "time", 1: "rows"}}, threads=1)
    tolerance = 1e-4 if dtype == np.float32 else 1e-9
    for times, rows in ((6, 2), (3, 3)):
        x = rng.normal(size=(times, rows, 3)).astype(dtype)
        value, (by_params, by_x) = both(layer)(params, x)
        got, (of_params, of_x) = step(params, x)
        np.testing.assert_allclose(got, value, rtol=tolerance)
        np.testing.assert_allclose(of_x, by_x, rtol=tolerance, atol=tolerance)
        for key, want in by_params.items():
            np.testing.assert_allclose(of_params[key], want, rtol=tolerance, atol=tolerance, err_msg=key)
    assert len(step._kept) == 1
    assert step.graph(params, x).operators["Scan"] == 2 * len(layer.all_weights)


def test_only_outputs_are_kept_without_derivatives() -> None:
    layer = nn.GRU(3, 4, rng=0)
    x = np.zeros((5, 2, 3), np.float32)
    graph = lite.jit(lambda x: layer(x)[0], threads=1).lower(x)._runner.traced
    (loop,) = [node for node in graph.nodes if node.op == "Scan"]
    assert len(loop.outputs) == 2  # the last state, and the outputs


@pytest.mark.parametrize("layer", [nn.LSTM(2, 2, proj_size=1, rng=0), nn.GRU(2, 2, rng=0)], ids=repr)
def test_derivatives_of_an_outer_map_go_step_by_step(layer: Any) -> None:
    layer = layer.to(np.float64)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 1, 2))  # fewer steps are no loop

    def run(shares: Any, x: Any) -> Any:
        back = lite.vjp(lambda x: layer(x)[0], x)[1]
        return lite.vmap(lambda share: back(share)[0])(shares)

    shares = rng.normal(size=(3, *layer(x)[0].shape))
    got = lite.jit(run, dynamic_axes={}, threads=1)(shares, x)
    np.testing.assert_allclose(got, run(shares, x), rtol=1e-9, atol=1e-12)


def test_a_step_of_a_sequence_in_a_file(tmp_path: Path) -> None:
    layer = nn.GRU(3, 4, batch_first=True, rng=0)
    params = TensorDict.from_module(layer).data.clone()

    def update(params: TensorDict, x: Any) -> Any:
        def loss(params: TensorDict) -> Any:
            with params.to_module(layer):
                return (layer(x)[0] ** 2).mean()

        value, grads = lite.value_and_grad(loss)(params)
        return value, params - 0.1 * grads

    x = np.random.default_rng(0).normal(size=(2, 7, 3)).astype(np.float32)
    lite.jit(update, donate="params", threads=1).lower(params, x).save(tmp_path / "step.onnx")
    step = lite.load_step(tmp_path / "step.onnx", threads=1)
    plain, stepped = params, params.clone()
    for _ in range(3):
        want, plain = update(plain, x)
        got, stepped = step(stepped, x)
        np.testing.assert_allclose(got, want, rtol=1e-5)
