"""`ToTensorImage`, `GrayScale`, `Crop`, `CenterCrop` and `Resize`: images by NumPy alone."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from lite import get_default_dtype
from lite._arrays.dtypes import as_dtype, is_floating
from lite._arrays.public import belong_to
from lite.envs.transforms.base import Keys, ObservationTransform
from lite.envs.transforms.spec_changes import map_outputs
from lite.nn.layers.large_arrays import images_for

_LUMA = (0.2989, 0.587, 0.114)  # of red, green and blue


class ImageTransform(ObservationTransform):
    """A transform of images, whose `in_keys` are `["pixels"]` unless given."""

    _transforms_reset = True

    def __init__(self, in_keys: Keys = None, out_keys: Keys = None) -> None:
        in_keys = ["pixels"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)

    transform_observation_spec = map_outputs


class ToTensorImage(ImageTransform):
    """Images as networks take them: channels in front, numbers from 0 to 1.

    Args:
        from_int: divide by 255; None for images of integers alone.
        unsqueeze: put a dimension of size 1 in front of images of three dimensions.
        dtype: dtype of the result; the default float dtype if None.
        in_keys: images of shape (..., W, H, C); `["pixels"]` if None.
        out_keys: where they go, of shape (..., C, W, H); `in_keys` if None.
        shape_tolerant: leave the dimensions of images that do not end with three channels.

    Raises:
        ValueError: an image has fewer than three dimensions.

    Source:
        torchrl.envs.ToTensorImage.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import ToTensorImage
        >>> td = ToTensorImage()(TensorDict(pixels=np.full((84, 64, 3), 255, np.uint8)))
        >>> td["pixels"].shape, float(td["pixels"].max())
        ((3, 84, 64), 1.0)
    """

    def __init__(
        self,
        from_int: bool | None = None,
        unsqueeze: bool = False,
        dtype: DTypeLike | None = None,
        *,
        in_keys: Keys = None,
        out_keys: Keys = None,
        shape_tolerant: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.from_int = from_int
        self.unsqueeze = unsqueeze
        self.dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
        self.shape_tolerant = shape_tolerant

    def _apply_transform(self, obs: Any) -> Any:
        floating = is_floating(obs.dtype)
        if not self.shape_tolerant or obs.shape[-1] == 3:
            if obs.ndim < 3:
                raise ValueError(
                    f"images must be of shape (..., W, H, C), got {tuple(obs.shape)}; UnsqueezeTransform(-1) "
                    "gives grey ones their C."
                )
            obs = np.moveaxis(obs, -1, -3)
        if self.from_int or (self.from_int is None and not floating):
            dtype = obs.dtype if floating else get_default_dtype()
            images = images_for(obs, dtype)
            obs = images.affine(obs, 0, 255, True) if images else np.divide(obs, dtype.type(255), dtype=dtype)
        obs = obs.astype(self.dtype, copy=False)
        return obs[None] if self.unsqueeze and obs.ndim == 3 else obs


class GrayScale(ImageTransform):
    """Grey images, of one channel, from red, green and blue.

    Args:
        in_keys: images of shape (..., 3, W, H); `["pixels"]` if None.
        out_keys: where they go, of shape (..., 1, W, H) and the same dtype; `in_keys` if None.

    Raises:
        TypeError: an image has fewer than three dimensions, or other channels.

    Source:
        torchrl.envs.GrayScale: 0.2989 red + 0.587 green + 0.114 blue.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import GrayScale
        >>> GrayScale()(TensorDict(pixels=np.full((3, 4, 4), 100, np.uint8)))["pixels"][0, 0].tolist()
        [99, 99, 99, 99]
    """

    def _apply_transform(self, obs: Any) -> Any:
        if obs.ndim < 3 or obs.shape[-3] != 3:
            raise TypeError(f"images must be of shape (..., 3, W, H), got {tuple(obs.shape)}.")
        dtype = obs.dtype if is_floating(obs.dtype) else get_default_dtype()
        images = images_for(obs, dtype)
        if images:
            return images.grey(obs, _LUMA)[..., None, :, :]
        red, green, blue = (obs[..., i, :, :] * dtype.type(part) for i, part in enumerate(_LUMA))
        return (red + green + blue).astype(obs.dtype, copy=False)[..., None, :, :]


class Crop(ImageTransform):
    """Part of an image; zeros where that reaches beyond it.

    Args:
        w: size of the part in the dimension before the last one.
        h: size in the last dimension; `w` if None.
        top: where it begins in the dimension before the last one.
        left: where it begins in the last dimension.
        in_keys: images of shape (..., W, H); `["pixels"]` if None.
        out_keys: where they go; `in_keys` if None.

    Source:
        torchrl.envs.Crop.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import Crop
        >>> Crop(2, 3, top=1)(TensorDict(pixels=np.ones((1, 8, 8))))["pixels"].shape
        (1, 2, 3)
    """

    _shown = ("w", "h", "top", "left", "keys")

    def __init__(
        self,
        w: int,
        h: int | None = None,
        top: int = 0,
        left: int = 0,
        in_keys: Keys = None,
        out_keys: Keys = None,
    ) -> None:
        super().__init__(in_keys, out_keys)
        self.w, self.h = w, h or w
        self.top, self.left = top, left

    def _apply_transform(self, obs: Any) -> Any:
        return _cropped(obs, (self.top, self.left), (self.w, self.h))


class CenterCrop(ImageTransform):
    """The middle of an image; zeros around it where that is smaller.

    Args:
        w: size of the middle in the dimension before the last one.
        h: size in the last dimension; `w` if None.
        in_keys: images of shape (..., W, H); `["pixels"]` if None.
        out_keys: where they go; `in_keys` if None.

    Source:
        torchrl.envs.CenterCrop.

    Example:
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.envs import CenterCrop
        >>> CenterCrop(2)(TensorDict(pixels=np.arange(16).reshape(1, 4, 4)))["pixels"].tolist()
        [[[5, 6], [9, 10]]]
    """

    _shown = ("w", "h", "keys")

    def __init__(self, w: int, h: int | None = None, in_keys: Keys = None, out_keys: Keys = None) -> None:
        super().__init__(in_keys, out_keys)
        self.w, self.h = w, h or w

    def _apply_transform(self, obs: Any) -> Any:
        sizes = (self.w, self.h)
        # Half of an odd rest goes to the even side, and to the end where there is nothing to cut.
        starts = [
            round((have - want) / 2) if have >= want else -((want - have) // 2)
            for have, want in zip(_sizes(obs), sizes, strict=True)
        ]
        return _cropped(obs, (starts[0], starts[1]), sizes)


def _sizes(images: Any) -> Any:
    """W and H."""
    if images.ndim < 2:
        raise TypeError(f"images must be of shape (..., W, H), got {tuple(images.shape)}.")
    return images.shape[-2:]


def _cropped(image: Any, starts: tuple[int, int], sizes: tuple[int, int]) -> Any:
    """Crops of the last two dimensions, from `starts` and of `sizes`; zeros outside of the image."""
    pads, index = [(0, 0)] * (image.ndim - 2), []
    for have, start, size in zip(_sizes(image), starts, sizes, strict=True):
        first, last = min(max(start, 0), int(have)), min(max(start + size, 0), int(have))
        before = min(max(-start, 0), size)
        pads.append((before, size - before - (last - first)))
        index.append(slice(first, last))
    part = image[(..., *index)]
    return np.pad(part, pads) if any(map(any, pads)) else part


_LARGE = 1 << 18  # numbers of images that are filtered one by one: in 0.65 of the time, and floats of one
_FILTERS = ("nearest", "nearest-exact", "bilinear", "bicubic")


class Resize(ImageTransform):
    """Images of another size.

    Each pixel is a weighted mean of those that it lies on, so that nothing is skipped where images shrink:
    bilinear and bicubic filters grow with the factor, as Pillow has them. Rows and columns are filtered by
    matrix products, those of large batches by compiled code.

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
        rows, columns = (int(size) for size in _sizes(obs))
        if (rows, columns) == (self.w, self.h):
            return obs
        if self.interpolation.startswith("nearest"):
            exact = self.interpolation == "nearest-exact"
            obs = np.take(obs, _nearest(rows, self.w, exact), -2)
            return np.take(obs, _nearest(columns, self.h, exact), -1)
        dtype = obs.dtype if is_floating(obs.dtype) else get_default_dtype()
        images = images_for(obs, dtype) if self.w * self.h < rows * columns else None
        if images:  # of larger images it fetches more numbers, one by one, and gains nothing
            weights = [_weights(*sizes, self.interpolation) for sizes in ((rows, self.w), (columns, self.h))]
            return images.resize(obs, *weights)
        if type(obs) is np.ndarray and obs.ndim > 3 and obs[:1].size >= _LARGE:
            return np.stack([self._apply_transform(image) for image in obs])
        image = obs.astype(dtype, copy=False)
        if columns != self.h:
            image = np.matmul(image, _weights(columns, self.h, self.interpolation).T.astype(dtype))
        if rows != self.w:
            image = np.matmul(_weights(rows, self.w, self.interpolation).astype(dtype), image)
        if obs.dtype.kind in "iu":
            limits = np.iinfo(obs.dtype)
            image = np.clip(np.rint(image), limits.min, limits.max)
        return image.astype(obs.dtype, copy=False)


@lru_cache(64)
def _nearest(have: int, want: int, exact: bool) -> NDArray[np.int64]:
    """Which pixel each one is a copy of."""
    scale = np.float32(have) / np.float32(want)
    place = np.arange(want, dtype=np.float32) + np.float32(0.5 if exact else 0)
    return np.floor(place * scale).astype(np.int64)


@lru_cache(64)
def _weights(have: int, want: int, interpolation: str) -> NDArray[np.float64]:
    """The weights of pixels, of shape (want, have)."""
    scale = have / want
    center = scale * (np.arange(want) + 0.5)
    distance = np.abs(np.arange(have) - center[:, None] + 0.5) / max(scale, 1.0)
    weights = _filter(distance, interpolation)
    return weights / weights.sum(1, keepdims=True)


def _filter(x: NDArray[np.float64], interpolation: str) -> NDArray[np.float64]:
    """The weight at a distance of `x` pixels."""
    if interpolation == "bilinear":
        return np.maximum(1 - x, 0)
    a = -0.5
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


belong_to("lite.envs", ToTensorImage, GrayScale, Crop, CenterCrop, Resize)
