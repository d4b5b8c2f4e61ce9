"""What `Collector(...)` makes, by its arguments."""

import inspect

import numpy as np
import pytest
from helpers.counting_env import CountingEnv

from lite.data import Collector, MultiAsyncCollector, MultiSyncCollector
from lite.data.collectors.backends import collector_elsewhere


def test_processes():
    collector = Collector([CountingEnv, CountingEnv], frames_per_batch=10, num_collectors=2, sync=True)
    with collector:
        assert type(collector) is MultiSyncCollector
        assert collector.next().shape == (2, 5)
    options = {"create_env_kwargs": {"limit": 4}}
    collector = Collector(CountingEnv, frames_per_batch=5, backend="process", backend_options=options)
    with collector:
        assert type(collector) is MultiAsyncCollector
        assert collector.num_workers == 1
        np.testing.assert_array_equal(collector.next()["observation"].ravel(), [0, 1, 2, 3, 0])


def test_this_process():
    for words in ({}, {"num_collectors": 1, "backend": "direct"}):
        collector = Collector([CountingEnv], frames_per_batch=4, **words)
        assert type(collector) is Collector
        assert collector.next().shape == (4,)
    assert list(inspect.signature(Collector).parameters)[:2] == ["create_env_fn", "policy"]


def test_errors():
    for error, match, words in (
        (TypeError, "num_collectors must be an integer", {"num_collectors": 2.0}),
        (TypeError, "num_collectors must be an integer", {"num_collectors": True}),
        (ValueError, "num_collectors must be an integer from 1 on, got 0", {"num_collectors": 0}),
        (ValueError, "backend must be 'direct'", {"backend": "rpc"}),
        (ValueError, "need backend='process' or 'ray'", {"num_collectors": 2, "backend": "direct"}),
        (ValueError, "need backend='process' or 'ray'", {"sync": True}),
        (ValueError, "need backend='process' or 'ray'", {"backend_options": {"mp_start_method": "spawn"}}),
        (TypeError, "sync must be True, False or None", {"num_collectors": 1, "sync": 1}),
        (ValueError, "must not have .'sync'", {"num_collectors": 1, "backend_options": {"sync": True}}),
        (ValueError, "must not have .'policy'", {"num_collectors": 1, "backend_options": {"policy": None}}),
        (ValueError, "the number of environments, 2, got 3", {"num_collectors": 3}),
        (ValueError, "create_env_fn must be one environment, got 2", {}),
    ):
        with pytest.raises(error, match=match):
            Collector([CountingEnv, CountingEnv], None, frames_per_batch=4, **words)


def test_environments_are_asked_for():
    for words in ({}, {"num_collectors": 2}):
        with pytest.raises(TypeError, match="create_env_fn"):
            Collector(frames_per_batch=4, **words)


def test_subclasses_collect_here():
    class Own(Collector):
        pass

    assert type(Own(CountingEnv, frames_per_batch=4)) is Own
    with pytest.raises(TypeError, match="arguments of Collector itself"):
        Own(CountingEnv, frames_per_batch=4, num_collectors=2)


def test_a_cluster(monkeypatch):
    monkeypatch.setattr(
        "lite.data.collectors.backends.implementation",
        lambda name, module, package: lambda *args, **words: (name, args, words),
    )
    made = collector_elsewhere(
        (CountingEnv, None), {"num_collectors": 2, "backend": "ray", "total_frames": 9}
    )
    words = {"total_frames": 9, "num_collectors": 2, "sync": False}
    assert made == ("ray_collector", ([CountingEnv] * 2, None), words)
