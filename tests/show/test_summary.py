"""The summary table."""

from __future__ import annotations

import numpy as np

from lite import TensorClass, TensorDict


class Point(TensorClass):
    xy: np.ndarray
    label: str | None = None


def test_summary_lists_bytes_of_every_entry() -> None:
    td = TensorDict(
        {"x": np.zeros((2, 5)), "s": "text", "n": {"y": np.zeros(2, np.int8), "e": {}}}, batch_size=[2]
    )
    rows = {row.split("  ")[0]: row.split() for row in td.summary().splitlines()}
    assert rows["x"][-1] == "80"
    assert rows["('n', 'y')"][-2:] == ["int8", "2"]
    assert rows["s"][1] == "NonTensorData"
    assert rows["('n', 'e')"][-1] == "0"
    assert td.summary().splitlines()[-1] == "TensorDict, batch_size=(2,): 2 arrays, 82 B"
    assert td.bytes() == 82


def test_summary_of_a_tensorclass_and_of_nothing() -> None:
    assert "xy" in Point(xy=np.zeros(2)).summary()
    assert TensorDict().summary().endswith("TensorDict, batch_size=(): 0 arrays, 0 B")
