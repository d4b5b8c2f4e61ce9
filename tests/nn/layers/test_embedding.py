"""Embedding: rows of a table."""

import numpy as np
from helpers.cases import raises

from lite import nn


def test_rows() -> None:
    layer = nn.Embedding(5, 3, padding_idx=0, rng=0)
    tokens = np.array([[0, 4], [2, 2]])
    np.testing.assert_array_equal(layer(tokens), layer.weight.data[tokens])
    np.testing.assert_array_equal(layer.weight.data[0], 0)


def test_max_norm_shortens_the_rows_that_are_read() -> None:
    table = np.array([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]], np.float32)
    layer = nn.Embedding.from_pretrained(table.copy(), max_norm=1.0)
    np.testing.assert_allclose(layer(np.array([0, 1])), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-4)
    np.testing.assert_array_equal(layer.weight.data[2], table[2])


def test_what_is_no_row() -> None:
    layer = nn.Embedding(3, 2)
    for wrong in ([3], [-1]):
        raises(IndexError, "input must be from 0 to 2, got ", layer, np.array(wrong))
    raises(TypeError, "looked up by integers, got float64", lambda: layer(np.array([0.5])))
    raises(ValueError, "padding_idx must be a row", lambda: nn.Embedding(3, 2, padding_idx=3))
    raises(ValueError, r"2 dimensions, got shape \(3,\)", lambda: nn.Embedding.from_pretrained(np.zeros(3)))


def test_options_are_shown() -> None:
    for options in (
        "",
        ", padding_idx=0, max_norm=1.0, sparse=True",
        ", norm_type=1.0, scale_grad_by_freq=True",
    ):
        assert repr(eval(f"nn.Embedding(5, 3{options})")) == f"Embedding(5, 3{options})"
