"""Numbers taken from rows of logits, and rows on threads."""

import numpy as np
import pytest

from lite.kernels import _row_numbers, get_num_threads, set_num_threads
from lite.kernels._logits import Logits
from lite.kernels._row_numbers import numbers


def test_only_what_is_asked_for_is_made(rng):
    x = rng.normal(size=(5, 9)).astype(np.float32)
    log_probs, entropies, maxima, totals = numbers(Logits(x, None, 1.0), entropies=True)
    assert (log_probs.size, maxima.size, totals.size) == (0, 0, 0)
    p = np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum(-1, keepdims=True)
    np.testing.assert_allclose(entropies, -(p * np.log(p)).sum(-1), rtol=1e-6)


def test_rows_on_threads_are_the_same(rng, monkeypatch):
    x, tokens = rng.normal(size=(40, 50)).astype(np.float32), rng.integers(0, 50, 40)
    alone = numbers(Logits(x, None, 1.0), tokens, totals=True)
    monkeypatch.setattr(_row_numbers, "_SERIAL", 100)
    monkeypatch.setattr(_row_numbers, "_CHUNK", 150)
    before = get_num_threads()
    set_num_threads(3)
    try:
        threaded = numbers(Logits(x, None, 1.0), tokens, totals=True)
    finally:
        set_num_threads(before)
    np.testing.assert_equal(threaded, alone)


def test_a_token_outside_the_vocabulary_is_named():
    tokens = np.array([[0, 1], [4, 0]])
    with pytest.raises(IndexError, match=r"tokens\[1, 0\] is 4, which is outside the vocabulary of 4"):
        numbers(Logits(np.zeros((2, 2, 4), np.float32), None, 1.0), tokens)
