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
