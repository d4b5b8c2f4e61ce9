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


def test_threads_change_nothing(rng, monkeypatch):
    monkeypatch.setattr(_images, "_CHUNK", 100)
    x = rng.random(1001, np.float32)
    before = get_num_threads()
    try:
        set_num_threads(3)
        out = _images.affine(x, 0.5, 3.0, False)
    finally:
        set_num_threads(before)
    np.testing.assert_array_equal(out, x * np.float32(3) + np.float32(0.5))
