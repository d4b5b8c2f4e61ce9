"""Operators that normalise."""

import itertools

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.onnx_nodes import Case, check_all, graph_of, model_of, module_of, numbers

from lite import grad, jit, nn
from lite._files.onnx import writer

_IDS = np.array([[0, 4, 1], [3, 1, 1]], np.int32)
CASES = [
    Case(
        "BatchNormalization",
        [numbers(4, 3, 2), numbers(3), numbers(3, seed=1), numbers(3, seed=2), np.abs(numbers(3)) + 0.5],
    ),
    Case("InstanceNormalization", [numbers(2, 3, 5), numbers(3), numbers(3, seed=1)]),
    Case("GroupNormalization", [numbers(2, 4, 5), numbers(4), numbers(4, seed=1)], {"num_groups": 2}),
    Case(
        "GroupNormalization", [numbers(2, 4, 5), numbers(2), numbers(2, seed=1)], {"num_groups": 2}, opset=18
    ),
    Case("SimplifiedLayerNormalization", [numbers(2, 3, 5), numbers(5)], {"axis": -1}),
    Case(
        "LayerNormalization",
        [numbers(2, 3, 5), numbers(3, 5), numbers(3, 5, seed=1)],
        {"axis": 1},
        maps=False,
    ),
    Case("LayerNormalization", [numbers(2, 3, 5), numbers(5)]),
    Case("RMSNormalization", [numbers(2, 3, 5), numbers(5)], opset=23),
    Case(
        "SkipSimplifiedLayerNormalization",
        [numbers(2, 5), numbers(2, 5, seed=1), numbers(5)],
        domain="com.microsoft",
    ),
    *(
        Case(op, [numbers(2, 5), numbers(2, 5, seed=1), *map(numbers, [5] * count)], domain="com.microsoft")
        for op, count in (("SkipSimplifiedLayerNormalization", 2), ("SkipLayerNormalization", 3))
    ),
    Case("LRN", [numbers(2, 5, 3, 2)], {"size": 3}),
    *[Case("Normalizer", [numbers(4, 3)], {"norm": norm}, "ai.onnx.ml") for norm in ("L1", "L2", "MAX")],
    Case("Scaler", [numbers(4, 3)], {"offset": [0.5, -1.0, 2.0], "scale": [2.0, 1.0, 0.5]}, "ai.onnx.ml"),
    Case(
        "Imputer",
        [numbers(4, 3)],
        {"imputed_value_floats": [0.5, -1.0, 2.0], "replaced_value_float": float("nan")},
        "ai.onnx.ml",
    ),
    Case(
        "SkipLayerNormalization",
        [numbers(2, 5), numbers(2, 5, seed=1), *map(numbers, [5, 5])],
        domain="com.microsoft",
    ),
    Case(
        "EmbedLayerNormalization",
        [_IDS, _IDS % 2, numbers(5, 4), numbers(6, 4, seed=1), numbers(2, 4, seed=2), numbers(4), numbers(4)],
        domain="com.microsoft",
        outputs=3,
        has_values=False,
    ),
    Case(
        "BatchNormalization",
        [numbers(4, 3), numbers(3), numbers(3, seed=1), numbers(3, seed=2), np.abs(numbers(3)) + 0.5],
        opset=13,
    ),
    Case("Imputer", [np.float32([[0, 1]])], {"imputed_value_floats": [0.5]}, "ai.onnx.ml"),
    Case("Imputer", [np.array([[0, 1]])], {"imputed_value_int64s": [5]}, "ai.onnx.ml"),
    Case("LRN", [numbers(2, 5, 3)], {"size": 4}, has_values=False),
    Case("LRN", [numbers(2, 5, 3, 2)], {"size": 5, "bias": 2.0}),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)


