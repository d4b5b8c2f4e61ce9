"""`Resize`: images of another size."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import get_default_dtype
from lite._arrays.dtypes import is_floating
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Keys
from lite.envs.transforms.images import ImageTransform

_FILTERS = ("nearest", "nearest-exact", "bilinear", "bicubic")


class Resize(ImageTransform):
    """Images of another size.

    Each pixel is a weighted mean of those that it lies on, so that nothing is skipped where images shrink:
    bilinear and bicubic filters grow with the factor, as Pillow has them. Rows and columns are filtered by
    matrix products.

    Args:
        w: size in the dimension before the last one, or both sizes.
        h: size in the last dimension; `w` if None.
        interpolation: "nearest", "nearest-exact", "bilinear" or "bicubic".
        in_keys: images of shape (..., W, H); `["pixels"]` if None.
        out_keys: where they go, in the same dtype; `in_keys` if None. Integers are rounded.

    Raises:
        ValueError: another interpolation.

    Source:
        torchrl.envs.Resize, which is torchvision's `resize` with antialias.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import Resize
        >>> image = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
        >>> Resize(2, interpolation="nearest")(TensorDict(pixels=image))["pixels"].tolist()
        [[[0.0, 2.0], [8.0, 10.0]]]
    """

    _shown = ("w", "h", "interpolation", "keys")

    def __init__(
        self,
        w: int | tuple[int, int] | list[int],
        h: int | None = None,
        interpolation: str = "bilinear",
        in_keys: Keys = None,
        out_keys: Keys = None,
    ) -> None:
        if isinstance(w, list | tuple):
            w, h = w
        if interpolation not in _FILTERS:
            raise ValueError(f"interpolation must be one of {_FILTERS}, got {interpolation!r}.")
        super().__init__(in_keys, out_keys)
        self.w, self.h = int(w), int(w if h is None else h)
        self.interpolation = interpolation

    def _apply_transform(self, obs: Any) -> Any:
        rows, columns = (int(size) for size in obs.shape[-2:])
        if (rows, columns) == (self.w, self.h):
            return obs
        if self.interpolation.startswith("nearest"):
            exact = self.interpolation == "nearest-exact"
            obs = np.take(obs, _nearest(rows, self.w, exact), -2)
            return np.take(obs, _nearest(columns, self.h, exact), -1)
        dtype = obs.dtype if is_floating(obs.dtype) else get_default_dtype()
        image = obs.astype(dtype, copy=False)
        if columns != self.h:
            image = np.matmul(image, _weights(columns, self.h, self.interpolation).T.astype(dtype))
        if rows != self.w:
            image = np.matmul(_weights(rows, self.w, self.interpolation).astype(dtype), image)
        if obs.dtype.kind in "iu":
            limits = np.iinfo(obs.dtype)
            image = np.clip(np.rint(image), limits.min, limits.max)
        return image.astype(obs.dtype, copy=False)


belong_to("lite.envs", Resize)


@lru_cache(64)
def _nearest(have: int, want: int, exact: bool) -> NDArray[np.int64]:
    """Which pixel each one is a copy of."""
    scale = np.float32(have) / np.float32(want)
    place = np.arange(want, dtype=np.float32) + np.float32(0.5 if exact else 0)
    return np.minimum(np.floor(place * scale).astype(np.int64), have - 1)


@lru_cache(64)
def _weights(have: int, want: int, interpolation: str) -> NDArray[np.float64]:
    """The weights of pixels, of shape (want, have)."""
    scale = have / want
    grown = max(scale, 1.0)
    reach = (1.0 if interpolation == "bilinear" else 2.0) * grown
    center = scale * (np.arange(want) + 0.5)
    first = np.maximum((center - reach + 0.5).astype(np.int64), 0)[:, None]
    last = np.minimum((center + reach + 0.5).astype(np.int64), have)[:, None]
    pixels = np.arange(have)[None]
    distance = np.abs(pixels - center[:, None] + 0.5) / grown
    weights = np.where((pixels >= first) & (pixels < last), _filter(distance, interpolation), 0.0)
    return weights / weights.sum(1, keepdims=True)


def _filter(x: NDArray[np.float64], interpolation: str) -> NDArray[np.float64]:
    """The weight at a distance of `x` pixels."""
    if interpolation == "bilinear":
        return np.maximum(1 - x, 0)
    a = -0.5
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))
