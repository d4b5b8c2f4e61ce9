"""Collectors that a thread iterates over."""

import threading
import time

import numpy as np
import pytest
from helpers.cases import raises
from helpers.counting_env import CountingEnv, failing

import lite
from lite import TensorDict, nn
from lite.data import AsyncCollector, Collector, LazyTensorStorage, ReplayBuffer


def waited_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("kind", [Collector, AsyncCollector])
def test_collection_goes_on(kind):
    buffer = ReplayBuffer(storage=LazyTensorStorage(30))
    collector = kind(CountingEnv, frames_per_batch=6, replay_buffer=buffer)
    assert not collector.is_running()
    collector.start()
    collector.start()  # once is enough
    assert collector.is_running()
    waited_for(lambda: len(buffer) == 30)
    collector.async_shutdown()
    assert not collector.is_running()
    assert collector.closed
    np.testing.assert_array_equal(np.unique(buffer[:]["observation"]), [0, 1, 2])
    collector.async_shutdown()


def test_the_last_frame():
    buffer = ReplayBuffer(storage=LazyTensorStorage(100))
    collector = Collector(CountingEnv, frames_per_batch=6, total_frames=30, replay_buffer=buffer)
    collector.start()
    waited_for(lambda: not collector.is_running())
    assert len(buffer) == 30


class Shifted(nn.Linear):
    """With a buffer that is added, and one that counts calls of an environment while that is not 0."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_buffer("shift", np.zeros(1, np.float32))
        self.register_buffer("calls", np.zeros((), np.int64))

    def forward(self, x):
        if len(x) == 1 and self.shift != 0:
            self.calls = self.calls + 1
        return super().forward(x) + self.shift


def test_a_policy_that_learns_meanwhile():
    """Arrays without numbers in its modules, as `lite.jit` and `to_module` put them there, do no harm."""
    buffer = ReplayBuffer(storage=LazyTensorStorage(30))
    net = Shifted(1, 1)
    policy = nn.TensorDictModule(net, ["observation"], ["action"])
    collector = Collector(CountingEnv, policy, frames_per_batch=4, replay_buffer=buffer)

    def goes_on():
        before = buffer.write_count
        waited_for(lambda: buffer.write_count > before + 8 or not collector.is_running())

    def loss():
        time.sleep(0.1)  # some steps of the environment
        return net(np.ones((2, 1), np.float32)).sum()

    @lite.jit
    @lite.enable_grad()
    def step():
        found = loss()
        found.backward()
        return found.detach()

    def functional(params):
        with params.to_module(net):
            return loss()

    collector.start()
    goes_on()
    step()
    params = TensorDict.from_module(net).exclude("calls")
    lite.grad(functional)(params)
    goes_on()
    params.apply(lambda x: x * 0 + 2).to_module(net)  # for good; the buffer is 2, too
    goes_on()
    net.shift = net.shift + 7
    goes_on()
    collector.async_shutdown()
    assert net.calls > 8
    row = buffer[(buffer.write_count - 1) % 30]
    np.testing.assert_array_equal(row["action"], 2 * row["observation"] + 2 + 2 + 7)


class Adapted(nn.TensorDictModuleBase):
    """A policy that gets its weights as language models do: no parameters, but an adapter."""

    in_keys, out_keys, adapter = ["observation"], ["action"], 0.0

    def forward(self, td):
        return td.set("action", td["observation"] * 0 + self.adapter)

    def update_weights_(self, weights):
        self.adapter = weights["adapter"]


def test_a_language_model_gets_what_another_module_has_learnt():
    buffer = ReplayBuffer(storage=LazyTensorStorage(30))
    collector = Collector(CountingEnv, Adapted(), frames_per_batch=4, replay_buffer=buffer)
    collector.start()
    learner = nn.Linear(1, 1)
    learner.learnt_weights = lambda: {"adapter": 1.0}
    for source, expected in ((learner, 1), ({"adapter": 0.5}, 0.5)):
        collector.update_policy_weights_(source)
        before = buffer.write_count
        waited_for(lambda before=before: buffer.write_count > before + 8 or not collector.is_running())
        assert buffer[(buffer.write_count - 1) % 30]["action"] == expected
    collector.async_shutdown()
    collector.update_policy_weights_(collector.policy)
    assert collector.policy_version == 3


def test_failures(capsys):
    raises(RuntimeError, "start needs a replay_buffer", Collector(CountingEnv, frames_per_batch=6).start)
    collector = Collector(failing, frames_per_batch=6, replay_buffer=ReplayBuffer())
    collector.start()
    waited_for(lambda: not collector.is_running())
    assert "RuntimeError: the wheel came off" in capsys.readouterr().err  # for who waits for frames
    raises(RuntimeError, "the wheel came off", collector.async_shutdown)
    assert collector.closed


def test_the_end_of_the_program_is_no_failure(capsys, monkeypatch):
    monkeypatch.setattr(threading, "main_thread", threading.Thread)  # one that is not alive
    collector = Collector(failing, frames_per_batch=6, replay_buffer=ReplayBuffer())
    collector.start()
    waited_for(lambda: not collector.is_running())
    assert not capsys.readouterr().err
    raises(RuntimeError, "the wheel came off", collector.async_shutdown)


def test_the_environment_stays_open():
    env = CountingEnv()
    collector = Collector(env, frames_per_batch=6, replay_buffer=ReplayBuffer())
    collector.start()
    collector.async_shutdown(close_env=False)
    assert not env.is_closed
