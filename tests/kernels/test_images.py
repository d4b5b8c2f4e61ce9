"""Images are read where they lie, and their results lie as NumPy's do."""

import numpy as np

from lite.kernels import _images, get_num_threads, set_num_threads

PARTS = (0.2989, 0.587, 0.114)


def test_layouts(rng):
    last = rng.integers(0, 256, (4, 5, 6, 3)).astype(np.uint8)
    first = np.ascontiguousarray(np.moveaxis(last, -1, 1))
    read_only = first.copy()
    read_only.flags.writeable = False
    for x in (
        first, np.moveaxis(last, -1, 1), first[:, :, ::-1], first[:, ::-1], first[::2, :, 1:],
        first.swapaxes(2, 3), first.transpose(2, 1, 0, 3), np.broadcast_to(first[0], first.shape), read_only,
    ):  # fmt: skip
        before = x.copy()
        for image in (x, x.astype(np.float32)):
            red, green, blue = (image[:, i] * np.float32(part) for i, part in enumerate(PARTS))
            for out, expected in (
                (_images.affine(image, 0.5, 3.0, True), np.divide(image - np.float32(0.5), np.float32(3))),
                (_images.grey(image, PARTS), (red + green + blue).astype(image.dtype)),
            ):
                np.testing.assert_array_equal(out, expected, strict=True)
                assert out.strides == expected.strides
        np.testing.assert_array_equal(x, before)


def test_sizes(rng):
    """Weights that are not 0 may lie anywhere in a row, and in some rows there may be none."""
    rows, columns = rng.random((4, 7)), rng.random((3, 6))
    rows[0, :5] = rows[1, 2:] = rows[2] = columns[1, 1:4] = columns[2, 3:] = 0
    x = rng.random((6, 2, 7), np.float32).transpose(1, 2, 0)
    np.testing.assert_allclose(_images.resize(x, rows, columns), rows @ x @ columns.T, rtol=1e-5)


def test_threads_change_nothing(rng, monkeypatch):
    x, rows = rng.random((13, 7, 11), np.float32), rng.random((4, 7))
    calls = (
        lambda: _images.affine(x, 0.5, 3.0, False),
        lambda: _images.resize(x, rows, np.eye(11)),
    )
    expected = [call() for call in calls]
    monkeypatch.setattr(_images, "_CHUNK", 100)
    before = get_num_threads()
    try:
        set_num_threads(3)
        for call, one in zip(calls, expected, strict=True):
            np.testing.assert_array_equal(call(), one)
    finally:
        set_num_threads(before)
