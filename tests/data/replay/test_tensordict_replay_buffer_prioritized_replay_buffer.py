import numpy as np
from helpers.data.numbered_frames import frames

from lite.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    PrioritizedReplayBuffer,
    PrioritizedSampler,
    TensorDictPrioritizedReplayBuffer,
)


def test_the_sampler_is_made_for_the_storage() -> None:
    for kind in (PrioritizedReplayBuffer, TensorDictPrioritizedReplayBuffer):
        buffer = kind(alpha=0.7, beta=0.9, storage=LazyTensorStorage(50), batch_size=4)
        assert isinstance(buffer.sampler, PrioritizedSampler)
        assert (buffer.sampler.alpha, buffer.sampler.beta, buffer.sampler.max_size) == (0.7, 0.9, 50)
        buffer.extend(frames(0, 9))
        assert len(buffer.sample()) == 4
        assert kind(alpha=0.7, beta=0.9).sampler.max_size == 1000


def test_rows_of_another_process_get_priorities(tmp_path) -> None:
    writer = PrioritizedReplayBuffer(
        alpha=1.0, beta=1.0, storage=LazyMemmapStorage(10, scratch_dir=tmp_path / "f")
    )
    writer.extend(frames(0, 2))
    reader = TensorDictPrioritizedReplayBuffer(
        alpha=1.0,
        beta=1.0,
        storage=LazyMemmapStorage(10, scratch_dir=tmp_path / "f", existsok=True),
        generator=0,
    )
    writer.extend(frames(2, 5))
    batch = reader.sample(200)
    assert set(batch["step"].tolist()) == set(range(5))
    batch["td_error"] = (batch["step"] == 4) * 1.0
    reader.update_tensordict_priority(batch)
    assert set(reader.sample(50)["step"].tolist()) == {4}
    writer.extend(frames(5, 6))
    assert set(reader.sample(200)["step"].tolist()) == {4, 5}


def test_two_dimensions() -> None:
    buffer = TensorDictPrioritizedReplayBuffer(
        alpha=1.0, beta=1.0, storage=LazyTensorStorage(24, ndim=2), generator=0
    )
    data = frames(0, 12).reshape(3, 4)
    buffer.extend(data.set("td_error", (data["step"] == 7) * 1.0))
    assert set(buffer.sample(20)["step"].tolist()) == {7}
    np.testing.assert_array_equal(buffer.sample(1)["index"], [[3, 1]])
