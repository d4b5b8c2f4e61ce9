"""Quantised weights."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.onnx_nodes import Case, check_all, module_of, numbers

CASES = [
    Case("DequantizeLinear", [np.arange(8, dtype=np.uint8).reshape(2, 4), np.array([0.5, 2.0])], {"axis": 0}),
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
