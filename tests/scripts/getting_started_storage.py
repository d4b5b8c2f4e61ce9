"""TorchRL's tutorial "Get started with data collection and storage", on lite."""

import tempfile

from lite.data import Collector, LazyMemmapStorage, RandomPolicy, ReplayBuffer
from lite.envs import GymEnv

env = GymEnv("CartPole-v1")
env.set_seed(0)
policy = RandomPolicy(env.action_spec)
collector = Collector(env, policy, frames_per_batch=200, total_frames=-1)
for data in collector:
    print(data)
    break
print(data["collector", "traj_ids"])

with tempfile.TemporaryDirectory() as buffer_scratch_dir:
    buffer = ReplayBuffer(storage=LazyMemmapStorage(max_size=1000, scratch_dir=buffer_scratch_dir))
    indices = buffer.extend(data)
    assert len(buffer) == collector.frames_per_batch
    sample = buffer.sample(batch_size=30)
    print(sample)
