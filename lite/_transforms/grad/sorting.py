"""Rules of functions that sort: each element keeps its derivative wherever it goes.

Equal elements stay in their order (a stable sort), whatever `kind` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from lite._transforms.grad.rules import rule
from lite._transforms.grad.tape import record, value_of


@rule(np.sort)
def _sort(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    return _permuted(a, axis, lambda held, axis: np.argsort(held, axis, kind="stable"))


@rule(np.partition)
def _partition(a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: Any = None) -> Any:
    return _permuted(a, axis, lambda held, axis: np.argpartition(held, kth, axis))


def _permuted(a: Any, axis: int | None, permutation: Any) -> Any:
    if axis is None:
        a, axis = a.reshape(-1), 0
    held = value_of(a)
    order = permutation(held, axis)
    back = np.argsort(order, axis)
    value = np.take_along_axis(held, order, axis)
    return record(value, (a, lambda g: np.take_along_axis(g, back, axis)))
