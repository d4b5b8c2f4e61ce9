"""Operators that move numbers."""

import numpy as np
from helpers.onnx_nodes import Case, check_all, numbers

CASES = [
    Case("Reshape", [numbers(3, 4), np.array([0, 2, 2])]),
    Case("Flatten", [numbers(2, 3, 4)], {"axis": 2}),
    Case("Transpose", [numbers(2, 3, 4)], {"perm": [1, 2, 0]}),
    Case("Expand", [numbers(3, 1), np.array([2, 1, 4])]),
    Case("Tile", [numbers(3, 2), np.array([2, 3])]),
    Case("Split", [numbers(5, 2)], {"num_outputs": 2}, outputs=2),
    Case("Pad", [numbers(3, 4), np.array([1, 0, 0, 2]), np.array(2.0)]),
    Case("Pad", [numbers(3, 4), np.array([1, -1, 0, 2])]),
    Case("Pad", [numbers(3, 4), np.array([1, 1, 0, 2])], {"mode": "reflect"}),
    Case("Trilu", [numbers(3, 4)], {"upper": 0}),
    Case("DepthToSpace", [numbers(2, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
    Case("SpaceToDepth", [numbers(2, 2, 4, 6)], {"blocksize": 2}),
    Case("CenterCropPad", [numbers(3, 4), np.array([5, 2])]),
    Case("Pad", [numbers(3, 4, 2), np.array([1, 0, 2, 3]), None, np.array([2, 0])]),
    Case("CenterCropPad", [numbers(3, 4), np.array([4, 1])]),
    Case("Expand", [numbers(2, 3, 1), np.array([4])]),
    Case("CenterCropPad", [numbers(4, 7), np.array([3, 8])]),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)
