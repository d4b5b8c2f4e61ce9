"""Several results of one computation, whose derivative needs those by all of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from lite._transforms.grad.array import TracedArray
from lite._transforms.grad.tape import record, record_joint


def record_several(
    values: Sequence[Any], parents: Iterable[Any], pullback: Callable[[tuple[Any, ...]], Iterable[Any]]
) -> list[Any]:
    """`record_joint` for several results.

    Behind them stands one node, of a number that nobody sees. The results are computed from it, so the way
    back comes to it when the derivatives by all results are known.

    Args:
        values: the results.
        parents: the arguments.
        pullback: from the derivatives by the results, None for those that nothing depends on, to a tuple of
            those by the arguments.
    """
    found: list[Any] = [None] * len(values)

    def back(nothing: Any) -> Iterable[Any]:
        given = tuple(found)
        found[:] = [None] * len(values)
        return pullback(given)

    behind = record_joint(np.zeros((), np.float32), parents, back)
    if type(behind) is not TracedArray:
        return list(values)

    def keeping(i: int) -> Callable[[Any], Any]:
        def keep(g: Any) -> Any:
            found[i] = g
            return np.zeros((), np.float32)

        return keep

    return [record(value, (behind, keeping(i))) for i, value in enumerate(values)]