def test_what_a_row_was_divided_by() -> None:
    x, scale = numbers(2, 3, 5), numbers(5)
    case = Case("SimplifiedLayerNormalization", [x, scale], {"axis": -1, "epsilon": 0.5}, outputs=2)
    out, inverse = module_of(case)(x, scale)
    np.testing.assert_allclose(inverse, 1 / np.sqrt((x * x).mean(-1, keepdims=True) + 0.5), rtol=1e-6)
    np.testing.assert_allclose(out, x * inverse * scale, rtol=1e-6)
    wanted = [x.mean(-1, keepdims=True), 1 / np.sqrt(x.var(-1, keepdims=True) + 0.5)]
    for count in (1, 2):
        case = Case("LayerNormalization", [x, scale], {"epsilon": 0.5}, outputs=1 + count)
        for found, numbers_of_rows in zip(module_of(case)(x, scale)[1:], wanted[:count], strict=True):
            np.testing.assert_allclose(found, numbers_of_rows, rtol=1e-5, atol=1e-6)


@each_case("kinds, mask, positions", itertools.product([None, "k"], [None, "mask"], [None, "p"]))
def test_embeddings_of_bert(kinds: str | None, mask: str | None, positions: str | None) -> None:
    """As onnxruntime's tool for transformers writes them."""
    tables = {name: numbers(6, 4, seed=i).astype(np.float32) for i, name in enumerate("wstgb")}
    tables |= {"g": tables["g"][0], "b": tables["b"][0]}
    given = {"ids": _IDS, "k": _IDS % 2, "mask": _IDS % 3, "p": 2 * _IDS % 5}
    reads = ["ids", kinds, "w", "s", kinds and "t", "g", "b", mask, positions]
    names = [name or "" for name in reads]
    given = {name: x for name, x in given.items() if name in reads}
    node = writer.node(
        "EmbedLayerNormalization", "", names, ["y", "n", "z"], {"epsilon": 1e-3}, "com.microsoft"
    )
    model = model_of([node], given, ["y", "n", "z"], tables)
    wanted = pytest.importorskip("onnxruntime").InferenceSession(model).run(None, given)
    for found, want in zip(nn.from_onnx(model)(**given), wanted, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6, strict=True)


def test_preparations_of_skl2onnx() -> None:
    """Their values are onnxruntime's; missing numbers are replaced, and the others have their gradients."""
    gaps = np.array([[np.nan, 2.0, -1.0], [0.5, np.nan, np.nan]], np.float32)
    columns = {"imputed_value_floats": [7.0, 8.0, 9.0], "replaced_value_float": float("nan")}
    for op, x, attributes in (
        ("Binarizer", numbers(4, 3).astype(np.float32), {"threshold": 0.1}),
        ("Imputer", gaps, columns),
        ("Imputer", np.array([[-1, 2], [3, -1]]), {"imputed_value_int64s": [5], "replaced_value_int64": -1}),
        ("OneHotEncoder", np.array([[7], [2], [5]]), {"cats_int64s": [2, 7], "zeros": 1}),
    ):
        case = Case(op, [x], attributes, "ai.onnx.ml")
        (want,) = pytest.importorskip("onnxruntime").InferenceSession(graph_of(case)).run(None, {"x0": x})
        np.testing.assert_array_equal(module_of(case)(x), want, op, strict=True)
        np.testing.assert_array_equal(jit(module_of(case))(x), want, op)
    net = module_of(Case("Imputer", [gaps], columns, "ai.onnx.ml"))
    np.testing.assert_array_equal(grad(lambda x: (net(x) * 2).sum())(gaps), [[0, 2, 2], [2, 0, 0]])


def test_rows_of_zeros_stay() -> None:
    case = Case("Normalizer", [np.zeros((2, 3))], {"norm": "L1"}, "ai.onnx.ml")
    np.testing.assert_array_equal(module_of(case)(*case.inputs), np.zeros((2, 3)))


def test_averages_of_training_were_other_outputs_before_version_14() -> None:
    node = writer.node("BatchNormalization", "", ["x", "s", "b", "m", "v"], ["y", "new_m", "new_v"], {})
    weights = {name: np.ones(3, np.float32) for name in "sbmv"}
    with pytest.raises(NotImplementedError, match="training before version 14"):
        nn.from_onnx(model_of([node], {"x": numbers(2, 3)}, ["y", "new_m"], weights, opset=9))
