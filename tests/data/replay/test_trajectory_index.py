"""The index of trajectories against a loop over all rows, after any sequence of writes."""

import numpy as np
import pytest
from helpers.cases import raises
from helpers.data.ring_storage import RingStorage
from hypothesis import given, settings
from hypothesis import strategies as st

from lite.data.replay import trajectory_index
from lite.data.replay.trajectory_index import Signal, TrajectoryIndex

END, ID = Signal((("next", "done"),), False), Signal((("next", "episode"),), True)


def indices(index: TrajectoryIndex, storage: RingStorage, length: int) -> list[list[tuple[int, ...]]]:
    """The trajectories of at least `length` rows as the index has them."""
    finished, going_on = index.eligible(length)
    number = finished.shape[1] + len(going_on)
    found = []
    for first, rows, lane in zip(*index.pick(length, np.arange(number)), strict=True):
        places = index.places(storage, first + np.arange(rows), np.repeat(lane, rows))
        parts = places if isinstance(places, tuple) else (places,)
        found.append(list(zip(*(part.tolist() for part in parts), strict=True)))
    return found


def check(index: TrajectoryIndex, storage: RingStorage, key: str) -> None:
    expected = storage.trajectories(key)
    for length in (1, 2, 3, 5):
        wanted = sorted(rows for rows in expected if len(rows) >= length)
        assert sorted(indices(index, storage, length)) == wanted, length


@st.composite
def writes(draw):
    rows, lanes = draw(st.integers(1, 13)), draw(st.sampled_from([(), (1,), (3,), (2, 2)]))
    counts = draw(st.lists(st.integers(0, 20), min_size=1, max_size=12))
    return rows, lanes, counts, draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])), draw(st.integers(0, 2**32))


@pytest.mark.depth
@settings(max_examples=40)
@given(writes(), st.booleans(), st.booleans())
def test_equal_a_loop_over_all_rows(case, by_id, each):
    """Whether looked at after each write or only after all."""
    rows, lanes, counts, often, seed = case
    rng = np.random.default_rng(seed)
    storage = RingStorage(rows, *lanes, done=bool, episode=np.int64)
    index = None
    ids = np.zeros(lanes, np.int64)
    for count in counts:
        done = rng.random((count, *lanes)) < often
        episode = ids + np.cumsum(done, 0) - done
        ids = ids + done.sum(0)
        storage.write(count, done=done, episode=episode)
        if not len(storage):
            continue
        index = index or TrajectoryIndex(storage, ID if by_id else END)
        if each:
            index.follow(storage)
            check(index, storage, "episode" if by_id else "done")
    if index is not None:
        index.follow(storage)
        check(index, storage, "episode" if by_id else "done")


def test_pieces_of_a_large_storage_are_read_one_after_the_other(monkeypatch):
    monkeypatch.setattr(trajectory_index, "_CHUNK", 7)
    rng = np.random.default_rng(0)
    storage = RingStorage(100, 2, done=bool, episode=np.int64)
    done = rng.random((130, 2)) < 0.2
    storage.write(130, done=done, episode=np.cumsum(done, 0) - done)
    for signal, key in ((END, "done"), (ID, "episode")):
        index = TrajectoryIndex(storage, signal)
        index.follow(storage)
        check(index, storage, key)


def test_only_new_rows_are_read():
    storage = RingStorage(50, done=bool)
    storage.write(60, done=np.arange(60) % 7 == 6)
    index = TrajectoryIndex(storage, END)
    index.follow(storage)
    seen: list[tuple[int, int, bool]] = []
    index.follow(storage, lambda start, starts, void: seen.append((start, len(starts), void)))
    assert seen == []
    storage.write(3, done=np.zeros(3))
    index.follow(storage, lambda start, starts, void: seen.append((start, len(starts), void)))
    assert seen == [(60, 3, False)]
    check(index, storage, "done")


def test_a_storage_that_was_changed_otherwise_is_read_again():
    storage = RingStorage(10, done=bool)
    storage.write(10, done=np.arange(10) % 5 == 4)
    index = TrajectoryIndex(storage, END)
    index.follow(storage)
    storage.entries["next", "done"][2] = True
    storage._changes += 1
    index.follow(storage)
    check(index, storage, "done")
    storage.filled, storage.cursor, storage.writes = 4, 4, 0  # emptied, or loaded
    index.follow(storage)
    check(index, storage, "done")
    storage.write(2, done=[True, False])
    index.follow(storage)
    check(index, storage, "done")


def test_how_far_trajectories_go_on():
    for signal in (END, ID):
        storage = RingStorage(10, 2, done=bool, episode=np.int64)
        done = np.random.default_rng(0).random((27, 2)) < 0.3
        storage.write(27, done=done, episode=np.cumsum(done, 0) - done)
        index = TrajectoryIndex(storage, signal)
        index.follow(storage)
        first, lane = np.repeat(index.oldest + np.arange(10), 2), np.tile([0, 1], 10)
        got = index.lengths_from(storage, first, lane, 4)
        left = {place: len(rows) - i for rows in storage.trajectories("done") for i, place in enumerate(rows)}
        assert got.tolist() == [
            min(left[row % 10, k], 4) for row, k in zip(first.tolist(), lane.tolist(), strict=True)
        ]


def test_several_ends_count_if_one_is_true_and_missing_ones_do_not():
    storage = RingStorage(6, done=bool, truncated=np.float32)
    storage.write(6, done=[0, 1, 0, 0, 0, 0], truncated=[0, 0, 0, 2.0, 0, 0])
    index = TrajectoryIndex(
        storage, Signal((("next", "done"), ("next", "terminated"), ("next", "truncated")), False)
    )
    index.follow(storage)
    assert indices(index, storage, 1) == [[(0,), (1,)], [(2,), (3,)], [(4,), (5,)]]


def test_errors_name_the_entry_and_can_be_made_good():
    storage = RingStorage(4, done=bool)
    storage.write(4, done=[0, 1, 0, 0])
    raises(KeyError, "has no entry", TrajectoryIndex(storage, ID).follow, storage)
    index = TrajectoryIndex(storage, END)
    good = storage.entries["next", "done"]
    storage.entries["next", "done"] = np.zeros((4, 3), bool)
    raises(RuntimeError, r"one value for each element.*\(4, 3\)", index.follow, storage)
    storage.entries["next", "done"] = good
    index.follow(storage)
    check(index, storage, "done")


def test_the_memory_of_what_was_overwritten_is_used_again():
    storage = RingStorage(100, done=bool)
    storage.write(1, done=[False])
    index = TrajectoryIndex(storage, END)
    for _ in range(500):
        storage.write(37, done=np.arange(37) % 3 == 0)
        index.follow(storage)
        index.eligible(2)
    assert index._finished._memory.shape[1] < 1000
    assert index._views[2].finished._memory.shape[1] < 1000
    check(index, storage, "done")
