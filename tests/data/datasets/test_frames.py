"""Images and videos, of files that imageio and Pillow write."""

import io

import numpy as np
import pytest
from helpers.cases import raises

from lite.data.datasets.frames import image, resized, video
from lite.data.logging.video_files import write_video

pytest.importorskip("imageio_ffmpeg", reason="needs the video extra")
Image = pytest.importorskip("PIL.Image", reason="needs the video extra")


def encoded(frame, kind="PNG", mode=None):
    file = io.BytesIO()
    found = Image.fromarray(frame)
    (found.convert(mode) if mode else found).save(file, kind)
    return file.getvalue()


def shot(height=6, width=10):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)


def test_images():
    np.testing.assert_array_equal(image(encoded(shot()), "x"), shot())
    np.testing.assert_array_equal(image(encoded(shot()[..., 0]), "x"), shot()[..., :1])
    assert np.abs(image(encoded(np.full((6, 10, 3), 99, np.uint8), "JPEG"), "x").astype(int) - 99).max() < 3


def test_other_images():
    for content, message in (
        (encoded(shot())[:60], "where is not an image"),
        (b"", "where is not an image"),
        (None, "where must hold the bytes of images, got NoneType"),
        (encoded(shot(), "BMP"), "where is not an image"),
        (encoded(shot(), mode="RGBA"), "mode RGBA, expected L or RGB"),
        (encoded(np.zeros((5000, 5000), np.uint8)), "where is not an image.* 5000 x 5000 pixels"),
    ):
        raises(ValueError, message, image, content, "where")


def test_resized():
    assert resized(shot(), None).shape == (6, 10, 3)
    small = resized(shot(), (3, 5))
    np.testing.assert_allclose(
        small, np.asarray(Image.fromarray(shot()).resize((5, 3), Image.BILINEAR)), atol=1
    )


def test_videos(tmp_path):
    """One for each that was encoded, however long it is shown."""
    path = tmp_path / "film.mp4"
    levels = np.repeat([20, 200, 90], 10).astype(np.uint8)
    for options, step in ({}, 1), ({"vf": "mpdecimate", "fps_mode": "vfr"}, 10):
        write_video(
            path, np.broadcast_to(levels[:, None, None, None], (30, 32, 48, 3)), fps=10, options=options
        )
        found = np.stack(list(video(str(path))))
        assert found.shape[1:] == (32, 48, 3)
        np.testing.assert_allclose(found.mean((1, 2, 3)), levels[::step], atol=2)
    early = video(str(path))
    next(early)
    early.close()


def test_other_videos(tmp_path, monkeypatch):
    path = tmp_path / "film.mp4"
    write_video(path, np.stack([np.roll(shot(64, 64), k) for k in range(9)]), fps=10)
    whole = path.read_bytes()
    playlist = f"#EXTM3U\n#EXTINF:1,\nfile://{path}\n#EXT-X-ENDLIST\n".encode()
    at = whole.index(b"mdat") + 1500
    for content in (
        whole[:at] + bytes(99) + whole[at + 99 :],
        whole[: len(whole) // 2],
        b"",
        playlist,
        b"ffconcat version 1.0\nfile film.mp4\n",
    ):
        other = tmp_path / "other.mp4"
        other.write_bytes(content)
        raises(
            ValueError,
            "other.mp4 is damaged, or no mp4 file",
            lambda: list(video(str(tmp_path / "other.mp4"))),
        )
    monkeypatch.setattr("lite.data.datasets.frames._MOST", 1000)
    raises(ValueError, "film.mp4 is damaged.*64x64 exceeds", lambda: list(video(str(path))))
