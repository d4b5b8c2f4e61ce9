"""VideoRecorder: which frames it keeps, and what a logger gets."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.drawn_env import DrawnEnv
from helpers.teams_env import Pair

from lite import TensorDict
from lite.data import CSVLogger, Logger, PixelRenderTransform, VideoRecorder
from lite.data.logging.video_recorder import _with_colours_first
from lite.envs import Compose, GymEnv, TransformedEnv


class Kept(Logger):
    """Keeps the videos that it gets."""

    def __init__(self) -> None:
        self.videos: list[Any] = []
        super().__init__("run", "logs")

    def _create_experiment(self) -> None:
        return None

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        self.videos.append((name, video, step, kwargs))


def drawn(*batch: int, logger: Logger | None = None, **words: Any) -> Any:
    return TransformedEnv(
        DrawnEnv(batch), Compose(PixelRenderTransform(), VideoRecorder(logger, "play", **words))
    )


def test_every_second_frame_of_one_environment() -> None:
    logger = Kept()
    env = drawn(logger=logger, fps=7, other=1)
    env.transform.dump()
    td = env.rollout(10)
    np.testing.assert_array_equal(td["next", "pixels"][:, 0, 0, 0], [1, 2, 3, 4])
    env.transform.dump()
    env.rollout(10)
    env.transform.dump(suffix="end", step=30)
    (name, video, step, words), (name_of_end, _, step_of_end, _) = logger.videos
    assert (name, step, words) == ("play", 1, {"fps": 7, "other": 1})
    assert (name_of_end, step_of_end) == ("play_end", 30)
    assert (video.shape, video.dtype) == ((1, 2, 3, 6, 8), np.uint8)
    np.testing.assert_array_equal(video[0, :, 0, 0, 0], [1, 3])


def test_all_frames_of_a_batch_as_tiles() -> None:
    logger = Kept()
    env = drawn(3, logger=logger)
    env.base_env.count = np.array([[0], [10], [20]], np.float32)
    recorder = env.transform[-1]
    assert (recorder.skip, recorder.make_grid) == (1, True)
    recorder.obs = []
    env.rollout(2)
    env.transform.dump(step=0)
    video = logger.videos[0][1]
    assert video.shape == (1, 3, 3, 12, 16)
    np.testing.assert_array_equal(
        video[0, :, 0, ::6, ::8].reshape(3, 4), [[0] * 4, [1] * 3 + [0], [2] * 3 + [0]]
    )


def test_frames_that_follow_one_another() -> None:
    recorder = VideoRecorder(None, None, make_grid=False, max_frames=5, center_crop=2)
    for i in range(4):
        images = np.arange(2 * 5 * 6, dtype=np.uint8).reshape(2, 5, 6, 1) + 60 * i
        np.testing.assert_array_equal(recorder(TensorDict(pixels=images))["pixels"], images)
    assert [frame.shape for frame in recorder.obs] == [(3, 2, 2)] * 5
    np.testing.assert_array_equal(recorder.obs[3][1], [[60 + 44, 60 + 45], [60 + 50, 60 + 51]])
    recorder.dump()
    assert (recorder.iter, recorder.count, recorder.obs) == (1, 0, [])


def test_frames_are_copies() -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    recorder = VideoRecorder(None, None)
    recorder(TensorDict(pixels=image))
    image[...] = 9
    assert recorder.obs[0].max() == 0


def test_a_dump_where_the_episode_ends() -> None:
    logger = Kept()
    env = drawn(2, logger=logger, dump_on_done=True)
    env.rollout(20, break_when_any_done=False)
    for step, (_, video, at, _) in enumerate(logger.videos):
        assert at == step
        np.testing.assert_array_equal(video[0, :, 0, 0, 0], [0, 1, 2, 3, 4])
    assert len(logger.videos) == 5
    recorder = VideoRecorder(logger, "agents", in_keys=[("agents", "x")], dump_on_done=True)
    with_agents = TransformedEnv(Pair(), recorder)
    ends = [key for key in with_agents.done_keys if key[-1] == "done"]
    assert ends != []
    for done in (True, False):
        following = TensorDict({key: np.full((2, 1), done) for key in ends})
        assert recorder._all_done(following) is done
    assert not recorder._all_done(TensorDict())


def test_from_an_environment_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    imageio = pytest.importorskip("imageio.v3")
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    pytest.importorskip("pygame", exc_type=ImportError)
    logger = CSVLogger("run", tmp_path, video_format="gif", video_fps=20)
    env = GymEnv("CartPole-v1", from_pixels=True, pixels_only=False)
    env = TransformedEnv(env, VideoRecorder(logger, "play", skip=1))
    env.set_seed(0)
    env.transform.dump()
    td = env.rollout(8)
    env.transform.dump(step=3)
    found = imageio.imread(tmp_path / "run/videos/play_3.gif")
    assert found.shape == (9, 400, 600, 3)
    np.testing.assert_allclose(found[-1].astype(float), td["next", "pixels"][-1], atol=8)


def test_animations(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = VideoRecorder(None, None)
    raises(RuntimeError, "at least one frame", lambda: recorder.to_animation())
    recorder(TensorDict(pixels=np.zeros((4, 4, 3), np.uint8)))
    recorder(TensorDict(pixels=np.full((4, 4), 9, np.uint8)))
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    made = recorder.to_animation(title="play", interval=20, clear=True)
    made._draw_was_started = True  # it is not shown, which matplotlib warns of
    assert (len(list(made.new_frame_seq())), recorder.obs) == (2, [])
    matplotlib.pyplot.close("all")
    recorder(TensorDict(pixels=np.zeros((4, 4, 3), np.uint8)))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    raises(ImportError, "animations need matplotlib: pip install", lambda: recorder.to_animation())


def test_which_dimension_has_the_colours() -> None:
    first, last = [(1, 4, 5), (3, 4, 5), (2, 3, 4, 4)], [(4, 5, 1), (4, 5, 3), (3, 4, 3), (3, 3, 3)]
    for shape in (*first, *last):
        images = np.arange(math.prod(shape)).reshape(shape)
        wanted = images if shape in first else images.transpose(2, 0, 1)
        wanted = np.broadcast_to(wanted, (*wanted.shape[:-3], 3, *wanted.shape[-2:]))
        np.testing.assert_array_equal(_with_colours_first(images), wanted)
    for shape in ((3, 3, 4), (3, 4, 2), (4, 4, 2), (4,)):
        with pytest.raises(RuntimeError, match="1 or 3 colours, first or last"):
            _with_colours_first(np.zeros(shape))


def test_errors() -> None:
    with pytest.raises(ValueError, match="max_frames must be at least 1, got 0"):
        VideoRecorder(None, None, max_frames=0)
    with pytest.raises(RuntimeError, match=r"got the shape \(2, 8, 8\)"):
        VideoRecorder(None, None)(TensorDict(pixels=np.zeros((2, 8, 8))))
    raises(KeyError, "pixels", lambda: VideoRecorder(None, None)(TensorDict(x=np.zeros(3))))
    raises(TypeError, "logger must be a Logger or None, got int", lambda: VideoRecorder(3, "v"))
