"""Pictures at other sizes."""

import numpy as np
from helpers.onnx_nodes import Case, check_all, numbers

CASES = [
    Case("Resize", [numbers(1, 2, 3, 4), None, np.array([1, 1, 2, 0.5], np.float32)], {"mode": "cubic"}),
    Case(
        "Resize",
        [numbers(1, 2, 3, 4), None, None, np.array([1, 2, 5, 2])],
        {"mode": "linear"},
        has_values=False,
    ),
    Case("Resize", [numbers(1, 2, 3, 4), None, np.array([1, 1, 2, 3], np.float32)], {"mode": "nearest"}),
    Case(
        "Resize",
        [numbers(1, 2, 3, 4), None, np.array([1, 1, 1.5, 1.3], np.float32)],
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"},
    ),
    Case(
        "Resize",
        [numbers(1, 2, 3, 4), None, np.array([1, 1, 0.5, 2], np.float32)],
        {"mode": "nearest", "coordinate_transformation_mode": "tf_half_pixel_for_nn"},
    ),
    Case(
        "GridSample",
        [numbers(1, 2, 3, 4), np.tanh(numbers(1, 2, 2, 2, seed=1))],
        {"mode": "linear"},
        traces=False,
    ),
    Case("Col2Im", [numbers(2, 8, 4), np.array([3, 3]), np.array([2, 2])]),
    Case("Resize", [numbers(1, 2, 3, 4), np.array([1, 1, 2, 2], np.float32)], {"mode": "nearest"}, opset=10),
    *(
        Case("Resize", [numbers(1, 2, 6, 7), np.array([1, 1, *scales], np.float32)], {"mode": mode}, opset=10)
        for mode in ("nearest", "linear")
        for scales in ((2, 1.5), (0.5, 0.6))
    ),
    *(
        Case(
            "Resize",
            [numbers(1, 2, 6, 7), None, np.array([1, 1, *scales], np.float32)],
            {"mode": mode, "coordinate_transformation_mode": how, "nearest_mode": "floor"},
        )
        for mode in ("nearest", "linear", "cubic")
        for how in ("align_corners", "half_pixel", "asymmetric")
        for scales in ((2.3, 0.7), (0.5, 0.6))
    ),
    *(
        Case(
            "GridSample",
            [numbers(1, 2, rows, 4), 2 * numbers(1, 5, 5, 2, seed=1)],
            {"mode": "linear", "padding_mode": "reflection", "align_corners": 1},
            traces=False,
        )
        for rows in (3, 1)
    ),
    Case("Col2Im", [numbers(1, 4, 20), np.array([3, 4]), np.array([2, 2])], {"pads": [1, 0, 1, 2]}),
    Case(
        "Resize",
        [numbers(1, 2, 3, 4), None, np.array([1, 1, 1 / 3, 0.5], np.float32)],
        {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
    ),
    *(
        Case(
            "Resize",
            [
                *(numbers(1, 2, 3, 4), np.array([0, 0, *start, 1, 1, *stop], np.float32)),
                np.array([1, 1, 1 / 3, 0.75], np.float32),
            ],
            {"mode": "cubic", "coordinate_transformation_mode": "tf_crop_and_resize", **options},
            opset=11,
        )
        for start, stop, options in (
            ((0.2, 0.3), (0.6, 0.9), {}),
            ((0.2, 2.3), (0.6, 3.9), {"exclude_outside": 1, "extrapolation_value": 0.5}),
        )
    ),
    Case("Col2Im", [numbers(1, 4, 20), np.array([3, 4]), np.array([2, 2])], {"pads": [1, 1, 1, 1]}),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)
