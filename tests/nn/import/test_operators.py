"""The table of operators."""

from __future__ import annotations

import numpy as np

from lite.nn._import.operators import Spec, rule_of


def test_rules_are_found_by_domain() -> None:
    assert rule_of("", "Conv") is not None
    assert rule_of("com.microsoft", "Conv") is None
    assert rule_of("com.microsoft", "MatMulNBits") is not None


def test_what_a_node_says() -> None:
    attributes = {"axis": 1, "pads": [1, 2]}
    spec = Spec("Op", "", "node", 13, attributes, (True, False), (False, True), wide=np.dtype(np.float32))
    assert (spec.get("axis"), spec.get("other", 7), spec.ints("pads"), spec.ints("other")) == (
        1,
        7,
        (1, 2),
        None,
    )
    assert [spec.has(i) for i in range(3)] == [True, False, False]
    assert [spec.asks(i) for i in range(3)] == [False, True, False]
    assert (spec.dtype(10), spec.dtype(11)) == (np.float32, np.float64)
