"""What `Collector(...)` makes, by its arguments."""

import inspect

from helpers.cases import raises
from helpers.counting_env import CountingEnv

from lite.data import Collector
from lite.data.collectors.backends import collector_elsewhere


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
        raises(error, match, Collector, [CountingEnv, CountingEnv], None, frames_per_batch=4, **words)


def test_environments_are_asked_for():
    for words in ({}, {"num_collectors": 2}):
        raises(TypeError, "create_env_fn", Collector, frames_per_batch=4, **words)


def test_subclasses_collect_here():
    class Own(Collector):
        pass

    assert type(Own(CountingEnv, frames_per_batch=4)) is Own
    raises(TypeError, "arguments of Collector itself", Own, CountingEnv, frames_per_batch=4, num_collectors=2)


def test_processes_and_clusters(monkeypatch):
    monkeypatch.setattr(
        "lite.data.collectors.backends.implementation",
        lambda name, module, package: lambda *args, **words: (name, args, words),
    )

    def made(*args, **words):
        return collector_elsewhere(args, words)

    assert made([CountingEnv] * 2, num_collectors=2, sync=True, total_frames=9) == (
        "multi_sync_collector",
        ([CountingEnv] * 2,),
        {"total_frames": 9},
    )
    options = {"create_env_kwargs": {"limit": 4}}
    assert made(CountingEnv, backend="process", backend_options=options) == (
        "multi_async_collector",
        ([CountingEnv],),
        options,
    )
    words = {"total_frames": 9, "num_collectors": 2, "sync": False}
    assert made(CountingEnv, None, num_collectors=2, backend="ray", total_frames=9) == (
        "ray_collector",
        ([CountingEnv] * 2, None),
        words,
    )
    assert type(Collector(CountingEnv, frames_per_batch=4, num_collectors=2)) is tuple
