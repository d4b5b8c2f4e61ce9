"""Poolings against a loop over windows."""

from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises

from lite import grad, nn

X = np.random.default_rng(0).normal(size=(2, 3, 6, 7)).astype(np.float32)


@each_case(("kernel", "stride"), [(2, 2), (3, 1), (2, 3)])
def test_windows(kernel: int, stride: int) -> None:
    rows, columns = (range(0, n - kernel + 1, stride) for n in X.shape[-2:])
    windows = [[X[..., i : i + kernel, j : j + kernel] for j in columns] for i in rows]
    array = np.moveaxis(np.array(windows), (0, 1), (2, 3))
    np.testing.assert_array_equal(nn.MaxPool2d(kernel, stride)(X), array.max((-2, -1)))
    np.testing.assert_allclose(nn.AvgPool2d(kernel, stride)(X), array.mean((-2, -1)), rtol=1e-5, atol=1e-6)


def test_padding() -> None:
    one = np.ones((1, 1, 2, 2), np.float32)
    np.testing.assert_array_equal(nn.AvgPool2d(2, padding=1)(one), np.full((1, 1, 2, 2), 0.25))
    inside = nn.AvgPool2d(2, padding=1, count_include_pad=False)(one)
    np.testing.assert_array_equal(inside, np.ones((1, 1, 2, 2)))
    np.testing.assert_array_equal(nn.MaxPool2d(2, padding=1)(-one), -np.ones((1, 1, 2, 2)))
    for size, count in ((3, 2), (4, 3)):  # no window begins in the padding behind
        assert nn.MaxPool2d((2,), padding=1, ceil_mode=True)(X[..., :size, :size]).shape[2:] == (count, count)
    for wrong in ((0, 2), (-1, 0)):
        with pytest.raises(RuntimeError, match=r"padding must be in \[0, kernel_size / 2\], got"):
            nn.MaxPool2d((3, 3), padding=wrong)(one)


def test_positions() -> None:
    values, positions = nn.MaxPool2d(2, return_indices=True)(X)
    flat = X.reshape(2, 3, -1)
    picked = np.take_along_axis(flat, positions.reshape(2, 3, -1), -1)
    np.testing.assert_array_equal(picked.reshape(values.shape), values)


@each_case("size", [1, 3, (4, None), (9, 2)])
def test_means_of_windows_that_divide_a_plane(size: Any) -> None:
    rows, columns = size if isinstance(size, tuple) else (size, size)
    height, width = X.shape[-2:]
    rows, columns = rows or height, columns or width
    got = nn.AdaptiveAvgPool2d(size)(X)
    assert got.shape == (*X.shape[:-2], rows, columns)
    for i in range(rows):
        for j in range(columns):
            window = X[
                ...,
                i * height // rows : -(-(i + 1) * height // rows),
                j * width // columns : -(-(j + 1) * width // columns),
            ]
            np.testing.assert_allclose(got[..., i, j], window.mean((-2, -1)), rtol=1e-5, atol=1e-6)


def test_shapes_that_adaptive_pooling_refuses() -> None:
    layer = nn.AdaptiveAvgPool2d(1)
    raises(ValueError, r"got \(2, 2\)", layer, np.zeros((2, 2)))
    for shape in ((1, 0, 2, 2), (2, 2, 2, 2, 2)):
        raises(RuntimeError, r"none but N empty, got \(", layer, np.zeros(shape))
    assert layer(np.zeros((0, 3, 2, 2))).shape == (0, 3, 1, 1)
    for shape in ((2, 2), (1, 0, 2, 2), (2, 2, 2, 2, 2)):
        raises(RuntimeError, r"none but N empty, got \(", nn.MaxPool2d(1), np.zeros(shape))
    np.testing.assert_array_equal(nn.MaxPool2d(2)(X[0]), nn.MaxPool2d(2)(X)[0])
    assert nn.MaxPool2d(2)(X[:0]).shape == (0, 3, 3, 3)
    assert grad(lambda x: nn.MaxPool2d(2)(x).sum())(X[:0]).shape == X[:0].shape
    assert nn.AdaptiveAvgPool2d(0)(X).shape == (2, 3, 0, 0)
