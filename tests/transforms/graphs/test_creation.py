"""Arrays like others, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.graphs import check, numbers

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")


def test_like_others() -> None:
    x = numbers(5, 3)
    check(lambda x: (np.zeros_like(x) + x, np.ones_like(x), np.full_like(x, 2), np.ones_like(x, np.int64)), x)
    check(lambda x: np.zeros_like(x, shape=(x.shape[0], 7)), x)
    check(lambda x: np.full_like(x, x[0, 0]), x)


def test_an_empty_one_is_filled() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        out = np.empty_like(x)
        out[...] = x
        out[:, 1] = 7
        return out

    check(function, numbers(5, 3))


def test_arrays_of_a_dynamic_size() -> None:
    check(lambda x: x + np.full((x.shape[0], 1), 2, np.float32), numbers(5, 3))
    with pytest.raises(NotImplementedError, match="made for the size of a dynamic dimension"):
        check(lambda x: x + np.arange(x.shape[0], dtype=np.float32)[:, None], numbers(5, 3))
