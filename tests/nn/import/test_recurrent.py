"""Recurrent layers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.onnx_nodes import Case, check, numbers

CASES = [
    *[
        Case(
            op,
            [
                numbers(4, 2, 3),
                numbers(2, n * 5, 3, seed=1),
                numbers(2, n * 5, 5, seed=2),
                numbers(2, n * 10, seed=3),
            ],
            {"hidden_size": 5, "direction": "bidirectional", **more},
            outputs=2,
        )
        for op, n, more in (
            ("RNN", 1, {}),
            ("GRU", 3, {}),
            ("GRU", 3, {"linear_before_reset": 1}),
            ("LSTM", 4, {}),
        )
    ],
    Case(
        "LSTM",
        [
            *(
                numbers(4, 2, 3),
                numbers(1, 20, 3, seed=1),
                numbers(1, 20, 5, seed=2),
                None,
                np.array([4, 2], np.int32),
            ),
            *(numbers(1, 2, 5, seed=3), numbers(1, 2, 5, seed=4), numbers(1, 15, seed=5)),
        ],
        {"hidden_size": 5, "direction": "reverse", "clip": 1.5},
        outputs=3,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_maps_and_graphs(case: Case) -> None:
    check(case)
