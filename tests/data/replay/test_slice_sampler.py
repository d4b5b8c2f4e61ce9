"""Slices: which are drawn, how often, and what the batch is told of them."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.data.ring_storage import RingStorage, check_state, pieces
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.data import SliceSampler, SliceSamplerWithoutReplacement


def episodes(*lengths: int, rows: int | None = None, last_done: bool = True) -> RingStorage:
    """One lane of episodes of these lengths."""
    total = sum(lengths)
    storage = RingStorage(rows or total, done=bool, episode=np.int64)
    done = np.zeros(total, bool)
    done[np.cumsum(lengths) - 1] = True
    done[-1] = last_done
    storage.write(total, done=done, episode=np.repeat(np.arange(len(lengths)), lengths))
    return storage


def inside(piece, trajectories) -> bool:
    """Whether a piece is neighbours of one trajectory."""
    return any(piece == rows[i : i + len(piece)] for rows in trajectories for i in range(len(rows)))


@settings(max_examples=40)
@given(
    st.integers(1, 15), st.sampled_from([(), (3,)]), st.lists(st.integers(1, 20), min_size=1, max_size=5),
    st.booleans(), st.booleans(), st.integers(1, 4), st.booleans(), st.integers(0, 2**32),
)  # fmt: skip
def test_every_slice_lies_in_one_trajectory(rows, lanes, counts, strict, by_id, length, replacement, seed):
    """Also where the ring was written over, in any number of writes between draws."""
    rng = np.random.default_rng(seed)
    storage = RingStorage(rows, *lanes, done=bool, episode=np.int64)
    kind = SliceSampler if replacement else SliceSamplerWithoutReplacement
    sampler = kind(
        slice_len=length,
        strict_length=strict,
        generator=seed,
        **({"traj_key": ("next", "episode")} if by_id else {"end_key": ("next", "done")}),
    )
    ids = np.zeros(lanes, np.int64)
    for count in counts:
        done = rng.random((count, *lanes)) < 0.3
        storage.write(count, done=done, episode=ids + np.cumsum(done, 0) - done)
        ids = ids + done.sum(0)
        expected = storage.trajectories("episode" if by_id else "done")
        long_enough = [rows for rows in expected if len(rows) >= length]
        if strict and not long_enough:
            assert not sampler.can_sample(storage, 3 * length)
            raises(RuntimeError, "no trajectory in the storage has", sampler.sample, storage, 3 * length)
            continue
        assert sampler.can_sample(storage, 3 * length)
        index, info = sampler.sample(storage, 3 * length)
        assert {part.dtype for part in np.atleast_1d(index)} == {np.dtype(np.int64)}
        batch = pieces(index, info)
        assert len(batch) == 3 if replacement else len(batch) <= 3
        for piece in batch:
            assert inside(piece, expected)
            if strict:
                assert len(piece) == length
            else:
                whole = next(rows for rows in expected if piece[0] in rows)
                assert len(piece) == min(length, len(whole))


def test_trajectories_and_starts_are_drawn_uniformly():
    storage = episodes(3, 9, 5, 4, last_done=False)
    sampler = SliceSampler(num_slices=30_000, end_key=("next", "done"), generator=0)
    index, _ = sampler.sample(storage, 4 * 30_000)
    starts = np.bincount(index[::4], minlength=21)
    probability = np.zeros(21)
    probability[3:9], probability[12:14], probability[17] = 1 / 3 / 6, 1 / 3 / 2, 1 / 3
    assert not starts[probability == 0].any()
    expected = 30_000 * probability[probability > 0]
    chi = ((starts[probability > 0] - expected) ** 2 / expected).sum()
    np.testing.assert_array_less(chi, 26.1)  # 8 degrees: 0.1%


def test_flags_of_the_batch():
    storage = episodes(3, 4)
    storage.entries["next", "terminated"] = storage.entries["next", "done"].copy()
    storage.entries["next", "terminated"][6] = False
    storage.entries["is_init"] = np.array([1, 0, 0, 1, 0, 0, 0], bool)[:, None]
    index, info = SliceSampler(slice_len=2, generator=1).sample(storage, 20)
    first, last = np.arange(0, 20, 2), np.arange(1, 20, 2)
    assert set(info) == {("next", "truncated"), ("next", "done"), ("next", "terminated"), "is_init"}
    assert {value.shape for value in info.values()} == {(20, 1)}
    assert {value.dtype for value in info.values()} == {np.dtype(bool)}
    assert info["next", "truncated"][last].all()
    assert not info["next", "truncated"][first].any()
    np.testing.assert_array_equal(info["next", "done"], info["next", "truncated"])
    np.testing.assert_array_equal(info["next", "terminated"][:, 0], index == 2)
    np.testing.assert_array_equal(info["is_init"], ~info["next", "truncated"])
    storage.entries["is_init"][:] = True
    assert SliceSampler(slice_len=2).sample(storage, 4)[1]["is_init"].all()
    assert "is_init" not in SliceSampler(slice_len=2, init_key=None).sample(storage, 4)[1]


def test_keys_are_found_in_the_storage():
    storage = episodes(2, 2, 2)
    storage.entries["next", "done"][:] = False
    storage.entries["next", "done"][2] = True
    by_end = {(0, 1, 2), (3, 4, 5)}
    by_id = {(0, 1), (2, 3), (4, 5)}

    def found(**keys) -> set[tuple[int, ...]]:
        sampler = SliceSampler(slice_len=6, strict_length=False, generator=0, **keys)
        index, info = sampler.sample(storage, 120)
        return {tuple(row[0] for row in piece) for piece in pieces(index, info)}

    assert found() == by_end
    assert found(end_key=("next", "done")) == by_end
    assert found(end_keys=[("next", "done"), ("next", "missing")]) == by_end
    assert found(traj_key="missing") == by_end
    assert found(traj_key=("next", "episode")) == by_id
    storage.entries["collector", "traj_ids"] = storage.entries["next", "episode"]
    assert found() == by_id
    assert found(end_key="missing") == by_id
    assert found(end_key=("next", "done")) == by_end
    storage.entries.pop(("collector", "traj_ids"))
    storage.entries["episode"] = storage.entries["next", "episode"]
    assert found() == by_id
    storage.entries = {"other": np.zeros((6, 1))}
    raises(RuntimeError, "which tell trajectories apart", found)


def test_arguments_and_errors():
    storage = episodes(3, 4)
    for wrong in ({}, {"num_slices": 2, "slice_len": 2}):
        raises(TypeError, "exactly one of num_slices and slice_len", SliceSampler, **wrong)
    raises(ValueError, "slice_len must be at least 1", lambda: SliceSampler(slice_len=0))
    with pytest.raises(TypeError, match=r"num_slices must be an integer, got 2\.5"):
        SliceSampler(num_slices=2.5)  # type: ignore[arg-type]
    raises(RuntimeError, "exclude each other", lambda: SliceSampler(slice_len=1, end_key="a", end_keys=["b"]))
    raises(RuntimeError, "multiple of slice_len=2, got 5", SliceSampler(slice_len=2).sample, storage, 5)
    raises(RuntimeError, "multiple of num_slices=3, got 5", SliceSampler(num_slices=3).sample, storage, 5)
    raises(RuntimeError, "empty storage", SliceSampler(num_slices=3).sample, RingStorage(4, done=bool), 6)
    assert not SliceSampler(num_slices=3).can_sample(RingStorage(4, done=bool), 6)
    assert not SliceSamplerWithoutReplacement(num_slices=3, drop_last=True).can_sample(RingStorage(4), 6)


def test_equal_seeds_give_equal_slices_and_states_go_on(tmp_path):
    storage = episodes(5, 6, 7, 8)
    one, two = (SliceSampler(num_slices=4, generator=3) for _ in range(2))
    for _ in range(3):
        np.testing.assert_array_equal(one.sample(storage, 12)[0], two.sample(storage, 12)[0])
    check_state(one, lambda: SliceSampler(num_slices=4), tmp_path, storage, 12)


def test_without_replacement_every_trajectory_comes_once():
    storage = episodes(3, 1, 4, 2, 5, 3, last_done=False)
    sampler = SliceSamplerWithoutReplacement(num_slices=2, generator=0)
    owner = np.repeat(np.arange(6), [3, 1, 4, 2, 5, 3])
    for _ in range(4):
        drawn = []
        for last in (False, False, True):
            index, _ = sampler.sample(storage, 4)
            assert sampler.ran_out is last
            drawn += owner[index.reshape(-1, 2)[:, 0]].tolist()
        assert sorted(drawn) == [0, 2, 3, 4, 5]
    dropping = SliceSamplerWithoutReplacement(num_slices=2, drop_last=True, shuffle=False)
    assert [owner[dropping.sample(storage, 4)[0][::2]].tolist() for _ in range(3)] == [[0, 2], [3, 4], [0, 2]]
    assert dropping.can_sample(storage, 4)
    many = SliceSamplerWithoutReplacement(num_slices=6, drop_last=True)
    assert not many.can_sample(storage, 12)
    raises(ValueError, "drop_last", lambda: many.sample(storage, 12))


def test_without_replacement_the_state_can_be_restored(tmp_path):
    storage = episodes(*range(2, 12))
    sampler = SliceSamplerWithoutReplacement(slice_len=2, generator=0)
    sampler.sample(storage, 6)
    check_state(sampler, lambda: SliceSamplerWithoutReplacement(slice_len=2), tmp_path, storage, 6)
    sampler._empty()
    assert sampler.state_dict()["len_storage"] == 0
