"""`share_memory_`: processes see each other's writes, however they get the TensorDict."""

import multiprocessing
import pickle
import time
from typing import Any

import numpy as np
import pytest
from helpers.compared import assert_same
from helpers.shared import echo, fill, put_new, send_new

from lite import TensorDict, lazy_stack
from lite._processes.workers import safe_start_method

METHODS = [
    pytest.param(method, marks=[] if method in ("fork", safe_start_method()) else pytest.mark.processes)
    for method in ("fork", "forkserver", "spawn")
    if method in multiprocessing.get_all_start_methods()
]


def tree() -> TensorDict:
    return TensorDict(
        {"x": np.arange(4.0), "n": {"a": np.zeros((4, 2), np.float32)}, "s": "text", "e": np.zeros((4, 0))},
        batch_size=[4],
        names=["t"],
    ).share_memory_()


def test_values_and_metadata_are_kept() -> None:
    source = {"x": np.arange(12).reshape(4, 3).T, "b": np.array([True, False, True]), "s": ["a", "b", "c"]}
    td = TensorDict(source, [3])
    assert not td.is_shared()
    assert td.share_memory_() is td
    assert td.is_shared()
    assert td.is_locked
    assert not td.is_memmap()
    assert_same(td, source)
    td["x"][0, 0] = 9
    assert source["x"][0, 0] == 0
    assert all(td[key].ctypes.data % 64 == 0 for key in "xb")


def test_what_lies_in_shared_memory() -> None:
    td = tree()
    for view in (td[0], td[1:], td.view(2, 2), td["n"], td.copy(), td.select("x")):
        assert view.is_shared()
    for copy in (td.clone(), td + 1, td[[0, 1]], TensorDict(), TensorDict(s="x")):
        assert not copy.is_shared()
    memory = td["x"]
    assert td.share_memory_()["x"] is memory
    stack = lazy_stack([TensorDict(r=np.ones(n)) for n in (1, 2)]).share_memory_()
    assert stack.is_shared()
    assert stack[1].is_shared()


def test_repr_says_so() -> None:
    td = TensorDict(a=np.zeros(2), s="x").share_memory_()
    assert repr(td).count("is_shared=True") == 2
    assert repr(td.clone()).count("is_shared=False") == 2


def test_one_array_under_two_keys_stays_one() -> None:
    array = np.zeros(3)
    td = TensorDict({"a": array, "n": {"b": array}}).share_memory_()
    assert td["a"] is td["n", "b"]


def test_mapped_arrays_are_refused(tmp_path: Any) -> None:
    for td in (TensorDict(a=np.zeros(3)).memmap_(tmp_path / "td"), TensorDict(a=np.zeros(3)).memmap_()):
        with pytest.raises(RuntimeError, match="mapped arrays are shared already"):
            TensorDict(n=td, b=np.ones(2)).share_memory_()
        assert not td.is_shared()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize("method", METHODS)
def test_a_child_writes_where_the_parent_reads(method: str) -> None:
    td = tree()
    child = multiprocessing.get_context(method).Process(target=fill, args=(td, 5))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    np.testing.assert_array_equal(td["n", "a"], np.full((4, 2), 5))
    assert td["x"].tolist() == [5, 1, 2, 3]


def test_through_queues_both_ways() -> None:
    context = multiprocessing.get_context(safe_start_method())
    there, back = context.Queue(), context.Queue()
    td = tree()
    child = context.Process(target=echo, args=(there, back))
    child.start()
    there.put(td)
    rows = back.get(timeout=30)
    child.join(60)
    assert td["x"].tolist() == [1, 2, 3, 4]
    assert np.shares_memory(rows["x"], td["x"])
    assert (rows["s"], rows.names, rows.batch_size) == ("text", ["t"], (3,))
    assert rows["e"].shape == (3, 0)


@pytest.mark.processes
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize("method", METHODS)
def test_a_sender_ends_when_its_blocks_were_received(method: str) -> None:
    """Though it has nothing to do any more when the receiver comes."""
    context = multiprocessing.get_context(method)
    queue, (here, there) = context.Queue(), context.Pipe()
    children = [context.Process(target=f, args=(to,)) for f, to in ((put_new, queue), (send_new, there))]
    for child in children:
        child.start()
    assert here.poll(60)
    time.sleep(0.3)
    assert here.recv()["x"].tolist() == [0, 1, 2, 3]
    assert queue.get(timeout=60)["x"].tolist() == [0, 1, 2, 3]
    for child in children:
        child.join(60)
        assert child.exitcode == 0


def test_other_pickles_hold_copies() -> None:
    td = tree()
    copy = pickle.loads(pickle.dumps(td))
    copy["x"][0] = 7
    assert td["x"][0] == 0
    assert not copy.is_shared()


def test_empty_arrays_are_shared_only_once_they_have_been() -> None:
    td = TensorDict({"x": np.zeros((0, 2)), "n": {"y": np.zeros(0, np.int64)}}, [0])
    assert not td.is_shared()
    assert repr(td).count("is_shared=True") == 0
    td.share_memory_()
    assert td.is_shared()
    assert td["x"].shape == (0, 2)
    assert td["n", "y"].dtype == np.int64
    with multiprocessing.get_context(safe_start_method()).Pool(1) as pool:
        assert pool.apply(TensorDict.is_shared, (td,))
    assert not td.clone().is_shared()
