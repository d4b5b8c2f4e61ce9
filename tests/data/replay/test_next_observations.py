import copy
import itertools
import pickle

import numpy as np
import pytest
from helpers.cases import raises
from hypothesis import given, settings
from hypothesis import strategies as st

from lite import TensorDict
from lite.data import LazyMemmapStorage, LazyTensorStorage, ReplayBuffer


def frames(start: int, stop: int, every: int = 5, dtype: object = np.float32) -> TensorDict:
    step = np.arange(start, stop)
    end = step % every == every - 1
    obs = np.stack([step, -step], 1).astype(dtype)
    after = np.where(
        end[:, None], np.stack([step + 100, step], 1), np.stack([step + 1, -step - 1], 1)
    ).astype(dtype)
    return TensorDict(
        {
            "obs": obs,
            "n": {"y": obs[:, :1]},
            "next": {"obs": after, "n": {"y": after[:, :1]}, "reward": step / 2, "done": end},
            "flag": step % 2 == 0,
        },
        [len(step)],
    )


@pytest.mark.depth
@settings(max_examples=30)
@given(
    st.integers(1, 20),
    st.lists(st.integers(1, 30), min_size=1, max_size=12),
    st.integers(1, 9),
    st.booleans(),
)
def test_samples_are_the_same_with_and_without(capacity, sizes, every, one_by_one) -> None:
    plain = ReplayBuffer(storage=LazyTensorStorage(capacity), generator=0)
    compressed = ReplayBuffer(storage=LazyTensorStorage(capacity, compress_next=True), generator=0)
    for a, b in itertools.pairwise([0, *itertools.accumulate(sizes)]):
        data = frames(a, b, every)
        for buffer in (plain, compressed):
            if one_by_one:
                for row in range(b - a):
                    buffer.add(data[row])
            else:
                buffer.extend(data)
        assert (plain[:] == compressed[:]).all()
        assert (plain.sample(7) == compressed.sample(7)).all()
        places = compressed.storage._next
        live = places.at[: len(compressed)]
        used = live[live >= 0]
        assert len(set(used.tolist())) == len(used)
        assert not set(used.tolist()) & set(places._free)
        assert len(used) + len(places._free) == places._high <= 2 * capacity


def test_what_follows_is_kept_once() -> None:
    storage = LazyTensorStorage(10_000, compress_next=True)
    buffer = ReplayBuffer(storage=storage)
    for start in range(0, 30_000, 100):
        buffer.extend(frames(start, start + 100, 50))
    live = storage._next.at
    assert (live >= 0).sum() == 200
    buffer = ReplayBuffer(storage=LazyTensorStorage(3, compress_next=True))
    for step in range(3):
        buffer.add(frames(step, step + 1)[0])
    np.testing.assert_array_equal(buffer.storage._next.at < 0, [True, True, False])
    assert storage._next._high < 300
    assert storage.entry(("next", "obs")) is None


def test_bits_count_not_values() -> None:
    storage = LazyTensorStorage(8, compress_next=True)
    obs = np.array([[0.0], [np.nan], [1.0], [2.0]], np.float32)
    after = np.array([[np.nan], [1.0], [2.0], [-0.0]], np.float32)
    storage._append(TensorDict({"obs": obs, "next": {"obs": after}}, [4]), 4)
    storage._append(TensorDict({"obs": np.zeros((1, 1), np.float32), "next": {"obs": after[:1]}}, [1]), 1)
    got = storage.get(slice(0, 4))["next", "obs"]
    assert got.tobytes() == after.tobytes()
    assert storage._next.at[:4].tolist()[:3] == [-1, -1, -1]
    assert storage._next.at[3] >= 0


def test_dtypes() -> None:
    for dtype in (np.float64, np.uint8, np.complex128, np.float16, bool):
        buffer = ReplayBuffer(storage=LazyTensorStorage(40, compress_next=True))
        data = frames(0, 30, dtype=dtype)
        buffer.extend(data)
        assert (buffer[:] == data).all()


def test_refused() -> None:
    storage = LazyTensorStorage(10, compress_next=True)
    raises(KeyError, "in 'next' and at the root", storage._append, TensorDict({"a": np.zeros(3)}, [3]), 3)
    raises(TypeError, "needs a TensorDict", lambda: storage._append(np.zeros(3), 3))
    storage._append(frames(0, 4), 4)
    with pytest.raises(RuntimeError, match="written by extend and add alone"):
        storage[0] = frames(0, 1)[0]
    raises(KeyError, "lacks", lambda: storage._append(frames(0, 4).exclude("obs"), 4))
    for obs in (np.zeros((4, 2)), np.zeros((4, 1), np.float32)):
        raises(RuntimeError, "the same shape and dtype", storage._append, frames(0, 4).set("obs", obs), 4)
    assert (storage.get(slice(None)) == frames(0, 4)).all()


def test_saved_and_loaded(tmp_path) -> None:
    buffer = ReplayBuffer(storage=LazyTensorStorage(20, compress_next=True))
    buffer.extend(frames(0, 33))
    buffer.dumps(tmp_path / "b")
    for storage in (
        LazyTensorStorage(20, compress_next=True),
        LazyMemmapStorage(20, scratch_dir=tmp_path / "m", compress_next=True),
    ):
        other = ReplayBuffer(storage=storage)
        other.loads(tmp_path / "b")
        assert (other[:] == buffer[:]).all()
        for part in (buffer.extend(frames(33, 50)), other.extend(frames(33, 50))):
            assert part[0] == 13
        assert (other[:] == buffer[:]).all()
        buffer = ReplayBuffer(storage=LazyTensorStorage(20, compress_next=True))
        buffer.loads(tmp_path / "b")


def test_places_that_cannot_be(tmp_path) -> None:
    storage = LazyTensorStorage(20, compress_next=True)
    storage._append(frames(0, 20), 20)
    storage._next.at[:2] = 7
    raises(ValueError, "damaged", lambda: storage._next.find_free(20))


@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["copy", "pickle"]
)
def test_a_copy_is_saved_and_loaded(copied, tmp_path) -> None:
    def rows(seed: int) -> TensorDict:
        obs = np.random.default_rng(seed).random((9, 2))
        done = np.arange(8) % 4 == 3
        return TensorDict({"obs": obs[:-1], "next": {"obs": np.where(done[:, None], -1, obs[1:])}}, [8])

    def storage() -> ReplayBuffer:
        return ReplayBuffer(storage=LazyTensorStorage(12, compress_next=True), batch_size=4)

    buffer = storage()
    buffer.extend(rows(0))
    other = copied(buffer)
    for one in (buffer, other):
        one.extend(rows(1))
    np.testing.assert_array_equal(other[:]["next", "obs"], buffer[:]["next", "obs"])
    other.dumps(tmp_path)
    loaded = storage()
    loaded.loads(tmp_path)
    np.testing.assert_array_equal(loaded[:]["next", "obs"], buffer[:]["next", "obs"])
