"""The wire-format walker: what it finds in real exports, and that broken bytes raise instead of hanging."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.models.real_models import MODELS
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.models.graph import protobuf


def field(number: int, payload: bytes) -> bytes:
    assert len(payload) < 128
    return bytes([number << 3 | 2, len(payload)]) + payload


def nested(depth: int) -> bytes:
    """A model whose only node holds a sub-graph, and so on."""
    graph = b""
    for _ in range(depth):
        node = long_field(5, long_field(6, graph)) + field(4, b"If")
        graph = long_field(1, node)
    return long_field(7, graph)


def long_field(number: int, payload: bytes) -> bytes:
    size, out = len(payload), bytes([number << 3 | 2])
    while size >= 128:
        out += bytes([size & 127 | 128])
        size >>= 7
    return out + bytes([size]) + payload


def test_scan_finds_the_operators_of_a_builder_export() -> None:
    summary = protobuf.scan(MODELS / "genai-llama-fp32" / "model.onnx")
    assert summary.producer == "onnxruntime-genai"
    assert "GroupQueryAttention" in summary.op_types
    assert summary.external_files == {"model.onnx.data"}


def test_scan_skips_embedded_weights() -> None:
    summary = protobuf.scan(MODELS / "optimum-llama" / "model.onnx")
    assert summary.producer == "pytorch"
    assert {"Sin", "Cos", "MatMul"} <= summary.op_types
    assert "GroupQueryAttention" not in summary.op_types
    assert summary.external_files == frozenset()


def test_scan_goes_into_subgraphs_and_functions() -> None:
    inner = field(1, field(4, b"Inner"))
    node = field(4, b"If") + field(5, field(6, inner))
    function = field(7, field(4, b"InFunction"))
    summary = protobuf.scan_bytes(
        field(7, field(1, node)) + bytes([25 << 3 & 127 | 2 | 128, 1, len(function)]) + function
    )
    assert summary.op_types == {"If", "Inner", "InFunction"}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"not a model",
        field(2, b"producer only"),
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a graph that says it has 2**63 bytes
        b"\x3a" + b"\xff" * 11,  # a length that never ends
        b"\x3b\x00",  # a group
        field(7, field(1, b"\x22\x7fabc")),  # a name longer than its node
    ],
)
def test_what_is_no_model_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a"):
        protobuf.scan_bytes(data)


def test_depth_is_bounded() -> None:
    assert protobuf.scan_bytes(nested(protobuf.MAX_DEPTH)).op_types == {"If"}
    with pytest.raises(ValueError, match="nested deeper"):
        protobuf.scan_bytes(nested(protobuf.MAX_DEPTH + 2))


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    with pytest.raises(ValueError, match=r"model\.onnx"):
        protobuf.scan(tmp_path / "model.onnx")


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_random_bytes_end_in_a_summary_or_a_value_error(data: bytes) -> None:
    try:
        summary = protobuf.scan_bytes(data)
    except ValueError:
        return
    assert isinstance(summary.op_types, frozenset)


def test_cut_and_damaged_models_end_in_a_summary_or_a_value_error() -> None:
    model = (MODELS / "genai-llama-fp32" / "model.onnx").read_bytes()
    rng = np.random.default_rng(0)
    cuts = 0
    for _ in range(150):
        damaged = bytearray(model[: rng.integers(1, len(model))])
        for at in rng.integers(0, len(damaged), 3):
            damaged[at] = rng.integers(256)
        try:
            protobuf.scan_bytes(bytes(damaged))
        except ValueError:
            cuts += 1
    assert cuts > 100  # a cut file can be a whole message by chance only


def test_weights_of_half_precision_are_counted() -> None:
    def tensor(kind: int, *sizes: int) -> bytes:
        return field(5, b"".join(bytes([1 << 3, size]) for size in sizes) + bytes([2 << 3, kind]))

    for half, tensors in (
        (True, tensor(10, 100, 4) + tensor(1, 99)),
        (False, tensor(10, 100) + tensor(1, 100)),
        (False, tensor(3, 100, 100)),
        (True, field(5, field(1, bytes([100, 100])) + bytes([2 << 3, 10])) + tensor(1, 127)),  # packed sizes
    ):
        assert protobuf.scan_bytes(long_field(7, tensors)).half_weights is half
    endless = field(1, b"\xff\xff\xff\xff\xff\x7f" * 20) + bytes([2 << 3, 10])
    assert protobuf.scan_bytes(long_field(7, long_field(5, endless) * 50)).half_weights


def test_windows_and_biases_of_attention() -> None:
    def attention(window: int, names: int) -> bytes:
        attribute = field(1, b"local_window_size") + bytes([3 << 3, window])
        inputs = (
            field(1, b"x") * min(names, 9) + field(1, b"") * (names > 9) + field(1, b"x") * max(0, names - 10)
        )
        return long_field(1, inputs + field(5, attribute) + field(4, b"GroupQueryAttention"))

    summary = protobuf.scan_bytes(long_field(7, attention(40, 7) + attention(16, 10)))
    assert (summary.window, summary.biased_attention) == (16, False)
    summary = protobuf.scan_bytes(long_field(7, attention(0, 11)))
    assert (summary.window, summary.biased_attention) == (None, True)


@pytest.mark.parametrize("name", ["genai-llama-fp32", "exporter-llama-pair"])
def test_external_files_get_other_names(name: str) -> None:
    (path,) = [*(MODELS / name).glob("model.onnx"), *(MODELS / name).glob("decode.onnx")]
    model = path.read_bytes()
    (file,) = protobuf.scan_bytes(model).external_files
    longer = protobuf.with_external_files(model, {file: "b" * 300})
    assert protobuf.scan_bytes(longer).external_files == {"b" * 300}
    assert protobuf.with_external_files(longer, {"b" * 300: file}) == model
    assert protobuf.with_external_files(model, {"other": "name"}) == model


def test_external_files_inside_nodes_get_other_names() -> None:
    place = field(13, field(1, b"location") + field(2, b"old")) + field(
        13, field(1, b"offset") + field(2, b"old")
    )
    node = field(1, b"old") + long_field(5, field(1, b"value") + long_field(5, place))
    inner = long_field(1, long_field(5, long_field(6, long_field(1, node))))
    renamed = protobuf.with_external_files(long_field(7, inner), {"old": "new"})
    assert renamed == long_field(7, inner).replace(b"location\x12\x03old", b"location\x12\x03new")
    with pytest.raises(ValueError, match="nested deeper"):
        protobuf.with_external_files(nested(40), {})


@pytest.mark.parametrize("name", ["optimum-llama", "optimum-gpt2"])
def test_weights_are_found_in_the_file_they_were_left_in(name: str) -> None:
    model = (MODELS / name / "model.onnx").read_bytes()
    light = protobuf.with_weights_outside(model, "weights", 1024)
    assert len(light) < len(model) / 2
    assert protobuf.scan_bytes(light) == replace(
        protobuf.scan_bytes(model), external_files=frozenset({"weights"})
    )
    left_out = 0
    for start, end in initializers(light):
        parts = [(number, light[a:b]) for number, _, a, b in protobuf.fields(light, start, end)]
        pairs = [{n: light[a:b] for n, _, a, b in pair} for pair in external(light, start, end)]
        place = {pair[1].decode(): pair[2].decode() for pair in pairs}
        assert (14, b"\x01") in parts if place else all(len(value) < 1100 for _, value in parts)
        if place:
            first = int(place["offset"])
            left_out += int(place["length"])
            (dims, kind, name_) = (b"".join(v for n, v in parts if n == number) for number in (1, 2, 8))
            twin = next(t for t in initializers(model) if field_of(model, *t, 8) == name_)
            assert field_of(model, *twin, 9) == model[first : first + int(place["length"])]
            assert (dims, kind) == (field_of(model, *twin, 1), field_of(model, *twin, 2))
    assert left_out > len(model) / 2
    assert protobuf.with_weights_outside(light, "other", 1) != light  # the small ones
    assert protobuf.with_weights_outside(light, "other", 1 << 20) == light  # nothing twice


def initializers(model: bytes) -> list[tuple[int, int]]:
    ((start, end),) = [(a, b) for n, _, a, b in protobuf.fields(model, 0, len(model)) if n == 7]
    return [(a, b) for n, _, a, b in protobuf.fields(model, start, end) if n == 5]


def external(model: bytes, start: int, end: int) -> list[list[tuple[int, int, int, int]]]:
    pairs = [(a, b) for n, _, a, b in protobuf.fields(model, start, end) if n == 13]
    return [list(protobuf.fields(model, a, b)) for a, b in pairs]


def field_of(model: bytes, start: int, end: int, number: int) -> bytes:
    return b"".join(model[a:b] for n, _, a, b in protobuf.fields(model, start, end) if n == number)
