"""Layers have their initial values also where gradients are noted."""

from collections.abc import Callable

import numpy as np
from helpers.cases import each_case

import lite
from lite import nn

MADE: dict[str, Callable[[], nn.Module]] = {
    "Linear": lambda: nn.Linear(3, 4, rng=0),
    "Bilinear": lambda: nn.Bilinear(2, 3, 4, rng=0),
    "Conv2d": lambda: nn.Conv2d(1, 2, 2, rng=0),
    "Embedding": lambda: nn.Embedding(5, 4, padding_idx=1, rng=0),
    "GRU": lambda: nn.GRU(3, 4, rng=0),
    "LSTMCell": lambda: nn.LSTMCell(3, 4, rng=0),
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2, add_bias_kv=True, rng=0),
    "LayerNorm": lambda: nn.LayerNorm(4),
    "RMSNorm": lambda: nn.RMSNorm(4),
    "BatchNorm1d": lambda: nn.BatchNorm1d(4),
}


@each_case("name", MADE)
def test_made_under_enable_grad(name: str) -> None:
    expected = MADE[name]()
    with lite.enable_grad():
        found = MADE[name]()
    for (key, value), (_, wanted) in zip(found.named_parameters(), expected.named_parameters(), strict=True):
        np.testing.assert_array_equal(value.data, wanted.data, err_msg=key)


@each_case("name", MADE)
def test_drawn_anew_under_enable_grad(name: str) -> None:
    module = MADE[name]()
    for value in module.parameters():
        value.data[...] = 777
    with lite.enable_grad():
        module.reset_parameters()
    values = {key: value.data for key, value in module.named_parameters() if key != "out_proj.weight"}
    assert not any((value == 777).any() for value in values.values())
