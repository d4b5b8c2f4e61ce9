"""What worker processes must be able to import: they find helpers on the path, test modules not always."""

from __future__ import annotations

import numpy as np

from lite import TensorClass, TensorDict


class Point(TensorClass):
    xy: np.ndarray
    label: str | None = None
    tags: list[str] | None = None


def echo_plus_one(td: TensorDict) -> TensorDict:
    """Add one to `x` in place, and send everything back."""
    x = td["x"]
    x += 1
    return td
