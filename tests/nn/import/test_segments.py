"""Segments that are computed again in the backward pass: the same numbers, and less that is kept."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from helpers.cases import noting
from helpers.models.real_models import MODELS
from helpers.onnx_nodes import model_of

from lite import TensorDict, enable_grad, jit, nn, value_and_grad, vmap
from lite._files.onnx import writer

X = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)


def chain(count: int) -> Any:
    """x times a weight, and tanh, again and again."""
    nodes, name = [], "x"
    for i in range(count):
        nodes.append(writer.node("MatMul", f"m{i}", [name, f"w{i}"], [f"a{i}"], {}))
        nodes.append(writer.node("Tanh", f"t{i}", [f"a{i}"], [f"b{i}"], {}))
        name = f"b{i}"
    rng = np.random.default_rng(1)
    weights = {f"w{i}": rng.normal(size=(4, 4)).astype(np.float32) for i in range(count)}
    return nn.from_onnx(model_of(nodes, {"x": X}, [name], weights))


def taken(net: Any, x: Any = X) -> tuple[Any, Any]:
    def loss(params: Any, x: Any) -> Any:
        with params.to_module(net):
            return (net(x) ** 2).sum()

    return value_and_grad(loss, (0, 1))(TensorDict.from_module(net), x)


@pytest.mark.parametrize("checkpoint", [True, 3, 100])
def test_gradients_are_the_same_and_steps_run_again(checkpoint: Any) -> None:
    net = chain(6)
    value, (by_weights, by_x) = taken(net)
    runs: Counter[str] = Counter()
    for step in net._source.program.steps:
        step.run = lambda *given, run=step.run, label=step.label: (runs.update([label]), run(*given))[1]
        step.plan = None  # of what it ran before
    net.checkpoint = checkpoint
    again, (others, other) = taken(net)
    assert again == value
    np.testing.assert_array_equal(other, by_x)
    assert (others == by_weights).all()
    runs.clear()
    taken(net)
    assert runs["'m0' (MatMul)"] == 2  # forward, and in the backward pass
    assert runs["'t5' (Tanh)"] == 1  # of the last segment, which the backward pass begins with
    net(X)
    assert runs["'m0' (MatMul)"] == 3  # without gradients there is nothing to do again


def test_by_backward_under_maps_and_in_graphs() -> None:
    net = chain(5)
    _, (grads, by_x) = taken(net)
    net.checkpoint = 2
    with enable_grad():
        loss = (net(X) ** 2).sum()
    loss.backward()
    np.testing.assert_allclose(net.w0.grad, grads["w0"], rtol=1e-6)
    of_x = value_and_grad(lambda x: (net(x) ** 2).sum())
    np.testing.assert_allclose(vmap(of_x)(X[None])[1][0], by_x, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jit(of_x)(X)[1], by_x, rtol=1e-5, atol=1e-6)


def test_a_decoder_is_cut_where_two_arrays_of_hidden_states_are_alive() -> None:
    path = MODELS / "genai-llama-fp32" / "model.onnx"
    net = nn.from_onnx(path, outputs=["logits"], checkpoint=4)
    ids = np.arange(12).reshape(2, 6)
    inputs = {name: np.zeros((2, 2, 0, 16), np.float32) for name in net.input_names}
    inputs |= {"input_ids": ids, "attention_mask": np.ones((2, 6), np.int64)}

    def loss(params: Any) -> Any:
        with params.to_module(net):
            return (net(**inputs) ** 2).mean()

    params = TensorDict.from_module(net)
    value, grads = value_and_grad(loss)(params)
    (segments,) = net._source.program.segments.values()
    assert len(segments) > 2
    assert all(len(segment.writes) <= 4 for segment in segments)
    net.checkpoint = False
    again, others = value_and_grad(loss)(params)
    np.testing.assert_allclose(value, again, rtol=1e-6)
    for key, g in grads.items(True, True):
        np.testing.assert_allclose(g, others[key], rtol=1e-4, atol=1e-7)


def test_what_does_not_learn_decides_no_cut() -> None:
    """A mask is made first, is larger than all else, and is alive to the end: no gradient keeps it."""
    nodes = [writer.node("Cos", "c", ["p"], ["q"], {}), writer.node("Neg", "n", ["q"], ["m"], {})]
    name = "x"
    for i in range(6):
        nodes.append(writer.node("MatMul", f"p{i}", [name, f"w{i}"], [f"a{i}"], {}))
        nodes.append(writer.node("Add", f"s{i}", [f"a{i}", "m"], [f"b{i}"], {}))
        nodes.append(writer.node("ReduceMean", f"r{i}", [f"b{i}"], [f"d{i}"], {"axes": [0], "keepdims": 0}))
        name = f"d{i}"
    mask = np.zeros((50, 3, 4), np.float32)
    weights = {f"w{i}": np.eye(4, dtype=np.float32) for i in range(6)}
    net = nn.from_onnx(model_of(nodes, {"x": X, "p": mask}, [name], weights), checkpoint=3)

    def loss(params: Any) -> Any:
        with params.to_module(net):
            return (net(X, mask) ** 2).sum()

    value_and_grad(loss)(TensorDict.from_module(net))
    (segments,) = net._source.program.segments.values()
    products = [sum(step.op == "MatMul" for step in segment.steps) for segment in segments]
    assert products == [2, 2, 2]


def test_what_is_no_number_of_segments_is_refused() -> None:
    for checkpoint in [-1, 2.5, "all"]:
        assert nn.from_onnx(model_of([], {"x": X}, ["x"])).checkpoint is False
        with noting(checkpoint), pytest.raises(ValueError, match="must be True, False or a number"):
            nn.from_onnx(model_of([], {"x": X}, ["x"]), checkpoint=checkpoint)
