"""Logits at chosen positions: the changed graphs give bit for bit what the exported ones give."""

import shutil
from functools import partial
from typing import Any

import numpy as np
import pytest
from helpers.models.real_models import MODELS, STANDING, open_model
from helpers.tiers import standing_for_all

from lite.models import OnnxDecoder
from lite.models.decoder import opening
from lite.models.decoder.gather_logits import POSITIONS_INPUT, gather_before_projection
from lite.models.graph.session import open_session


@pytest.mark.grid
@pytest.mark.parametrize("name", standing_for_all([*STANDING, "optimum-gpt2-pair", "genai-qwen2-int4"], 5))
def test_the_same_logits(name: str, rng: np.random.Generator) -> None:
    plain = OnnxDecoder(MODELS / name, num_threads=1, gather_logits=False)
    decoder = open_model(name)
    specs = [model.spec.prompts or model.spec for model in (plain, decoder)]
    assert [spec.gather for spec in specs] == [None, POSITIONS_INPUT]
    texts = [rng.integers(0, 512, length) for length in (12, 3, 40, 1)]
    rows = range(len(texts))
    # Some processors sum products of int4 weights in another order when there are more rows.
    check = (
        partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)
        if "int4" in name
        else np.testing.assert_array_equal
    )
    check(decoder.prefill_rows(rows, texts), plain.prefill_rows(rows, texts))
    check(decoder.decode([1, 2, 3, 4]), plain.decode([1, 2, 3, 4]))
    got, want = (d.extend(rows, [text[:5] for text in texts]) for d in (decoder, plain))
    for mine, theirs in zip(got, want, strict=True):
        check(mine, theirs)


@pytest.mark.parametrize("name", ["optimum-llama", "optimum-gpt2-pair"])
def test_weights_stay_in_their_file(name, tmp_path, rng, monkeypatch):
    """Also where the file is a link to a blob, as in a download cache."""
    plain = OnnxDecoder(MODELS / name, num_threads=1, gather_logits=False)
    monkeypatch.setattr(opening, "LARGE_WEIGHT", 1024)
    loaded: list[bytes] = []
    monkeypatch.setattr(opening, "open_session", partial(recorded, loaded))
    for folder in ("blobs", "snapshots/1"):
        (tmp_path / folder).mkdir(parents=True)
    for file in (MODELS / name).iterdir():
        shutil.copy(file, tmp_path / "blobs" / file.name[::-1])
        (tmp_path / "snapshots/1" / file.name).symlink_to(f"../../blobs/{file.name[::-1]}")
    ids = rng.integers(0, 512, 20)
    for folder in (MODELS / name, tmp_path / "snapshots/1"):
        decoder = OnnxDecoder(folder, num_threads=1)
        assert (decoder.spec.prompts or decoder.spec).gather == POSITIONS_INPUT
        np.testing.assert_array_equal(decoder.prefill(0, ids), plain.prefill(0, ids))
        np.testing.assert_array_equal(decoder.decode([7], [0]), plain.decode([7], [0]))
    sizes = [file.stat().st_size for file in (MODELS / name).glob("*.onnx")]
    assert len(loaded) == 2 * len(sizes)
    assert max(map(len, loaded)) < min(sizes) / 2


def recorded(loaded: list[bytes], *args: Any, content: bytes, **options: Any) -> Any:
    loaded.append(content)
    return open_session(*args, content=content, **options)


def test_the_model_is_not_changed_in_place() -> None:
    model = (MODELS / "optimum-llama" / "model.onnx").read_bytes()
    changed = gather_before_projection(model)
    assert changed is not None
    assert changed.startswith(model[:100])
    assert sum(a != b for a, b in zip(model, changed, strict=False)) == 1  # one letter of one name


def field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2, len(payload)]) + payload


def node(op_type: bytes, source: bytes, target: bytes) -> bytes:
    return field(1, field(1, source) + field(2, target) + field(4, op_type))


def test_other_endings_are_left_alone() -> None:
    cases = [
        node(b"Relu", b"x", b"hidden") + node(b"Conv", b"hidden", b"logits"),  # no projection
        node(b"Relu", b"x", b"hidden") + node(b"MatMul", b"hidden", b"scores"),  # no logits
        node(b"MatMul", b"x", b"logits"),  # of an input of the graph
        node(b"Cast", b"logits", b"logits"),  # leads nowhere, over and over
    ]
    for nodes in cases:
        assert gather_before_projection(field(7, nodes)) is None, nodes


def test_through_casts_and_soft_capping() -> None:
    nodes = node(b"Relu", b"x", b"hidden") + node(b"MatMul", b"hidden", b"a") + node(b"Tanh", b"a", b"b")
    changed = gather_before_projection(field(7, nodes + node(b"Cast", b"b", b"logits")))
    assert changed is not None
    assert changed.count(b"hidden") == 2  # as the first node's output and as what is gathered from
    assert changed.count(b"hidde~") == 2


def test_what_is_no_model_is_refused() -> None:
    for data in (b"", b"nonsense", b"\x3a\x7f"):
        with pytest.raises(ValueError, match="not a"):
            gather_before_projection(data)


def test_a_change_that_onnxruntime_refuses_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.models.decoder.opening.gather_before_projection", lambda *_, **__: b"nonsense")
    decoder = OnnxDecoder(MODELS / "optimum-llama", num_threads=1)
    assert decoder.spec.gather is None
    assert decoder.prefill(0, [1, 2]).shape == (512,)
