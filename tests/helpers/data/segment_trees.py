"""What torchrl's prioritized samplers ask of a segment tree, on NumPy.

The compiled extension of torchrl's wheel does not load beside every torch; its samplers then run on these.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class SegmentTree:
    """Leaves, and a reduction over any range of them."""

    neutral = 0.0
    reduction: Any = np.add

    def __init__(self, size: int) -> None:
        self.leaves = np.full(size, self.neutral, np.float32)

    def __getitem__(self, index: Any) -> Any:
        found = self.leaves[np.asarray(index)]
        return found if found.ndim else float(found)

    def __setitem__(self, index: Any, values: Any) -> None:
        self.leaves[np.asarray(index)] = np.asarray(values)

    def query(self, start: int, stop: int) -> float:
        return float(self.reduction.reduce(self.leaves[start:stop]))


class SumTree(SegmentTree):
    def scan_lower_bound(self, mass: Any) -> Any:
        return np.searchsorted(np.cumsum(self.leaves, dtype=np.float64), np.asarray(mass), side="left")


class MinTree(SegmentTree):
    neutral = np.inf
    reduction = np.minimum
