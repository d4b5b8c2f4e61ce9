from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cases import raises
from helpers.transformed import Steps

from lite import TensorDict
from lite.envs import (
    Compose,
    EndOfLifeTransform,
    RandomTruncationTransform,
    SerialEnv,
    StepCounter,
    TrajCounter,
    TransformedEnv,
    check_env_specs,
)


def test_a_life_ends_and_the_episode_goes_on() -> None:
    base = Steps(4)
    base.left = lambda: 3 - int(base.x[0]) // 2
    env = TransformedEnv(base, EndOfLifeTransform(eol_attribute="left"))
    td = env.rollout(9)
    np.testing.assert_array_equal(td["next", "lives"], [3, 2, 2, 1])
    np.testing.assert_array_equal(td["next", "end-of-life"].ravel(), [False, True, False, True])
    assert not td["end-of-life"].all()
    check_env_specs(env)


def test_lives_of_several_environments() -> None:
    class Game(Steps):
        @property
        def ale(self):
            return SimpleNamespace(lives=lambda: 3 - int(self.x[0]) // 2)

    env = TransformedEnv(
        SerialEnv(2, [lambda: Game(4), lambda: Game(3)]), EndOfLifeTransform(eol_attribute="ale.lives")
    )
    td = env.rollout(4, break_when_any_done=False)
    np.testing.assert_array_equal(td["next", "lives"], [[3, 2, 2, 1], [3, 2, 2, 3]])
    np.testing.assert_array_equal(td["next", "end-of-life"][..., 0], [[0, 1, 0, 1], [0, 1, 1, 0]])


def test_keys_of_losses() -> None:
    class Loss:
        def set_keys(self, **keys):
            self.keys = keys

    loss = Loss()
    EndOfLifeTransform("eol").register_keys(loss)
    assert loss.keys == {"done": "eol", "terminated": "eol"}
    raises(RuntimeError, "EndOfLifeTransform needs an environment", EndOfLifeTransform(), TensorDict())


def test_numbers_of_episodes_of_two_environments() -> None:
    lengths = iter([2, 3, 2, 3])  # one is made for the specs
    env = TransformedEnv(SerialEnv(2, lambda: Steps(next(lengths, 3))), TrajCounter())
    td = env.rollout(6, break_when_any_done=False)
    ends = td["next", "done"][..., 0]
    numbers = td["traj_count"][..., 0]
    np.testing.assert_array_equal(np.diff(numbers, axis=1) != 0, ends[:, :-1])
    np.testing.assert_array_equal(np.unique(numbers), np.arange(numbers.max() + 1))
    np.testing.assert_array_equal(td["next", "traj_count"], td["traj_count"])
    check_env_specs(env)


def test_clones_count_together_and_state_dicts_go_on() -> None:
    counter = TrajCounter()
    first, second = (TransformedEnv(Steps(2), t) for t in (counter, counter.clone()))
    assert [env.reset()["traj_count"].item() for env in (first, second, first)] == [0, 1, 2]
    other = TransformedEnv(Steps(2), Compose(TrajCounter()))
    other.load_state_dict(TransformedEnv(Steps(2), Compose(counter.clone())).state_dict())
    assert other.reset()["traj_count"].item() == 3
    assert first.reset()["traj_count"].item() == 3


def test_what_numbers_need() -> None:
    raises(RuntimeError, "TrajCounter needs an environment", TrajCounter(), TensorDict())
    with pytest.raises(KeyError, match="a done entry beside"):
        TransformedEnv(Steps(2), TrajCounter(("agents", "count"))).observation_spec  # noqa: B018
    with pytest.raises(RuntimeError, match="after a reset"):
        TransformedEnv(Steps(2), TrajCounter()).step(TensorDict(action=np.zeros(1, np.float32)))


def test_lengths_of_truncated_episodes() -> None:
    for chances, second, later in (
        ((1.0,), {2, 3, 4}, {2, 3, 4}),
        ((0.0, 1.0), {2, 3, 4}, {4}),
        ((1.0, 0.0), {4}, {2, 3, 4}),
    ):
        found: list[set[int]] = [set(), set(), set()]
        for seed in range(12):
            truncation = RandomTruncationTransform(2, 4, *chances, generator=seed)
            env = TransformedEnv(Steps(99), Compose(StepCounter(), truncation))
            td = env.rollout(24, break_when_any_done=False)
            np.testing.assert_array_equal(td["next", "truncated"], td["next", "done"])
            ends = np.flatnonzero(td["next", "truncated"])
            lengths = np.diff(ends, prepend=-1).tolist()
            for seen, part in zip(found, (lengths[:1], lengths[1:2], lengths[2:]), strict=True):
                seen.update(part)
        assert found == [{1, 2, 3, 4}, second, later]


def test_what_truncation_needs() -> None:
    raises(ValueError, "first_episode_prob must be from 0 to 1", RandomTruncationTransform, 1, 2, 0.5, 2.0)
    raises(ValueError, "min_horizon must be from 1 to max_horizon, 2, got 3", RandomTruncationTransform, 3, 2)
    with pytest.raises(RuntimeError, match="a StepCounter must come before, which writes 'step_count'"):
        TransformedEnv(Steps(2), RandomTruncationTransform(1, 2))
    raises(NotImplementedError, "whose episodes it ends", RandomTruncationTransform(1, 2), TensorDict())
    nested = TensorDict(agents=TensorDict(step_count=np.zeros(1)), other=TensorDict(a=np.zeros(1)))
    assert RandomTruncationTransform(1, 2)._count_key(nested) == ("agents", "step_count")
    env = TransformedEnv(
        Steps(9), Compose(StepCounter(), RandomTruncationTransform(1, 2, truncated_key="late"))
    )
    check_env_specs(env)
