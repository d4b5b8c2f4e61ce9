"""The processes behind `map`: how they start, what they are sent, what they draw, how they end."""

import multiprocessing
import os
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import numpy as np
import pytest
from helpers.cases import raises
from helpers.mapped import Vanishing, die, die_at, draws, fail, plus_one
from helpers.waiting import children, until

from lite import TensorDict
from lite._processes.workers import safe_start_method

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def source(n: int = 6) -> TensorDict:
    return TensorDict({"a": np.arange(2 * n).reshape(n, 2), "s": list("abcdef"[:n])}, batch_size=[n])


@pytest.mark.processes
@pytest.mark.parametrize("options", [{"mp_start_method": "spawn"}, {"max_tasks_per_child": 1}])
def test_other_kinds_of_workers(options):
    out = source().map(partial(np.add, 1), num_workers=1, **options)
    np.testing.assert_array_equal(out["a"], source()["a"] + 1)


def test_workers_are_not_forked_unless_asked_for(monkeypatch):
    asked = []
    context = multiprocessing.get_context
    monkeypatch.setattr(
        multiprocessing, "get_context", lambda method: asked.append(method) or context(method)
    )
    source().map(plus_one, num_workers=1)
    assert asked == [safe_start_method()] != ["fork"]
    monkeypatch.setattr(multiprocessing, "get_all_start_methods", lambda: ["spawn"])
    assert safe_start_method() == "spawn"


@forks
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
def test_forked_workers_take_any_function():
    offset = 3
    out = source().map(lambda td: td + offset, num_workers=1, mp_start_method="fork")
    np.testing.assert_array_equal(out["a"], source()["a"] + 3)


def test_functions_that_cannot_be_sent_are_refused():
    others = children()
    for method in (source().map, lambda fn, **options: list(source().map_iter(fn, **options))):
        with pytest.raises(pickle.PicklingError, match=r"top level of a module, or .*'fork'.*num_workers=0"):
            method(lambda td: td, num_workers=1)
    raises(AttributeError, "Can't get attribute 'f'", lambda: source().map(Vanishing(), num_workers=1))
    until(lambda: children() <= others)


@pytest.mark.parametrize(
    ("make", "workers"),
    [
        (partial(ProcessPoolExecutor, mp_context=multiprocessing.get_context(safe_start_method())), 1),
        (ThreadPoolExecutor, 2),
        (multiprocessing.get_context(safe_start_method()).Pool, 1),
    ],
    ids=["executor", "threads", "pool"],
)
def test_a_pool_of_the_caller_stays_open(make, workers):
    with make(workers) as pool:
        for _ in range(2):
            out = source().map(plus_one, pool=pool, chunksize=2)
            np.testing.assert_array_equal(out["a"], source()["a"] + 1)


def test_errors_of_workers_surface():
    others = children()
    raises(ZeroDivisionError, "", lambda: source().map(fail, num_workers=1))
    raises(BrokenProcessPool, "", lambda: source().map(die, num_workers=2))
    until(lambda: children() <= others)


def test_a_death_in_the_middle_gives_what_came_before():
    others = children()
    results = source().map_iter(partial(die_at, 4), num_workers=1, chunksize=0)
    first = next(results)
    np.testing.assert_array_equal(first["a"], source()["a"][0])
    raises(BrokenProcessPool, "", lambda: list(results))
    until(lambda: children() <= others)


def test_workers_draw_what_the_generator_decides(tmp_path):
    folders = [tmp_path / name for name in "ab"]
    for folder in folders:
        folder.mkdir()
    first, second = (source(2).map(partial(draws, f), num_workers=2, generator=0) for f in folders)
    for key in ("a", "b"):
        assert sorted(first[key]) == sorted(second[key])
        assert len(set(first[key])) == 2


@pytest.mark.processes
def test_leaving_early_ends_the_processes():
    others = children()
    results = source().map_iter(plus_one, num_workers=2, chunksize=1)
    np.testing.assert_array_equal(next(results)["a"], [[1, 2]])
    assert not children() <= others
    results.close()
    until(lambda: children() <= others)
