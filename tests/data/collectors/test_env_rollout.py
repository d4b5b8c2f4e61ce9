"""A `Collector` of an `EnvBase`; `tests/parity/test_collector.py` compares with torchrl's."""

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.counting_env import CountingEnv, counting_with_statistics
from helpers.data.environments import Counting

from lite import TensorDict
from lite.data import Collector, LazyTensorStorage, ReplayBuffer, StepCounter, TensorDictPrimer, Unbounded
from lite.envs import (
    EnvError,
    GymEnv,
    GymWrapper,
    ParallelEnv,
    RenameTransform,
    SerialEnv,
    TransformedEnv,
)


def test_episodes_follow_each_other():
    collector = Collector(CountingEnv((2,)), frames_per_batch=10, total_frames=20)
    assert len(collector) == 2
    one, two = list(collector)
    assert one.shape == (2, 5)
    np.testing.assert_array_equal(one["observation"][..., 0], [[0, 1, 2, 0, 1], [0, 1, 2, 3, 0]])
    np.testing.assert_array_equal(two["observation"][..., 0], [[2, 0, 1, 2, 0], [1, 2, 3, 0, 1]])
    np.testing.assert_array_equal(one["collector", "traj_ids"], [[0, 0, 0, 2, 2], [1, 1, 1, 1, 3]])
    np.testing.assert_array_equal(two["collector", "traj_ids"], [[2, 4, 4, 4, 6], [3, 3, 3, 5, 5]])
    assert one.names == [None, "time"]
    assert collector.env.is_closed
    stats = collector.stats()
    assert (stats["frames"], stats["episodes"], stats["episode_length_mean"]) == (20, 5, pytest.approx(3.4))
    assert "step_count" not in one


def test_what_an_environment_gives_stays_while_actions_are_random():
    env = TransformedEnv(CountingEnv((2,)), RenameTransform(["observation"], [("n", "x")]))
    policy = {"action": np.zeros((2, 1), np.float32), "value": np.ones((2, 1))}
    collector = Collector(env, lambda td: td.update(policy), frames_per_batch=6, init_random_frames=6)
    td = collector.next()
    np.testing.assert_array_equal(td["n", "x"][..., 0], [[0, 1, 2], [0, 1, 2]])
    assert not td["value"].any()


class ClosedWithoutArguments(CountingEnv):
    closed = 0

    def close(self):
        self.closed += 1
        self.is_closed = True


@pytest.mark.parametrize(
    "wrap",
    [lambda env: env, TransformedEnv, lambda env: SerialEnv(1, lambda: env)],
    ids=["", "transformed", "serial"],
)
def test_an_environment_whose_close_has_no_argument(wrap):
    env = ClosedWithoutArguments()
    collector = Collector(wrap(env), frames_per_batch=2, total_frames=2)
    list(collector)
    collector.shutdown()
    assert env.closed == 1


def test_functions_make_environment_and_policy():
    def make():
        return lambda td: td.set("action", np.full(1, 0.5, np.float32))

    collector = Collector(
        CountingEnv, policy_factory=make, create_env_kwargs={"limit": 2}, frames_per_batch=4, total_frames=4
    )
    td = collector.next()
    np.testing.assert_array_equal(td["next", "reward"].ravel(), [0.5] * 4)
    another = Collector(
        CountingEnv, lambda td: TensorDict(action=np.full(1, 2.0, np.float32)), frames_per_batch=2
    )
    np.testing.assert_array_equal(another.next()["action"].ravel(), [2, 2])
    with pytest.raises(TypeError, match="policy_factory"):
        Collector(CountingEnv, make(), policy_factory=make, frames_per_batch=4)
    raises(ValueError, "timeout", Collector, CountingEnv, frames_per_batch=4, timeout=3)


def test_levels_below_the_root():
    td = Collector(CountingEnv(nested=True, limit=2), frames_per_batch=5).next()
    np.testing.assert_array_equal(td["collector", "traj_ids"], [0, 0, 1, 1, 2])


def test_the_last_step_of_a_batch_is_truncated_where_the_entry_is():
    with pytest.raises(RuntimeError, match="add_truncated_keys"):
        Collector(CountingEnv(nested=True), frames_per_batch=2, set_truncated=True)
    env = CountingEnv(nested=True, limit=9).add_truncated_keys()
    ends = Collector(env, frames_per_batch=2, set_truncated=True).next()["next", "agents"]
    for name in ("truncated", "done"):
        np.testing.assert_array_equal(ends[name][..., 0], [[False, False], [True, True]])


def test_failures_have_the_frames():
    collector = Collector(SerialEnv(1, lambda: CountingEnv(fails_at=3, limit=9)), frames_per_batch=5)
    raises(RuntimeError, "wheel", collector.next)
    assert collector.partial_batch.shape == (1, 2)


