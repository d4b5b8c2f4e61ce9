"""Brackets, against NumPy."""

import itertools
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.graphs import check, numbers

X = numbers(5, 6, 4)
BASIC = [
    np.s_[0], np.s_[-1], np.s_[:, 2], np.s_[:, -2, 1], np.s_[:, 1:4], np.s_[:, ::2], np.s_[:, ::-1],
    np.s_[:, 4:1:-1], np.s_[:, -3:-1], np.s_[..., 1], np.s_[None], np.s_[:, None, ..., None], np.s_[:, 5:2],
    np.s_[::-1], np.s_[...], np.s_[:, :, 10:], np.s_[:, -6], np.s_[:, -9:2:-1],
]  # fmt: skip


def test_basic() -> None:
    check(lambda x: [x[index] * 1 for index in BASIC], X)


def test_slices_of_a_dynamic_dimension_and_of_a_computed_one() -> None:
    bounds = (None, 0, 1, 3, -1, -3)
    slices = [slice(*cut) for cut in itertools.product(bounds, bounds, (1, 2, -1, -2))]
    check(lambda x: [x[cut] * 1 for cut in slices], X[..., 0], sizes=(4, 9))
    check(lambda x: [x[x[:, 0] > 0][cut] * 1 for cut in slices], np.abs(X[..., 0]), sizes=(4, 9))


ARRAYS = [
    np.s_[[]], np.s_[[0, 2]], np.s_[:, [1, 3, -1]], np.s_[:, np.array([[0, 1], [2, 3]])],
    np.s_[:, [1, 2], [3, 0]],
    np.s_[:, [1, 2], 3], np.s_[:, 1, [0, 2]], np.s_[1, :, [0, 2]], np.s_[[0, 2], :, [1, 3]],
    np.s_[[[0], [2]], 1:, [1, 3]], np.s_[np.array([0, 1]), :, 2], np.s_[..., np.array(2)],
]  # fmt: skip


def test_arrays_of_integers() -> None:
    check(lambda x: [x[index] * 1 for index in ARRAYS], X, sizes=(3, 9))


def test_writes() -> None:
    def function(x: np.ndarray) -> list[np.ndarray]:
        found = []
        for index in (
            *(np.s_[...], np.s_[:], np.s_[:, 1], np.s_[:, -1, 2], np.s_[:, -6]),
            *(np.s_[:, 1:5:2], np.s_[:, ::-1], np.s_[..., 0], np.s_[:, 3:3]),
        ):
            out = x * 1
            out[index] = out.sum((1, 2)).reshape(-1, *[1] * (out[index].ndim - 1)) * 2
            found.append(out)
        out = x * 1
        out[:, 0] = 3
        out[:, 1] += out[:, 2]
        return [*found, out]

    check(function, X, rtol=1e-4)


def test_writes_into_a_part_of_a_dynamic_dimension() -> None:
    def function(x: np.ndarray) -> list[np.ndarray]:
        found = []
        for index in (
            *(np.s_[0], np.s_[-1], np.s_[:2], np.s_[1:], np.s_[-2:], np.s_[1:3], np.s_[::2], np.s_[::-1]),
            *(np.s_[0, 1], np.s_[1:, 1:3], np.s_[:-1, ..., 0], np.s_[None, 1], np.s_[2, :, 1], np.s_[..., 0]),
            *(np.s_[:1:-1], np.s_[-2::-1]),
        ):
            out = x * 1
            out[index] += out[index] * 2
            out[index] = 3 * out[:, 1].max()
            found += [out, out > 1]
            found[-1][index] = False
        out = x * 1
        out[1:] = out[:-1]
        out[1:3][0] = out[0] + 1
        return [*found, out]

    check(function, X, sizes=(4, 6, 9), rtol=1e-4)


