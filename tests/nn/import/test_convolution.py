"""Convolutions and their transposes."""

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
]  # fmt: skip


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)
