"""The table of operators."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.onnx_nodes import model_of

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
