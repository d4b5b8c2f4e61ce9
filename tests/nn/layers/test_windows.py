"""Windows: padding, extents, and their entries."""

import numpy as np
import pytest

from lite.nn.layers import windows


def test_sizes() -> None:
    assert windows.sizes("stride", 2, 3) == (2, 2, 2)
    assert windows.sizes("stride", [1, 2], 2) == (1, 2)
    with pytest.raises(ValueError, match=r"stride must be one number or 2, got \(1, 2, 3\)"):
        windows.sizes("stride", [1, 2, 3], 2)


def test_pad() -> None:
    x = np.arange(6.0).reshape(1, 2, 3)
    np.testing.assert_array_equal(
        windows.pad(x, (1, 0), (0, 2), -1.0), np.pad(x, ((0, 0), (1, 0), (0, 2)), constant_values=-1)
    )
    assert windows.pad(x, (0, 0), (0, 0)) is x


def test_entries_of_all_windows_by_offset() -> None:
    x = np.arange(10)
    slices = windows.offset_slices((3,), (2,), (3,), (2,))
    expected = np.array([x[start : start + 3 : 2] for start in (0, 3, 6)])
    np.testing.assert_array_equal(np.stack([x[index] for index in slices], 1), expected)
    assert windows.span((2,), (2,)) == (3,)


def test_blocks() -> None:
    x = np.arange(16).reshape(1, 1, 4, 4)
    np.testing.assert_array_equal(windows.blocks(x, (2, 2))[0, :, 0, 1], [2, 3, 6, 7])
