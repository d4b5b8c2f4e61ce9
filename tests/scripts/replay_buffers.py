"""TorchRL's tutorial "Using replay buffers", on lite: frames of a small game are the pixels."""

import tempfile

import gymnasium
import numpy as np

from lite import TensorDict, tensorclass
from lite.data import (
    Collector,
    LazyMemmapStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    RandomPolicy,
    ReplayBuffer,
    SamplerWithoutReplacement,
    SliceSampler,
    TensorDictReplayBuffer,
)
from lite.envs import (
    CatFrames,
    Compose,
    ExcludeTransform,
    GrayScale,
    GymWrapper,
    Resize,
    ToTensorImage,
    TransformedEnv,
    UnsqueezeTransform,
)

buffer = ReplayBuffer()
buffer.extend(range(2000))
assert len(buffer) == 1000  # the default storage is a list of a thousand

size = 100
buffer_list = ReplayBuffer(storage=ListStorage(size), collate_fn=lambda x: x)
buffer_list.extend(["a", 0, "b"])
print(buffer_list.sample(3))

data = TensorDict({"a": np.arange(12).reshape(3, 4), ("b", "c"): np.arange(15).reshape(3, 5)}, batch_size=[3])
with tempfile.TemporaryDirectory() as tempdir:
    buffer_lazymemmap = TensorDictReplayBuffer(
        storage=LazyMemmapStorage(size, scratch_dir=tempdir), batch_size=12
    )
    buffer_lazymemmap.extend(data)
    sample = buffer_lazymemmap.sample()
    print(sample["index"])


@tensorclass
class MyData:
    images: np.ndarray
    labels: np.ndarray


rng = np.random.default_rng(0)
data = MyData(
    images=rng.integers(255, size=(200, 64, 64, 3)), labels=rng.integers(100, size=200), batch_size=[200]
)
buffer_lazy = ReplayBuffer(storage=LazyTensorStorage(size), batch_size=128, prefetch=10)
buffer_lazy.extend(data)
for i, data in enumerate(buffer_lazy):
    if i == 3:
        print(data)
        break

data = TensorDict(
    {"a": np.arange(64).reshape(16, 4), ("b", "c"): np.arange(128).reshape(16, 8)}, batch_size=[16]
)
buffer_lazy = ReplayBuffer(
    storage=LazyTensorStorage(size), batch_size=32, sampler=SamplerWithoutReplacement()
)
buffer_lazy.extend(data)
for _i, _ in enumerate(buffer_lazy):
    continue
print(f"A total of {_i + 1} batches have been collected")

rb = TensorDictReplayBuffer(
    storage=ListStorage(size),
    sampler=PrioritizedSampler(size, alpha=0.8, beta=1.1),
    priority_key="td_error",
    batch_size=1024,
)
data["td_error"] = np.arange(data.numel())
rb.extend(data)
sample = rb.sample()
sample["td_error"] = data.numel() - sample["index"]
rb.update_tensordict_priority(sample)
sample = rb.sample()


class Blinking(gymnasium.Env):
    """A frame of 48 by 64 in one colour, which changes with each step."""

    observation_space = gymnasium.spaces.Dict(pixels=gymnasium.spaces.Box(0, 255, (48, 64, 3), np.uint8))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self._frame(), {}

    def step(self, action):
        self.time += 1
        return self._frame(), 1.0, False, self.time == 5, {}

    def _frame(self):
        return {"pixels": np.full((48, 64, 3), (10 * self.time, 255 - 10 * self.time, 3), np.uint8)}


def frames(in_keys, out_keys):
    return [
        ToTensorImage(in_keys=in_keys, out_keys=out_keys),
        Resize(in_keys=out_keys, w=32, h=24),
        GrayScale(in_keys=out_keys),
        UnsqueezeTransform(-4, in_keys=out_keys),
        CatFrames(dim=-4, N=4, in_keys=out_keys),
    ]


env = TransformedEnv(GymWrapper(Blinking()), Compose(*frames(["pixels"], ["pixels_trsf"])))
print(env.rollout(3))
collector = Collector(env, RandomPolicy(env.action_spec), frames_per_batch=10, total_frames=1000)
data = next(iter(collector))
collector.shutdown()
small = ExcludeTransform("pixels_trsf", ("next", "pixels_trsf"), "collector")(data)

both = (["pixels", ("next", "pixels")], ["pixels_trsf", ("next", "pixels_trsf")])
rb = TensorDictReplayBuffer(storage=LazyTensorStorage(size), transform=Compose(*frames(*both)))
rb.add(small)
s = rb.sample(1)  # the buffer has only one element
np.testing.assert_allclose(s["pixels_trsf"][0], data["pixels_trsf"])

rb = TensorDictReplayBuffer(
    storage=LazyTensorStorage(size), sampler=SliceSampler(traj_key="episode", num_slices=4), batch_size=8
)
episode = np.repeat([1, 2, 3, 4], [3, 2, 2, 3])
steps = np.concatenate([np.arange(3), np.arange(2), np.arange(2), np.arange(3)])
rb.extend(TensorDict(episode=episode, steps=steps, obs=rng.standard_normal((10, 3, 4)), batch_size=[10]))
sample = rb.sample()
print("episode are grouped", sample["episode"])
print("steps are successive", sample["steps"])
