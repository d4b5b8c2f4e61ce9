"""Trees over priorities: draws in proportion to them, and changes, in the logarithm of their number.

A tree is one array of twice a power of two: node i holds the sum (or the least) of the nodes 2i and 2i + 1,
`tree[1]` is the whole, and the leaves are the second half. Functions change the array that they get.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from lite.kernels._arrays import contiguous, to_numpy
from lite.kernels._integer import integer

Tree = NDArray[np.floating[Any]]

_DTYPES = (np.dtype(np.float32), np.dtype(np.float64))


def sum_tree(capacity: int, dtype: DTypeLike = np.float32) -> Tree:
    """A tree of sums over `capacity` leaves that are all 0.

    Args:
        capacity: at least 1.
        dtype: float32 or float64, of the leaves and the sums.

    Returns:
        An array of twice the power of two that `capacity` fits: `tree[1]` is the sum of all leaves, leaf i is
        `tree[tree.size // 2 + i]`. Memory is taken as leaves are first written.

    Raises:
        TypeError: a capacity that is not an integer, another dtype.
        ValueError: a capacity below 1.

    Source:
        Schaul et al. (2016), Prioritized experience replay (arXiv:1511.05952), appendix B.2.1.

    Example:
        >>> from lite.kernels import search_sum_tree, sum_tree, update_sum_tree
        >>> tree = sum_tree(5)
        >>> update_sum_tree(tree, [0, 1, 4], [1.0, 2.0, 3.0])
        >>> float(tree[1])
        6.0
        >>> search_sum_tree(tree, [0.5, 1.0, 2.9, 3.0]).tolist()
        [0, 1, 1, 4]
    """
    return np.zeros(2 * _leaves(capacity), _dtype(dtype))


def min_tree(capacity: int, dtype: DTypeLike = np.float32) -> Tree:
    """A tree of minima over `capacity` leaves that are all infinite.

    Args and errors: those of `sum_tree`.

    Example:
        >>> from lite.kernels import min_tree, update_min_tree
        >>> tree = min_tree(5)
        >>> update_min_tree(tree, [0, 4], [3.0, 2.0])
        >>> float(tree[1])
        2.0
    """
    return np.full(2 * _leaves(capacity), np.inf, _dtype(dtype))


def update_sum_tree(tree: Tree, index: ArrayLike, values: ArrayLike) -> None:
    """Set leaves of a tree of sums, and the sums above them, in place.

    A batch of m leaves side by side takes time in m, any others in m log(capacity / m). Of several values
    for one leaf the last counts.

    Args:
        tree: a result of `sum_tree`.
        index: integers of any shape, from 0 on.
        values: finite numbers of at least 0, one for all or of the shape of `index`.

    Raises:
        IndexError: an index that the tree does not have. Nothing is written, as with all errors.
        TypeError: an index of no integers.
        ValueError: NaN, infinite or negative values, shapes that do not fit, an array that is not a tree.
    """
    _update(tree, index, values, False)


def update_min_tree(tree: Tree, index: ArrayLike, values: ArrayLike) -> None:
    """Set leaves of a tree of minima, and the minima above them, in place.

    Args and errors: those of `update_sum_tree`; values may be infinite.
    """
    _update(tree, index, values, True)


def search_sum_tree(tree: Tree, mass: ArrayLike) -> NDArray[np.int64]:
    """The leaf at which the running sum of a tree of sums first exceeds each mass.

    With masses drawn uniformly below `tree[1]` each leaf is drawn in proportion to its value. A leaf of 0 is
    never the answer while another is not, however sums were rounded; a mass of the total or more gives the
    last leaf that is not 0.

    Args:
        tree: a result of `sum_tree`.
        mass: numbers of at least 0, of any shape.

    Returns:
        int64, the shape of `mass`; what `np.searchsorted(np.cumsum(leaves), mass, "right")` gives.

    Raises:
        ValueError: a mass that is negative or NaN, an array that is not a tree.
    """
    _require_tree(tree)
    given = to_numpy("mass", mass)
    left = np.array(given, np.float64, order="C")  # the kernel uses it up
    out = np.empty(left.shape, np.int64)
    flat = left.reshape(-1)
    wrong = _compiled().search(tree, flat, out.reshape(-1))
    if wrong >= 0:
        raise ValueError(f"mass must be at least 0, got {given.reshape(-1)[wrong]}")
    return out


def _update(tree: Tree, index: ArrayLike, values: ArrayLike, least: bool) -> None:
    _require_tree(tree)
    places, given = to_numpy("index", index), to_numpy("values", values)
    if places.dtype.kind not in "iu" and places.size:
        raise TypeError(f"index must be integers, got {places.dtype}")
    if given.shape != places.shape:
        try:
            given = np.broadcast_to(given, places.shape)
        except ValueError:
            raise ValueError(
                f"values must be one number or have the shape of index, {places.shape}, got {given.shape}"
            ) from None
    flat = contiguous(places, np.int64).reshape(-1)
    if given.dtype == tree.dtype:
        leaves = contiguous(given, tree.dtype).reshape(-1)
    else:
        with np.errstate(over="ignore"):  # what is too large for float32 is refused as infinite
            leaves = contiguous(given, tree.dtype).reshape(-1)
    wrong = _compiled().update(tree, flat, leaves, np.empty(flat.size, np.int64), least)
    if wrong >= 0:
        raise IndexError(f"index must be from 0 to {tree.size // 2 - 1}, got {flat[wrong]}")
    if wrong < -1:
        wanted = "at least 0 and not NaN" if least else "finite and at least 0"
        raise ValueError(f"values must be {wanted}, got {leaves[-2 - wrong]}")


@functools.cache  # an import within a function takes as long as a small batch
def _compiled() -> Any:
    from lite.kernels.cpu import sum_tree as compiled

    return compiled


def _leaves(capacity: int) -> int:
    capacity = integer("capacity", capacity, least=1)
    return 1 << (capacity - 1).bit_length()


def _dtype(dtype: DTypeLike) -> np.dtype[Any]:
    wanted = np.dtype(dtype)
    if wanted not in _DTYPES:
        raise TypeError(f"dtype must be float32 or float64, got {wanted}")
    return wanted


def _require_tree(tree: Any) -> None:
    fits = type(tree) is np.ndarray and tree.dtype in _DTYPES and tree.ndim == 1 and tree.flags.carray
    if not fits or tree.size < 2 or tree.size & (tree.size - 1):
        raise ValueError("tree must be an array that sum_tree or min_tree made")
