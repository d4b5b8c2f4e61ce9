"""VideoRecorder and PixelRenderTransform beside torchrl's: frames, what loggers get, specs, errors."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensordict
import torch
import torchrl.data
import torchrl.envs
from helpers.cases import each_case
from torchrl import record

import lite
import lite.data
import lite.envs

pytestmark = pytest.mark.filterwarnings("ignore")  # of the reference


class Kept:
    def __init__(self):
        self.videos = []

    def log_video(self, name, video, step=None, **kwargs):
        self.videos.append((name, np.asarray(video), step, kwargs))


LITE = SimpleNamespace(record=lite.data, envs=lite.envs, specs=lite.data, td=lite.TensorDict, of=np.array)
TORCH = SimpleNamespace(
    record=record, envs=torchrl.envs, specs=torchrl.data, td=tensordict.TensorDict, of=torch.tensor
)
SHAPES = [(6, 8, 3), (3, 6, 8), (1, 6, 8), (6, 8, 1), (6, 8), (2, 6, 8, 3), (5, 3, 6, 8), (2, 3, 6, 8, 3)]


def same_frames(mine, theirs):
    assert len(mine) == len(theirs)
    for one, other in zip(mine, theirs, strict=True):
        assert one.dtype == np.uint8
        np.testing.assert_array_equal(one, np.asarray(other))


def same_videos(mine, theirs):
    assert len(mine.videos) == len(theirs.videos)
    for (name, video, step, words), (name_, video_, step_, words_) in zip(
        mine.videos, theirs.videos, strict=True
    ):
        assert (name, video.shape, step, words) == (name_, video_.shape, step_, words_)
        np.testing.assert_array_equal(video, video_)


WORDS = [{"make_grid": True}, {}, {"skip": 2}, {"max_frames": 4}, {"fps": 9, "other": 1}]


@each_case(("shape", "words"), zip(SHAPES, [*WORDS, *WORDS[:3]], strict=True))
def test_frames(shape, words):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, *shape), np.uint8)
    loggers, kept, counts = [], [], []
    for library in (LITE, TORCH):
        logger = Kept()
        recorder = library.record.VideoRecorder(logger, "play", **words)
        for image in images:
            td = library.td({"pixels": library.of(image)}, [])
            np.testing.assert_array_equal(np.asarray(recorder(td)["pixels"]), image)
        kept.append(recorder.obs)
        counts.append((recorder.count, recorder.iter, recorder.skip, recorder.make_grid))
        recorder.dump()
        recorder.dump()
        recorder(library.td({"pixels": library.of(images[0])}, []))
        recorder(library.td({"pixels": library.of(images[1])}, []))
        recorder.dump(suffix="end")
        recorder(library.td({"pixels": library.of(images[0])}, []))
        recorder(library.td({"pixels": library.of(images[1])}, []))
        recorder.dump(step=70)
        loggers.append(logger)
    same_frames(*kept)
    assert counts[0] == counts[1]
    same_videos(*loggers)


def drawn(library, batch):
    """An environment whose image is the number of its step."""

    class Drawn(library.envs.EnvBase):
        def __init__(self):
            super().__init__(batch_size=batch)
            self.observation_spec = library.specs.Composite(
                {"observation": library.specs.Unbounded((*batch, 1))}, shape=batch
            )
            self.action_spec = library.specs.Bounded(-1, 1, (*batch, 1))
            self.reward_spec = library.specs.Unbounded((*batch, 1))

        def render(self, bright=0):
            return np.full((*batch, 6, 8, 3), self.count + bright, np.uint8)

        def _reset(self, tensordict=None, **kwargs):
            self.count = 0
            return library.td({"observation": library.of(np.zeros((*batch, 1), np.float32))}, batch)

        def _step(self, tensordict):
            self.count += 1
            entries = {
                "observation": np.full((*batch, 1), self.count, np.float32),
                "reward": np.zeros((*batch, 1), np.float32),
                "done": np.full((*batch, 1), self.count >= 4),
            }
            return library.td({key: library.of(value) for key, value in entries.items()}, batch)

        def _set_seed(self, seed):
            pass

    return Drawn()


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("words", [{}, {"skip": 1, "dump_on_done": True}])
def test_in_an_environment(batch, words):
    loggers, seen = [], []
    for library in (LITE, TORCH):
        logger = Kept()
        env = library.envs.TransformedEnv(
            drawn(library, batch), library.record.PixelRenderTransform(out_keys="pixels", bright=5)
        )
        env = env.append_transform(library.record.VideoRecorder(logger, "play", **words))
        spec = env.observation_spec["pixels"]
        env.rollout(2)  # torchrl's first one resets once more, for the spec
        env.transform.dump()
        logger.videos.clear()
        td = env.rollout(10)
        env.transform.dump(step=3)
        seen.append((tuple(spec.shape), np.asarray(td["pixels"]), np.asarray(td["next", "pixels"])))
        loggers.append(logger)
    same_videos(*loggers)
    (shape, now, then), (shape_, now_, then_) = seen
    assert shape == shape_
    np.testing.assert_array_equal(now, now_)
    np.testing.assert_array_equal(then, then_)


@each_case(
    "call",
    [
        lambda b: b.record.VideoRecorder(None, None, max_frames=0),
        lambda b: b.record.VideoRecorder(None, None)(b.td({"pixels": b.of(np.zeros((4, 4, 2)))}, [])),
        lambda b: b.record.VideoRecorder(None, None).to_animation(),
        lambda b: b.record.PixelRenderTransform(out_keys=["a", "b"]),
        lambda b: b.record.PixelRenderTransform().switch("maybe"),
        lambda b: b.envs.TransformedEnv(drawn(b, ()), b.record.PixelRenderTransform(render_method="paint")),
    ],
)
def test_errors(call):
    kinds = []
    for library in (LITE, TORCH):
        with pytest.raises(Exception) as info:
            call(library)
        kinds.append(info.type)
    assert kinds[0] is kinds[1]
