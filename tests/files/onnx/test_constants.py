"""Which weights of a graph learn, seen in modules that are made of it."""

import warnings
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.onnx_nodes import model_of

from lite import nn
from lite._files.onnx import writer

X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


def names_of(net: nn.Module) -> list[str]:
    return sorted(name for name, _ in net.named_parameters())


def test_statistics_and_settings_do_not_learn() -> None:
    nodes = [
        writer.node("BatchNormalization", "", ["x", "scale", "bias", "mean", "var"], ["a"], {}),
        writer.node("Pow", "", ["a", "two"], ["y"], {}),
    ]
    numbers = {name: np.ones(3, np.float32) for name in ("scale", "bias", "mean", "var")}
    net = nn.from_onnx(model_of(nodes, {"x": X}, ["y"], {**numbers, "two": np.full(1, 2, np.float32)}))
    assert {name for name, p in net.named_parameters() if p.requires_grad} == {"scale", "bias"}
    assert names_of(net) == ["bias", "mean", "scale", "var"]


def test_masks_and_factors_that_an_exporter_writes_as_weights_do_not_learn() -> None:
    nodes = [
        writer.node("Mul", "", ["x", "factor"], ["a"], {}),
        writer.node("Add", "", ["a", "mask"], ["b"], {}),
        writer.node("Add", "", ["b", "bias"], ["c"], {}),
        writer.node("Greater", "", ["x", "x"], ["never"], {}),
        writer.node("Where", "", ["never", "hidden", "c"], ["d"], {}),
        writer.node("Where", "", ["never", "seen", "mask"], ["chosen"], {}),
        writer.node("Where", "", ["never", "offset", "d"], ["e"], {}),
        writer.node("Add", "", ["e", "chosen"], ["more"], {}),
        writer.node("Add", "", ["more", "epsilon"], ["f"], {}),
        writer.node("Sqrt", "", ["f"], ["g"], {}),
        writer.node("Mul", "", ["g", "scale"], ["h"], {}),
        writer.node("MatMul", "", ["h", "head"], ["i"], {}),
        writer.node("Add", "", ["i", "last"], ["j"], {}),
        writer.node("Sqrt", "", ["j"], ["y"], {}),
    ]
    lowest = float(np.finfo(np.float32).min)
    numbers = {"factor": [0.5], "mask": [0.0, lowest, -np.inf], "bias": [-3.0], "scale": [1.0, 2.0, 3.0]}
    numbers |= {
        "seen": [0.0],
        "offset": [1.0],
        "epsilon": [1e-6],
        "head": [[1.0], [2.0], [3.0]],
        "last": [1.0],
    }
    numbers["hidden"] = numbers["mask"]
    arrays = {name: np.array(x, np.float32) for name, x in numbers.items()}
    net = nn.from_onnx(model_of(nodes, {"x": X}, ["y"], arrays))
    learning = {name for name, p in net.named_parameters() if p.requires_grad}
    assert learning == {"bias", "head", "last", "offset", "scale"}
    assert set(names_of(net)) == learning | {"epsilon", "factor", "hidden", "mask", "seen"}
    net = nn.from_onnx(model_of(nodes, {"x": X}, ["y"], arrays), trainable=["factor"])
    assert {name for name, p in net.named_parameters() if p.requires_grad} == {"factor"}


