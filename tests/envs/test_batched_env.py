"""What `SerialEnv` and `ParallelEnv` are given."""

from functools import partial

import numpy as np
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.counting_env import CountingEnv, Named, Task, counting_with_statistics
from helpers.teams_env import Mates

from lite import LazyStackedTensorDict, TensorDict
from lite.data import Bounded, Composite, Unbounded
from lite.envs import (
    EnvError,
    GymEnv,
    ParallelEnv,
    SelectTransform,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    check_env_specs,
)


def test_one_function_or_several():
    env = SerialEnv(2, CountingEnv, create_env_kwargs=[{"limit": 2}, {"limit": 4}])
    assert env.limits == [2, 4]
    env = SerialEnv(
        2, [CountingEnv, lambda limit: CountingEnv(limit=limit + 1)], create_env_kwargs={"limit": 2}
    )
    assert env.limits == [2, 3]
    assert env.batch_size == (2,)
    assert env.action_spec.shape == (2, 1)
    assert env.observation_spec.shape == (2,)


def test_what_is_refused():
    for count, make, error in (
        (0, CountingEnv, ValueError),
        (2, [CountingEnv], ValueError),
        (2, CountingEnv(), TypeError),
        (2, [CountingEnv, lambda: CountingEnv((3,))], ValueError),
    ):
        raises(error, "", SerialEnv, count, make)
    for makers, message in (
        ([CountingEnv, partial(CountingEnv, nested=True)], "must share a done entry"),
        (
            [CountingEnv, partial(GymEnv, "CartPole-v1")],
            "'input_spec': 'full_action_spec': 'action': stack needs",
        ),
    ):
        raises(ValueError, message, SerialEnv, 2, makers)


