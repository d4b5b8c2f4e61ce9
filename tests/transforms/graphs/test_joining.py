"""Joins and splits as operators, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.graphs import check, numbers

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def test_joins() -> None:
    x, y = numbers(5, 3), numbers(5, 3, seed=1)
    check(lambda x, y: (np.concatenate([x, y]), np.concatenate([x, y], -1), np.stack([x, y], 1)), x, y)
    check(lambda x, y: (np.hstack([x, y]), np.vstack([x, y]), np.dstack([x, y]), np.append(x, y, 0)), x, y)
    check(lambda x, y: np.concatenate([x, y], None), x, y)
    check(lambda x, y: np.concatenate([x, y.astype(np.float64)], dtype=np.float32), x, y)


def test_zeros_of_the_batch_size_are_joined() -> None:
    check(lambda x: np.concatenate([np.zeros((x.shape[0], 2), np.float32), x], 1), numbers(5, 3))
    check(lambda x: np.concatenate([x, x], 0).reshape(2, -1, 3), numbers(5, 3))


def test_splits() -> None:
    x = numbers(5, 6)
    check(lambda x: np.split(x, 3, 1), x)
    check(
        lambda x: (
            np.hsplit(x, 2),
            np.dsplit(x[:, None], 3),
            np.vsplit(x.T, 2),
            np.column_stack([x, x[:, 0]]),
        ),
        x,
    )
    check(lambda x: np.split(x, [1, 4], 1), x)
    check(lambda x: np.unstack(x, axis=1), x)
    with pytest.raises(NotImplementedError, match=r"numpy\.split .*a dynamic dimension"):
        check(lambda x: np.split(x, 5), x)


def test_what_does_not_fit() -> None:
    with pytest.raises(ValueError, match="along the axis of concatenation"):
        check(lambda x: np.concatenate([x, np.zeros((2, 4), np.float32)]), numbers(5, 3))
    with pytest.raises(ValueError, match="must have the same shape"):
        check(lambda x: np.stack([x, x[:, :2]]), numbers(5, 3))