@each_case(
    ("ops", "learns"),
    [
        ("Sub a, Div b, MatMul w", "w"),  # observations less their mean, by their deviation
        ("Cast, Sub a, Clip, Mul b, Clip, Relu", ""),
        ("Mul a, Add b, MatMul w", "w"),
        ("Mul a, Add b, Relu, MatMul w", "abw"),  # a layer that learns
        ("Add a, Mul b, MatMul w", "abw"),
        ("Add a, MatMul w", "aw"),  # places beside features
        ("Mul one, Add a, MatMul w", "aw"),
        ("Mul one, Sub a, Div b, MatMul w", "w"),
        ("Mul a, Add x, MatMul w", "aw"),
        ("Concat c, Mul a, Add b, MatMul w", "abcw"),  # beside what is no input
        ("Relu, Sub a, Div b, MatMul w", "abw"),
        ("Sub a, Mul b, Div c, MatMul w", "cw"),
        ("MatMul w, Tanh, Mul a, Add b", "w"),  # bounds of actions
        ("MatMul w, Tanh, Mul unit, Add nought", "w"),
        ("MatMul w, Tanh, a Mul, b Add, Clip, Identity", "w"),
        ("MatMul w, Tanh, Mul a, Add b, Relu", "abw"),
        ("MatMul w, Relu, Mul a, Add b", "abw"),
        ("MatMul w, Tanh, Mul a", "aw"),
        ("Transpose, Sub a, Div b, MatMul w", "w"),  # images
        ("MatMul w, c Add, Transpose, Mul a, Add b", "cw"),  # actions in their units
        ("Gemm w c, Mul a, Add b", "cw"),
        ("Gemm w c, Mul a, Add b, Relu", "abcw"),
        ("Gemm w, Mul a, Add b", "abw"),
        ("MatMul w, Add x, Mul a, Add b", "abw"),
        ("Conv w, Mul a, Add b, Relu", "w"),  # a batch normalisation that is frozen
        ("Conv w c, Mul a, Add b, Relu", "abcw"),
        ("Conv w, Add c, Mul a, Add b, Relu", "abcw"),
        ("Conv w, Mul one, Add b, Relu", "bw"),
        ("Constant, Cast, x Mul, Sub a, Div b, MatMul w", "w"),
        ("Unsqueeze at, Sub a, Div b, MatMul w", "w"),  # one image
        ("Unsqueeze at, Transpose, Sub w, Div b", "bw"),  # centres and widths
        ("Sub w, Div b", ""),  # an image that is the mean
        ("Gemm w c, x Concat, Mul a, Add b, MatMul w", "abcw"),
        ("Gemm w c, Mul half, Add b", "bcw"),  # a logarithm of deviations, of the means' shape
    ],
)
def test_statistics_of_observations_do_not_learn(ops: str, learns: str) -> None:
    nodes = []
    for i, op in enumerate(ops.split(", ")):
        name = next(word for word in op.split() if word[0].isupper())
        attributes = {"Cast": {"to": 1}, "Concat": {"axis": 0}, "Constant": {"value_float": 2.0}}.get(
            name, {}
        )
        given = [f"y{i - 1}" * (i > 0) or "x" if word == name else word for word in op.split()]
        nodes.append(writer.node(name, "", given * (name != "Constant"), [f"y{i}"], attributes))
    arrays = {name: np.ones((3, 3) if name == "w" else (1, 3), np.float32) for name in "abcw"}
    read = {word for op in ops.split(", ") for word in op.split()} & arrays.keys()
    kept = {name: arrays[name] for name in read} | {
        "one": np.float32([1]), "unit": np.float32([[1]]), "nought": np.float32([0]),
        "half": np.float32(0.5), "at": np.int64([0]),
    }  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        net = nn.from_onnx(model_of(nodes, {"x": X}, [f"y{len(nodes) - 1}"], kept))
    assert {name for name, p in net.named_parameters() if p.requires_grad} == set(learns), ops


def test_batch_normalisations_that_are_frozen_do_not_learn() -> None:
    """As torch.onnx.export writes torchvision's, with optimize=False; what else has a root learns."""
    nodes = [
        writer.node("Reshape", "", ["var", "shape"], ["v"], {}),
        writer.node("Add", "", ["v", "epsilon"], ["u"], {}),
        writer.node("Sqrt", "", ["u"], ["root"], {}),
        writer.node("Reciprocal", "", ["root"], ["inverse"], {}),
        writer.node("Mul", "", ["scale", "inverse"], ["factor"], {}),
        writer.node("Mul", "", ["mean", "factor"], ["moved"], {}),
        writer.node("Sub", "", ["bias", "moved"], ["offset"], {}),
        writer.node("Mul", "", ["x", "factor"], ["a"], {}),
        writer.node("Add", "", ["a", "offset"], ["b"], {}),
        writer.node("Add", "", ["gain", "epsilon"], ["more"], {}),  # of Gemma's norm
        writer.node("Mul", "", ["more", "factors"], ["most"], {}),
        writer.node("Mul", "", ["b", "most"], ["c"], {}),
        writer.node("Add", "", ["spread", "epsilon"], ["wide"], {}),
        writer.node("Sqrt", "", ["wide"], ["deviation"], {}),
        writer.node("Mul", "", ["height", "deviation"], ["high"], {}),
        writer.node("Mul", "", ["c", "high"], ["y"], {}),
    ]
    names = ("var", "scale", "mean", "bias", "gain", "factors", "spread", "height")
    numbers = {name: np.ones(3, np.float32) for name in names}
    numbers |= {"shape": np.int64([3]), "epsilon": np.float32(1e-5)}
    net = nn.from_onnx(model_of(nodes, {"x": X}, ["y"], numbers))
    learning = {name for name, p in net.named_parameters() if p.requires_grad}
    assert learning == {"gain", "factors", "spread", "height"}


