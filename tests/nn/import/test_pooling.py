"""Pooling."""

import numpy as np
from helpers.onnx_nodes import Case, check_all, numbers

CASES = [
    Case("MaxPool", [numbers(2, 3, 6, 6)], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case("MaxPool", [numbers(2, 3, 8, 6)], {"kernel_shape": [3, 2], "strides": [2, 2], "ceil_mode": 1}),
    Case("MaxPool", [numbers(1, 2, 4, 4, 4)], {"kernel_shape": [2, 2, 2], "pads": [1, 0, 0, 0, 0, 1]}),
    Case(
        "AveragePool",
        [numbers(2, 3, 6, 5)],
        {"kernel_shape": [3, 2], "pads": [1, 0, 0, 1], "strides": [2, 2]},
    ),
    Case("AveragePool", [numbers(2, 3, 6)], {"kernel_shape": [3], "pads": [1, 1], "count_include_pad": 1}),
    Case(
        "MaxPool", [numbers(1, 2, 5)], {"kernel_shape": [2], "strides": [3], "pads": [0, 1], "ceil_mode": 1}
    ),
    Case(
        "MaxPool", [numbers(2, 3, 7, 6)], {"kernel_shape": [2, 2], "dilations": [2, 3]}, outputs=2,
        traces=False, maps=False,
    ),
    *(
        Case(
            "MaxPool", [numbers(2, 3, 6, 5)],
            {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 0, 0, 1], "storage_order": order},
            outputs=2, traces=False, maps=False,
        )
        for order in (0, 1)
    ),
    Case("GlobalLpPool", [numbers(2, 3, 4, 5)], {"p": 3}),
    Case("LpPool", [numbers(2, 3, 6)], {"kernel_shape": [3], "p": 2}),
    Case("GlobalAveragePool", [numbers(2, 3, 4, 5)]),
    Case("GlobalMaxPool", [numbers(2, 3, 4, 5)]),
    Case("LpPool", [numbers(2, 3, 6)], {"kernel_shape": [3]}),
    Case("GlobalLpPool", [numbers(2, 3, 4)]),
    *(
        Case(
            "MaxPool", [numbers(1, 2, size)],
            {"kernel_shape": [2], "strides": [2], "pads": [1, 1], "ceil_mode": 1},
        )
        for size in (3, 4)
    ),
    Case("MaxUnpool", [np.float32([[[5, 6, 7]]]), np.array([[[0, 2, 3]]])],
        {"kernel_shape": [2], "strides": [2], "pads": [1, 1]}),
]  # fmt: skip


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)
