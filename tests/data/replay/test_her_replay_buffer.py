"""HERReplayBuffer."""

from typing import Any

import numpy as np
from helpers.cases import raises

from lite import TensorDict
from lite.data import HERReplayBuffer, LazyStackStorage, LazyTensorStorage, SamplerWithoutReplacement


def rows(numbers: list[int], ends: tuple[int, ...] = ()) -> TensorDict:
    """Steps that achieve their number, whose goal is -1."""
    n = np.asarray(numbers, np.float32)[:, None]
    following = {"reward": np.zeros_like(n), "done": np.isin(n, ends), "desired_goal": -np.ones_like(n)}
    return TensorDict(achieved_goal=n, desired_goal=-np.ones_like(n), next=following, batch_size=[len(n)])


def made(strategy: str = "future", size: int = 20, **options: Any) -> HERReplayBuffer:
    options = {"storage": LazyTensorStorage(size), "her_ratio": 1.0, "generator": 0, **options}
    options.setdefault("sampler", SamplerWithoutReplacement(shuffle=False))
    return HERReplayBuffer(lambda td: td["desired_goal"] + 100, strategy=strategy, **options)


def drawn(buffer: HERReplayBuffer, count: int = 400) -> dict[int, set[int]]:
    """The goals that each step got."""
    goals: dict[int, set[int]] = {}
    for _ in range(count // len(buffer)):
        batch = buffer.sample(len(buffer))
        for step, goal in zip(batch["achieved_goal"].ravel(), batch["desired_goal"].ravel(), strict=True):
            goals.setdefault(int(step), set()).add(int(goal))
    return goals


def test_goals() -> None:
    """An episode of three steps, and one of two that goes on."""
    for strategy, expected in (
        ("future", {0: {0, 1, 2}, 1: {1, 2}, 2: {2}, 3: {3, 4}, 4: {4}}),
        ("final", {0: {2}, 1: {2}, 2: {2}, 3: {4}, 4: {4}}),
        ("episode", {0: {0, 1, 2}, 1: {0, 1, 2}, 2: {0, 1, 2}, 3: {3, 4}, 4: {3, 4}}),
        ("random", {n: {0, 1, 2, 3, 4} for n in range(5)}),
    ):
        for key in ("done", "terminated"):
            buffer, data = made(strategy), rows([0, 1, 2, 3, 4], (2,))
            if key == "terminated":
                data["next"].rename_key_("done", key)
            buffer.extend(data)
            assert drawn(buffer) == expected


def test_episodes_go_on_where_the_ring_begins_anew() -> None:
    for strategy in ("final", "episode"):
        buffer = made(strategy, size=5)
        buffer.extend(rows([0, 1, 2, 3], (1,)))
        assert drawn(buffer)[0] <= {0, 1}
        buffer.extend(rows([4, 5, 6], (5,)))  # rows 5 and 6 are where 0 and 1 were
        of = {"final": {2: {5}, 5: {5}, 6: {6}}, "episode": {2: {2, 3, 4, 5}, 5: {2, 3, 4, 5}, 6: {6}}}[
            strategy
        ]
        assert {step: goals for step, goals in drawn(buffer).items() if step in of} == of


def test_only_a_part_of_the_batch_changes_and_nothing_that_is_stored() -> None:
    for storage in (LazyTensorStorage, LazyStackStorage):
        buffer = made("final", storage=storage(20), her_ratio=0.6)
        data = rows([0, 1, 2, 3, 4], (4,))
        if storage is LazyStackStorage:
            for row in data.unbind(0):
                buffer.add(row)
        else:
            buffer.extend(data)
        batch = buffer.sample(5)
        np.testing.assert_array_equal(batch["desired_goal"][:, 0], [4, 4, 4, -1, -1])
        np.testing.assert_array_equal(batch["next", "desired_goal"][:, 0], [4, 4, 4, -1, -1])
        np.testing.assert_array_equal(batch["next", "reward"][:, 0], [104, 104, 104, 0, 0])
        stored = buffer[:]
        assert (stored["desired_goal"] == -1).all()
        assert not stored["next", "reward"].any()


def test_rewards_may_lack_the_last_dimension() -> None:
    buffer = made("final", her_ratio=0.5)
    buffer.extend(rows([0, 1]).exclude(("next", "desired_goal")))
    buffer.reward_fn = lambda td: td["desired_goal"][:, 0]
    assert buffer.sample(2)["next", "reward"].tolist() == [[1], [0]]
    buffer.reward_fn = lambda td: np.ones((1, 2))
    raises(ValueError, r"of new goals must have the shape \(1, 1\), got \(1, 2\)", lambda: buffer.sample(2))


def test_errors() -> None:
    raises(ValueError, r"her_ratio must be from 0 to 1, got 1\.5", lambda: made(her_ratio=1.5))
    raises(ValueError, r"strategy must be one of .*'future'.*got 'past'", lambda: made("past"))
    buffer = made()
    buffer.extend(rows([0]).exclude("achieved_goal"))
    raises(KeyError, "reads the entry 'achieved_goal'", lambda: buffer.sample(1))
    buffer = made()
    buffer.extend(rows([0]).exclude("desired_goal"))
    raises(KeyError, "writes the entry 'desired_goal'", lambda: buffer.sample(1))
    buffer = made()
    buffer.extend(rows([0]).exclude(("next", "done")))
    raises(KeyError, "stored elements have neither", lambda: buffer.sample(1))
    buffer = made(storage=LazyTensorStorage(20, ndim=2), sampler=None)
    buffer.extend(TensorDict({}, [2]).update(rows([0, 1])).unsqueeze(0))
    raises(NotImplementedError, "must have one dimension, got 2", lambda: buffer.sample(1))


def test_too_few_rows_for_a_goal_stay_as_they_are() -> None:
    buffer = made(her_ratio=0.1)
    buffer.extend(rows([0, 1, 2]))
    assert set(buffer.sample(3)["desired_goal"].ravel()) == {-1}
