import numpy as np
import pytest
from helpers.compared import assert_same

from lite import LazyStackedTensorDict, TensorDict
from lite.data import split_trajectories


def rollout(batch=(3, 10), *, rate=0.3, seed=0, trailing=True, **entries):
    rng = np.random.default_rng(seed)
    done = rng.random((*batch, 1) if trailing else batch) < rate
    return TensorDict(
        {
            "obs": rng.normal(size=(*batch, 2)).astype(np.float32),
            "step": np.arange(1, 1 + int(np.prod(batch))).reshape(batch),
            "next": {"done": done, "reward": rng.normal(size=(*batch, 1)).astype(np.float32)},
            **entries,
        },
        batch_size=batch,
    )


def lengths_by_loop(td):
    """Of each trajectory, row by row."""
    done = td["next", "done"].reshape(-1, td.shape[-1])
    lengths = []
    for row in done:
        count = 0
        for t, end in enumerate(row):
            count += 1
            if end or t == len(row) - 1:
                lengths.append(count)
                count = 0
    return lengths


def test_trajectories_end_where_done_says():
    for batch, trailing in (((12,), False), ((3, 10), True), ((2, 3, 5), False), ((4, 1), True)):
        td = rollout(batch, trailing=trailing)
        before = td.clone()
        out = split_trajectories(td)
        lengths = lengths_by_loop(td)
        assert out.batch_size == (len(lengths), max(lengths))
        mask = out["mask"]
        np.testing.assert_array_equal(mask, np.arange(max(lengths)) < np.array(lengths)[:, None])
        for key in td.keys(True, True):
            np.testing.assert_array_equal(
                out.get(key)[mask], td.get(key).reshape(-1, *td.get(key).shape[len(batch) :])
            )
            assert not out.get(key)[~mask].any()
            assert out.get(key).dtype == td.get(key).dtype
        np.testing.assert_array_equal(out["traj_ids"][mask], np.repeat(np.arange(len(lengths)), lengths))
        assert_same(td, before)
        assert not td.is_locked


def test_time_keeps_its_name():
    for nested in (False, True):
        for names in (["env", "time"], None):
            td = rollout()
            td.names = names
            out = split_trajectories(td, as_nested=nested)
            assert out.names == out["next"].names == [None, names and "time"]


def test_ids_may_come_back():
    out = split_trajectories(rollout((6,), traj_ids=np.array([4, 4, 2, 4, 4, 4])))
    np.testing.assert_array_equal(out["mask"].sum(1), [2, 1, 3])
    np.testing.assert_array_equal(out["step"], [[1, 2, 0], [3, 0, 0], [4, 5, 6]])


def test_ids_say_more_than_done():
    for shape in ((5,), (5, 1)):
        td = rollout((5,), rate=1.0, ids=np.array([7, 7, 7, 3, 3]).reshape(shape))
        out = split_trajectories(td, trajectory_key="ids")
        np.testing.assert_array_equal(out["mask"].sum(1), [3, 2])
        assert out["ids"].shape == (2, 3, *shape[1:])
        assert out.get("traj_ids", None) is None


def test_where_ids_and_mask_are():
    def written(td, **keywords):
        return set(split_trajectories(td, **keywords).keys(True, True)) - set(td.keys(True, True))

    td, collected = rollout(), rollout(collector={"worker": np.zeros((3, 10))})
    assert written(td) == {"traj_ids", "mask"}
    assert written(collected) == {("collector", "traj_ids"), ("collector", "mask")}
    assert written(collected, prefix=()) == {"traj_ids", "mask"}
    assert written(td, prefix="p") == {("p", "traj_ids"), ("p", "mask")}
    assert written(td, prefix=("p", "q")) == {("p", "q", "traj_ids"), ("p", "q", "mask")}
    assert written(collected, trajectory_key=("p", "ids")) == {("p", "ids"), ("p", "mask")}
    assert written(collected, trajectory_key="ids", prefix="p") == {"ids", "mask"}


def test_the_result_is_in_new_memory():
    for rate in (0.0, 0.3):
        td = rollout(rate=rate)
        out = split_trajectories(td)
        for key in td.keys(True, True):
            assert not np.shares_memory(out.get(key), td.get(key))


def test_a_ragged_stack_instead_of_padding():
    td = rollout()
    ragged, padded = split_trajectories(td, as_nested=True), split_trajectories(td)
    assert isinstance(ragged, LazyStackedTensorDict)
    assert ragged.batch_size == (len(padded), -1)
    assert ragged.get("mask", None) is None
    assert np.shares_memory(ragged[0]["obs"], td["obs"])
    assert_same(ragged.to_padded_tensor(mask_key="mask"), padded)


def test_no_steps():
    for batch in ((0,), (2, 0), (0, 4)):
        out = split_trajectories(rollout(batch))
        assert out.batch_size == (0, 0)
        assert (out["obs"].shape, out["mask"].shape) == ((0, 0, 2), (0, 0))
        with pytest.raises(RuntimeError, match="as_nested needs at least one step, got a batch of size"):
            split_trajectories(rollout(batch), as_nested=True)


def test_errors():
    for td, keywords, error, message in (
        ({"obs": 1}, {}, TypeError, "split_trajectories needs a TensorDict, got dict"),
        (rollout(()), {}, ValueError, r"with a time dimension, got batch_size=\(\)"),
        (rollout().exclude(("next", "done")), {}, KeyError,
            r"ids from \('traj_ids',\) or done from \('next', 'done'\); the TensorDict has neither"),
        (rollout(), {"done_key": "over"}, KeyError, r"done from \('next', 'over'\)"),
        (rollout(traj_ids=np.zeros((3, 10))), {}, TypeError, "must be integers, got float64"),
        (rollout(traj_ids=np.zeros((3, 10, 2), int)), {}, RuntimeError,
            r"\('traj_ids',\) must have the shape \(3, 10\), got \(3, 10, 2\)"),
        (rollout(), {"done_key": "reward"}, TypeError, "must be boolean or integers, got float32"),
        (rollout(), {"as_nested": "jagged"}, TypeError, "as_nested must be True or False, got 'jagged'"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            split_trajectories(td, **keywords)