def test_writes_at_arrays_masks_and_new_axes() -> None:
    def function(x: np.ndarray) -> Any:
        out, other, third = x * 1, x * 1, x * 1
        out[:, [3, 0], 1] = x[:, :2, 0]
        out[:, np.array([5, 1])] += 2
        out[[0, 1], 1:3, [2, 0]] *= 3
        other[x > 0.5] = 7
        other[:, None, 0] = 3
        third[other.argmax(0)[0, :2]] = 0.5
        np.add.at(third, (slice(None), [0, 0, 2]), x[:, :3])
        np.maximum.at(third, (slice(None), [1]), 0.25)
        np.put_along_axis(third, x.argmax(1, keepdims=True), -1.0, 1)
        return out, other, third

    check(function, X, sizes=(6, 9))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_a_mask_chooses() -> None:
    """How much that is, depends on numbers: a size that the graph computes."""

    def function(x: np.ndarray) -> list[Any]:
        rows, all_of = x[:, 0, 0] > 0, x > 0.5
        some = x[rows]
        found = [some, x[all_of], x[:, x[0, :, 0] < 9, 1], x[rows, 0], x[all_of[..., 0]], x[~rows][..., None]]
        found += [some.sum(0), some.mean(0), (some - x[0]) @ x[0].T, some.reshape(-1) * 2, some * x[rows, :1]]
        found += [some[:2], some[1:-1], some[-2::-1], some[::2], np.diff(some, axis=0), some.std(0, ddof=1)]
        return [*found, some[:, all_of[0]] + some.shape[0], *np.nonzero(all_of), np.concatenate([some, x])]

    check(function, X, sizes=(3, 9), rtol=1e-4)
    check(function, -np.abs(X), sizes=(2,), rtol=1e-4)  # nothing


def test_parts_of_what_was_joined() -> None:
    def function(x: np.ndarray, y: np.ndarray) -> list[Any]:
        whole = np.concatenate([x, y, x[:2] * 2, x])
        n, m = x.shape[0], y.shape[0]
        parts = [whole[:n], whole[n : n + m], whole[n + m : n + m + 2], whole[n + m + 2 :], whole[n:]]
        return [*(part * 2 for part in parts), parts[0] + parts[3] + x, parts[1].mean(0) + y]

    check(function, X, X[:3] + 1, axes={0: {0: "n"}, 1: {0: "m"}}, sizes=(4, 2))


def test_writes_where_a_mask_holds() -> None:
    def function(x: np.ndarray) -> list[np.ndarray]:
        found, rows = [], x[:, 0, 0] > 0
        for index in (rows, x > 0.5, x[..., 0] < 0, (rows, 1), (slice(None), x[0, :, 0] > 0)):
            for new in (x[index] ** 2, 3.0):
                out = x * 1
                out[index] = new
                found.append(out)
            found.append(x * 1)
            found[-1][index] += 2
        out = x * 1
        out[rows] = x[0, :, :1]
        np.add.at(out, rows, x[rows] * 2)
        return [*found, out]

    check(function, X, sizes=(3, 9))


def test_what_is_refused() -> None:
    def write(x: np.ndarray, index) -> np.ndarray:
        out = x * 1
        out[index] = 0
        return out

    for function, message in (
        (lambda x: x[x.max() > 0], "indexes with a bool"),
        (lambda x: write(x, np.s_[: x.shape[0] // 2]), "cuts a dynamic dimension"),
        (lambda x: x[:, [0, 1], np.newaxis, [0, 1]], "several arrays and new axes"),
        (lambda x: x[: x.shape[0] // 2], "cuts a dynamic dimension"),
        (lambda x: x[:10000], "cuts a dynamic dimension"),
        (list, "walks over a dimension of dynamic size"),
    ):
        raises(NotImplementedError, message, check, function, X)
    for index in (np.s_[:, 6], np.s_[:, -7]):
        raises(IndexError, "out of bounds for axis 1 with size 6", check, lambda x, index=index: x[index], X)
        raises(IndexError, "out of bounds for axis 1 with size 6", check, lambda x, i=index: write(x, i), X)
    raises(IndexError, "too many indices", check, lambda x: x[0, 0, 0, 0], X)
