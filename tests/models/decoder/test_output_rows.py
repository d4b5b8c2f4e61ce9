"""The output matrix of a graph, read from its file."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from helpers.models.real_models import MODELS, STANDING, open_model
from numpy.typing import NDArray

from lite.models import OnnxDecoder
from lite.models.decoder.output_rows import OutputRows, output_rows

WHOLE = {"genai-qwen2-int4", "handmade-last-logits", "exporter-llama-pair", "exporter-llama-static"}
MATRIX: NDArray[np.float32] = np.random.default_rng(0).normal(size=(4, 3)).astype("<f4")


@pytest.mark.parametrize("name", [*STANDING, "genai-qwen2-int4"])
def test_logits_of_chosen_tokens(name: str, rng: np.random.Generator) -> None:
    decoder = open_model(name)
    assert (decoder._placed.output_rows is None) == (name in WHOLE)
    prompts = [rng.integers(0, 512, length) for length in (7, 1, 30)]
    tokens = [np.array([5]), np.array([], np.int64), np.array([511, 0, 7])]
    got = decoder.prefill_chosen([2, 0, 1], prompts, tokens)
    assert decoder.lengths.tolist() == [1, 30, 7]
    want = decoder.prefill_rows([2, 0, 1], prompts)
    for ids, ours, theirs in zip(tokens, got, want, strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs[ids], atol=1e-4, rtol=0)
    step = decoder.decode([1, 2, 3], [2, 0, 1])  # the cache goes on from there
    decoder.prefill_chosen([2, 0, 1], prompts, tokens)
    np.testing.assert_allclose(decoder.decode([1, 2, 3], [2, 0, 1]), step, atol=1e-4, rtol=0)
    assert decoder.prefill_chosen([], [], []) == []


# -- files -------------------------------------------------------------------------------------


def field(number: int, payload: bytes) -> bytes:
    return bytes([number << 3 | 2, len(payload)]) + payload


def number(which: int, value: int) -> bytes:
    return bytes([which << 3, value])


def node(kind: bytes, *inputs: bytes, output: bytes) -> bytes:
    return field(1, b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind))


def tensor(name: bytes, *rest: bytes, shape: tuple[int, ...] = (4, 3), kind: int = 1) -> bytes:
    sizes = b"".join(number(1, size) for size in shape)
    return field(5, sizes + number(2, kind) + field(8, name) + b"".join(rest))


def external(**place: str) -> bytes:
    return b"".join(
        field(13, field(1, key.encode()) + field(2, value.encode())) for key, value in place.items()
    )


RAW = field(9, MATRIX.tobytes())
PRODUCT = node(b"MatMul", b"hidden", b"w", output=b"logits")


def read(path: Path, *parts: bytes) -> OutputRows | None:
    model = field(7, b"".join(parts))
    path.write_bytes(model)
    return output_rows(model, path)


def test_columns_and_rows(tmp_path: Path) -> None:
    columns = read(tmp_path / "a.onnx", PRODUCT, tensor(b"w", RAW))
    assert columns is not None
    hidden = np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(columns.times(hidden, np.array([2, 0])), (hidden @ MATRIX)[[2, 0]], rtol=1e-6)
    turned = node(b"Transpose", b"e", output=b"w")
    rows = read(tmp_path / "b.onnx", turned, PRODUCT, tensor(b"e", RAW))
    assert rows is not None
    assert (rows.count, rows.width) == (4, 3)
    np.testing.assert_allclose(rows.times(hidden[:3], np.array([3])), MATRIX[3:] @ hidden[:3], rtol=1e-6)


def test_external_data(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"12345678" + MATRIX.tobytes())
    found = read(tmp_path / "a.onnx", PRODUCT, tensor(b"w", external(location="data", offset="8")))
    assert found is not None
    np.testing.assert_allclose(found.times(MATRIX[:, 0].copy(), np.array([0])), [(MATRIX[:, 0] ** 2).sum()])


def test_what_is_no_such_matrix(tmp_path: Path) -> None:
    cases: list[tuple[bytes, ...]] = [
        (PRODUCT,),  # of no tensor
        (PRODUCT, tensor(b"w", RAW), field(11, field(1, b"w"))),  # an adapter may replace it
        (PRODUCT, tensor(b"w", RAW, kind=10)),  # half precision
        (PRODUCT, tensor(b"w", RAW, shape=(12,))),
        (PRODUCT, tensor(b"w", RAW, shape=(4, 4))),  # more than there is
        (PRODUCT, tensor(b"w", RAW, shape=(0, 3))),
        (PRODUCT, tensor(b"w", external(location="data", offset="9"))),  # ends before it does
        (PRODUCT, tensor(b"w", external(location="data", offset="-1"))),
        (PRODUCT, tensor(b"w", external(location="data", offset="9" * 30))),
        (PRODUCT, tensor(b"w", external(location="none"))),
        (node(b"MatMulNBits", b"hidden", b"w", output=b"logits"), tensor(b"w", RAW)),
        (node(b"Cast", b"a", output=b"logits"), node(b"MatMul", b"h", b"w", output=b"a"), tensor(b"w", RAW)),
        (node(b"Relu", b"e", output=b"w"), PRODUCT, tensor(b"e", RAW)),
    ]
    for parts in cases:
        (tmp_path / "data").write_bytes(b"12345678" + MATRIX.tobytes())
        assert read(tmp_path / "a.onnx", *parts) is None, parts


def test_another_file_in_its_place(tmp_path: Path) -> None:
    shutil.copytree(MODELS / "optimum-llama", tmp_path / "model")
    decoder = OnnxDecoder(tmp_path / "model", num_threads=1)
    (tmp_path / "model" / "model.onnx").rename(tmp_path / "old")  # Windows removes no mapped file
    shutil.copy(MODELS / "optimum-gpt2" / "model.onnx", tmp_path / "model")
    (got,) = decoder.prefill_chosen([0], [np.array([1, 2])], [np.array([3])])
    np.testing.assert_allclose(got, decoder.prefill(0, [1, 2])[[3]], atol=1e-5)


def test_more_vectors_than_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.models.decoder.output_rows.MOST_KEPT", 2)
    matrix = read(tmp_path / "a.onnx", PRODUCT, tensor(b"w", RAW))
    assert matrix is not None
    hidden = np.arange(4, dtype=np.float32)
    for ids in ([0], [1, 0], [2, 1, 0, 2], [1], []):
        want = (hidden @ MATRIX)[ids]
        np.testing.assert_allclose(matrix.times(hidden, np.array(ids, np.int64)), want, rtol=1e-6)
        assert len(matrix._read) <= 3  # as many as one call has asked for