def test_ones_and_zeros_that_group_normalisations_are_written_with_do_not_learn() -> None:
    nodes = [
        writer.node("Reshape", "", ["x", "groups"], ["a"], {}),
        writer.node("InstanceNormalization", "", ["a", "one", "nought"], ["b"], {}),
        writer.node("Reshape", "", ["b", "back"], ["c"], {}),
        writer.node("Relu", "", ["c"], ["d"], {}),
        writer.node("InstanceNormalization", "", ["d", "scale", "bias"], ["e"], {}),
        writer.node("Reshape", "", ["e", "back"], ["f"], {}),
        writer.node("InstanceNormalization", "", ["f", "learnt", "zero"], ["g"], {}),
        writer.node("Reshape", "", ["g", "back"], ["h"], {}),
        writer.node("InstanceNormalization", "", ["h", "fresh", "new"], ["y"], {}),
    ]
    ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
    numbers = {"groups": np.int64([1, 3, -1]), "back": np.int64([2, 3, 1]), "one": ones, "nought": zeros}
    numbers |= {"scale": ones, "bias": zeros, "learnt": ones * 2, "zero": zeros + 0.5}
    numbers |= {"fresh": ones, "new": zeros}
    net = nn.from_onnx(model_of(nodes, {"x": X}, ["y"], numbers))
    learning = {name for name, p in net.named_parameters() if p.requires_grad}
    assert learning == numbers.keys() - {"groups", "back", "one", "nought"}
    nodes[4] = writer.node(
        "InstanceNormalization", "", ["d", "one", "bias"], ["e"], {}
    )  # joined by an exporter
    with pytest.warns(UserWarning, match="several nodes read one, which learn as one"):
        net = nn.from_onnx(model_of(nodes, {"x": X}, ["y"], numbers))
    assert {name for name, p in net.named_parameters() if p.requires_grad} == learning - {"scale"} | {"one"}


RATES = 2.0 ** -np.arange(4)


@each_case(
    ("waves", "of", "rates", "learns"),
    [
        ({"Cos", "Sin"}, "places", np.ones(3), {"w"}),  # torch.onnx's rotary frequencies
        ({"Cos", "Sin"}, "numbers", np.ones(3), {"w"}),  # of as many as the batch has
        ({"Cos", "Sin"}, "x", np.ones(3), {"w", "rates"}),  # features of an input
        ({"Cos", "Sin"}, "x", RATES, {"w"}),  # of a time
        ({"Cos", "Sin"}, "x", RATES[:3], {"w", "rates"}),
        ({"Cos", "Sin"}, "x", -RATES, {"w", "rates"}),
        ({"Cos", "Sin"}, "x", RATES + np.array([0, 0, 0.1, 0]), {"w", "rates"}),
        ({"Sin"}, "x", RATES, {"w", "rates"}),
        ({"Sin"}, "places", np.ones(3), {"w", "rates"}),  # a layer that is activated so
        ({"Cos", "Sin", "Exp"}, "places", np.ones(3), {"w", "rates"}),
    ],
)
def test_frequencies_of_positions_do_not_learn(
    waves: set[str], of: str, rates: np.ndarray, learns: set[str]
) -> None:
    nodes = [
        writer.node("Shape", "", ["x"], ["shape"], {}),
        writer.node("Cast", "", ["shape"], ["numbers"], {"to": 1}),
        writer.node("Cast", "", ["ids"], ["places"], {"to": 1}),
        writer.node("Mul", "", [of, "rates"], ["angle"], {}),
        *(writer.node(op, "", ["angle"], [op], {}) for op in sorted(waves)),
        writer.node("Mul", "", ["x", "w"], ["a"], {}),
        writer.node("Sum", "", ["a", *sorted(waves)], ["y"], {}),
    ]
    numbers = {"rates": rates.astype(np.float32), "w": np.ones(3, np.float32)}
    net = nn.from_onnx(model_of(nodes, {"x": X, "ids": np.ones((2, 3), np.int64)}, ["y"], numbers))
    assert {name for name, p in net.named_parameters() if p.requires_grad} == learns


