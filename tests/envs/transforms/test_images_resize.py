from unittest.mock import Mock

import numpy as np
import pytest

from lite import TensorDict
from lite.data import Bounded
from lite.envs import Resize
from lite.envs.transforms import images

STRIPES = np.repeat(np.array([0, 0, 100, 100, 200, 200], np.uint8)[None], 4, 0)[None]


def test_constant_images_stay():
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        image = np.full((2, 3, 7, 5), 77, np.uint8)
        for size in ((3, 9), (14, 2), (7, 5)):
            out = Resize(size, interpolation=mode)(TensorDict(pixels=image))["pixels"]
            np.testing.assert_array_equal(out, np.full((2, 3, *size), 77))
            assert out.dtype == np.uint8


def test_means_of_pixels():
    # Of a factor of two, each pixel is 3/8 of the two in its middle, and 1/8 of those beside them.
    out = Resize(4, 3)(TensorDict(pixels=STRIPES.astype(np.float32)))["pixels"]
    np.testing.assert_allclose(out[0, 0], [100 / 7, 100, 200 - 100 / 7], rtol=1e-6)


def test_lines_and_squares_stay_what_they_are():
    """Away from the edges, where a filter has all of its pixels."""
    for mode, power in (("bilinear", 1), ("bicubic", 2)):
        for size in (16, 24):
            at = (np.arange(size) + 0.5) * 8 / size - 0.5
            image = np.float64([[np.arange(8) ** power] * 4])
            out = Resize(4, size, interpolation=mode)(TensorDict(pixels=image))["pixels"]
            inner = slice(2 * size // 8, -2 * size // 8)
            np.testing.assert_allclose(out[0, 0, inner], at[inner] ** power, rtol=1e-9)


def test_large_images_are_what_small_ones_are(monkeypatch):
    """They are filtered one by one."""
    image = np.random.default_rng(0).integers(0, 256, (2, 4, 3, 7, 6), np.uint8)
    weights = Mock(wraps=images._weights)
    monkeypatch.setattr(images, "_weights", weights)
    found = []
    for large in (1 << 18, 3 * 7 * 6):
        monkeypatch.setattr(images, "_LARGE", large)
        found.append(Resize(4, 5)(TensorDict(pixels=image))["pixels"])
    np.testing.assert_array_equal(*found)
    assert weights.call_count == 2 + 2 * 8


@pytest.mark.compiled
def test_many_images_are_what_each_is(rng):
    drawn = rng.integers(0, 256, (40, 60, 50, 3)).astype(np.uint8)
    for image in (drawn, drawn.astype(np.float32) / 255):
        pixels = np.moveaxis(image, -1, 1)
        for mode in ("bilinear", "bicubic"):
            for size in ((30, 25), (20, 50), (84, 10), (84, 84)):
                resize = Resize(*size, mode)
                each = np.stack([resize(TensorDict(pixels=one))["pixels"] for one in pixels])
                out = resize(TensorDict(pixels=pixels))["pixels"]
                assert out.dtype == image.dtype
                tolerance = (
                    1 if image is drawn else 1e-6
                )  # sums in another order are rounded to another level
                np.testing.assert_allclose(out.astype(float), each.astype(float), atol=tolerance, rtol=0)
                assert np.mean(out != each) < 1e-3 or image is not drawn


def test_spec_and_arguments():
    assert Resize(3, 9).transform_observation_spec(Bounded(0, 1, (3, 6, 6))).shape == (3, 3, 9)
    with pytest.raises(ValueError, match="interpolation must be one of"):
        Resize(3, interpolation="lanczos")
