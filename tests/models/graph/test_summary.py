"""The wire-format walker: what it finds in real exports, and that broken bytes raise instead of hanging."""

from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises
from helpers.models.real_models import MODELS
from hypothesis import given, settings
from hypothesis import strategies as st

from lite._files.onnx.reader import MAX_DEPTH
from lite._files.onnx.wire import field, varint
from lite.models.graph.summary import scan, scan_bytes


def nested(depth: int) -> bytes:
    """A model whose only node holds a sub-graph, and so on."""
    graph = b""
    for _ in range(depth):
        node = field(5, field(6, graph)) + field(4, b"If")
        graph = field(1, node)
    return field(7, graph)


def test_scan_finds_the_operators_of_a_builder_export() -> None:
    summary = scan(MODELS / "genai-llama-fp32" / "model.onnx")
    assert summary.producer == "onnxruntime-genai"
    assert "GroupQueryAttention" in summary.op_types
    assert summary.external_files == {"model.onnx.data"}


def test_scan_skips_embedded_weights() -> None:
    summary = scan(MODELS / "optimum-llama" / "model.onnx")
    assert summary.producer == "pytorch"
    assert {"Sin", "Cos", "MatMul"} <= summary.op_types
    assert "GroupQueryAttention" not in summary.op_types
    assert summary.external_files == frozenset()


def test_scan_goes_into_subgraphs_and_functions() -> None:
    inner = field(1, field(4, b"Inner"))
    node = field(4, b"If") + field(5, field(6, inner))
    function = field(7, field(4, b"InFunction"))
    summary = scan_bytes(
        field(7, field(1, node)) + bytes([25 << 3 & 127 | 2 | 128, 1, len(function)]) + function
    )
    assert summary.op_types == {"If", "Inner", "InFunction"}


def test_what_is_no_model_is_refused() -> None:
    cases = [
        b"",
        b"\x00",
        b"not a model",
        field(2, b"producer only"),
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a graph that says it has 2**63 bytes
        b"\x3a" + b"\xff" * 11,  # a length that never ends
        b"\x3b\x00",  # a group
        field(7, field(1, b"\x22\x7fabc")),  # a name longer than its node
    ]
    for data in cases:
        raises(ValueError, "not a", scan_bytes, data)


def test_depth_is_bounded() -> None:
    assert scan_bytes(nested(MAX_DEPTH)).op_types == {"If"}
    raises(ValueError, "nested deeper", scan_bytes, nested(MAX_DEPTH + 2))


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    raises(ValueError, r"model\.onnx", scan, tmp_path / "model.onnx")


@pytest.mark.depth
@given(st.binary(max_size=300))
@settings(max_examples=100)
def test_random_bytes_end_in_a_summary_or_a_value_error(data: bytes) -> None:
    try:
        summary = scan_bytes(data)
    except ValueError:
        return
    assert isinstance(summary.op_types, frozenset)


def test_cut_and_damaged_models_end_in_a_summary_or_a_value_error() -> None:
    model = (MODELS / "genai-llama-fp32" / "model.onnx").read_bytes()
    rng = np.random.default_rng(0)
    cuts = 0
    for _ in range(60):
        damaged = bytearray(model[: rng.integers(1, len(model))])
        for at in rng.integers(0, len(damaged), 3):
            damaged[at] = rng.integers(256)
        try:
            scan_bytes(bytes(damaged))
        except ValueError:
            cuts += 1
    assert cuts > 40  # a cut file can be a whole message by chance only


def test_weights_of_half_precision_are_counted() -> None:
    def tensor(kind: int, *sizes: int) -> bytes:
        return field(5, b"".join(bytes([1 << 3, size]) for size in sizes) + bytes([2 << 3, kind]))

    alike = field(1, field(5, tensor(10, 100))) + field(1, field(5, field(6, tensor(10, 100))))
    for half, tensors in (
        (True, alike * 2 + tensor(1, 100, 3)),  # of nodes with the same attributes, a tensor and a graph
        (True, tensor(10, 100, 4) + tensor(1, 99)),
        (False, tensor(10, 100) + tensor(1, 100)),
        (False, tensor(3, 100, 100)),
        (True, field(5, field(1, bytes([100, 100])) + bytes([2 << 3, 10])) + tensor(1, 127)),  # packed sizes
    ):
        assert scan_bytes(field(7, tensors)).half_weights is half
    endless = field(1, b"\xff\xff\xff\xff\xff\x7f" * 20) + bytes([2 << 3, 10])
    assert scan_bytes(field(7, field(5, endless) * 50)).half_weights


def test_windows_and_biases_of_attention() -> None:
    def attention(window: int, names: int, windowed: int = 0) -> bytes:
        attributes = b"".join(
            field(5, field(1, name) + bytes([3 << 3]) + varint(value))
            for name, value in ((b"local_window_size", window), (b"sliding_window_cache", windowed))
        )
        inputs = (
            field(1, b"x") * min(names, 9) + field(1, b"") * (names > 9) + field(1, b"x") * max(0, names - 10)
        )
        return field(1, inputs + attributes + field(4, b"GroupQueryAttention"))

    summary = scan_bytes(field(7, attention(40, 7) + attention(16, 10)))
    assert (summary.window, summary.biased_attention, summary.windowed_cache) == (16, False, 0)
    summary = scan_bytes(field(7, attention(0, 11)))
    assert (summary.window, summary.biased_attention) == (None, True)
    assert (
        scan_bytes(field(7, attention(40, 7, 1) + attention(16, 7, 1) + attention(50, 7))).windowed_cache
        == 40
    )
    for window, fits in ((1, True), (2**31 - 1, True), (2**31, False), (-1, False)):
        summary = scan_bytes(field(7, attention(window, 7, 1)))
        assert (summary.window, summary.windowed_cache) == ((window, window) if fits else (None, 0))


def test_lists_in_attributes_are_looked_into() -> None:
    graphs = field(1, field(5, field(11, field(1, field(4, b"Loop")))) + field(4, b"Scan"))
    place = field(13, field(1, b"location") + field(2, b"weights"))
    summary = scan_bytes(field(7, graphs + field(1, field(5, field(10, place)) + field(4, b"Constant"))))
    assert summary.op_types == {"Scan", "Loop", "Constant"}
    assert summary.external_files == {"weights"}
