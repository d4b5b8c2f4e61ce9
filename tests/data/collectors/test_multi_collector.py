"""Collectors in processes. Two of them serve several tests, as most of the time is to start them."""

import os
import signal
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import Constant, CountingEnv, failing, unmakeable
from helpers.teams_env import Mates

from lite import TensorDict
from lite._processes.workers import safe_start_method
from lite.data import Collector, MultiAsyncCollector, MultiSyncCollector
from lite.envs import GymEnv, ParallelEnv
from lite.nn import Linear, TensorDictModule


def test_a_seed_repeats_a_batch():
    batches = []
    for seed in (0, 0, 1):
        collector = Collector(
            partial(GymEnv, "CartPole-v1"), frames_per_batch=20, total_frames=20, num_collectors=2,
            sync=True, seed=seed,
        )  # fmt: skip
        batches += [batch["observation"] for batch in collector]
    np.testing.assert_array_equal(batches[0], batches[1])
    assert not np.array_equal(batches[0], batches[2])


def test_batches_have_the_frames_of_all():
    policy = TensorDictModule(Linear(1, 1), in_keys=["observation"], out_keys=["action"])
    collector = MultiSyncCollector(
        [CountingEnv, CountingEnv], policy, create_env_kwargs=[{}, {"limit": 4}], frames_per_batch=10,
        total_frames=30, auto_register_policy_transforms=True,
    )  # fmt: skip
    assert len(collector) == 3
    assert collector.set_seed(0, static_seed=True) == 0
    alone = Collector(CountingEnv(limit=4), policy, frames_per_batch=5)
    got = []
    for batch in collector:
        assert batch.shape == (2, 5)
        assert "is_init" in batch  # of the transforms that are added
        wanted = alone.next()
        for key in ("observation", "action", ("next", "done")):
            np.testing.assert_allclose(batch[1][key], wanted[key], rtol=1e-6, err_msg=str(key))
        got.append(batch)
        for part in policy.parameters():
            part.data[...] = len(got)
        collector.update_policy_weights_()
    assert collector.closed
    assert collector.policy_version == 3
    ids = np.concatenate([batch["collector", "traj_ids"].ravel() for batch in got])
    assert set(ids % 2**40) == {0, 1, 2, 3, 4}
    assert not set(got[0]["collector", "traj_ids"][0]) & set(got[0]["collector", "traj_ids"][1])
    np.testing.assert_array_equal(got[0]["observation"][0].ravel(), [0, 1, 2, 0, 1])  # memory of its own


@pytest.mark.processes
def test_environments_may_have_processes_of_their_own():
    make = partial(ParallelEnv, 2, CountingEnv)
    for batch in MultiSyncCollector([make], Constant(), frames_per_batch=10, total_frames=10):
        np.testing.assert_array_equal(batch["observation"].squeeze(-1), [[[0, 1, 2, 0, 1]] * 2])


def test_each_process_may_have_a_policy_of_its_own():
    factories = [Constant, partial(Constant, 0.25)]
    with MultiSyncCollector(
        CountingEnv, num_workers=2, policy_factory=factories, frames_per_batch=4
    ) as collector:
        np.testing.assert_array_equal(collector.next()["action"][..., 0], [[0.5, 0.5], [0.25, 0.25]])


def test_agents_that_observe_other_numbers_of_things():
    with MultiSyncCollector([Mates, Mates], frames_per_batch=4) as collector:
        for seen in ([[0, 1], [0, 1]], [[2, 0], [2, 0]]):
            first, second = collector.next()["agents"].unbind(-1)
            np.testing.assert_array_equal(first["x"][..., 0], seen)
            np.testing.assert_array_equal(second["x"], np.array(seen)[..., None].repeat(3, -1))


def test_a_state_goes_on_where_it_was():
    def started(policy, **words):
        return MultiAsyncCollector([CountingEnv], policy, frames_per_batch=4, total_frames=12, **words)

    policy, other = (TensorDictModule(Linear(1, 1), ["observation"], ["action"]) for _ in range(2))
    states, ids = [], set()
    with started(policy, seed=3) as collector:
        for batch in collector:
            ids |= set(batch["collector", "traj_ids"].tolist())
            policy.module.bias.data[...] = len(states)
            collector.update_policy_weights_()
            states.append(collector.state_dict())  # after the last batch, too
    assert [state["frames"] for state in states] == [4, 8, 12]
    assert states[0]["worker0"]["seed"] == 3
    raises(RuntimeError, "shut down", lambda: collector.state_dict())
    with started(other) as resumed:
        resumed.next()
        resumed.load_state_dict(states[1])
        np.testing.assert_array_equal(other.module.bias.data, [1.0])
        last = resumed.next()
        np.testing.assert_allclose(last["action"], last["observation"] @ policy.module.weight.data.T + 1)
        assert not set(last["collector", "traj_ids"].tolist()) & set(range(states[1]["worker0"]["traj_ids"]))
        assert resumed.stats() == {
            "frames": 12, "batches": 3, "requested_frames_per_batch": 4, "policy_version": 2, "workers": 1,
            "total_frames": 12, "completed": True,
        }  # fmt: skip
        assert resumed.next() is None
        with pytest.raises(ValueError, match="1 processes, got 0"):
            resumed.load_state_dict({"frames": 0, "iter": 0, "policy_version": 0})


