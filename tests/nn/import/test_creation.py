"""Operators that make arrays."""

import numpy as np
from helpers.onnx_nodes import Case, check_all, numbers

CASES = [Case("OneHot", [np.array([0, -1]), np.array(3), numbers(2)], {"axis": 0})]


def test_gradients_maps_and_graphs() -> None:
    check_all(CASES)
