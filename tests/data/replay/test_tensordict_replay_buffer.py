import numpy as np
from helpers.cases import raises
from helpers.data.numbered_frames import frames

import lite
from lite import TensorDict, lazy_stack, nn
from lite.data import (
    LazyStackStorage,
    LazyTensorStorage,
    ListStorage,
    PrioritizedSampler,
    TensorDictReplayBuffer,
)


def test_batches_know_their_indices() -> None:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(20), generator=0)
    data = frames(0, 20)
    buffer.extend(data)
    assert "index" not in data
    batch, info = buffer.sample(9, return_info=True)
    np.testing.assert_array_equal(batch["index"], batch["step"])
    np.testing.assert_array_equal(info["index"], batch["index"])
    assert batch["index"].dtype == np.int64


def test_trajectories_as_elements() -> None:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(5))
    buffer.extend(TensorDict({"x": np.arange(12).reshape(3, 4)}, [3, 4]))
    batch = buffer.sample(2)
    assert batch["index"].shape == batch["x"].shape == (2, 4)
    np.testing.assert_array_equal(batch["x"] // 4, batch["index"])


def test_priorities_of_several_numbers_are_reduced() -> None:
    for reduction, expected in (("max", 9), ("min", 1), ("median", 3), ("mean", 4)):
        buffer = TensorDictReplayBuffer(
            storage=LazyTensorStorage(4),
            sampler=PrioritizedSampler(4, 1.0, 1.0, eps=0.0, reduction=reduction),
            priority_key="p",
        )
        buffer.extend(TensorDict(p=np.array([[1.0, 9.0, 2.0, 4.0, 3.0, 5.0]] * 3), batch_size=[3]))
        np.testing.assert_array_equal(buffer.sampler._leaves(), [expected] * 3 + [0])


def test_only_tensordicts() -> None:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(5))
    raises(ValueError, "takes TensorDicts, got ndarray", lambda: buffer.extend(np.zeros(3)))
    lists = TensorDictReplayBuffer(storage=ListStorage(5))
    lists.add("text")
    raises(RuntimeError, "non-tensordict", lambda: lists.sample(2))


def test_a_transform_that_changes_the_batch() -> None:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(20), transform=lambda td: td[:2])
    buffer.extend(frames(0, 9))
    raises(RuntimeError, r"'index' of the sampler has the shape.* a ReplayBuffer", lambda: buffer.sample(5))


def prioritized(**options) -> TensorDictReplayBuffer:
    sampler = PrioritizedSampler(20, alpha=1.0, beta=1.0, eps=1e-12)
    return TensorDictReplayBuffer(storage=LazyTensorStorage(20), sampler=sampler, generator=0, **options)


def test_priorities_come_with_the_data() -> None:
    for shape in ((), (1,), (3,)):
        buffer = prioritized()
        error = np.zeros((5, *shape))
        error[3] = 2.0
        buffer.extend(frames(0, 5).set("td_error", error))
        assert set(buffer.sample(50)["step"].tolist()) == {3}
        error = error[:1]
        error.flat[-1] = 1e9
        buffer.add(frames(5, 6).set("td_error", error)[0])
        assert set(buffer.sample(5)["step"].tolist()) == {5}


def test_priorities_left_alone() -> None:
    buffer = prioritized()
    buffer.extend(frames(0, 5).set("td_error", np.array([0.0, 0, 0, 1, 0])), update_priority=False)
    assert set(buffer.sample(200)["step"].tolist()) == set(range(5))


def test_priorities_may_be_results_of_gradients() -> None:
    error = np.array([1.0, 0, 0, 3.0], np.float32)
    plain, traced = prioritized(), prioritized()
    for buffer in (plain, traced):
        buffer.extend(frames(0, 4).set("td_error", np.ones(4, np.float32)))
    with lite.enable_grad():
        result = nn.Parameter(error) * 2
        traced.extend(frames(0, 4).set("td_error", result))
        traced.add(frames(0, 1)[0].set("td_error", result[0]))
        traced.update_tensordict_priority(TensorDict({"index": np.arange(4), "td_error": result}, [4]))
        traced.update_priority(np.arange(2), result[2:])
    plain.extend(frames(0, 4).set("td_error", error * 2))
    plain.add(frames(0, 1)[0].set("td_error", error[0] * 2))
    plain.update_tensordict_priority(TensorDict({"index": np.arange(4), "td_error": error * 2}, [4]))
    plain.update_priority(np.arange(2), error[2:] * 2)
    np.testing.assert_array_equal(
        traced.sampler.state_dict()["_leaves"], plain.sampler.state_dict()["_leaves"]
    )


def test_what_is_no_tensordict_has_no_room_for_its_index() -> None:
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(4), batch_size=2)
    buffer.extend(TensorDict(a=np.arange(3), batch_size=[3]))
    buffer.append_transform(lambda td: td["a"])
    raises(RuntimeError, "Cannot include info in non-tensordict data", lambda: buffer.sample())


def test_trajectories_of_several_lengths_know_where_they_are_from():
    """At each of their steps, as a batch of one length does."""
    buffer = TensorDictReplayBuffer(storage=LazyStackStorage(4), batch_size=8, generator=0)
    buffer.extend(lazy_stack([TensorDict({"x": np.full((n, 2), n)}, [n]) for n in (5, 3)]))
    rows = buffer.sample().unbind(0)
    assert {len(row) for row in rows} == {3, 5}
    for row in rows:
        np.testing.assert_array_equal(row["index"], np.full(len(row), {5: 0, 3: 1}[len(row)]))
