"""Steps of optimisers in compiled code, for `lite.optim`."""

import functools
from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray

from lite.kernels._threads import for_rows

_SERIAL = 500_000  # numbers: below, starting a thread costs more than it saves
_CHUNK = 1 << 17


def advance(name: str, leaves: Sequence[Sequence[NDArray[Any]]], numbers: NDArray[Any]) -> None:
    """One step of "adam", "sgd", "rmsprop" or "lerp" for each leaf, in place.

    Args:
        name: name of the kernel.
        leaves: the flat, writable arrays of each, all of the dtype of `numbers`: what is changed, the
            gradient, which is only read, and the state. Arrays that a setting does without are empty.
        numbers: numbers of the step, as the kernel reads them.
    """
    kernel = getattr(_compiled(), name)
    if sum([leaf[0].size for leaf in leaves]) <= _SERIAL:
        for leaf in leaves:
            kernel(*leaf, numbers)
        return
    pieces = [(leaf, start) for leaf in leaves for start in range(0, leaf[0].size, _CHUNK)]

    def run(first: int, last: int) -> None:
        for leaf, start in pieces[first:last]:
            kernel(*[array[start : start + _CHUNK] for array in leaf], numbers)

    for_rows(run, len(pieces), 1)


@functools.cache  # an import within a function takes as long as a small step
def _compiled() -> Any:
    from lite.kernels.cpu import optimizers as compiled

    return compiled
