"""Convolutions and their transposes."""

import numpy as np
from helpers.onnx_nodes import Case, check_all, numbers

CASES = [
    Case("Conv", [numbers(2, 4, 9), numbers(6, 2, 3, seed=1), numbers(6)], {"group": 2, "strides": [2]}),
    Case("Conv", [numbers(2, 2, 5, 6), numbers(3, 2, 3, 2, seed=1)],
        {"pads": [1, 0, 2, 1], "dilations": [1, 2]}),
    Case("Conv", [numbers(1, 2, 5, 5), numbers(3, 2, 2, 2, seed=1)],
        {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    Case("FusedConv",
        [numbers(1, 2, 5, 5), numbers(3, 2, 3, 3, seed=1), numbers(3), numbers(1, 3, 3, 3, seed=2)],
        {"activation": "Relu"}, "com.microsoft"),
    Case("FusedConv", [numbers(1, 2, 5, 5), numbers(3, 2, 3, 3, seed=1)],
        {"activation": "Clip", "activation_params": [-0.5, 1.5], "pads": [1, 1, 1, 1]}, "com.microsoft"),
    Case("ConvTranspose", [numbers(2, 4, 3), numbers(4, 3, 3, seed=1)], {"strides": [2], "pads": [1, 1]}),
    Case("ConvTranspose", [numbers(1, 4, 3, 3), numbers(4, 3, 2, 3, seed=1), numbers(6)],
        {"group": 2, "strides": [2, 2], "output_padding": [1, 0]}),
    Case("Conv", [numbers(1, 2, 5), numbers(3, 2, 2, seed=1)], {"auto_pad": "VALID", "strides": [2]}),
    Case("ConvTranspose", [numbers(1, 2, 3), numbers(2, 3, 2, seed=1)],
        {"auto_pad": "VALID", "strides": [2]}),
    Case("ConvTranspose", [numbers(1, 2, 3, 3), numbers(2, 1, 1, 1, seed=1)], {"pads": [1, 0, 1, 0]}),
    Case("Conv", [numbers(1, 2, 5), numbers(3, 2, 1, seed=1)], {"auto_pad": "SAME_UPPER", "strides": [2]}),
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
