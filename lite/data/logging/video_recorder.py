"""`VideoRecorder`: collects the images of an environment and writes them to a logger as a video."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite import NestedKey, NonTensorData, TensorDictBase
from lite._arrays.public import belong_to
from lite.data.logging.logger import Logger
from lite.envs.transforms.base import Keys, ObservationTransform, apply_to_composite
from lite.envs.transforms.images import CenterCrop
from lite.kernels._install import install, needed
from lite.specs.base import TensorSpec


class VideoRecorder(ObservationTransform):
    """Collects the images of an environment or a batch, and writes them as a video on request.

    The images are not changed. `env.transform.dump()` writes the frames to the logger, and starts again.
    Images of several environments are tiles of one, so the recorder belongs around a `ParallelEnv`, not into
    its environments, which `dump` does not reach.

    Args:
        logger: its `log_video` gets (1, time, colours, height, width), uint8; None to drop the frames.
        tag: the name of the video.
        in_keys, out_keys: images of shape (..., height, width, 3), (..., 3, height, width), either also with
            1 for grey, or (height, width), `["pixels"]` if None; where they go, `in_keys` if None.
        skip: keep every `skip`-th image; if None, 2 in a single environment, else 1.
        center_crop: height and width of the middle to keep.
        make_grid: tile the images of a batch, or let them follow one another; None: tile in an environment.
        fps: frames per second; the logger's own if None.
        max_frames: keep only this number of first frames; all if None.
        dump_on_done: call `dump` when a step ends the episode, in all environments.
        kwargs: other arguments for `log_video`.

    Attributes:
        obs: the collected frames, each (colours, height, width).
        iter: the number of videos written.
        count: the number of images since the last video.

    Raises:
        ValueError: `max_frames` is below 1.
        RuntimeError: in a call, images of another shape.

    Source:
        torchrl.record.VideoRecorder.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> from lite import TensorDict
        >>> from lite.data import CSVLogger, VideoRecorder
        >>> logger = CSVLogger("run", tempfile.mkdtemp())
        >>> recorder = VideoRecorder(logger, "play")
        >>> td = recorder(TensorDict(pixels=np.zeros((4, 5, 3), np.uint8)))
        >>> recorder.dump()
    """

    def __init__(
        self,
        logger: Logger | None,
        tag: str | None,
        in_keys: Keys = None,
        skip: int | None = None,
        center_crop: int | None = None,
        make_grid: bool | None = None,
        out_keys: Keys = None,
        fps: int | None = None,
        max_frames: int | None = None,
        dump_on_done: bool = False,
        **kwargs: Any,
    ) -> None:
        if max_frames is not None and max_frames < 1:
            raise ValueError(f"max_frames must be at least 1, got {max_frames}.")
        if logger is not None and not hasattr(logger, "log_video"):
            raise TypeError(f"logger must be a Logger or None, got {type(logger).__name__}.")
        in_keys = ["pixels"] if in_keys is None else in_keys
        super().__init__(in_keys, in_keys if out_keys is None else out_keys)
        self.logger, self.tag = logger, tag
        self.video_kwargs = kwargs if fps is None else {**kwargs, "fps": fps}
        self.center_crop = center_crop
        self.max_frames, self.dump_on_done = max_frames, dump_on_done
        self._skip, self._make_grid = skip, make_grid
        self.iter = self.count = 0
        self.obs: list[NDArray[np.uint8]] = []

    @property
    def skip(self) -> int:
        """Every image whose number is a multiple of this is kept."""
        if self._skip is None:
            parent = self.parent
            self._skip = 2 if parent is not None and not parent.batch_size else 1
        return self._skip

    @skip.setter
    def skip(self, value: int | None) -> None:
        self._skip = value

    @property
    def make_grid(self) -> bool:
        """Whether the images of a batch are tiles of one."""
        if self._make_grid is None:
            self._make_grid = self.parent is not None
        return self._make_grid

    @make_grid.setter
    def make_grid(self, value: bool | None) -> None:
        self._make_grid = value

    # -- frames ---------------------------------------------------------------------------------

    def _apply_transform(self, obs: Any) -> Any:
        self.count += 1
        full = self.max_frames is not None and len(self.obs) >= self.max_frames
        if self.count % self.skip or full:
            return obs
        frames = _with_colours_first(np.asarray(obs.data if isinstance(obs, NonTensorData) else obs))
        if self.center_crop:
            frames = CenterCrop(self.center_crop)._apply_transform(frames)
        flat = frames.astype(np.uint8).reshape(-1, *frames.shape[-3:])
        if frames.ndim > 3 and self.make_grid:
            flat = _tiled(flat)[None]
        room = None if self.max_frames is None else self.max_frames - len(self.obs)
        self.obs.extend(flat[:room])
        return obs

    @apply_to_composite
    def transform_observation_spec(self, observation_spec: TensorSpec) -> TensorSpec:
        return observation_spec

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        next_tensordict = super()._step(tensordict, next_tensordict)
        if self.dump_on_done and self._all_done(next_tensordict):
            self.dump()
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return self._call(tensordict_reset)

    def _all_done(self, following: TensorDictBase) -> bool:
        parent = self.parent
        keys: Sequence[NestedKey] = ["done"] if parent is None else parent.done_keys
        found = [following.get(key, None) for key in keys if key == "done" or key[-1] == "done"]
        found = [done for done in found if done is not None]
        return bool(found) and all(done.all() for done in found)

    # -- videos ---------------------------------------------------------------------------------

    def dump(self, suffix: str | None = None, step: int | None = None, **kwargs: Any) -> None:
        """Write the frames to the logger, and forget them; without frames, do nothing.

        Args:
            suffix: added to the name after "_".
            step: step of the video; the number of videos before it if None.
            **kwargs: of other transforms; without effect.
        """
        if self.obs and self.logger is not None:
            tag = self.tag if suffix is None else f"{self.tag}_{suffix}"
            video = np.stack(self.obs)[None]
            step = self.iter if step is None else step
            self.logger.log_video(name=str(tag), video=video, step=step, **self.video_kwargs)
        self.iter += 1
        self.count, self.obs = 0, []

    def to_animation(
        self, *, title: str | None = None, interval: int = 50, repeat_delay: int = 1000, clear: bool = False
    ) -> Any:
        """The frames as an animation of matplotlib, which notebooks show.

        Args:
            title: above the frames.
            interval: milliseconds between frames.
            repeat_delay: milliseconds before the first frame is shown again.
            clear: forget the frames.

        Returns:
            A `matplotlib.animation.ArtistAnimation`.

        Raises:
            RuntimeError: there are no frames.
            ImportError: without matplotlib.
        """
        if not self.obs:
            raise RuntimeError("to_animation needs at least one frame, got none.")
        needed("matplotlib", "animations need matplotlib", install("logging"))
        from matplotlib import animation, pyplot

        figure, axis = pyplot.subplots()
        axis.set_axis_off()
        if title is not None:
            axis.set_title(title)
        shown = [np.broadcast_to(np.moveaxis(frame, 0, -1), (*frame.shape[1:], 3)) for frame in self.obs]
        artists = [[axis.imshow(frame, animated=True)] for frame in shown]
        if clear:
            self.count, self.obs = 0, []
        return animation.ArtistAnimation(
            figure, artists, interval=interval, blit=True, repeat_delay=repeat_delay
        )


belong_to("lite.data", VideoRecorder)


def _with_colours_first(images: NDArray[Any]) -> NDArray[Any]:
    """Images as (..., colours, height, width), of 3 colours, or 1 for an image (height, width).

    Raises:
        RuntimeError: they have another shape.
    """
    if images.ndim == 2:
        return images[None]
    shape = images.shape
    if images.ndim >= 3 and shape[-3] in (1, 3) and shape[-2] > 3 and shape[-1] > 3:
        found = images
    elif images.ndim >= 3 and shape[-1] in (1, 3):
        found = np.moveaxis(images, -1, -3)
    else:
        raise RuntimeError(f"images must have 1 or 3 colours, first or last, got the shape {shape}.")
    return np.broadcast_to(found, (*found.shape[:-3], 3, *found.shape[-2:]))


def _tiled(images: NDArray[Any]) -> NDArray[Any]:
    """Images (n, colours, height, width) as tiles of a square grid; tiles without an image are black."""
    count, colours, height, width = images.shape
    columns = math.ceil(math.sqrt(count))
    rows = math.ceil(count / columns)
    out = np.zeros((colours, rows * height, columns * width), images.dtype)
    for i, image in enumerate(images):
        y, x = height * (i // columns), width * (i % columns)
        out[:, y : y + height, x : x + width] = image
    return out
