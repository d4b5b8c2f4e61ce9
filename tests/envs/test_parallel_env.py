"""Environments in processes. Two of them serve several tests, as most of the time is to start them."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from helpers.cases import raises
from helpers.compared import assert_same
from helpers.counting_env import CountingEnv, TalkingEnv, counted, failing, unmakeable, with_memory
from helpers.teams_env import Mates, Pair, Teams, counted_teams

from lite import is_tensor_collection
from lite.envs import (
    Compose,
    EnvError,
    ObservationNorm,
    ParallelEnv,
    SerialEnv,
    StepCounter,
    TransformedEnv,
    UnsqueezeTransform,
    check_env_specs,
)

MAKERS = [partial(CountingEnv, (2,), limit) for limit in (2, 4)]


@pytest.fixture(scope="module")
def env():
    env = ParallelEnv(2, MAKERS)
    yield env
    env.close()


def test_it_gives_what_they_give_one_after_the_other(env):
    for words in (
        {},
        {"break_when_any_done": False},
        {"break_when_all_done": True},
        {"callback": lambda env, td: None},
    ):
        serial = SerialEnv(2, MAKERS)
        assert env.set_seed(4) == serial.set_seed(4)
        td, wanted = env.rollout(9, **words), serial.rollout(9, **words)
        assert_same(td, wanted)


def test_agents_that_alone_are_done_start_anew_one_by_one():
    alone = Pair().rollout(9, break_when_any_done=False)["agents", "x"]
    assert alone[..., 0].T.tolist() == [[0, 1] * 4 + [0], [0, 1, 2, 3] * 2 + [0]]
    with closing(ParallelEnv(2, Pair)) as several:
        for env in (several, SerialEnv(2, Pair)):
            for whole in (env, TransformedEnv(env, StepCounter())):
                found = whole.rollout(9, break_when_any_done=False)
                np.testing.assert_array_equal(found["agents", "x"], [alone, alone])
            td = env.step(env.rand_action(env.reset()))["next"]
            td["agents", "_reset"] = np.array([[[0], [1]], [[0], [0]]], bool)
            assert env.reset(td)["agents", "x"][..., 0].tolist() == [[1, 0], [1, 1]]
            assert env.rand_step(td)["next", "agents", "x"][..., 0].tolist() == [[2, 1], [2, 2]]


def test_specs_and_copies(env):
    check_env_specs(env)
    first = env.rand_step(env.reset())
    kept = first["next", "observation"].copy()
    env.step(env.rand_action(env.step_mdp(first)))
    np.testing.assert_array_equal(first["next", "observation"], kept)
    for call in (env.step, env.step_and_maybe_reset):
        raises(RuntimeError, "must have the environment", call, first[:1])


def test_transforms_around_it_change_observations(env):
    def around(base):
        columns = UnsqueezeTransform(-1, in_keys=["observation"])
        made = TransformedEnv(base, Compose(ObservationNorm(7.0, 2.0, ["observation"]), columns))
        made.set_seed(4)
        return made

    for words in ({}, {"break_when_any_done": False}, {"break_when_all_done": True}):
        td, wanted = (around(base).rollout(9, **words) for base in (env, SerialEnv(2, MAKERS)))
        assert td["next", "observation"].shape[-2:] == (1, 1)
        assert_same(td, wanted)


def test_entries_that_are_state_and_observation_restart():
    makers = [partial(counted, limit) for limit in (2, 3)]
    env, serial = ParallelEnv(2, makers), SerialEnv(2, makers)
    assert "step_count" in env.state_keys
    try:
        for one in (env, serial):
            one.set_seed(0)
        td, wanted = (one.rollout(7, break_when_any_done=False) for one in (env, serial))
        assert env.reset()["step_count"].tolist() == serial.reset()["step_count"].tolist()
    finally:
        env.close()
    assert td["next", "step_count"][1, 0].ravel().tolist() == [1, 2, 3, 1, 2, 3, 1]
    assert_same(td, wanted)


def test_states_that_a_policy_writes_reach_their_transforms():
    def remember(td):
        return td.set(("next", "h"), td["h"] + 1).set("action", np.ones((2, 1), np.float32))

    makers = [partial(with_memory, limit) for limit in (2, 4)]
    with closing(ParallelEnv(2, makers)) as several:
        for env in (several, SerialEnv(2, makers)):
            td = env.rollout(6, remember, break_when_any_done=False)
            assert td["h"][..., 0].tolist() == [[0, 1, 0, 1, 0, 1], [0, 1, 2, 3, 0, 1]]
            td = remember(env.reset()).set("_step", np.array([True, False]))
            assert env.step(td)["next", "h"].ravel().tolist() == [1, 0]
            around = TransformedEnv(env, UnsqueezeTransform(-1, in_keys=["observation"]))
            td = around.step(around.step(remember(around.reset())))  # its "next" has other shapes here
            assert td["next", "h"].shape == (2, 1)
            assert td["next", "observation"].ravel().tolist() == [2, 2]


@pytest.mark.parametrize("make", [Teams, counted_teams])
def test_nodes_keep_their_batch_dimensions(make):
    env, serial = ParallelEnv(2, make), SerialEnv(2, make)
    try:
        check_env_specs(env)
        for one in (env, serial):
            one.set_seed(0)
        assert env.reset()["agents"].batch_size == (2, 3, 2)
        td, wanted = (one.rollout(7, break_when_any_done=False) for one in (env, serial))
    finally:
        env.close()
    assert td["next", "agents"].batch_size == wanted["next", "agents"].batch_size == (2, 3, 7, 2)
    assert_same(td, wanted)


def test_agents_that_observe_other_numbers_of_things():
    def by_row(td):
        if td.ndim:
            return [by_row(row) for row in td.unbind(0)]
        return {key: by_row(value) if is_tensor_collection(value) else value for key, value in td.items()}

    other, two = partial(Mates, (2, 2)), np.array([[True], [False]])
    for makers, masks in (
        ([Mates, Mates], [two]),
        ([Mates, other], [two]),
        (
            [partial(SerialEnv, 2, [Mates, other])] * 2,
            [two[..., None].repeat(2, 1), np.array([two, ~two | two])],
        ),
    ):
        serial = SerialEnv(2, makers)
        with closing(ParallelEnv(2, makers)) as env:
            check_env_specs(env)
            for words in ({}, {"break_when_any_done": False}, {"break_when_all_done": True}):
                assert env.set_seed(4) == serial.set_seed(4)
                td, wanted = (by_row(one.rollout(7, **words)) for one in (env, serial))
                assert_same(td, wanted)
            for one in (env, serial):
                one.set_seed(4)
            for key, call in (("_reset", "reset"), ("_step", "step")):
                for mask in masks:
                    made = []
                    for one in (env, serial):
                        td = one.rand_action(one.step_mdp(one.rand_step(one.reset())))
                        made.append(by_row(getattr(one, call)(td.set(key, mask)).exclude("_step")))
                    assert_same(*made)


def test_a_failure_names_the_process():
    env = ParallelEnv(2, [CountingEnv, failing])
    with pytest.raises(
        EnvError, match="environment 1 failed at step 1: RuntimeError: the wheel came off"
    ) as caught:
        env.rollout(5)
    assert caught.value.index == 1
    assert env.is_closed
    raises(RuntimeError, "closed", lambda: env.reset())
    env.close()  # as `finally` does: the failure is not hidden by another error
    raises(RuntimeError, "closed already", lambda: env.close())


def test_steps_after_an_interrupted_one_are_of_their_own_actions(monkeypatch):
    with closing(ParallelEnv(2, CountingEnv)) as env:
        td = env.reset()
        td["action"] = np.ones((2, 1), np.float32)

        def interrupted():
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(env._workers[1], "answered", interrupted)
            raises(KeyboardInterrupt, "", env.step, td)
        for count in (2, 3):  # the interrupted step was taken
            assert env.step(td)["next", "observation"].ravel().tolist() == [count, count]
        assert env.reset()["observation"].ravel().tolist() == [0, 0]


@pytest.mark.processes
def test_one_that_cannot_be_made():
    with pytest.raises(EnvError, match="environment 1 failed at step 0: ValueError: there is no such game"):
        ParallelEnv(2, [CountingEnv, unmakeable])


@pytest.mark.processes
def test_a_process_that_is_killed():
    env = ParallelEnv(2, CountingEnv)
    env.reset()
    os.kill(env._workers[0].process.pid, signal.SIGKILL)
    raises(EnvError, r"environment 0 .*exit code -9; start\(\) begins anew", lambda: env.rollout(3))


@pytest.mark.processes
def test_objects_are_refused():
    raises(TypeError, r"shares arrays only, got NonTensor at .*'words'", lambda: ParallelEnv(1, TalkingEnv))


@pytest.mark.processes
@pytest.mark.parametrize("method", ["forkserver", "fork"])
def test_no_process_is_left_where_the_parent_is_killed(method, tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(
        textwrap.dedent(f"""
        import time
        from helpers.counting_env import CountingEnv
        from lite.envs import ParallelEnv
        if __name__ == "__main__":
            env = ParallelEnv(2, CountingEnv, mp_start_method={method!r})
            print(*(worker.process.pid for worker in env._workers), flush=True)
            time.sleep(60)
        """)
    )
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, env=paths)
    numbers = [int(number) for number in parent.stdout.readline().split()]
    assert len(numbers) == 2
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and any(map(_runs, numbers)):
        time.sleep(0.1)
    assert not any(map(_runs, numbers))


@pytest.mark.processes
def test_a_class_of_a_prompt():
    code = """
        from helpers.counting_env import CountingEnv
        from lite.envs import ParallelEnv
        class Mine(CountingEnv):
            pass
        env = ParallelEnv(2, Mine)
        print(*env.rollout(2).shape)
        env.close()
        """
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, env=paths
    )
    assert done.stdout == "2 2\n", done.stderr


def _runs(number):
    try:
        with open(f"/proc/{number}/stat", encoding="utf-8") as file:
            return file.read().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_one_may_be_in_this_process():
    env = ParallelEnv(
        1, CountingEnv, create_env_kwargs={"limit": 2}, mp_start_method="spawn", serial_for_single=True
    )
    assert type(env) is SerialEnv
    assert env.rollout(5).shape == (1, 2)
    assert type(SerialEnv(2, CountingEnv, serial_for_single=True, mp_start_method="spawn")) is SerialEnv


def test_processes_end_by_themselves_when_they_are_told():
    env = ParallelEnv(2, MAKERS)
    env.reset()
    processes = [worker.process for worker in env._workers]
    env.close()
    assert [process.exitcode for process in processes] == [0, 0]
