"""Quantised weights."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.onnx_nodes import Case, check_all, model_of, module_of, numbers

from lite import jit, nn, value_and_grad, vmap
from lite._files.onnx import writer
from lite.models.graph.session import open_session
from lite.nn._import.operators import MICROSOFT

node = writer.node


def bits(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


CASES = [
    Case("DequantizeLinear", [np.arange(8, dtype=np.uint8).reshape(2, 4), np.array([0.5, 2.0])], {"axis": 0}),
    Case("DequantizeLinear", [np.arange(4, dtype=np.uint8), np.array([0.5])]),  # one scale, no axis 1
    Case(
        "DequantizeLinear",
        [np.uint16([7, 40000]), np.array(0.5, np.float32), np.array(9, np.uint16)],
        {},
        MICROSOFT,
    ),
    Case(
        "QuantizeLinear",
        [np.float32([-9, 20000]), np.array(0.5, np.float32), np.array(9, np.uint16)],
        {},
        MICROSOFT,
    ),
    Case("DynamicQuantizeLinear", [np.float32([-1.5, 253.5])], outputs=3),
    Case(
        "MatMulNBits",
        [numbers(3, 30), bits(6, 2, 16), np.float32(numbers(12)), bits(12)],
        {"K": 30, "N": 6, "bits": 8, "block_size": 16},
        MICROSOFT,
    ),
    Case(
        "MatMulNBits",
        [numbers(3, 30), bits(6, 2, 8), np.float32(numbers(12))],
        {"K": 30, "N": 6, "block_size": 16},
        MICROSOFT,
    ),
    Case(
        "MatMulNBits",
        [numbers(3, 30), bits(6, 16), np.float32(numbers(12))],
        {"K": 30, "N": 6, "block_size": 16},
        MICROSOFT,
        has_values=False,
    ),
    Case("GatherBlockQuantized", [bits(3, 128), np.array([2, 0]), np.float32(numbers(3, 2))], {}, MICROSOFT),
    Case(
        "GatherBlockQuantized",
        [bits(3, 32), np.array([2, 0]), np.float32(numbers(3, 2))],
        {"block_size": 16, "bits": 8},
        MICROSOFT,
    ),
    Case("DynamicQuantizeLinear", [np.float32([-255, -3, 0])], outputs=3),
    Case("DynamicQuantizeLinear", [np.float32([0.3, 255.4])], outputs=3),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)


def test_blocks_of_four_bits() -> None:
    rng = np.random.default_rng(0)
    numbers4 = rng.integers(0, 16, (6, 2, 16)).astype(np.uint8)
    packed = numbers4[..., ::2] | numbers4[..., 1::2] << 4
    scales, zeros = rng.normal(size=(6, 2)), rng.integers(0, 16, (6, 2)).astype(np.uint8)
    floats = (numbers4 - zeros[..., None].astype(float)) * scales[..., None]
    x = numbers(3, 30, seed=1)
    case = Case(
        "MatMulNBits",
        [x, packed, scales.reshape(-1), zeros[:, 0] | zeros[:, 1] << 4],
        {"K": 30, "N": 6, "bits": 4, "block_size": 16},
        "com.microsoft",
    )
    np.testing.assert_allclose(module_of(case)(*case.inputs), x @ floats.reshape(6, 32)[:, :30].T, 1e-5, 1e-5)


def test_large_weights_are_made_floats_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from lite.nn._import import quantized

    rng = np.random.default_rng(0)
    packed, scales = rng.integers(0, 256, (7, 2, 8)).astype(np.uint8), rng.normal(size=14).astype(np.float32)
    case = Case(
        "MatMulNBits",
        [np.ones((1, 32), np.float32), packed, scales],
        {"K": 32, "N": 7, "bits": 4, "block_size": 16},
        "com.microsoft",
    )
    whole = module_of(case)(*case.inputs)
    for most in (64, 16):  # two rows, and less than one
        monkeypatch.setattr(quantized, "BLOCK_ROWS", most)
        np.testing.assert_allclose(module_of(case)(*case.inputs), whole, rtol=1e-6)
        with_bias = module_of(case._replace(inputs=[*case.inputs, None, None, scales[:7]]))
        np.testing.assert_allclose(with_bias(*case.inputs, scales[:7]), whole + scales[:7], rtol=1e-6)


def quantized_layers() -> dict[str, list[bytes]]:
    """A layer of integers, as onnxruntime's tools write it: with scales that are given, or computed."""
    rounds = node("DynamicQuantizeLinear", "", ["x"], ["q", "s", "z"], {})
    whole = [node("Cast", "", ["i"], ["f"], {"to": 1}), node("Mul", "", ["f", "s"], ["g"], {})]
    last = node("Mul", "", ["g", "sw"], ["y"], {})
    return {
        "given scales": [
            node("QuantizeLinear", "", ["x", "sx", "zx"], ["q"], {}),
            node("DequantizeLinear", "", ["q", "sx", "zx"], ["d"], {}),
            node("DequantizeLinear", "", ["w", "sw", "zw"], ["dw"], {}),
            node("MatMul", "", ["d", "dw"], ["y"], {}),
        ],
        "own scales": [rounds, node("MatMulInteger", "", ["q", "w", "z", "zw"], ["i"], {}), *whole, last],
        "integers": [
            node("QuantizeLinear", "", ["x", "sx", "zx"], ["q"], {}),
            node("QLinearMatMul", "", ["q", "sx", "zx", "w", "sw", "zw", "sx", "zx"], ["r"], {}),
            node("DequantizeLinear", "", ["r", "sx", "zx"], ["y"], {}),
        ],
        "own scales, joined": [
            node("DynamicQuantizeMatMul", "", ["x", "w", "sw", "zw"], ["y"], {}, "com.microsoft")
        ],
        "own scales, joined behind": [
            rounds,
            node("MatMulIntegerToFloat", "", ["q", "w", "s", "sw", "z", "zw"], ["y"], {}, "com.microsoft"),
        ],
        "joined": [
            node("QuantizeLinear", "", ["x", "sx", "zx"], ["q"], {}),
            node("QGemm", "", ["q", "sx", "zx", "w", "sw", "zw"], ["y"], {}, "com.microsoft"),
        ],
        "joined to integers": [
            node("QuantizeLinear", "", ["x", "sx", "zx"], ["q"], {}),
            node("QGemm", "", ["q", "sx", "zx", "w", "sw", "zw", "", "sx", "zx"], ["r"], {}, "com.microsoft"),
            node("DequantizeLinear", "", ["r", "sx", "zx"], ["y"], {}),
        ],
        "a convolution to integers": [
            node("QuantizeLinear", "", ["x", "sx", "zx"], ["q"], {}),
            node("Unsqueeze", "", ["q", "last"], ["q3"], {}),
            node("Transpose", "", ["w"], ["wt"], {"perm": [1, 0]}),
            node("Unsqueeze", "", ["wt", "last"], ["w3"], {}),
            node("QLinearConv", "", ["q3", "sx", "zx", "w3", "sw", "zw", "sx", "zx"], ["r3"], {}),
            node("Squeeze", "", ["r3", "last"], ["r"], {}),
            node("DequantizeLinear", "", ["r", "sx", "zx"], ["y"], {}),
        ],
        "a convolution": [
            node("Unsqueeze", "", ["x", "last"], ["x3"], {}),
            node("DynamicQuantizeLinear", "", ["x3"], ["q", "s", "z"], {}),
            node("Transpose", "", ["w"], ["wt"], {"perm": [1, 0]}),
            node("Unsqueeze", "", ["wt", "last"], ["w3"], {}),
            node("ConvInteger", "", ["q", "w3", "z", "zw"], ["i3"], {}),
            node("Squeeze", "", ["i3", "last"], ["i"], {}),
            *whole, last,
        ],
    }  # fmt: skip


