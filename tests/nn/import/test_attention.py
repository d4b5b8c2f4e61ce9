"""Attention, rotations and caches."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.onnx_nodes import Case, check, numbers

CASES = [
    Case(
        "Attention",
        [numbers(2, 4, 3, 6), numbers(2, 2, 5, 6, seed=1), numbers(2, 2, 5, 6, seed=2)],
        {"is_causal": 1, "softcap": 2.0},
        opset=23,
    ),
    Case(
        "GroupQueryAttention",
        [
            *(numbers(2, 3, 16, seed=0), numbers(2, 3, 8, seed=1), numbers(2, 3, 8, seed=2)),
            *(
                np.zeros((2, 2, 0, 4)),
                np.zeros((2, 2, 0, 4)),
                np.array([2, 1], np.int32),
                np.array(3, np.int32),
            ),
            *(np.cos(numbers(8, 2)), np.sin(numbers(8, 2))),
        ],
        {"num_heads": 4, "kv_num_heads": 2, "do_rotary": 1},
        "com.microsoft",
        outputs=3,
    ),
    Case(
        "GroupQueryAttention",
        [
            *(numbers(2, 1, 32), None, None, numbers(2, 2, 5, 4, seed=1), numbers(2, 2, 5, 4, seed=2)),
            *(np.array([3, 5], np.int32), np.array(6, np.int32)),
        ],
        {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 3},
        "com.microsoft",
        outputs=3,
    ),
    Case(
        "RotaryEmbedding",
        [numbers(2, 3, 3, 4), np.array([[0, 1, 2], [3, 4, 5]]), numbers(8, 2), numbers(8, 2, seed=1)],
        {"interleaved": 1},
        "com.microsoft",
    ),
    Case(
        "CausalConvWithState",
        [numbers(2, 3, 4), numbers(3, 1, 3, seed=1)],
        {"activation": "silu"},
        outputs=2,
        opset=27,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_maps_and_graphs(case: Case) -> None:
    check(case)
