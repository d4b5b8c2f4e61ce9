"""Operators that make arrays."""

import numpy as np
from helpers.onnx_nodes import Case, check_all, numbers

CASES = [
    Case("OneHot", [np.array([0, -1]), np.array(3), numbers(2)], {"axis": 0}),
    *(
        Case("Range", [np.array(n, dtype) for n in (*ends, 2)])
        for dtype in ("int64", "float32")
        for ends in ((1, 6), (2, 2), (3, 1))
    ),
]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)