@each_case(
    ("name", "constant"),
    [
        ("sines, then cosines", lambda a: np.concatenate([np.sin(a), np.cos(a)], 1)),
        (
            "in turns, of a filler, halves",
            lambda a: np.stack([np.sin(a), np.cos(a)], 2).reshape(100, -1) * (a[:, :1] != 9),
        ),
        ("cosines", lambda a: np.cos(a)[None, None]),
        ("slopes of 12 heads", lambda a: 2.0 ** -np.r_[1:9, 0.5:4:1][:, None]),
        (
            "places",
            lambda a: np.stack(np.meshgrid(np.linspace(-1, 1, 10), np.linspace(-1, 1, 10)), 2).reshape(-1, 2),
        ),
        ("places across", lambda a: np.tile(np.linspace(-1, 1, 10), 10)[None]),
        ("slopes in turns", lambda a: 2.0 ** -np.r_[1:9, 0.5:4:1].reshape(1, 12, 1, 1)),
    ],
)
def test_tables_of_waves_places_and_slopes_of_heads_do_not_learn(name: str, constant: Any) -> None:
    """As exports of GPT-J, XGLM and BLOOM have them; what is not quite one learns."""
    angles = np.arange(100)[:, None] * 1e4 ** (-np.arange(8) / 8)
    table = constant(angles).astype(np.float16 if "halves" in name else np.float32)
    noisy = table * np.random.default_rng(0).normal(1, 0.1, table.shape).astype(table.dtype)
    noisy /= np.abs(noisy).max()
    line = np.linspace(-1, 1, 100, dtype=table.dtype)[:, None]
    few = np.zeros_like(line, shape=(100, 2))
    few[[3, 50]] = [[1, 0.5], [-1, 0.2]]  # rows of a vocabulary that nothing else is known of
    signs, uneven = np.repeat([[1.0, -1.0], [-1.0, 1.0]], 4, 0), np.array([[0, 0, 0.5, 0.5, 0.5, 1, 1]])
    steps = np.repeat([[0, 0.3, 1]], 2, 0).reshape(1, -1)
    others = [x.astype(table.dtype) for x in (noisy, line, line.T, few, signs, uneven, steps)]
    for array, learns in ((table, set()), *((x, {"w"}) for x in others)):
        nodes = [writer.node("Gather", "", ["w", "ids"], ["y"], {})]
        net = nn.from_onnx(model_of(nodes, {"ids": np.zeros(2, np.int64)}, ["y"], {"w": array}))
        assert {key for key, p in net.named_parameters() if p.requires_grad} == learns, name


def test_what_a_setting_is_joined_of_does_not_learn() -> None:
    """As torch.onnx writes the scales of Upsample, whose gradient was an error."""
    nodes = [
        writer.node("Concat", "", ["ones", "two"], ["scales"], {"axis": 0}),
        writer.node("Resize", "", ["x", "", "scales"], ["a"], {}),
        writer.node("Mul", "", ["a", "w"], ["y"], {}),
    ]
    weights = {"ones": np.ones(1, np.float32), "two": np.full(1, 2, np.float32), "w": np.ones(6, np.float32)}
    assert names_of(nn.from_onnx(model_of(nodes, {"x": X}, ["y"], weights))) == ["w"]
