"""Trajectories from batches: all of each, once, in the order of their ends."""

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict
from lite.data import Collector, LazyTensorStorage, ReplayBuffer, SliceSampler
from lite.data.collectors.whole_trajectories import WholeTrajectories

SyncVectorEnv, AutoresetMode = gymnasium.vector.SyncVectorEnv, gymnasium.vector.AutoresetMode


@pytest.mark.depth
@settings(max_examples=40)
@given(
    st.integers(1, 3),
    st.lists(st.integers(1, 6), min_size=1, max_size=8),
    st.integers(0, 2**32),
    st.booleans(),
)
def test_streams_in_batches_of_any_length(envs, lengths, seed, skips):
    rng = np.random.default_rng(seed)
    done = rng.random((envs, sum(lengths))) < 0.3
    ids = np.zeros_like(done, dtype=np.int64)
    ids[:, 1:] = np.cumsum(done, 1)[:, :-1]
    ids = ids * envs + np.arange(envs)[:, None]
    left_out = rng.random(done.shape) < 0.2 if skips else np.zeros_like(done)
    done &= ~left_out
    steps = TensorDict(
        {
            "step": np.arange(done.size).reshape(done.shape),
            "collector": {"traj_ids": np.where(left_out, -1, ids)},
            "next": {"done": done[..., None]},
        },
        done.shape,
    )
    whole, found, at = WholeTrajectories(), [], 0
    for length in lengths:
        batch = steps[:, at : at + length].clone()
        whole.add(batch)
        batch["step"][...] = -1  # the memory of batches is written over
        at += length
        while len(whole):
            found.append(whole.take(1, False)["step"].tolist())
    expected = []
    for row, kept, stop in zip(steps["step"], ~left_out, done, strict=True):
        names = steps["collector", "traj_ids"][row[0] // row.size]
        for name in np.unique(names[names >= 0]):
            if (stop & (names == name)).any():
                expected.append(row[(names == name) & kept].tolist())
    assert sorted(found) == sorted(expected)


def cartpoles(mode=AutoresetMode.DISABLED):
    return SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * 3, autoreset_mode=mode)


def policy(td):
    return td.set("action", (td["observation"][..., 2] > 0).astype(np.int64))


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_batches_have_as_many_whole_trajectories(mode):
    options = {"frames_per_batch": 30, "total_frames": 360, "seed": 0}
    frames = Collector(cartpoles(mode), policy, **options, copy=True)
    everything = [batch.reshape(-1) for batch in frames]
    observed = np.concatenate([batch["observation"] for batch in everything])
    ids = np.concatenate([batch["collector", "traj_ids"] for batch in everything])
    done = np.concatenate([batch["next", "done"][..., 0] for batch in everything])
    collected = []
    for batch in Collector(cartpoles(mode), policy, **options, trajs_per_batch=4, traj_format="padded"):
        assert batch.shape[0] == 4
        mask = batch["collector", "mask"]
        assert batch.shape[1] == mask.sum(1).max()
        assert (batch["next", "done"][..., 0].sum(1) == 1).all()
        for row, real in zip(batch, mask, strict=True):
            assert not row["observation"][~real].any()
            name = row["collector", "traj_ids"][0]
            collected.append(int(name))
            np.testing.assert_array_equal(row["observation"][real], observed[ids == name])
    ended = set(ids[done].tolist())
    assert len(collected) == len(set(collected)) == len(ended) // 4 * 4
    assert set(collected) <= ended
    flat = [*Collector(cartpoles(mode), policy, **options, trajs_per_batch=4, traj_format="cat")]
    assert [
        int(name) for batch in flat for name in dict.fromkeys(batch["collector", "traj_ids"])
    ] == collected


def test_a_buffer_gets_whole_trajectories_alone():
    sizes = []
    buffer = ReplayBuffer(
        storage=LazyTensorStorage(1000), sampler=SliceSampler(slice_len=5, generator=0), batch_size=50
    )
    collector = Collector(
        cartpoles(), policy, frames_per_batch=60, total_frames=600, seed=0, replay_buffer=buffer,
        trajs_per_batch=1, trajs_per_write=2,
        post_collect_hook=lambda data: sizes.append(len(set(data["collector", "traj_ids"]))),
    )  # fmt: skip
    assert [*collector] == [None] * 10
    assert set(sizes) == {1, 2}
    stored = buffer[:]
    ends = np.flatnonzero(stored["next", "done"])
    assert ends[-1] == len(buffer) - 1
    assert len(ends) == len(set(stored["collector", "traj_ids"])) == sum(sizes)
    np.testing.assert_array_equal(stored["step_count"][np.append(0, ends[:-1] + 1)], 0)
    assert buffer.sample().shape == (50,)


def test_episodes_that_do_not_go_on_are_forgotten():
    collector = Collector(
        cartpoles(), policy, frames_per_batch=15, total_frames=300, seed=0, trajs_per_batch=1,
        traj_format="cat",
    )  # fmt: skip
    collector.next()
    collector.reset()
    for batch in collector:
        assert batch["step_count"][0] == 0
        np.testing.assert_array_equal(np.diff(batch["step_count"][:, 0]), 1)
    each = Collector(
        cartpoles(), policy, frames_per_batch=15, total_frames=300, seed=0, trajs_per_batch=1,
        reset_at_each_iter=True,
    )  # fmt: skip
    assert [*each] == []  # no pole falls in five steps
    assert not each._whole._open or len(each._whole._open) <= 3


def test_arguments():
    for options, match in (
        ({"trajs_per_batch": 0}, "trajs_per_batch must be at least 1, got 0"),
        ({"trajs_per_batch": 1, "trajs_per_write": 0}, "trajs_per_write must be at least 1, got 0"),
        ({"traj_format": "cat"}, "need trajs_per_batch"),
        ({"trajs_per_batch": 1, "traj_format": "flat"}, "must be 'padded' or 'cat', got 'flat'"),
        ({"trajs_per_batch": 1, "split_trajs": True}, "track_traj_ids=True and split_trajs=False"),
        ({"trajs_per_batch": 1, "track_traj_ids": False}, "track_traj_ids=True and split_trajs=False"),
    ):
        with pytest.raises(ValueError, match=match):
            Collector(cartpoles(), frames_per_batch=3, **options)
