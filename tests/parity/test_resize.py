"""Images that `Resize` makes, beside those of torch."""

from typing import Any

import numpy as np
import torch
from helpers.cases import each_case
from numpy.typing import NDArray

from lite import TensorDict
from lite.envs import Resize

SIZES = [((60, 50), (84, 84)), ((33, 47), (20, 61)), ((5, 7), (5, 3))]
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
