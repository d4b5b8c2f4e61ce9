"""Operators that make arrays."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.onnx_nodes import Case, check, numbers

CASES = [
    Case("OneHot", [np.array([0, -1]), np.array(3), numbers(2)], {"axis": 0}),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_maps_and_graphs(case: Case) -> None:
    check(case)
