import numpy as np
import pytest

from lite import TensorDict
from lite.envs import CenterCrop, Crop, GrayScale, Resize, ToTensorImage

IMAGE = np.arange(36, dtype=np.uint8).reshape(1, 6, 6)


def applied(transform, image=IMAGE):
    return transform(TensorDict(pixels=image))["pixels"]


def test_to_tensor_image():
    image = np.full((4, 5, 3), 51, np.uint8)
    out = applied(ToTensorImage(unsqueeze=True), image)
    assert (out.shape, out.dtype) == ((1, 3, 4, 5), np.float32)
    np.testing.assert_array_equal(out, np.float32(51) / np.float32(255))
    assert applied(ToTensorImage(shape_tolerant=True), IMAGE).shape == (1, 6, 6)
    for shape, moved in (((3, 4, 5), (3, 4, 5)), ((4, 5, 3), (3, 4, 5)), ((5, 6, 4), (5, 6, 4))):
        assert applied(ToTensorImage(shape_tolerant=True), np.zeros(shape, np.uint8)).shape == moved
    assert applied(ToTensorImage(from_int=False), image).max() == 51
    with pytest.raises(ValueError, match=r"of shape \(..., W, H, C\), got \(4, 5\); UnsqueezeTransform"):
        applied(ToTensorImage(), image[..., 0])


def test_grey_is_cut_and_not_rounded():
    out = applied(GrayScale(), np.array([10, 20, 30], np.uint8).reshape(3, 1, 1))
    assert (out.item(), out.dtype) == (int(0.2989 * 10 + 0.587 * 20 + 0.114 * 30), np.uint8)
    with pytest.raises(TypeError, match=r"images must be of shape \(..., 3, W, H\)"):
        applied(GrayScale())


def test_what_is_no_image():
    for transform in (Crop(2), CenterCrop(2), Resize(2)):
        with pytest.raises(TypeError, match=r"images must be of shape \(..., W, H\), got \(6,\)"):
            applied(transform, IMAGE[0, 0])


@pytest.mark.compiled
def test_many_images_give_what_each_gives(rng):
    images = rng.integers(0, 256, (40, 3, 60, 50)).astype(np.uint8)
    for transform in (GrayScale(), ToTensorImage(), ToTensorImage(dtype=np.float64)):
        expected = np.stack([applied(transform, image) for image in images])
        np.testing.assert_array_equal(applied(transform, images), expected, strict=True)
    floats = np.moveaxis(images, 1, -1).astype(np.float32)
    expected = np.stack([applied(ToTensorImage(from_int=True), image) for image in floats])
    np.testing.assert_array_equal(applied(ToTensorImage(from_int=True), floats), expected, strict=True)


def test_nearest_pixels():
    for interpolation, places in (("nearest", [0, 1, 3, 4]), ("nearest-exact", [0, 2, 3, 5])):
        found = applied(Resize(4, 6, interpolation=interpolation))
        np.testing.assert_array_equal(found, IMAGE[:, places])


def test_crops():
    """As torchvision's `crop` and `center_crop`, by their source: half of an odd rest is rounded to even."""
    for transform, expected in (
        (Crop(2, 3, 1, 2), IMAGE[:, 1:3, 2:5]),
        (Crop(2, top=5), np.pad(IMAGE[:, 5:, :2], ((0, 0), (0, 1), (0, 0)))),
        (Crop(3, left=-1), np.pad(IMAGE[:, :3, :2], ((0, 0), (0, 0), (1, 0)))),
        (Crop(2, top=9), np.zeros((1, 2, 2))),
        (CenterCrop(4), IMAGE[:, 1:5, 1:5]),
        (CenterCrop(3, 1), IMAGE[:, 2:5, 2:3]),
        (CenterCrop(10, 6), np.pad(IMAGE, ((0, 0), (2, 2), (0, 0)))),
        (CenterCrop(9, 6), np.pad(IMAGE, ((0, 0), (1, 2), (0, 0)))),
    ):
        np.testing.assert_array_equal(applied(transform), expected)
