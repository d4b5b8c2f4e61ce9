"""Frames of cameras: the image in a file's bytes, the frames of a video, in the size that is wanted."""

from __future__ import annotations

import io
import os
import subprocess
import tempfile
from collections.abc import Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite.envs import Resize
from lite.kernels._install import install, needed

Frame = NDArray[np.uint8]  # (height, width, colours)
_MOST = 1 << 24  # pixels of a frame: a few bytes may claim billions
_COLOURS = {"L": 1, "RGB": 3}  # by Pillow's names


def image(content: object, where: str) -> Frame:
    """The image in the bytes of a PNG or JPEG file.

    Raises:
        ImportError: Pillow is missing.
        ValueError: no such bytes, damage, a size or colours that are not read.
    """
    if not isinstance(content, bytes):
        raise ValueError(f"{where} must hold the bytes of images, got {type(content).__name__}.")
    pillow = needed("PIL.Image", "images need Pillow", install("video"))
    try:
        with pillow.open(io.BytesIO(content), formats=("PNG", "JPEG")) as found:
            if found.mode not in _COLOURS:
                raise ValueError(f"mode {found.mode}, expected {' or '.join(_COLOURS)}")
            if found.width * found.height > _MOST:
                raise ValueError(f"{found.width} x {found.height} pixels, at most {_MOST} are read")
            return np.asarray(found).reshape(found.height, found.width, _COLOURS[found.mode])
    except (OSError, SyntaxError, ValueError, pillow.DecompressionBombError) as error:
        raise ValueError(f"{where} is not an image of 8 bits: {error}.") from error


def video(path: str) -> Generator[Frame]:
    """The frames of an mp4 file, one for each that was encoded.

    ffmpeg reads it as a film of the mp4 family alone, and no other file: a playlist by that name could name
    others, and addresses. Films have no checksums: of damage, what no longer decodes is noticed.

    Raises:
        ImportError: imageio's ffmpeg is missing.
        ValueError: damage, another kind of file, frames that are too large.
    """
    ffmpeg = needed("imageio_ffmpeg", "videos need imageio", install("video")).get_ffmpeg_exe()
    alone = f"-f mov -protocol_whitelist file -max_pixels {_MOST} -i".split()
    frames = ["-map", "0:v:0", "-fps_mode", "passthrough"]
    images = ["-f", "image2pipe", "-c:v", "ppm", "-pix_fmt", "rgb24", "-"]  # of 8 bits, whatever the film has
    command = [ffmpeg, "-v", "error", "-nostdin", "-xerror", *alone, os.path.abspath(path), *frames, *images]
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as running,
    ):
        found: Any = running.stdout
        try:
            while found.readline(4):  # P6
                width, height = map(int, found.readline(32).split())
                found.readline(8)  # 255
                content = found.read(width * height * 3)
                if len(content) < width * height * 3:
                    break
                yield np.frombuffer(content, np.uint8).reshape(height, width, 3)
            running.wait()
        finally:
            running.kill()  # where nobody reads on
        if running.returncode:
            said.seek(0)
            message = said.read(1000).decode(errors="replace")
            raise ValueError(f"{path} is damaged, or no mp4 file: {message}")


def resized(frame: Frame, size: tuple[int, int] | None) -> Frame:
    """A frame of another height and width, by `Resize`; as it is for None."""
    if size is None:
        return frame
    return np.moveaxis(Resize(*size)._apply_transform(np.moveaxis(frame, -1, 0)), 0, -1)