@each_case("kind", quantized_layers())
def test_derivatives_go_through_rounding(kind: str) -> None:
    """They are those of the numbers, as of torch.fake_quantize, and 0 outside of the range."""
    given = {
        "w": bits(5, 4), "zw": np.array(130, np.uint8), "sw": np.array(0.01, np.float32),
        "sx": np.array(0.05, np.float32), "zx": np.array(128, np.uint8), "last": np.array([2]),
    }  # fmt: skip
    x = np.float32(numbers(3, 5)).clip(-3, 3)
    x[0, 0] = 3 if "own scales" in kind or kind == "a convolution" else 50.0
    net = nn.from_onnx(model_of(quantized_layers()[kind], {"x": x}, ["y"], given))
    weight, inside = (bits(5, 4).astype(np.float32) - 130) * np.float32(0.01), np.abs(x) < 6.4

    def loss(x: Any) -> Any:
        return (net(x) * np.arange(4)).sum()

    value, slope = value_and_grad(loss)(x)
    assert value == loss(x)
    reached = np.abs(net(x)) < 6.3 if kind.endswith("integers") else np.ones((3, 4))
    wanted = (reached * np.arange(4)) @ weight.T * inside
    np.testing.assert_allclose(slope, wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jit(value_and_grad(loss))(x)[1], wanted, rtol=1e-5, atol=1e-6)
    each = vmap(value_and_grad(loss))(np.stack([x, x]))[1]
    np.testing.assert_allclose(each, [wanted, wanted], rtol=1e-5, atol=1e-6)


