import copy
from unittest import TestCase

import numpy as np
import pytest
from helpers.cases import raises

from lite import LazyStackedTensorDict, NonTensorData, NonTensorStack, TensorDict, lazy_stack
from lite.data import (
    GroupAdvantage,
    LazyMemmapStorage,
    LazyTensorStorage,
    MCAdvantage,
    MCAdvantageSelector,
    TensorDictReplayBuffer,
    group_advantages,
)


def test_a_group_is_a_row():
    reward = np.array([[1.0, 2, 3], [5, 5, 5]], np.float32)
    np.testing.assert_array_equal(group_advantages(reward), [[-1, 0, 1], [0, 0, 0]])
    assert group_advantages(reward).dtype == np.float32
    np.testing.assert_array_equal(group_advantages(reward * 10, divide=False), [[-10, 0, 10], [0, 0, 0]])


def test_a_reward_that_is_no_number_spoils_no_other():
    for bad in (np.nan, np.inf):
        reward = np.array([[1.0, bad, 3.0], [bad, bad, bad], [bad, 2.0, bad]])
        before = reward.copy()
        expected = np.array([[-1, 0, 1], [0, 0, 0], [0, 0, 0]]) * np.sqrt(0.5)
        np.testing.assert_allclose(group_advantages(reward), expected)
        np.testing.assert_array_equal(reward, before)


def test_a_number_is_of_no_group():
    raises(ValueError, "of no group", lambda: group_advantages(np.float64(3.0)))


# -- the module ----------------------------------------------------------------------------------------------


def test_module_of_rows():
    for more in ((), (1,)):
        reward = np.array([[1.0, 2, 3], [5, 5, 8]])
        td = TensorDict({"next": {"reward": reward.reshape(2, 3, *more)}}, batch_size=[2, 3])
        module = GroupAdvantage()
        assert (module.in_keys, module.out_keys) == ([("next", "reward")], ["advantage"])
        assert module(td) is td
        np.testing.assert_array_equal(td["advantage"], group_advantages(reward).reshape(2, 3, *more))


def test_module_of_groups():
    for ids in (np.array([4, 9, 4, 4]), np.array([[4], [9], [4], [4]]), "strings", "one string"):
        reward, expected = np.array([1.0, 2, 3, 5]), [-2, 0, 0, 2]
        if ids is not None and isinstance(ids, str):
            ids = NonTensorStack("a", "b", "a", "a") if ids == "strings" else NonTensorData("a", [4])
            expected = expected if isinstance(ids, NonTensorStack) else reward - reward.mean()
        td = TensorDict({"task": ids, "score": reward}, batch_size=[4])
        out = GroupAdvantage(group_key="task", rewards_key="score", advantage_key=("a", "b"), divide=False)(
            td
        )
        np.testing.assert_allclose(out["a", "b"], expected)


def test_module_errors():
    td = TensorDict({"next": {"reward": np.zeros((4, 2))}}, batch_size=[4])
    with pytest.raises(
        RuntimeError, match=r"one reward for each element of batch_size=\(4,\), got shape \(4, 2\)"
    ):
        GroupAdvantage()(td)
    td["next", "reward"] = np.zeros(4)
    raises(KeyError, "reads the groups from 'task'", lambda: GroupAdvantage(group_key="task")(td))
    td["task"] = np.zeros((4, 3), int)
    raises(RuntimeError, "groups must have the shape", lambda: GroupAdvantage(group_key="task")(td))
    raises(KeyError, "'score'", lambda: GroupAdvantage(rewards_key="score")(td))
    with pytest.raises(RuntimeError, match="needs a batch dimension"):
        GroupAdvantage()(TensorDict({"next": {"reward": np.zeros(())}}))
    raises(TypeError, "needs a TensorDict, got dict", lambda: GroupAdvantage()({}))


# -- streams -------------------------------------------------------------------------------------------------


def episode(group, *rewards, more=(1,)):
    reward = np.array(rewards, np.float32).reshape(-1, *more)
    done = np.zeros(reward.shape, bool)
    done[-1] = True
    query = NonTensorData(group, [len(rewards)]) if isinstance(group, str) else np.full(len(rewards), group)
    return TensorDict({"query": query, "next": {"reward": reward, "done": done}}, batch_size=[len(rewards)])


def test_groups_come_out_when_they_are_full():
    for names in (("a", "b"), (1, 2)):
        transform = MCAdvantage(2, trajectory_return="sum")
        assert transform.inv(episode(names[0], 0, 1, 1)) is None
        assert transform.inv(episode(names[1], 5)) is None
        assert (transform.queued_groups, transform.queued_trajectories) == (2, 2)
        out = transform.inv(episode(names[0], 0))
        np.testing.assert_allclose(out["advantage"][:, 0], np.array([1, 1, 1, -1]) * np.sqrt(0.5), rtol=1e-6)
        assert out["advantage"].dtype == np.float32
        assert transform.queued_groups == 1
        transform.clear_queues()
        assert transform.queued_trajectories == 0
        assert transform(out) is out