def test_environments_of_other_entries_are_a_lazy_stack():
    makers = [partial(Task, "run"), partial(Task, "stand", 5)]

    def rows(td):
        return [{key: row[key].tolist() for key in row.keys(True, True)} for row in td.unbind(0)]

    serial, parallel = made = SerialEnv(2, makers), ParallelEnv(2, makers)
    assert serial.observation_keys == ["observation"]
    assert serial.action_spec.shape == (2, -1)
    for env in made:
        check_env_specs(env, break_when_any_done="both")
    for options, ends in (
        ({}, [[0, 0, 1], [0, 0, 0]]),
        ({"break_when_any_done": False}, [[0, 0, 1, 0, 0, 1, 0], [0, 0, 0, 0, 1, 0, 0]]),
        ({"break_when_all_done": True}, [[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]),
    ):
        for env in made:
            env.set_seed(0)
        got, other = (env.rollout(7, **options) for env in made)
        assert isinstance(got, LazyStackedTensorDict)
        np.testing.assert_array_equal(got["next", "done"][..., 0], ends)
        for row, name in zip(got.unbind(0), ("run", "stand"), strict=True):
            assert row[name].shape == row["action"].shape == (len(ends[0]), len(name))
            np.testing.assert_array_equal(row[name], row["observation"].repeat(len(name), -1))
        assert rows(got) == rows(other)
    one = np.array([[True], [False]])
    starts = [env.rand_action(env.step_mdp(env.rand_step(env.reset()))) for env in made]
    starts[1]["action"] = starts[0].get("action", as_list=True)
    for mask, call in (("_step", "step"), ("_reset", "reset")):
        got, other = (
            getattr(env, call)(td.clone().set(mask, one)) for env, td in zip(made, starts, strict=True)
        )
        assert rows(got) == rows(other)
    check_env_specs(TransformedEnv(serial, SelectTransform("stand")))
    td = TransformedEnv(parallel, StepCounter(4)).rollout(6, break_when_any_done=False)
    assert [row["step_count"].ravel().tolist() for row in td.unbind(0)] == [
        [0, 1, 2, 0, 1, 2],
        [0, 1, 2, 3, 0, 1],
    ]
    parallel.close()


def test_agents_that_observe_other_numbers_of_things():
    one = Mates()
    check_env_specs(one)
    env = SerialEnv(2, Mates)
    check_env_specs(env, break_when_any_done="both")
    td = env.rollout(5, break_when_any_done=False)
    assert type(td) is TensorDict
    assert (td["agents"].shape, td["agents", "y"].shape) == ((2, 5, 2), (2, 5, 2, 2))
    for agent, n in zip(td["agents"].unbind(-1), (1, 3), strict=True):
        np.testing.assert_array_equal(agent["x"], np.broadcast_to([[[0], [1], [2], [0], [1]]], (2, 5, n)))
    np.testing.assert_array_equal(td["next", "agents", "reward"][..., 0], td["agents", "action"])
    one.observation_spec["agents"] = np.stack([Composite(x=Unbounded(n), y=Unbounded(2)) for n in (1, 2)])
    raises(
        AssertionError, r"shape of \('agents', 'x', 1\) differs: .* \(2,\), got \(3,\)", check_env_specs, one
    )


def test_dtypes_of_entries_of_other_shapes_are_checked():
    def double(td):
        return td.set("observation", td["observation"].astype(np.float64))

    makers = [partial(GymEnv, name) for name in ("Pendulum-v1", "MountainCarContinuous-v0")]
    assert SerialEnv(2, makers, run_type_checks=True).rollout(2, break_when_any_done=False).shape == (2, 2)
    makers[1] = lambda: GymEnv("MountainCarContinuous-v0").append_transform(double)
    env = SerialEnv(2, makers, run_type_checks=True)
    raises(TypeError, "'observation' must have dtype float32, got float64", env.rollout, 2)


def test_parts_of_a_batch():
    for kind in (SerialEnv, ParallelEnv):
        env = kind(3, [partial(Task, "run"), partial(Task, "fly", 9), partial(Task, "run", 4)])
        two, last = env[::2], env[-1]
        assert (two.batch_size, last.batch_size, env[np.array([1, 0])].batch_size) == ((2,), (1,), (2,))
        assert (two.limits, last.name) == ([[3], [4]], ["run"])
        check_env_specs(two)
        check_env_specs(env[:2])
        env.reset()
        td = two.rand_step(two.reset())
        assert isinstance(td, TensorDict)  # of equal specs
        last.rand_step(last.step_mdp(td[1:]))
        assert env.count == [[1], [0], [2]]
        two.close()
        raises(RuntimeError, "stays closed", two.reset)
        assert env.rollout(2, break_when_any_done=False).shape == (3, 2)
        for index in (3, slice(3, 4), np.zeros((1, 1), int), [0, 0]):
            raises(IndexError, "", env.__getitem__, index)
        of_part = last[0]
        env.close()
        for part in (last, of_part):
            raises(RuntimeError, "stays closed", part.reset)
        env.reset()
        for part in (last, of_part):  # of the environments before
            raises(RuntimeError, "stays closed", part.reset)
        env.close()


def test_steps_of_some_rows_of_batches_of_batches():
    env = SerialEnv(2, partial(SerialEnv, 2, CountingEnv))
    td = env.step_mdp(env.rand_step(env.reset()))
    td = env.rand_action(td).set("_step", np.array([[True, False], [False, False]]))
    assert env.step(td)["next", "observation"].tolist() == [[[2], [1]], [[1], [1]]]


def test_bounds_may_differ():
    for kind in (SerialEnv, ParallelEnv):
        env = kind(2, CountingEnv, create_env_kwargs=[{"most": 0.5}, {"most": 9.0}])
        assert env.action_spec == Bounded([[-0.5], [-9]], [[0.5], [9]])
        taken = np.abs(env.rollout(40, break_when_any_done=False)["action"]).max(1).ravel()
        assert taken[0] <= 0.5 < taken[1]
        env.close()


def test_they_have_started():
    env = SerialEnv(2, CountingEnv)
    before = env.rollout(2)
    env.start()
    assert not env.is_closed
    assert (env.rollout(2)["observation"] == before["observation"]).all()


def test_attributes_are_those_of_each():
    for kind in (SerialEnv, ParallelEnv):
        env = kind(2, Named, create_env_kwargs=[{"limit": 2}, {"limit": 4}])
        assert env.label == ["limit 2", "limit 4"]
        np.testing.assert_array_equal(env.limits, [[2], [4]])
        assert env.above(2) == [False, True]
        assert env.above(2, by=9) == [False, False]
        assert not hasattr(env, "nothing")
        assert env.rollout(2).shape == (2, 2)
        if kind is ParallelEnv:
            assert not hasattr(env, "unsendable")
            raises(EnvError, "environment 0 failed at step 2: TypeError", env.above)
        else:
            env.close()
        assert env.is_closed
        assert not hasattr(env, "label")


def test_states_are_those_of_each():
    for kind in (SerialEnv, ParallelEnv):
        env, other = (kind(2, counting_with_statistics, create_env_kwargs={"limit": 9}) for _ in range(2))
        env.rollout(4)
        state = env.state_dict()
        name = "transforms.0._extra_state"
        assert [state[f"worker{i}"][name]["observation_count"].item() for i in (0, 1)] == [5, 5]
        state["worker1"][name] = {key: 2 * value for key, value in state["worker1"][name].items()}
        other.load_state_dict(state)
        assert_same(other.state_dict(), state)
        other.load_state_dict(state["worker1"])
        assert_same(other.state_dict(), dict.fromkeys(("worker0", "worker1"), state["worker1"]))
        env.close()
        other.close()


def test_they_start_again():
    for kind in (SerialEnv, ParallelEnv):
        env = kind(2, CountingEnv)
        transformed = TransformedEnv(env)
        for again in (env.start, env.reset, env.set_seed):
            transformed.close()
            assert transformed.is_closed
            again()
            assert not env.is_closed
            assert not transformed.is_closed  # or a collector leaves its processes running
            assert env.rollout(2).shape == (2, 2)
        env.close()
    raises(RuntimeError, r"closed: start\(\) opens", env.rand_step)
