"""Memory without a file, as `memmap_()` without a folder and `share_memory_` make it, sent by handles."""

import gc
import multiprocessing
import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.shared import add_one, echo_all, put_and_die, put_new
from helpers.tiers import standing_for_all

from lite import TensorDict, lazy_stack
from lite._files import blocks
from lite._files.blocks import _blocks, block_of
from lite._processes.workers import safe_start_method

METHODS = [m for m in ("fork", "forkserver", "spawn") if m in multiprocessing.get_all_start_methods()]


_VIEWS: dict[str, Callable[[TensorDict], Any]] = {
    "whole": lambda td: td, "row": lambda td: td.unbind(0)[0], "slice": lambda td: td[1:],
    "nested": lambda td: td["n"], "column": lambda td: td.transpose(0, 1)[0],
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize("method", standing_for_all(METHODS))
def test_processes_write_where_the_parent_reads(method: str) -> None:
    whole = TensorDict({"x": np.zeros((3, 2)), "n": {"x": np.zeros((3, 2))}}, [3, 2]).memmap_()
    views = [view(whole) for view in _VIEWS.values()]
    views += [*lazy_stack([TensorDict(x=np.zeros(2)), TensorDict(x=np.ones(3))]).memmap_().tensordicts]
    for view in views if method == "forkserver" else views[1:2]:  # what is forked is not sent
        want = view["x"] + 1
        before = view.clone()
        child = multiprocessing.get_context(method).Process(target=add_one, args=(view,))
        child.start()
        child.join(60)
        np.testing.assert_array_equal(view["x"], want)
        view.update_(before)


@pytest.mark.skipif("fork" not in METHODS, reason="the sender is forked, to find what is patched here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning", "ignore:.*fork:RuntimeWarning")
@pytest.mark.parametrize("target", [put_new, put_and_die])
def test_a_sender_that_ended_is_named_as_the_reason(target: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_PATIENCE", 0.2)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=target, args=(queue,))
    child.start()
    child.join(60)
    assert not child.is_alive()
    raises(ConnectionError, r"ended before it was received.* send a copy", queue.get, timeout=60)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted in /proc")
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_files_do_not_stay_open_where_blocks_are_known() -> None:
    context = multiprocessing.get_context(safe_start_method())
    there, back = context.Queue(), context.Queue()
    child = context.Process(target=echo_all, args=(there, back))
    child.start()
    counts = []
    for _ in range(2):
        td = TensorDict({"x": np.arange(4.0)}, [4]).memmap_()
        for _ in range(20):
            there.put(td)
            assert back.get(timeout=60)["x"] is not None
        counts.append([len(os.listdir(f"/proc/{pid}/fd")) for pid in ("self", child.pid)])
    there.put(None)
    child.join(60)
    assert max(abs(first - last) for first, last in zip(*counts, strict=True)) < 10


@pytest.mark.processes
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors in /proc")
def test_memory_is_given_back() -> None:
    gc.collect()
    before, count = len(os.listdir("/proc/self/fd")), len(_blocks)
    td = TensorDict({"x": np.arange(4.0)}, [4]).memmap_()
    row = td[0]
    assert len(_blocks) == count + 1
    del td
    gc.collect()
    assert block_of(row["x"]) is not None
    del row
    gc.collect()
    assert len(_blocks) == count
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.name == "nt", reason="a name is enough there")
def test_a_sender_waits_once_at_its_exit(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(blocks, "_waits", -1)
    monkeypatch.setattr("multiprocessing.util.Finalize", lambda *given, **_: seen.append(given[1]))
    for _ in range(2):
        blocks._wait_at_exit()
    assert seen == [blocks._wait_until_fetched]
