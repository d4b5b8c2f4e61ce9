"""Shapes as operators, against NumPy, at sizes other than the example has."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.graphs import check, numbers

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def test_reshapes_with_the_batch() -> None:
    x = numbers(5, 4, 6)
    check(lambda x: x.reshape(x.shape[0], -1), x)
    check(lambda x: x.reshape(-1, 6), x)
    check(lambda x: x.reshape(*x.shape[:2], 2, 3), x)
    check(lambda x: x.reshape(x.shape[0] * 2, 2, 6).reshape(2, -1, 12), x)
    check(lambda x: (np.ravel(x), x.flatten(), x.reshape(2, 2, -1)), x)


def test_two_dynamic_dimensions() -> None:
    x = numbers(5, 4, 6)
    axes = {0: {0: "n", 1: "t"}}
    check(lambda x: x.reshape(x.shape[0] * x.shape[1], 6) * 2, x, axes=axes)
    check(lambda x: (x.reshape(-1, 6) * 2).reshape(*x.shape[:2], 3, 2), x, axes=axes)
    check(lambda x: x.swapaxes(0, 1).reshape(x.shape[1], -1), x, axes=axes)
    check(lambda x: np.broadcast_to(x[:, :1], x.shape) + x, x, axes=axes)


def test_orders() -> None:
    x = numbers(5, 4, 6)
    check(lambda x: (x.T, x.mT, np.transpose(x, (1, 0, 2)), x.transpose(2, 0, 1), np.moveaxis(x, 0, -1)), x)
    check(
        lambda x: (
            np.rollaxis(x, 2),
            np.expand_dims(x, (0, 2)),
            np.squeeze(x[:, :1], 1),
            x[:, :1].squeeze(1),
        ),
        x,
    )


def test_repetitions() -> None:
    x = numbers(5, 3)
    check(lambda x: (np.repeat(x, 2, 0), np.repeat(x, 3, 1), np.tile(x, (2, 1, 2)), np.tile(x, 2)), x)
    check(lambda x: np.broadcast_arrays(x, np.float32([1, 2, 3])), x)
    check(lambda x: (np.flip(x, 1), x[::-1], np.fliplr(x), np.roll(x, 1, 1), np.flipud(x)), x)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_padding(mode) -> None:
    check(lambda x: np.pad(x, ((0, 0), (1, 2)), mode), numbers(5, 4))
    if mode == "constant":
        check(lambda x: np.pad(x, ((1, 0), (1, 2)), constant_values=3.0), numbers(5, 4))


def test_triangles_and_diagonals() -> None:
    x = numbers(5, 4, 4)
    check(
        lambda x: (np.linalg.diagonal(x), np.linalg.trace(x), np.rot90(x, 3, (1, 2)), np.atleast_2d(x[0, 0])),
        x,
    )
    check(lambda x: (np.triu(x), np.tril(x, -1), np.diagonal(x, 1, 1, 2), np.trace(x, axis1=1, axis2=2)), x)


def test_questions() -> None:
    check(lambda x: x * np.ndim(x) + np.shape(x)[1] + np.size(x, 1), numbers(5, 3))


def test_what_does_not_fit() -> None:
    for function, message in (
        (lambda x: x.reshape(7, 2), "cannot reshape array of size"),
        (lambda x: np.squeeze(x, 1), "size not equal to one"),
        (lambda x: np.broadcast_to(x, (2, 2, 2)), "broadcast"),
    ):
        with pytest.raises(ValueError, match=message):
            check(function, numbers(5, 3))
    with pytest.raises(NotImplementedError, match=r"numpy\.roll .*along a dynamic dimension"):
        check(lambda x: np.roll(x, 1, 0), numbers(5, 3))
