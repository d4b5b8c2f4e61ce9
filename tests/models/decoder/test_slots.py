"""Rows in slots of shared buffers, on a real GroupQueryAttention graph."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.models.real_models import open_model

from lite.models import OnnxDecoder

pytest.importorskip("onnxruntime")


@pytest.fixture
def slots() -> OnnxDecoder:
    return open_model("genai-llama-fp32")


def test_rows_change_places_and_keep_what_they_hold(slots: OnnxDecoder) -> None:
    """Rows that decode together need neighbouring slots; whoever is there moves away."""
    texts = [[1, 2, 3], [4, 5], [6, 7, 8, 9], [10], [11, 12]]
    slots.prefill_rows(range(5), texts)
    for rows in ([0, 4], [1, 3], [4, 0, 2], [3, 2, 1, 0], [2, 4]):
        logits = slots.decode([20 + row for row in rows], rows)
        for row, got in zip(rows, logits, strict=True):
            texts[row].append(20 + row)
            alone = open_model("genai-llama-fp32")
            np.testing.assert_allclose(got, alone.prefill(0, texts[row]), atol=2e-5)
    assert slots.lengths.tolist() == [len(text) for text in texts]
