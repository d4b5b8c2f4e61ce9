"""Each number of an image, as NumPy's separate operations give it, to the bit."""

import numpy as np

from lite.kernels.cpu import images

BYTES = np.arange(256, dtype=np.uint8)
PARTS = np.array([0.2989, 0.587, 0.114], np.float32)


def test_affine():
    loc, scale = np.float32(0.3), np.float32(255)
    for x in (BYTES, np.linspace(-3, 3, 1001, dtype=np.float32)):
        for divide, expected in ((True, (x - loc) / scale), (False, x * scale + loc)):
            out = np.empty(x.shape, np.float32)
            images.affine(x, loc, scale, divide, out)
            np.testing.assert_array_equal(out, expected)


def test_grey(rng):
    """Floats are cut to bytes, and products are rounded before they are added."""
    for apart in (1, 7, 50):
        for dtype in (np.uint8, np.float32):
            x = rng.integers(0, 256, (4, 3, apart)).astype(dtype)
            red, green, blue = (x[:, i] * part for i, part in enumerate(PARTS))
            out = np.empty(4 * apart, dtype)
            images.grey(x.reshape(-1), apart, PARTS, out)
            np.testing.assert_array_equal(out, (red + green + blue).astype(dtype).reshape(-1))


def test_resize(rng):
    """Rows of the result begin and weigh on their own; bytes are rounded and limited."""
    at_row, at_column = np.array([0, 2, 1]), np.array([3, 0])
    of_rows, of_columns = (rng.normal(scale=2, size=shape).astype(np.float32) for shape in ((3, 2), (3, 2)))
    for dtype in (np.uint8, np.float32):
        x = rng.integers(0, 256, (5, 4, 6)).astype(dtype)
        expected = np.empty((5, 3, 2))
        for i, j in np.ndindex(3, 2):
            pixels = x[:, at_row[i] : at_row[i] + 2, at_column[j] : at_column[j] + 3].astype(float)
            expected[:, i, j] = of_rows[i] @ pixels @ of_columns[:, j]
        whole = dtype is np.uint8
        if whole:
            expected = np.clip(np.rint(expected), 0, 255)
            assert {0, 255} < set(expected.reshape(-1))
        out, line, sums = np.empty(expected.shape, dtype), np.empty(6, np.float32), np.empty(2, np.float32)
        args = (at_row, of_rows, at_column, of_columns, whole, line, sums, out.reshape(-1))
        images.resize(x.reshape(-1), 4, 6, *args)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-3)
