"""TorchRL's tutorial "Collectors Deep Dive: Trajectory Assembly", on lite."""

import time

from lite.data import (
    Collector,
    LazyTensorStorage,
    RandomPolicy,
    ReplayBuffer,
    SliceSampler,
    split_trajectories,
)
from lite.envs import GymEnv

env = GymEnv("CartPole-v1")
env.set_seed(0)
policy = RandomPolicy(env.action_spec)
collector = Collector(env, policy, frames_per_batch=200, total_frames=-1)
data = next(iter(collector))
print(data)
n_episodes = data["next", "done"].sum().item()
print(f"{data.shape[0]} frames, in which {n_episodes} episodes end")

split_data = split_trajectories(data)  # of shape (episodes, the longest one)
print(split_data["collector", "mask"])
print(split_data["next", "done"].shape, split_data["next", "truncated"].shape)
nested = split_trajectories(data, as_nested=True)
print(type(nested).__name__, nested.batch_size)

whole_episodes = {"frames_per_batch": 200, "total_frames": -1, "trajs_per_batch": 5}
collector_trajs = Collector(env, policy, traj_format="padded", **whole_episodes)
traj_data = next(iter(collector_trajs))
collector_trajs.shutdown()
print(traj_data["collector", "mask"])
collector_cat = Collector(env, policy, traj_format="cat", **whole_episodes)
traj_data_cat = next(iter(collector_cat))
collector_cat.shutdown()
print(traj_data_cat["next", "done"].sum().item(), "episodes in", traj_data_cat.shape)

rb = ReplayBuffer(
    storage=LazyTensorStorage(10_000),
    sampler=SliceSampler(slice_len=16, end_key=("next", "done"), strict_length=False),
    batch_size=32,
)
rb.extend(data)
sample = rb.sample()
print("slices of trajectories", set(sample["collector", "traj_ids"].tolist()))

rb_async = ReplayBuffer(
    storage=LazyTensorStorage(10_000),
    sampler=SliceSampler(slice_len=16, end_key=("next", "done"), strict_length=False),
    batch_size=32,
    shared=True,
)
collector_async = Collector(env, policy, replay_buffer=rb_async, frames_per_batch=200, total_frames=-1)
collector_async.start()  # goes on while others sample
for _ in range(1000):
    time.sleep(0.01)
    if len(rb_async) >= 200:
        break
sample_async = rb_async.sample()
collector_async.async_shutdown()
collector.shutdown()
