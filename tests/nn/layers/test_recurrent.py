"""Recurrent layers against their cells, step by step."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import nn


def cell_of(cls: Any, layer: Any, suffix: str) -> Any:
    cell = cls(layer._tensor(f"weight_ih{suffix}").shape[1], layer.hidden_size)
    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
        setattr(cell, name, nn.Parameter(layer._tensor(name + suffix)))
    return cell


@each_case(("layer_class", "cell_class"), [(nn.RNN, nn.RNNCell), (nn.GRU, nn.GRUCell)])
def test_layers_and_directions(rng: np.random.Generator, layer_class: Any, cell_class: Any) -> None:
    layer = layer_class(2, 3, num_layers=2, bidirectional=True, rng=0)
    x = rng.normal(size=(5, 4, 2)).astype(np.float32)
    out, last = layer(x)
    below, ends = x, []
    for number in range(2):
        sides = []
        for suffix, order in ((f"_l{number}", range(5)), (f"_l{number}_reverse", reversed(range(5)))):
            cell, h = cell_of(cell_class, layer, suffix), np.zeros((4, 3), np.float32)
            states: list[Any] = [None] * 5
            for t in order:
                h = states[t] = cell(below[t], h)
            sides.append(np.stack(states))
            ends.append(h)
        below = np.concatenate(sides, -1)
    np.testing.assert_allclose(out, below, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, np.stack(ends), rtol=1e-4, atol=1e-5)


def test_errors() -> None:
    with pytest.warns(UserWarning, match=r"dropout=0\.5 does nothing with num_layers=1") as caught:
        nn.GRU(2, 3, dropout=0.5)
    assert caught[0].filename == __file__
    raises(ValueError, "'tanh' or 'relu', got 'sin'", lambda: nn.RNN(2, 3, nonlinearity="sin"))
    raises(RuntimeError, "input_size=2", lambda: nn.GRU(2, 3)(np.zeros((5, 4, 7), np.float32)))
    for size in (3, -1):
        raises(ValueError, "proj_size must be in", nn.LSTM, 2, 3, proj_size=size)
    with pytest.raises(ValueError, match="hx must be a tuple of the states h and c, got 1"):
        nn.LSTM(2, 3)(np.zeros((4, 2), np.float32), (np.zeros((1, 3), np.float32),))


def test_projections_without_biases(rng: np.random.Generator) -> None:
    x = rng.normal(size=(3, 2, 3)).astype(np.float32)
    bare, full = (nn.LSTM(3, 4, 2, bias=bias, proj_size=2, rng=0) for bias in (False, True))
    for name, parameter in full.named_parameters():
        parameter.data[...] = 0 if "bias" in name else dict(bare.named_parameters())[name].data
    for one, other in zip((bare(x)[0], *bare(x)[1]), (full(x)[0], *full(x)[1]), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