def test_groups_that_teach_nothing_are_dropped():
    transform = MCAdvantage(2, trajectory_return="sum", keep_return_bounds=(0.1, 0.9))
    for rewards, kept in (((0, 0), False), ((1, 1), False), ((0, 1), True), ((np.nan, np.nan), False)):
        assert transform.inv(episode("a", rewards[0])) is None
        assert (transform.inv(episode("a", rewards[1])) is not None) == kept
        assert transform.queued_groups == 0


def test_a_choice_among_candidates():
    """A group waits beyond its size until a choice is within the bounds, or there are too many."""
    options = {"trajectory_return": "sum", "keep_return_bounds": (0.1, 0.9), "divide": False}
    transform = MCAdvantage(2, candidate_group_size=4, **options)
    for _ in range(3):
        assert transform.inv(episode("a", 0)) is None
    assert transform.queued_trajectories == 3
    out = transform.inv(episode("a", 0, 1))
    np.testing.assert_allclose(out["advantage"][:, 0], [-0.5, 0.5, 0.5])
    for _ in range(4):
        assert transform.inv(episode("b", 1)) is None
    assert transform.queued_groups == 0  # dropped
    stats = transform.get_stats()
    counted = {key: value for key, value in stats.items() if value}
    assert counted == {
        "completed_trajectories": 8, "completed_decisions": 9, "trajectory_return_sum": 5,
        "trajectory_return_max": 1, "successful_trajectories": 5, "completed_groups": 2, "written_groups": 1,
        "dropped_groups": 1, "rescued_groups": 1, "selected_trajectories": 2, "unselected_trajectories": 2,
    }  # fmt: skip
    transform.reset_stats()
    assert transform.get_stats()["completed_groups"] == 0
    late = MCAdvantage(2, candidate_group_size=4, candidate_selection_min_size=3, trajectory_return="sum")
    assert [late.inv(episode("a", value)) is None for value in (0, 1, 2)] == [True, True, False]


def test_a_selector_of_the_users_own():
    """It sees the episodes; what it chooses is still checked."""

    class Longest(MCAdvantageSelector):
        def select(self, candidates, *, group_size, keep_return_bounds=None):
            lengths = [len(steps["next", "reward"]) for steps in candidates["trajectories"].unbind(0)]
            return np.argsort(lengths)[-group_size:].tolist()

    selector = Longest(in_keys=["trajectories", "return"])
    options = {"candidate_group_size": 3, "candidate_selection_min_size": 3, "trajectory_return": "sum"}
    transform = MCAdvantage(2, candidate_selector=selector, verbose=True, divide=False, **options)
    with TestCase().assertLogs("lite", "INFO") as logged:
        for rewards in ((5,), (0, 1)):
            assert transform.inv(episode("a", *rewards)) is None
        out = transform.inv(episode("a", 1, 1, 1))
    np.testing.assert_allclose(out["advantage"][:, 0], [-1, -1, 1, 1, 1])
    assert "the group 'a' is written" in logged.output[0]
    bounded = MCAdvantage(2, candidate_selector=selector, keep_return_bounds=(0.0, 1.0), **options)
    for rewards in ((0,), (2, 2), (3, 3)):
        assert bounded.inv(episode("a", *rewards)) is None
    assert bounded.get_stats()["dropped_groups"] == 1
    for bounds in ((4.0, 5.0), (5.0, 9.0)):  # their mean is a bound
        at_bound = MCAdvantage(2, candidate_selector=selector, keep_return_bounds=bounds, **options)
        for rewards in ((0,), (2, 2), (3, 3)):
            assert at_bound.inv(episode("a", *rewards)) is None


def test_groups_that_more_candidates_rescued():
    """Those whose first candidates, as many as are chosen, would not have been within the bounds."""

    class Last(MCAdvantageSelector):
        def select(self, candidates, *, group_size, keep_return_bounds=None):
            return range(len(candidates))[-group_size:]

    options = {"candidate_group_size": 3, "candidate_selection_min_size": 3, "trajectory_return": "sum"}
    for returns, bounds, rescued in (
        ((0, 1, 2), (0.5, 2.0), 1), ((2, 1, 0), (0.0, 1.5), 1), ((0, 1, 2), (0.0, 2.0), 0),
        ((0, 1, 8), (0.6, 9.0), 1),
    ):  # fmt: skip
        transform = MCAdvantage(2, candidate_selector=Last(), keep_return_bounds=bounds, **options)
        assert [transform.inv(episode("a", value)) is None for value in returns] == [True, True, False]
        assert transform.get_stats()["rescued_groups"] == rescued


