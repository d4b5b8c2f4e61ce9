"""Images that `Resize`, `CenterCrop` and `Crop` make, beside torchvision's and torch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.cases import each_case
from numpy.typing import NDArray

from lite import TensorDict
from lite.envs import CenterCrop, Crop, Resize

SIZES = [
    ((60, 50), (84, 84)),
    ((33, 47), (20, 61)),
    ((5, 7), (5, 3)),
]
FILTERS = ("nearest", "nearest-exact", "bilinear", "bicubic")


def image(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    drawn = np.random.default_rng(0).integers(0, 256, (2, 3, *shape), np.uint8)
    return drawn if dtype is np.uint8 else (drawn / 255).astype(dtype)


def expected(pixels: NDArray[Any], size: tuple[int, int], mode: str) -> NDArray[Any]:
    """What torchvision does with a tensor: torch's `interpolate`, rounded and limited."""
    tensor = torch.from_numpy(pixels)
    smooth = mode in ("bilinear", "bicubic")
    whole = not tensor.is_floating_point()
    words = {"align_corners": False, "antialias": True} if smooth else {}
    out = torch.nn.functional.interpolate(
        tensor.float() if whole and smooth else tensor, size, mode=mode, **words
    )
    if whole and smooth:
        out = (out.clamp(0, 255) if mode == "bicubic" else out).round().to(tensor.dtype)
    return out.numpy()


@each_case("mode", FILTERS)
@each_case(("have", "want"), SIZES)
def test_resize(have: tuple[int, int], want: tuple[int, int], mode: str) -> None:
    for dtype, tolerance in ((np.uint8, 1), (np.float32, 1e-5)):
        pixels = image(have, dtype)
        out = Resize(*want, interpolation=mode)(TensorDict(pixels=pixels))["pixels"]
        assert out.dtype == dtype
        theirs = expected(pixels, want, mode)
        np.testing.assert_allclose(out.astype(float), theirs.astype(float), atol=tolerance, rtol=0)


@each_case("mode", FILTERS)
def test_torchvision_itself(mode: str) -> None:
    pytest.importorskip("torchvision")
    from torchrl.envs import Resize as Theirs

    for dtype, tolerance in ((np.uint8, 1), (np.float32, 1e-5)):
        pixels = image((33, 47), dtype)
        theirs = Theirs(20, 61, interpolation=mode)._apply_transform(torch.from_numpy(pixels)).numpy()
        out = Resize(20, 61, interpolation=mode)(TensorDict(pixels=pixels))["pixels"]
        np.testing.assert_allclose(out.astype(float), theirs.astype(float), atol=tolerance, rtol=0)


@each_case("name", ["CenterCrop", "Crop"])
@each_case("size", [(4, 6), (5, 5), (8, 9)])
def test_crops(name: str, size: tuple[int, int]) -> None:
    pytest.importorskip("torchvision")
    import torchrl.envs

    pixels = image((8, 9), np.uint8)
    theirs = getattr(torchrl.envs, name)(*size)._apply_transform(torch.from_numpy(pixels)).numpy()
    ours = {"CenterCrop": CenterCrop, "Crop": Crop}[name](*size)(TensorDict(pixels=pixels))["pixels"]
    np.testing.assert_array_equal(ours, theirs)
