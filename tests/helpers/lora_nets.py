"""Networks for adapters: a graph of products named as exporters name them, and values for its adapters."""

from typing import Any

import numpy as np
from helpers.onnx_nodes import model_of

from lite import nn
from lite._files.onnx import writer

X = np.random.default_rng(7).normal(size=(2, 3, 6)).astype(np.float32)
PATHS = ("model.layers.0.self_attn.q_proj", "model.layers.0.self_attn.o_proj", "model.layers.0.mlp.up_proj")


def weights(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = {"q": (6, 4), "o": (4, 6), "up": (6, 5)}
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def graph(**more: np.ndarray) -> bytes:
    """x -> up(tanh(o(tanh(q(x))))), with names of a decoder."""
    nodes = [
        writer.node("MatMul", "/model/layers.0/self_attn/q_proj/MatMul", ["x", "q"], ["a"], {}),
        writer.node("Tanh", "", ["a"], ["b"], {}),
        writer.node("MatMul", "/model/layers.0/attn/o_proj/MatMul", ["b", "o"], ["c"], {}),
        writer.node("Tanh", "", ["c"], ["d"], {}),
        writer.node("MatMul", "/model/layers.0/mlp/up_proj/MatMul", ["d", "up"], ["y"], {}),
    ]
    return model_of(nodes, {"x": X}, ["y"], {**weights(), **more})


def filled(net: Any, seed: int = 3) -> Any:
    """The module with random numbers in its matrices B, which are zeros at first."""
    rng = np.random.default_rng(seed)
    for one in net._adapters():
        parameter = one.parameters[1]
        parameter.data = rng.normal(size=parameter.shape).astype(parameter.dtype)
    return net


def by_hand(net: Any, x: np.ndarray, scale: float) -> np.ndarray:
    """What the adapted graph computes."""
    w, values = weights(), {name: p.data for name, p in net.named_parameters()}
    for name, path in (("q", PATHS[0]), ("o", PATHS[1]), ("up", PATHS[2])):
        y = x @ w[name]
        if f"{path}.lora_A.weight" in values:
            y = y + scale * (x @ values[f"{path}.lora_A.weight"].T) @ values[f"{path}.lora_B.weight"].T
        x = y if name == "up" else np.tanh(y)
    return x


def adapted(**options: Any) -> Any:
    """The graph with adapters of rank 2 that do something."""
    return filled(nn.lora(nn.from_onnx(graph(), trainable=False), 2, 8, rng=0, **options))
