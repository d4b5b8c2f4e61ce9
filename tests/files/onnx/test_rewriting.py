"""Changed copies of models: what refers to other files, and that nothing else moves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.cases import raises
from helpers.models.real_models import MODELS

from lite._files.onnx.rewriting import with_external_files, with_named_weights_outside, with_weights_outside
from lite._files.onnx.wire import field, fields
from lite.models.graph.summary import scan_bytes


@pytest.mark.parametrize("name", ["genai-llama-fp32", "exporter-llama-pair"])
def test_external_files_get_other_names(name: str) -> None:
    (path,) = [*(MODELS / name).glob("model.onnx"), *(MODELS / name).glob("decode.onnx")]
    model = path.read_bytes()
    (file,) = scan_bytes(model).external_files
    longer = with_external_files(model, {file: "b" * 300})
    assert scan_bytes(longer).external_files == {"b" * 300}
    assert with_external_files(longer, {"b" * 300: file}) == model
    assert with_external_files(model, {"other": "name"}) == model


@pytest.mark.parametrize("number", [5, 10])  # an attribute's tensor, and its list of tensors
def test_external_files_inside_nodes_get_other_names(number: int) -> None:
    place = field(13, field(1, b"location") + field(2, b"old")) + field(
        13, field(1, b"offset") + field(2, b"old")
    )
    node = field(1, b"old") + field(5, field(1, b"value") + field(number, place))
    inner = field(1, field(5, field(6, field(1, node))))
    renamed = with_external_files(field(7, inner), {"old": "new"})
    assert renamed == field(7, inner).replace(b"location\x12\x03old", b"location\x12\x03new")
    graph = b""
    for _ in range(40):
        graph = field(1, field(5, field(6, graph)))
    raises(ValueError, "nested deeper", with_external_files, field(7, graph), {})


@pytest.mark.parametrize("name", ["optimum-llama", "optimum-gpt2"])
def test_weights_are_found_in_the_file_they_were_left_in(name: str) -> None:
    model = (MODELS / name / "model.onnx").read_bytes()
    light = with_weights_outside(model, "weights", 1024)
    assert len(light) < len(model) / 2
    assert scan_bytes(light) == replace(scan_bytes(model), external_files=frozenset({"weights"}))
    left_out = 0
    for start, end in initializers(light):
        parts = [(number, light[a:b]) for number, _, a, b in fields(light, start, end)]
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
    assert with_weights_outside(light, "other", 1) != light  # the small ones
    assert with_weights_outside(light, "other", 1 << 20) == light  # nothing twice


def initializers(model: bytes) -> list[tuple[int, int]]:
    ((start, end),) = [(a, b) for n, _, a, b in fields(model, 0, len(model)) if n == 7]
    return [(a, b) for n, _, a, b in fields(model, start, end) if n == 5]


def external(model: bytes, start: int, end: int) -> list[list[tuple[int, int, int, int]]]:
    pairs = [(a, b) for n, _, a, b in fields(model, start, end) if n == 13]
    return [list(fields(model, a, b)) for a, b in pairs]


def field_of(model: bytes, start: int, end: int, number: int) -> bytes:
    return b"".join(model[a:b] for n, _, a, b in fields(model, start, end) if n == number)


def test_named_weights_are_left_to_who_loads_the_model() -> None:
    model = (MODELS / "handmade-lora" / "model.onnx").read_bytes()
    light = with_named_weights_outside(model, {"tokens", "scale"}, "given")
    before, after = ({field_of(m, *t, 8): t for t in initializers(m)} for m in (model, light))
    assert before.keys() == after.keys()
    for name, span in after.items():
        left_out = name in (b"tokens", b"scale")
        assert bool(external(light, *span)) == left_out
        assert (light[slice(*span)] == model[slice(*before[name])]) != left_out
    assert scan_bytes(light).external_files == {"given"}
