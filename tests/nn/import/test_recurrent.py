"""Recurrent layers."""

import numpy as np
from helpers.onnx_nodes import Case, check_all, numbers

CASES = [
    *[
        Case(
            op,
            [
                numbers(3, 2, 3),
                numbers(ways, n * 2, 3, seed=1),
                numbers(ways, n * 2, 2, seed=2),
                numbers(ways, n * 4, seed=3),
            ],
            {"hidden_size": 2, "direction": "bidirectional" if ways == 2 else "forward", **more},
            outputs=2,
        )
        for op, n, ways, more in (
            ("RNN", 1, 1, {}),
            ("RNN", 1, 1, {"activations": ["Relu"]}),
            ("RNN", 1, 2, {"clip": 0.5}),
            ("GRU", 3, 1, {"clip": 0.5}),
            ("GRU", 3, 1, {"clip": 0.5, "linear_before_reset": 1}),
            ("LSTM", 4, 1, {"input_forget": 1}),
            ("GRU", 3, 2, {}),
            ("GRU", 3, 1, {"linear_before_reset": 1}),
        )
    ],
    Case(
        "LSTM",
        [
            *(
                numbers(3, 2, 3),
                numbers(1, 8, 3, seed=1),
                numbers(1, 8, 2, seed=2),
                None,
                np.array([3, 2], np.int32),
            ),
            *(numbers(1, 2, 2, seed=3), numbers(1, 2, 2, seed=4), numbers(1, 6, seed=5)),
        ],
        {"hidden_size": 2, "direction": "reverse", "clip": 1.5},
        outputs=3,
    ),
    *(
        Case(
            op,
            [numbers(3, 2, 3), numbers(2, n, 3, seed=1), numbers(2, n, 2, seed=2), numbers(2, 2 * n, seed=3)],
            {
                "hidden_size": 2,
                "direction": "bidirectional",
                "activations": names.split(),
                "activation_alpha": [0.3, 0.9],
                "activation_beta": [0.4, 0.2],
            },
            outputs=count,
        )
        for op, n, count, names in (
            ("LSTM", 8, 3, "HardSigmoid Softsign Relu Sigmoid Tanh Affine"),
            ("RNN", 2, 1, "LeakyRelu HardSigmoid"),
            ("GRU", 6, 2, "Sigmoid Tanh HardSigmoid Softsign"),
        )
    ),
    *(
        Case(
            "LSTM",
            [numbers(3, 2, 3), numbers(1, 8, 3, seed=1), numbers(1, 8, 2, seed=2), numbers(1, 16, seed=3)],
            {"hidden_size": 2, **options},
            outputs=3,
        )
        for options in ({"clip": 0.5}, {"input_forget": 1})
    ),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)
