"""`write_video`: frames as a file that players show."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from lite.kernels._install import install, needed


def write_video(
    path: str | os.PathLike[str], frames: Any, *, fps: float = 30, video_codec: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Write frames to a file, by imageio (extra `video`).

    Args:
        path: the file, `.mp4` or `.gif`. The codec of mp4 needs even sizes, so an odd last row or column is
            repeated; a gif plays in an endless loop.
        frames: (time, height, width, 3), uint8.
        fps: frames per second.
        video_codec: codec of the mp4, as ffmpeg names it.
        options: options of the mp4's codec, such as {"crf": 23, "preset": "slow", "pixel_format": "yuv444p"}.

    Raises:
        TypeError: another dtype.
        ImportError: without imageio, or, for mp4, its ffmpeg.
    """
    frames = np.asarray(frames)
    if frames.dtype != np.uint8:
        raise TypeError(f"frames of a video must be uint8, got {frames.dtype}.")
    file = Path(path)
    kind = file.suffix
    imageio = needed("imageio.v3", "videos need imageio", install("video"))
    if kind == ".mp4":
        needed("imageio_ffmpeg", "videos need imageio", install("video"))
    if kind == ".gif":
        imageio.imwrite(file, frames, plugin="pillow", extension=".gif", duration=1000 / fps, loop=0)
        return
    given = dict(options or {})
    kwargs = {"codec": video_codec or "libx264", "pixelformat": given.pop("pixel_format", "yuv420p")}
    height, width = frames.shape[1:3]
    frames = np.pad(frames, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    output = [part for name, value in given.items() for part in (f"-{name}", str(value))]
    imageio.imwrite(
        file, frames, plugin="FFMPEG", fps=fps, macro_block_size=2, output_params=output, **kwargs
    )


def with_colours_last(frames: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Frames (time, 1 or 3 colours, height, width) as `write_video` takes them."""
    return np.moveaxis(np.broadcast_to(frames, (len(frames), 3, *frames.shape[2:])), 1, -1)
