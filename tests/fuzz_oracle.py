"""What indices and shape operations should give, from NumPy alone.

tensordict refuses or mistakes some of them (see the README's differences). Where a rule excuses such a
difference, lite's result is still compared with this: the numbers of the batch elements are put through
the same operation in NumPy, and lite's result must have those elements at those places.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fuzz_case import Case, elements, lazy_somewhere, same_elements, shorter_below
from fuzz_sides import LITE, Array, Mismatch


class Rows:
    """An operation that only moves, repeats or drops batch elements, as a function of their numbers."""

    def __init__(self, move: Callable[[Array], Any], dense: bool = False) -> None:
        self.move = move
        self.dense = dense  # for dense TensorDicts only

    def check(self, td: Any, result: Any) -> None:
        """Raise `Mismatch` where a result of lite is not what NumPy gives."""
        if -1 in td.batch_size:  # parts of different batch sizes have no numbers
            return
        if shorter_below(td):  # whose elements have no rows there
            return
        if self.dense and lazy_somewhere(td):  # exclusive keys are left out
            return
        numbers = np.arange(math.prod(td.batch_size)).reshape(td.batch_size)
        try:
            moved = self.move(numbers)
        except Exception as error:
            raise Mismatch("oracle", "", f"lite {result!r}, NumPy {error!r}") from error
        parts = isinstance(result, tuple)
        if parts and len(result) != len(moved):
            raise Mismatch("oracle", "", f"lite gives {len(result)} parts, NumPy {len(moved)}")
        rows = _flat(elements(td), td.ndim)
        for found, wanted in zip(result, moved, strict=True) if parts else [(result, moved)]:
            if found.batch_size != wanted.shape:
                raise Mismatch("oracle", "", f"batch size {found.batch_size}, NumPy {wanted.shape}")
            if not wanted.size and not lazy_somewhere(found) and found.keys() != td.keys():
                raise Mismatch("oracle", "", f"keys {found.keys()}, were {td.keys()}")
            if not same_elements(elements(found), _take(rows, wanted.tolist())):
                raise Mismatch("oracle", "", f"lite {elements(found)}, rows {wanted.tolist()} of {rows}")


def pairwise(case: Case) -> bool:
    """Whether two TensorDicts were combined, compared or chosen from leaf by leaf: batch dims meet from the
    right, and so do the features, whatever their number.
    """
    before, facts = case.before(), case.step.facts
    a = before[facts["target"]]
    b = LITE.value(facts["tree"]) if case.name == "where" else before[facts["other"]]
    try:
        for key, found in case.ours.items(True, True):
            x, y = a.get(key), b.get(key)
            if not isinstance(found, np.ndarray):
                continue
            ndim = max(x.ndim - a.ndim, y.ndim - b.ndim)
            x, y = (leaf.reshape(_widened(leaf.shape, td.ndim, ndim)) for leaf, td in ((x, a), (y, b)))
            size = max(a.ndim, b.ndim)
            x, y = (leaf[(None,) * (size + ndim - leaf.ndim)] for leaf in (x, y))
            if case.name == "where":
                wanted = np.where(facts["mask"].reshape(_widened(facts["mask"].shape, a.ndim, ndim)), x, y)
            else:
                compare = case.name == "arithmetic compare td"
                wanted = x == y if compare else x.astype(float) ** 2 + y.astype(float)
            if found.shape != wanted.shape or not np.allclose(found, wanted, equal_nan=True):
                return False
    except (ValueError, KeyError, AttributeError, RuntimeError):
        return False
    return bool(case.ours.batch_size == np.broadcast_shapes(a.batch_size, b.batch_size))


def _widened(shape: tuple[int, ...], batch_dims: int, features: int) -> tuple[int, ...]:
    missing = features - (len(shape) - batch_dims)
    return (*shape[:batch_dims], *(1,) * missing, *shape[batch_dims:])


def _flat(nested: Any, depth: int) -> list[Any]:
    if not depth:
        return [nested]
    return [row for item in nested for row in _flat(item, depth - 1)]


def _take(rows: list[Any], numbers: Any) -> Any:
    return [_take(rows, n) for n in numbers] if isinstance(numbers, list) else rows[numbers]


def shaped(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Rows | None:
    """The oracle of a method, None where there is none."""
    move = MOVES.get(name)
    return move and Rows(lambda numbers: move(numbers, *args, **kwargs), name == "gather")


def _flatten(x: Array, first: int, last: int) -> Array:
    merged = math.prod(x.shape[first : last + 1])
    return x.reshape((*x.shape[:first], merged, *x.shape[last + 1 :]))


def _unflatten(x: Array, d: int, sizes: Sequence[int]) -> Array:
    return x.reshape((*x.shape[:d], *sizes, *x.shape[d:][1:]))


def _squeeze(x: Array, d: int | None = None) -> Array:
    return x.squeeze(d) if d is None or x.shape[d] == 1 else x


def _split(x: Array, sizes: int | Sequence[int], d: int) -> list[Array]:
    if isinstance(sizes, int):
        return np.split(x, range(sizes, x.shape[d], sizes), d)
    if sum(sizes) != x.shape[d]:
        raise ValueError("sizes do not sum to the size of the dimension")
    return np.split(x, np.cumsum(sizes)[:-1], d)


def _chunk(x: Array, n: int, d: int) -> list[Array]:
    return _split(x, max(-(-x.shape[d] // n), 1), d)


def _reshape(x: Array, *shape: int) -> Array:
    return x.reshape(shape)


MOVES: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "view": _reshape,
    "flatten": _flatten,
    "unflatten": _unflatten,
    "unsqueeze": np.expand_dims,
    "squeeze": _squeeze,
    "permute": lambda x, *order: x.transpose(order) if order else x,
    "transpose": np.swapaxes,
    "movedim": np.moveaxis,
    "expand": lambda x, *shape: np.broadcast_to(x, shape),
    "split": _split,
    "chunk": _chunk,
    "unbind": lambda x, d: [np.asarray(row) for row in np.moveaxis(x, d, 0)],
    "repeat": lambda x, *n: np.tile(x, n),
    "repeat_interleave": lambda x, n, dim: np.repeat(np.atleast_1d(x), n, dim),
    "gather": lambda x, d, index: np.take_along_axis(x, index, d),
    "flip": lambda x, dims: np.flip(x, dims),
    "masked_select": lambda x, mask: x[mask],
}
