"""Rows that are cut, continued and laid to rest, in every convention."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from helpers.models import decoder_graphs
from helpers.models.real_models import EXPECTED, open_model

from lite.models import Padding, RewindableDecoder

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", sorted(decoder_graphs.GRAPHS))
def test_cut_and_continued(name: str, rng: np.random.Generator) -> None:
    decoder, _, expected = decoder_graphs.make(name)
    atol = 2e-2 if "half" in name else 1e-4
    texts = [rng.integers(0, 23, length) for length in (12, 7, 9)]
    decoder.prefill_rows(range(3), texts)
    decoder.fork(0, 3)
    decoder.settle(3)
    decoder.decode([1, 2, 3], [0, 1, 2])
    held = [np.append(text, token) for text, token in zip(texts, (1, 2, 3), strict=True)]
    held.append(texts[0])
    for row, length in ((1, 4), (3, 10)):
        decoder.truncate(row, length)
        held[row] = held[row][:length]
    decoder.settle(1)
    new = [rng.integers(0, 23, length) for length in (2, 5, 1, 3)]
    logits = decoder.continue_rows(range(4), new)
    held = [np.concatenate(pair) for pair in zip(held, new, strict=True)]
    np.testing.assert_allclose(logits, [expected(row.tolist()) for row in held], atol=atol)
    for row in (2, 0):
        decoder.settle(row)
    logits = decoder.decode([4, 4, 4, 4])
    want = [expected([*row.tolist(), 4]) for row in held]
    np.testing.assert_allclose(logits, want, atol=atol)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_what_a_row_takes(name: str, rng: np.random.Generator) -> None:
    decoder = open_model(name)
    assert isinstance(decoder, RewindableDecoder)
    decoder.prefill_rows(range(4), [rng.integers(0, 500, 33)] * 4)
    if decoder.spec.cache:
        assert decoder.cache_bytes >= 4 * 33 * decoder.bytes_per_token
    else:
        assert decoder.bytes_per_token == 0
    if decoder.spec.padding in (Padding.LEFT, Padding.EQUAL):
        for row in (0, 1, 2):
            decoder.reset(row)
        size = decoder.settle(3)
        gc.collect()
        assert size == decoder.bytes_per_token * (decoder.spec.static_length or 33)
        assert size <= decoder.cache_bytes <= 2 * size  # rounded up


def test_bad_calls(rng: np.random.Generator) -> None:
    decoder = open_model("optimum-llama")
    decoder.prefill(0, [1, 2, 3])
    with pytest.raises(ValueError, match="ids must have one entry per row, got 2 for 1 rows"):
        decoder.continue_rows([0], [[1], [2]])
    with pytest.raises(ValueError, match="254 tokens after 3"):
        decoder.continue_rows([0], [np.ones(254, np.int64)])
    with pytest.raises(IndexError, match="rows must be between"):
        decoder.settle(7)
    assert decoder.lengths[0] == 3
    assert decoder.continue_rows([], []).shape == (0, decoder.vocab_size)
