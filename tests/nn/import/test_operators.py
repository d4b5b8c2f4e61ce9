"""The table of operators."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from helpers.onnx_nodes import Case, graph_of, model_of

from lite import nn
from lite._files.onnx import writer
from lite.nn._import.operators import _OTHER_TYPES, _TYPES, Spec, rule_of


def test_rules_are_found_by_domain() -> None:
    assert rule_of("", "Conv") is not None
    assert rule_of("com.microsoft", "Conv") is None
    assert rule_of("com.microsoft", "MatMulNBits") is not None


def test_what_a_node_says() -> None:
    attributes = {"axis": 1, "pads": [1, 2]}
    spec = Spec(
        "Op", "", "node", 13, attributes, (True, False), (False, True), compute_dtype=np.dtype(np.float32)
    )
    assert (spec.get("axis"), spec.get("other", 7), spec.ints("pads"), spec.ints("other")) == (
        1, 7, (1, 2), None,
    )  # fmt: skip
    assert [spec.has_input(i) for i in range(3)] == [True, False, False]
    assert [spec.uses_output(i) for i in range(3)] == [False, True, False]
    assert (spec.dtype(10), spec.dtype(11)) == (np.float32, np.float64)


@each_case(
    ("op", "attributes", "message"),
    [
        ("Softmax", {"axis": 1.5}, "axis must be an integer, got 1.5"),
        ("Softmax", {"axis": "last"}, "axis must be an integer, got 'last'"),
        ("LayerNormalization", {"epsilon": 1}, "epsilon must be a float, got 1"),
        ("LayerNormalization", {"epsilon": [0.5]}, r"epsilon must be a float, got \[0.5\]"),
        ("MaxPool", {"kernel_shape": [2], "pads": 1}, "pads must be a list of integers, got 1"),
        ("MaxPool", {"kernel_shape": [2], "pads": [0.0, 1.0]}, "pads must be a list of integers, got"),
        ("MaxPool", {"kernel_shape": [2], "auto_pad": 3}, "auto_pad must be a text, got 3"),
        ("RNN", {"hidden_size": 2, "activations": "Tanh"}, "activations must be a list of texts, got 'Tanh'"),
        ("Upsample", {"scales": [1, 2]}, r"scales must be a list of floats, got \[1, 2\]"),
        ("LpNormalization", {"p": "two"}, "p must be an integer, got 'two'"),
        ("Softmax", {"axis": np.zeros(2, np.float32)}, "axis must be an integer, got ndarray"),
    ],
)
def test_attributes_of_another_type_are_refused_when_a_graph_is_read(op, attributes, message):
    node = writer.node(op, "here", ["x", "w"], ["y"], attributes)
    x = np.zeros((1, 2, 3), np.float32)
    with pytest.raises(ValueError, match=f"{op} 'here': {message}"):
        nn.from_onnx(model_of([node], {"x": x, "w": x}, ["y"], opset=9))


SKIP, ONE, BITS = "SkipLayerNormalization", {"num_heads": 1}, {"N": 1, "K": 1, "bits": 3, "block_size": 16}
LACKING: list[tuple[str, dict[str, Any], str, int, str]] = [
    ("Attention", {**ONE, "do_rotary": 1}, "com.microsoft", 1, "do_rotary"),
    ("Attention", {**ONE, "past_present_share_buffer": 1}, "com.microsoft", 1, "past_present_share_buffer"),
    ("MultiHeadAttention", ONE, "com.microsoft", 4, "scores as an output"),
    ("GroupQueryAttention", {**ONE, "kv_num_heads": 1, "smooth_softmax": 1}, "com.microsoft", 1, "a sink"),
    ("GroupQueryAttention", {**ONE, "kv_num_heads": 1, "k_quant_type": "A", "kv_cache_bit_width": 3},
     "com.microsoft", 1, "a cache of 3 bits"),
    ("GroupQueryAttention", {**ONE, "kv_num_heads": 1, "v_quant_type": "A"}, "com.microsoft", 1, "0 bits"),
    (SKIP, {}, "com.microsoft", 2, "mean and deviation"), (SKIP, {}, "com.microsoft", 3, "mean and dev"),
    ("MatMulNBits", BITS, "com.microsoft", 1, "3 bits"),
    ("QLinearAveragePool", {"kernel_shape": [1, 1], "channels_last": 1}, "com.microsoft", 1, "channels_last"),
    ("RNN", {"hidden_size": 1, "direction": "sideways"}, "", 1, "direction 'sideways'"),
    ("Pad", {"mode": "mirror"}, "", 1, "mode 'mirror'"),
    ("Resize", {"mode": "spline"}, "", 1, "mode 'spline'"),
    ("ReverseSequence", {"batch_axis": 2}, "", 1, "axes other than the first two"),
    ("LinearRegressor", {"coefficients": [1.0], "post_transform": "PROBIT"}, "ai.onnx.ml", 1, "'PROBIT'"),
    ("Normalizer", {"norm": "L7"}, "ai.onnx.ml", 1, "norm='L7'"),
    ("Imputer", {}, "ai.onnx.ml", 1, "without values"),
    ("OneHotEncoder", {"cats_strings": ["a"]}, "ai.onnx.ml", 1, "texts as categories"),
    ("OneHotEncoder", {"cats_int64s": [1], "zeros": 0}, "ai.onnx.ml", 1, "zeros=0"),
]  # fmt: skip


def test_what_operators_lack_is_told_when_a_graph_is_read() -> None:
    for op, attributes, domain, outputs, message in LACKING:
        case = Case(op, [np.ones((1, 1), np.float32)] * 3, attributes, domain, outputs)
        raises(NotImplementedError, message, lambda: nn.from_onnx(graph_of(case)))  # noqa: B023


def test_the_table_of_types_is_that_of_the_operators() -> None:
    defs = pytest.importorskip("onnx").defs
    words = {"INT": int, "FLOAT": float, "STRING": str, "INTS": (int,), "FLOATS": (float,), "STRINGS": (str,)}
    differ = {"p", "to", "value"}  # from version to version
    for schema in defs.get_all_schemas_with_history():
        if rule_of(schema.domain, schema.name) is None:
            continue
        for name, attribute in schema.attributes.items():
            kind = words.get(attribute.type.name)
            if name in _TYPES and name not in differ:
                assert _OTHER_TYPES.get((schema.name, name), _TYPES[name]) == kind, (schema.name, name)
            elif name in read_by_rules():
                assert kind is None or name in differ, (schema.name, name)


def read_by_rules() -> set[str]:
    """Names of the attributes that rules read."""
    files = Path(nn.__file__).with_name("_import").glob("*.py")
    found = (re.findall(r'spec\.(?:get|need|ints)\(\s*"(\w+)"', file.read_text("utf-8")) for file in files)
    return {name for names in found for name in names}


def test_every_attribute_that_rules_read_has_a_type() -> None:
    assert read_by_rules() - _TYPES.keys() == {"to", "value"}


def test_counts_are_at_least_one_where_none_is_derived() -> None:
    def spec(op: str, **attributes: Any) -> Spec:
        return Spec(op, "com.microsoft", "node", 1, attributes, (), (True,))

    assert spec("RotaryEmbedding", num_heads=0).get("num_heads") == 0
    with pytest.raises(ValueError, match="MultiHeadAttention 'node': num_heads must be at least 1, got 0"):
        spec("MultiHeadAttention", num_heads=0)
    with pytest.raises(ValueError, match=r"strides must be at least 1, got \[1, 0\]"):
        spec("Conv", strides=[1, 0])
