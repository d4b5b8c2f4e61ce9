"""Frames as files: by imageio where it is installed, and on a stand-in that keeps what it is called with."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite.data.logging.video_files import write_video


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []
    module: Any = ModuleType("imageio.v3")
    module.imwrite = lambda path, frames, **words: calls.append((path, frames, words))
    package: Any = ModuleType("imageio")
    package.v3 = module
    monkeypatch.setitem(sys.modules, "imageio", package)
    monkeypatch.setitem(sys.modules, "imageio.v3", module)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", ModuleType("imageio_ffmpeg"))
    return calls


def test_what_it_passes_on(seen: list[Any]) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (4, 5, 7, 3), np.uint8)
    options = {"crf": 20, "preset": "slow", "pixel_format": "yuv444p"}
    write_video("a.mp4", frames, fps=12, video_codec="libx265", options=options)
    write_video("b.mp4", frames[:, :4, :6])
    write_video("c.gif", frames, fps=20)
    (_, padded, words), (_, even, plain), (path, pictures, gif) = seen
    assert padded.shape == (4, 6, 8, 3)
    np.testing.assert_array_equal(padded[:, :5, :7], frames)
    np.testing.assert_array_equal(padded[:, 5, :7], frames[:, 4])
    np.testing.assert_array_equal(padded[:, :5, 7], frames[:, :, 6])
    assert words.pop("output_params") == ["-crf", "20", "-preset", "slow"]
    assert words == {
        "plugin": "FFMPEG", "fps": 12, "codec": "libx265", "pixelformat": "yuv444p", "macro_block_size": 2,
    }  # fmt: skip
    np.testing.assert_array_equal(even, frames[:, :4, :6])
    assert (plain["fps"], plain["codec"], plain["pixelformat"]) == (30, "libx264", "yuv420p")
    assert (path, gif["duration"], gif["loop"]) == (Path("c.gif"), 50, 0)
    np.testing.assert_array_equal(pictures, frames)


# imageio's reader leaves pipes open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("kind", ["mp4", "gif"])
def test_files_that_can_be_read(tmp_path: Path, kind: str) -> None:
    imageio = pytest.importorskip("imageio.v3")
    if kind == "mp4":
        pytest.importorskip("imageio_ffmpeg")
    frames = np.zeros((5, 33, 40, 3), np.uint8)
    for i in range(5):
        frames[i, :, :, i % 3] = 255
    path = tmp_path / f"a.{kind}"
    write_video(path, frames, fps=10)
    with imageio.imopen(path, "r") as file:
        found = np.stack(list(file.iter()))
        meta = file.metadata(index=None) if kind == "gif" else file.metadata()
    assert found.shape == (5, 33 + (kind == "mp4"), 40, 3)
    np.testing.assert_allclose(found[:, :33].astype(float), frames, atol=4)
    assert meta.get("fps", 1000 / meta["duration"]) == 10


def test_errors(seen: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    raises(TypeError, "must be uint8, got float64", write_video, "a.mp4", np.zeros((2, 4, 4, 3)))
    frames = np.zeros((2, 4, 4, 3), np.uint8)
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    raises(ImportError, r"videos need imageio: pip install -e \"\.\[video\]\"", write_video, "a.mp4", frames)
    write_video("a.gif", frames)
    monkeypatch.setitem(sys.modules, "imageio.v3", None)
    raises(ImportError, r"videos need imageio: pip install -e \"\.\[video\]\"", write_video, "a.gif", frames)
    assert len(seen) == 1
