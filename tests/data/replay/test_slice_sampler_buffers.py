"""Slices from real buffers: written over, saved, loaded, pickled, emptied, shared with another process."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from lite import TensorDict
from lite.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    PrioritizedSliceSampler,
    SliceSampler,
    SliceSamplerWithoutReplacement,
    TensorDictReplayBuffer,
)

ROWS, LENGTH, EPISODE = 20, 3, 7
SAMPLERS: dict[str, Callable[[], Any]] = {
    "with replacement": lambda: SliceSampler(slice_len=LENGTH, generator=0),
    "without replacement": lambda: SliceSamplerWithoutReplacement(slice_len=LENGTH, generator=0),
    "prioritized": lambda: PrioritizedSliceSampler(ROWS, 0.5, 0.5, slice_len=LENGTH, generator=0),
}
STORAGES: dict[str, Callable[[], Any]] = {
    "memory": lambda: LazyTensorStorage(ROWS),
    "compressed": lambda: LazyTensorStorage(ROWS, compress_next=True),
    "mapped": lambda: LazyMemmapStorage(ROWS),
}


def frames(start: int, count: int) -> TensorDict:
    """Steps of one stream of episodes of 7 steps."""
    step = np.arange(start, start + count)
    never, done = np.zeros((count, 1), bool), (step % EPISODE == EPISODE - 1)[:, None]
    following = {"step": step + 1, "done": done, "terminated": done}
    return TensorDict({"step": step, "done": never, "next": following}, [count])


def check(buffer: TensorDictReplayBuffer, times: int = 5) -> None:
    """Every slice is three steps of one episode, and says where it ends."""
    for _ in range(times):
        batch = buffer.sample(9 * LENGTH)
        step = batch["step"].reshape(-1, LENGTH)
        np.testing.assert_array_equal(np.diff(step, axis=1), 1)
        np.testing.assert_array_equal(step[:, 0] // EPISODE, step[:, -1] // EPISODE)
        np.testing.assert_array_equal(batch["next", "step"], batch["step"] + 1)
        cut = np.tile([False, False, True], len(step))
        np.testing.assert_array_equal(batch["next", "truncated"][:, 0], cut)
        end = batch["step"] % EPISODE == EPISODE - 1
        np.testing.assert_array_equal(batch["next", "done"][:, 0], cut | end)
        np.testing.assert_array_equal(batch["next", "terminated"][:, 0], end)


def filled(storage: str, sampler: str) -> tuple[TensorDictReplayBuffer, int]:
    buffer = TensorDictReplayBuffer(storage=STORAGES[storage](), sampler=SAMPLERS[sampler]())
    step = 0
    for count in (5, 9, 11, 13, 50, 3):
        buffer.extend(frames(step, count))
        step += count
        check(buffer, 2)
    return buffer, step


@pytest.mark.parametrize(
    ("storage", "sampler"),
    [
        *(("memory", sampler) for sampler in SAMPLERS),
        ("compressed", "prioritized"),
        ("mapped", "prioritized"),
    ],
)
def test_slices_stay_within_episodes_whatever_becomes_of_the_buffer(storage, sampler, tmp_path):
    buffer, step = filled(storage, sampler)
    buffer.dumps(tmp_path / "saved")
    others = [
        TensorDictReplayBuffer(storage=STORAGES[storage](), sampler=SAMPLERS[sampler]()) for _ in range(2)
    ]
    others[0].loads(tmp_path / "saved")
    others[1].load_state_dict(buffer.state_dict())
    if storage != "mapped":
        others.append(pickle.loads(pickle.dumps(buffer)))
    for other in others:
        check(other)
        for i in range(5):
            other.add(frames(step + i, 1)[0])
            check(other, 1)
        other.empty()
        other.extend(frames(0, 9))
        check(other)


def test_episodes_that_are_cut_in_place():
    for storage in ("memory", "mapped"):
        buffer, _ = filled(storage, "with replacement")
        buffer.sampler.strict_length = False
        buffer.sampler.slice_len = EPISODE
        assert len(buffer.sample(30 * EPISODE)) > 30 * 3
        done = buffer[:]["next", "done"]
        buffer["next", "done"] = np.ones_like(done)
        assert len(buffer.sample(30 * EPISODE)) == 30


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_slices_of_what_another_storage_writes(sampler: str, tmp_path: Any):
    """As another process does it: through the files."""
    writer = TensorDictReplayBuffer(storage=LazyMemmapStorage(ROWS, scratch_dir=tmp_path / "f"))
    writer.extend(frames(0, 5))
    storage = LazyMemmapStorage(ROWS, scratch_dir=tmp_path / "f", existsok=True)
    buffer = TensorDictReplayBuffer(storage=storage, sampler=SAMPLERS[sampler]())
    total = 5
    for count in (9, 1, 11, 13, 19, 20, 45, 2):
        writer.extend(frames(total, count))
        total += count
        check(buffer, 2)
        steps = np.concatenate([buffer.sample(27)["step"] for _ in range(5)])
        assert total - ROWS <= steps.min()
        assert steps.max() < total
    for start, count in ((0, 12), (3, 13), (1, 13), (5, 14)):  # emptied, and as many rows or more again
        writer.empty()
        writer.extend(frames(start, count))
        check(buffer, 2)
    writer[:] = frames(100, 14)
    check(buffer, 2)
    assert buffer.sample(27)["step"].min() >= 100