def test_episodes_that_wait_are_copies():
    transform, first = MCAdvantage(2, trajectory_return="sum", divide=False), episode("a", 1, 1)
    transform.inv(first)
    first["next", "reward"][:] = 100
    np.testing.assert_allclose(transform.inv(episode("a", 4))["advantage"][:, 0], [-1, -1, 1])
    other = copy.deepcopy(transform)
    other.inv(episode("b", 1))
    assert (transform.queued_groups, other.queued_groups) == (0, 1)


def test_ragged_texts_stay_ragged():
    def response(tokens, reward):
        td = TensorDict({"tokens": np.arange(tokens), "query": "a"})
        td["next"] = TensorDict({"reward": np.array([reward]), "done": np.array([True])})
        return lazy_stack([td], 0)

    transform = MCAdvantage(2, divide=False)
    transform.inv(response(3, 1.0))
    out = transform.inv(response(5, 2.0))
    assert isinstance(out, LazyStackedTensorDict)
    assert [len(step["tokens"]) for step in out.unbind(0)] == [3, 5]
    np.testing.assert_allclose([float(step["advantage"][0]) for step in out.unbind(0)], [-0.5, 0.5])


def test_what_waits_can_be_taken_out_and_put_back():
    transform = MCAdvantage(3, trajectory_return="sum", divide=False)
    assert transform.withheld is None
    for group, *rewards in (("a", 1, 1), ("b", 5), ("a", 3)):
        transform.inv(episode(group, *rewards))
    other = MCAdvantage(3, trajectory_return="sum", divide=False)
    other.withheld = transform.withheld
    assert (other.queued_groups, other.queued_trajectories) == (2, 3)
    last = episode("a", 7)
    np.testing.assert_array_equal(other.inv(last)["advantage"], transform.inv(last)["advantage"])
    other.withheld = None
    assert other.queued_groups == 0


@pytest.mark.parametrize("mapped", [True, False])
def test_in_a_replay_buffer(tmp_path, mapped):
    """Groups are stored whole; episodes that wait are part of the buffer's state."""

    def buffer(name):
        storage = LazyMemmapStorage(100, scratch_dir=tmp_path / name) if mapped else LazyTensorStorage(100)
        transform = MCAdvantage(2, trajectory_return="sum", divide=False)
        return TensorDictReplayBuffer(storage=storage, transform=transform, batch_size=4, generator=0)

    one, two = buffer("one"), buffer("two")
    assert len(one.extend(episode(1, 0, 1))) == 0
    assert len(one.extend(episode(2, 4))) == 0
    assert len(one.extend(episode(1, 3))) == 3
    two.load_state_dict(one.state_dict())
    for found in (one, two):
        assert len(found.extend(episode(2, 6, 0))) == 3
        np.testing.assert_allclose(found[:]["advantage"][:, 0], [-1, -1, 1, -1, 1, 1])
    assert one.sample()["advantage"].shape == (4, 1)


def test_errors_take_nothing():
    transform = MCAdvantage(2)
    raises(RuntimeError, "needs whole episodes", lambda: transform.inv(episode("a", 1, 2)[:1]))
    raises(KeyError, "reads the group from 'query'", lambda: transform.inv(episode("a", 1).exclude("query")))
    raises(KeyError, "reward", lambda: transform.inv(episode("a", 1).exclude(("next", "reward"))))
    with pytest.raises(TypeError, match="the group 'query' must be a string or numbers, got dict"):
        transform.inv(episode("a", 1).set("query", NonTensorData({}, [1])))
    raises(ValueError, "time dimension", lambda: transform.inv(episode("a", 1)[0]))
    raises(TypeError, "needs a TensorDict", lambda: transform.inv({}))
    assert transform.queued_trajectories == 0
    assert transform.inv(episode("a", 1)[:0]) is None


def test_construction_errors():
    for options, error, message in (
        ({"grpo_size": 0}, ValueError, "grpo_size must be at least 1"),
        ({"grpo_size": 1.5}, TypeError, "grpo_size must be an integer"),
        ({"trajectory_return": "last"}, ValueError, "trajectory_return must be one of"),
        ({"trajectory_return": "sum", "grpo_size": 1}, ValueError, "grpo_size must be at least 2"),
        ({"keep_return_bounds": (0, 1)}, ValueError, "give trajectory_return, too"),
        ({"candidate_group_size": 1}, ValueError, "candidate_group_size must be at least grpo_size=2, got 1"),
        ({"candidate_group_size": 3}, ValueError, "chosen by their returns: give trajectory_return, too"),
        (
            {"candidate_selection_min_size": 3},
            ValueError,
            "must be from grpo_size=2 to candidate_group_size=2",
        ),
        ({"keep_return_bounds": (1, 0), "trajectory_return": "sum"}, ValueError, "two increasing numbers"),
    ):
        raises(error, message, MCAdvantage, **{"grpo_size": 2, **options})
