"""Exported graphs against torch's modules with the same weights, and against what torch.onnx writes."""

import warnings

import numpy as np
import pytest
import torch
from helpers.graphs import flat, numbers, open_graph, resized, run_graph

from lite import nn

SIZE, MORE = 1.1, 256  # how much larger than torch's a graph may be; the digest of the contract among it

# What makes the module of a library, shapes of its inputs, the axis of the batch in each.
MODULES = {
    "MLP": (
        lambda n: n.Sequential(n.Linear(8, 64), n.Tanh(), n.Linear(64, 64), n.ReLU(), n.Linear(64, 4)),
        [(5, 8)],
        [0],
    ),
    "GRU": (lambda n: n.GRU(16, 64), [(6, 5, 16), (1, 5, 64)], [1, 1]),
    "GRU of two layers": (lambda n: n.GRU(8, 32, 2, batch_first=True, bidirectional=True), [(5, 6, 8)], [0]),
    "LSTM": (lambda n: n.LSTM(16, 64, 2), [(6, 5, 16)], [1]),
    "RNN": (lambda n: n.RNN(16, 64, nonlinearity="relu"), [(6, 5, 16)], [1]),
    "convolutions": (
        lambda n: n.Sequential(
            n.Conv2d(3, 8, 4, 2), n.ReLU(), n.MaxPool2d(2), n.Conv2d(8, 8, 2), n.Flatten(), n.Linear(32, 4)
        ),
        [(5, 3, 14, 14)],
        [0],
    ),
    "normalisations": (
        lambda n: n.Sequential(n.Linear(8, 64), n.LayerNorm(64), n.GELU(), n.BatchNorm1d(64), n.Softmax(-1)),
        [(5, 8)],
        [0],
    ),
    "attention": (lambda n: n.MultiheadAttention(16, 4, batch_first=True), [(5, 6, 16)] * 3, [0, 0, 0]),
    "embedding": (lambda n: n.Sequential(n.Embedding(11, 8), n.Linear(8, 4)), [(5, 3)], [0]),
}
# torch.onnx has no operator for its own fused encoder layer.
UNKNOWN_TO_TORCH = {
    "encoder layer": (
        lambda n: n.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu"),
        [(5, 6, 16)],
        [0],
    )
}


def both(name):
    make, shapes, axes = (MODULES | UNKNOWN_TO_TORCH)[name]
    torch.manual_seed(0)
    theirs = make(torch.nn).eval()
    for values in theirs.state_dict().values():  # torch's exporter stores equal arrays, such as ones, once
        if values.dtype.is_floating_point:
            values.copy_(values + 0.01 * torch.rand_like(values))
    mine = make(nn).eval()
    mine.load_state_dict(theirs.state_dict())
    arrays = [numbers(*shape, seed=i) for i, shape in enumerate(shapes)]
    if name == "embedding":
        arrays = [np.arange(15).reshape(5, 3) % 11]
    return mine, theirs, arrays, axes


def named(module, count):
    names = {"attention": ["query", "key", "value"]}
    if isinstance(module, nn.MultiheadAttention):
        return names["attention"]
    return (["src"] if isinstance(module, nn.TransformerEncoderLayer) else ["input", "hx"])[:count]


@pytest.mark.parametrize("name", MODULES | UNKNOWN_TO_TORCH)
def test_numbers_are_those_of_torch(name, tmp_path):
    mine, theirs, arrays, axes = both(name)
    names = named(mine, len(arrays))
    dynamic = {label: {axis: "batch"} for label, axis in zip(names, axes, strict=True)}
    session = open_graph(mine.to_onnx(tmp_path / "mine.onnx", *arrays, dynamic_axes=dynamic))
    for rows in (5, 1, 8):
        given = [resized(x, {axis: rows}) for x, axis in zip(arrays, axes, strict=True)]
        with torch.no_grad():
            expected = flat(theirs(*map(torch.from_numpy, given)))
        for got, want in zip(run_graph(session, given), expected, strict=True):
            np.testing.assert_allclose(got, want.numpy(), rtol=1e-5, atol=1e-5, strict=True)


@pytest.mark.parametrize("name", MODULES)
def test_graphs_are_no_larger_than_torchs(name, tmp_path):
    """Bytes of the file within a tenth, and the same numbers in onnxruntime."""
    mine, theirs, arrays, axes = both(name)
    names = named(mine, len(arrays))
    dynamic = {label: {axis: "batch"} for label, axis in zip(names, axes, strict=True)}
    path = mine.to_onnx(tmp_path / "mine.onnx", *arrays, dynamic_axes=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            theirs,
            tuple(map(torch.from_numpy, arrays)),
            str(tmp_path / "theirs.onnx"),
            input_names=names,
            dynamic_axes=dynamic,
            opset_version=20,
            dynamo=False,
        )
    got, want = (run_graph(open_graph(p), arrays) for p in (path, tmp_path / "theirs.onnx"))
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    sizes = path.stat().st_size, (tmp_path / "theirs.onnx").stat().st_size
    np.testing.assert_array_less(sizes[0], SIZE * sizes[1] + MORE)