@each_case("op", ["MatMulInteger", "ConvInteger"])
def test_weights_that_a_graph_rounds_learn_alone(op: str) -> None:
    """Where its input has no derivative, too, which is integers then."""
    x, w = (bits(2, 3).astype(np.float32) / 8, np.float32(numbers(3, 4)))
    tail = () if op == "MatMulInteger" else (1,)
    x, w = (a.reshape(a.shape + tail) for a in (x, w if not tail else w.T))
    nodes = [
        node("QuantizeLinear", "", ["x", "s", "z"], ["q"], {}),
        node("QuantizeLinear", "", ["w", "s", "z"], ["r"], {}),
        node(op, "", ["q", "r", "z", "z"], ["i"], {}),
        node("Cast", "", ["i"], ["y"], {"to": 1}),
    ]
    given = {"s": np.array(0.25, np.float32), "z": np.array(90, np.uint8)}
    net = nn.from_onnx(model_of(nodes, {"x": x, "w": w}, ["y"], given))
    slope = value_and_grad(lambda w: net(x, w).sum())(w)[1]
    summed = (np.clip(np.round(x / 0.25), -90, 165) / 0.25).sum(0).reshape(3)
    np.testing.assert_allclose(slope.reshape(4, 3) if tail else slope.T, np.tile(summed, (4, 1)))


def test_operators_between_integers() -> None:
    """As onnxruntime writes them in the place of others; it may round a tie to the other side."""
    x, y, s, t, z = (
        bits(2, 3, 4, 4),
        bits(2, 3, 4, 4)[::-1].copy(),
        np.float32(0.03),
        np.float32(0.02),
        np.uint8(120),
    )
    one, other, end = [x, s, z], [y, t, np.uint8(99)], [np.float32(0.05), np.uint8(90)]
    a, b, c = bits(3, 5), bits(5, 4).astype(np.int8), np.arange(4, dtype=np.int32) * 100
    each = np.float32([0.01, 0.02, 0.03, 0.04])
    for case in (
        Case("QLinearAdd", [*one, *other, *end]),
        Case("QLinearAdd", [b, t, np.int8(3), b[::-1].copy(), t, np.int8(9), end[0]]),
        Case("QLinearMul", [*one, *other, *end]),
        Case("QLinearSigmoid", [*one, np.float32(1 / 256), np.uint8(0)]),
        Case("QLinearLeakyRelu", [*one, *end], {"alpha": 0.3}),
        Case("QLinearGlobalAveragePool", [*one, *end]),
        Case("QLinearGlobalAveragePool", [*one, *end], {"channels_last": 1}),
        Case("QLinearSoftmax", [*one, np.float32(1 / 256), np.uint8(0)], {"axis": -1, "opset": 13}),
        Case("QLinearSoftmax", [*one, np.float32(1 / 256), np.uint8(0)], {"axis": 2, "opset": 11}),
        Case("QLinearAveragePool", [*one, *end], {"kernel_shape": [2, 3], "pads": [0, 1, 1, 1]}),
        Case("QLinearConcat", [*end, *one, *other], {"axis": 1}),
        Case("QGemm", [a, s, z, b, each, np.zeros(4, np.int8), c, *end]),
        Case(
            "QGemm",
            [a.T.copy(), s, z, b.T.copy(), t, np.int8(3), c],
            {"transA": 1, "transB": 1, "alpha": 0.5},
        ),
        Case("DynamicQuantizeMatMul", [np.float32(numbers(3, 5)), b, each, np.zeros(4, np.int8), each]),
        Case("MatMulIntegerToFloat", [a, b, s, each, z, np.zeros(4, np.int8), each]),
    ):
        case = case._replace(domain="com.microsoft", inputs=[np.asarray(x) for x in case.inputs])
        weights = {f"x{i}": x for i, x in enumerate(case.inputs) if i}
        reads, first = [f"x{i}" for i in range(len(case.inputs))], {"x0": case.inputs[0]}
        model = model_of(
            [node(case.op, "", reads, ["y"], case.attributes, case.domain)], first, ["y"], weights
        )
        (want,) = pytest.importorskip("onnxruntime").InferenceSession(model).run(None, first)
        found = nn.from_onnx(model)(case.inputs[0])
        assert (found.dtype, found.shape) == (want.dtype, want.shape)
        most = 1 if want.dtype.itemsize == 1 else 1e-5
        np.testing.assert_allclose(found.astype(float), want.astype(float), 0, most, err_msg=str(case))
        assert (found != want).mean() < 0.05 or most < 1