def test_seeds_go_to_the_environment():
    env = SerialEnv(2, lambda: GymEnv("CartPole-v1"))
    collector = Collector(env, frames_per_batch=20, seed=1)
    td = collector.next()
    collector.set_seed(1)
    again = collector.next()
    np.testing.assert_array_equal(td["observation"], again["observation"])
    np.testing.assert_array_equal(td["action"], again["action"])
    state = collector.state_dict()
    collector.load_state_dict(state)
    assert collector.next().shape == (2, 10)


def test_a_gym_environment_alone_takes_the_loop_of_arrays():
    collector = Collector(GymEnv("CartPole-v1"), frames_per_batch=20, seed=0)
    td = collector.next()
    assert td["action"].shape == (20, 2)
    assert "step_count" not in td
    assert collector.action_spec == collector.env.action_spec
    slow = Collector(GymEnv("CartPole-v1"), frames_per_batch=20, transforms=[StepCounter()])
    assert slow.next()["step_count"].max() > 3


class Classes(Counting):
    """Observes which step it is, as a class."""

    def __init__(self, lengths) -> None:
        super().__init__(0, lengths)
        self.observation_space = spaces.Discrete(5)

    def observe(self) -> np.int64:
        return np.int64(self.count)


class Forgetful(SyncVectorEnv):
    """Knows nothing of those that it is not asked to reset."""

    def reset(self, *, seed=None, options=None):
        asked = options and options["reset_mask"]
        observations, info = super().reset(seed=seed, options=options)
        if asked is not None:
            observations[~asked] = 99
        return observations, info


def test_environments_that_do_not_restart_need_no_classes():
    makes = [partial(Classes, (2,)), partial(Classes, (3,))]
    env = GymWrapper(Forgetful(makes, autoreset_mode=AutoresetMode.DISABLED))
    (td,) = Collector(env, frames_per_batch=12, total_frames=12)
    np.testing.assert_array_equal(td["observation"].argmax(-1), [[0, 1] * 3, [0, 1, 2] * 2])


def test_states_of_a_policy_are_carried_as_specs_say():
    class Plain(GymEnv):
        """A subclass takes the loop of TensorDicts."""

    def counting(td):
        td["action"] = np.array([1, 0])
        return td.set(("next", "state"), td.get("state", np.zeros(1)) + 1)

    primer = [TensorDictPrimer({"state": Unbounded((1,), dtype=np.float64)})]
    for kind in (GymEnv, Plain):
        td = Collector(kind("CartPole-v1"), counting, frames_per_batch=6).next()
        assert "state" not in td
        assert td["next", "state"].tolist() == [[1.0]] * 6
        td = Collector(TransformedEnv(kind("CartPole-v1"), *primer), counting, frames_per_batch=6).next()
        assert td["next", "state"].ravel().tolist() == [1, 2, 3, 4, 5, 6]
    td = Collector(GymEnv("CartPole-v1"), counting, frames_per_batch=6, transforms=primer).next()
    assert td["state"].ravel().tolist() == [0, 1, 2, 3, 4, 5]
    plain = gymnasium.make("CartPole-v1")
    td = Collector(plain, lambda td: counting(td).set("action", np.array(1)), frames_per_batch=6).next()
    assert td["state"].ravel().tolist() == [0, 1, 2, 3, 4, 5]


class FailingGym(CountingEnv):
    def _step(self, tensordict):
        raise EnvError("lost", 0, 0)


def test_errors_of_environments_keep_their_frames():
    with pytest.raises(EnvError, match="lost") as caught:
        Collector(
            FailingGym(), lambda td: TensorDict(action=np.zeros(1, np.float32)), frames_per_batch=3
        ).next()
    assert caught.value.frames is None


def test_statistics_of_the_environment_are_in_the_state():
    for make in (counting_with_statistics, partial(ParallelEnv, 1, counting_with_statistics)):
        collector, other = (Collector(make, frames_per_batch=4, total_frames=4) for _ in range(2))
        list(collector)
        state = collector.state_dict()["env_state_dict"]
        name = "transforms.0._extra_state"
        assert state.get("worker0", state)[name]["observation_count"] == 6  # two of resets
        other.load_state_dict({**other.state_dict(), "env_state_dict": state})
        assert_same(other.state_dict()["env_state_dict"], state)
        older = {key: value for key, value in other.state_dict().items() if key != "env_state_dict"}
        other.load_state_dict(older)
        other.shutdown()
        assert other.state_dict()["frames"] == 0


def test_states_while_a_thread_collects_of_processes():
    buffer = ReplayBuffer(storage=LazyTensorStorage(200))
    env = ParallelEnv(1, counting_with_statistics)
    collector = Collector(env, frames_per_batch=4, total_frames=200, replay_buffer=buffer)
    collector.start()
    counts = []
    while collector.is_running():
        state = collector.state_dict()["env_state_dict"]["worker0"]["transforms.0._extra_state"]
        counts.append(None if state is None else float(state["observation_count"][0]))
    collector.async_shutdown()
    assert collector.state_dict()["frames"] == 200
    assert len({*counts}) > 2