def test_each_process_has_its_turn_where_a_state_is_taken_after_each_batch():
    limits = [{"limit": 1}, {"limit": 2}, {"limit": 3}]
    collector = MultiAsyncCollector(
        CountingEnv, Constant(), num_workers=3, create_env_kwargs=limits, frames_per_batch=4, total_frames=36
    )
    found = []
    for batch in collector:
        found.append(batch["observation"].max())
        collector.state_dict()  # waits for the batches of all
    assert all(set(found[i : i + 3]) == {0, 1, 2} for i in (1, 4)), found


def test_a_batch_that_an_interrupt_left_is_the_next_one(monkeypatch):
    collector = MultiSyncCollector([CountingEnv] * 2, Constant(), frames_per_batch=4, total_frames=-1)

    def interrupted(worker):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(collector, "_answer", interrupted)
        raises(KeyboardInterrupt, "", collector.next)
    assert collector.next()["observation"].ravel().tolist() == [0, 1, 0, 1]
    assert collector.next()["observation"].ravel().tolist() == [2, 0, 2, 0]
    assert [collector.state_dict()[f"worker{i}"]["frames"] for i in (0, 1)] == [4, 4]  # and no third batch
    collector.shutdown()


@pytest.mark.depth
def test_the_first_that_is_ready(capsys):
    stored = []
    buffer = type("Buffer", (), {"extend": lambda self, data: stored.append(data)})()
    collector = MultiAsyncCollector(
        CountingEnv, Constant(), num_workers=2, frames_per_batch=5, total_frames=20, replay_buffer=buffer,
        progress=True,
    )  # fmt: skip
    assert list(collector) == [None] * 4
    last = capsys.readouterr().err.split("\r")[-1]  # episodes of three steps, half a point each
    assert last.startswith("20/20 [#")
    assert last.rstrip().endswith(" frames/s, reward 1.5")  # blanks cover what a longer line had shown
    assert [td.shape for td in stored] == [(5,)] * 4
    assert all((td["next", "reward"] == 0.5).all() for td in stored)
    raises(TypeError, "weights", lambda: collector.update_policy_weights_())
    assert collector.next() is None


@pytest.mark.processes
@pytest.mark.parametrize(
    ("makers", "message"),
    [([CountingEnv, failing], "the wheel"), ([CountingEnv, unmakeable], "no such game")],
)
def test_failures_name_the_process(makers, message):
    with pytest.raises(RuntimeError, match=rf"collector 1 failed: .*{message}"):
        MultiSyncCollector(makers, frames_per_batch=20).next()


@pytest.mark.processes
def test_a_process_that_is_killed():
    with MultiSyncCollector([CountingEnv], frames_per_batch=5, cat_results=0) as collector:
        assert collector.next().shape == (5,)
        os.kill(collector._workers[0].process.pid, signal.SIGKILL)
        raises(RuntimeError, r"collector 0 failed: .*exit code -9", lambda: collector.next())


def test_wrong_arguments():
    for words, error in (
        ({"num_workers": 3, "create_env_kwargs": [{}]}, ValueError),
        ({"num_workers": 0}, ValueError),
        ({"policy_factory": [Constant, Constant]}, ValueError),
        ({"policy": Constant(), "policy_factory": Constant}, TypeError),
        ({"cat_results": "rows"}, ValueError),
    ):
        raises(error, "", MultiSyncCollector, CountingEnv, frames_per_batch=5, **words)


def test_weights_are_copied_when_they_are_given():
    class Quiet(MultiSyncCollector):
        def __init__(self):
            self._workers, self.policy_version, self.policy = [SimpleNamespace()], 0, None

    collector = Quiet()
    weights = TensorDict(w=np.zeros(2))
    collector.update_policy_weights_(weights)
    weights["w"][:] = 1
    np.testing.assert_array_equal(collector._workers[0].weights["w"], [0.0, 0.0])
    raises(ValueError, "one of", lambda: collector.update_policy_weights_(weights, weights=weights))
    collector.policy = Linear(2, 1)  # the processes, which these would end, get none
    raises(KeyError, "those of the policy", lambda: collector.update_policy_weights_(weights))
    assert collector.policy_version == 1


def test_processes_start_as_asked(monkeypatch):
    class Asked(Exception):
        pass

    def context(method):
        raise Asked(method)

    monkeypatch.setattr("multiprocessing.get_context", context)
    for given, wanted in (("spawn", "spawn"), (None, safe_start_method())):
        with pytest.raises(Asked, match=f"^{wanted}$"):
            MultiSyncCollector([CountingEnv], Constant(), frames_per_batch=1, mp_start_method=given)
