"""Slices that start by priority, against a loop over all rows."""

import functools

import numpy as np
import pytest
from helpers.cases import raises
from helpers.data.ring_storage import RingStorage, check_state, pieces
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.data import PrioritizedSliceSampler


def starts(storage: RingStorage, key: str, length: int, strict: bool) -> list[tuple[tuple[int, ...], int]]:
    """The elements at which a slice may start, and how long it is then."""
    found = []
    for rows in storage.trajectories(key):
        for i, place in enumerate(rows):
            left = len(rows) - i
            if left >= length or (i == 0 and not strict):
                found.append((place, min(left, length)))
    return sorted(found)


@pytest.mark.depth
@settings(max_examples=40)
@given(
    st.integers(1, 13), st.sampled_from([(), (3,), (2, 2)]),
    st.lists(st.integers(0, 20), min_size=1, max_size=8),
    st.booleans(), st.booleans(), st.booleans(), st.integers(1, 4), st.integers(0, 2**32),
)  # fmt: skip
def test_where_slices_may_start(rows, lanes, counts, strict, by_id, each, length, seed):
    """After any writes, priorities of all entries being kept for when they may."""
    rng = np.random.default_rng(seed)
    storage = RingStorage(rows, *lanes, done=bool, episode=np.int64)
    size = storage.max_size
    sampler = PrioritizedSliceSampler(
        size, 1.0, 1.0, eps=0.0, slice_len=length, strict_length=strict, generator=seed,
        **({"traj_key": ("next", "episode")} if by_id else {}),
    )  # fmt: skip
    ids = np.zeros(lanes, np.int64)
    priority = np.zeros(size)
    for step, count in enumerate(counts):
        done = rng.random((count, *lanes)) < 0.3
        written = storage.write(count, done=done, episode=ids + np.cumsum(done, 0) - done)
        ids = ids + done.sum(0)
        places = np.arange(size).reshape(rows, -1)[written].reshape(-1)
        value = rng.integers(1, 9, places.size).astype(float)
        priority[places] = value
        sampler.update_priority(places, value, storage=storage)
        if (not each and step + 1 < len(counts)) or not len(storage):
            continue
        expected = starts(storage, "episode" if by_id else "done", length, strict)
        if not expected:
            raises(RuntimeError, "no trajectory in the storage has", sampler.sample, storage, length)
            continue
        index, info = sampler.sample(storage, 3 * length)
        flat = [int(np.ravel_multi_index(place, (rows, *lanes))) for place, _ in expected]
        half = sampler._sum_tree.size // 2
        leaves = sampler._sum_tree[half : half + size]
        assert np.flatnonzero(leaves).tolist() == flat
        np.testing.assert_array_equal(leaves[flat], priority[flat])
        batch = pieces(index, info)
        assert all((piece[0], len(piece)) in expected for piece in batch)
        firsts = np.ravel_multi_index(tuple(np.transpose([piece[0] for piece in batch])), (rows, *lanes))
        weight = np.repeat(priority[priority > 0].min() / priority[firsts], [len(piece) for piece in batch])
        np.testing.assert_allclose(info["priority_weight"], weight, rtol=1e-6)


def test_another_length_of_slices_and_another_alpha():
    storage = RingStorage(8, done=bool)
    storage.write(8, done=[0, 0, 0, 1, 0, 0, 0, 1])
    sampler = PrioritizedSliceSampler(8, 1.0, 1.0, eps=0.0, num_slices=2, generator=0)
    sampler.update_priority(np.arange(8), np.arange(1, 9))
    half = sampler._sum_tree.size // 2
    for length, able in ((2, [0, 1, 2, 4, 5, 6]), (4, [0, 4]), (2, [0, 1, 2, 4, 5, 6])):
        sampler.sample(storage, 2 * length)
        assert np.flatnonzero(sampler._sum_tree[half:]).tolist() == able
    sampler.alpha = 2.0
    np.testing.assert_allclose(sampler._sum_tree[half:][able], np.array([1, 2, 3, 5, 6, 7]) ** 2)
    assert sampler.can_sample(storage, 8)
    assert not sampler.can_sample(storage, 10)
    storage = RingStorage(8, done=bool)
    sampler = PrioritizedSliceSampler(8, 1.0, 1.0, slice_len=3, strict_length=False)
    for done, able in (([0, 0, 0, 1], [0, 1]), ([0, 1], [0, 1, 4])):
        places = storage.write(len(done), done=done)
        sampler.update_priority(places, np.ones(len(places)), storage=storage)
        sampler.sample(storage, 6)
        assert np.flatnonzero(sampler._sum_tree[half:]).tolist() == able


def test_the_state_can_be_restored(tmp_path):
    storage = RingStorage(20, done=bool)
    storage.write(20, done=np.arange(20) % 6 == 5)
    sampler = PrioritizedSliceSampler(20, 0.6, 0.4, slice_len=3, generator=0)
    sampler.update_priority(np.arange(20), np.arange(20))
    sampler.sample(storage, 6)
    other = functools.partial(PrioritizedSliceSampler, 20, 1.0, 1.0, slice_len=3)
    check_state(sampler, other, tmp_path, storage, 30)
    sampler._empty()
    raises(RuntimeError, "no trajectory", sampler.sample, storage, 6)


def test_a_storage_beyond_the_capacity_is_refused():
    storage = RingStorage(6, done=bool)
    storage.write(6, done=np.zeros(6))
    with pytest.raises(RuntimeError, match="max_capacity must be that of the storage, 6, got 5"):
        PrioritizedSliceSampler(5, 1.0, 1.0, slice_len=2).sample(storage, 4)