def test_the_scale_of_zeros_alone_is_one() -> None:
    x = np.zeros((2, 3), np.float32)
    net = module_of(Case("DynamicQuantizeLinear", [x], outputs=3))
    assert [y.tolist() for y in net(x)[1:]] == [1.0, 0]
    slope = value_and_grad(lambda x: net(x)[0].astype(np.float32).sum())(x)[1]
    np.testing.assert_array_equal(slope, np.ones((2, 3)))


def test_what_is_not_computed_says_so() -> None:
    x, scale = numbers(2), np.float32(1)
    for kind in (21, 22, 25, 26):  # integers of 4 and of 2 bits
        case = Case("QuantizeLinear", [x, scale], {"output_dtype": kind}, opset=25)
        with pytest.raises(NotImplementedError, match="QuantizeLinear to"):
            module_of(case)(x, scale)
    given = [bits(3, 16), np.array([2]), np.float32(numbers(3, 1))]
    for axes in ({"gather_axis": 1}, {"quantize_axis": 0}):
        case = Case("GatherBlockQuantized", given, {"block_size": 16, **axes}, MICROSOFT)
        with pytest.raises(NotImplementedError, match="other axes than rows"):
            module_of(case)(*given)


def test_as_a_runtime_rounds() -> None:
    """At accuracy level 4 what is multiplied has 8 bits in each block; floats of the weight are kept."""
    rng = np.random.default_rng(0)
    packed, scales = rng.integers(0, 256, (7, 2, 8)).astype(np.uint8), rng.normal(size=14).astype(np.float32)
    x, bias = rng.normal(size=(3, 30)).astype(np.float32), rng.normal(size=7).astype(np.float32)
    x[0, :16] = 0
    attributes = {"K": 30, "N": 7, "bits": 4, "block_size": 16}
    case = Case("MatMulNBits", [np.eye(30, dtype=np.float32), packed, scales], attributes, "com.microsoft")
    weight = module_of(case)(*case.inputs)  # (30, 7)
    blocks = np.pad(x, [(0, 0), (0, 2)]).reshape(3, 2, 16)
    step = np.abs(blocks).max(-1, keepdims=True) / 127
    rounded = np.round(blocks / np.where(step > 0, step, 1)) * step
    for level, read in ((0, x), (4, rounded.reshape(3, 32)[:, :30])):
        node = writer.node(
            "MatMulNBits", "", ["x", "w", "s", "", "", "b"], ["y"],
            {**attributes, "accuracy_level": level}, "com.microsoft",
        )  # fmt: skip
        content = model_of([node], {"x": x}, ["y"], {"w": packed, "s": scales, "b": bias})
        session = open_session("", content=content, runtime="numpy")
        for _ in range(2):
            np.testing.assert_allclose(session.run(None, {"x": x})[0], read @ weight + bias, 1e-4, 1e-4)
