"""`map` and `map_iter` over processes."""

import os
from functools import partial
from typing import Any

import numpy as np
from helpers.cases import raises
from helpers.mapped import pid, plus_one
from helpers.waiting import children, until

from lite import TensorDict


def source(n: int = 6) -> TensorDict:
    return TensorDict({"a": np.arange(2 * n).reshape(n, 2), "s": list("abcdef"[:n])}, batch_size=[n])


def odd_only(td: Any) -> Any:
    return None if td["a"][..., 0].sum() % 4 == 0 else td


def test_results_are_joined_in_order():
    for cut in ({}, {"chunksize": 4}, {"num_chunks": 3}, {"chunksize": 100}, {"chunksize": 0}):
        td = source()
        out = td.map(plus_one, num_workers=0, **cut)
        np.testing.assert_array_equal(out["a"], td["a"] + 1)
        assert (out.batch_size, out["s"]) == ((6,), list("abcdef"))


def test_pieces_run_in_several_processes(tmp_path):
    others = children()
    out = source().map(partial(pid, tmp_path), num_workers=2, chunksize=1)
    assert len(set(out["pid"].tolist())) == 2
    assert os.getpid() not in out["pid"]
    until(lambda: children() <= others)


def test_none_is_left_out():
    td = source()
    out = td.map(odd_only, num_workers=0, chunksize=1)
    assert out["s"] == ["b", "d", "f"]
    assert td.map(lambda x: None, num_workers=0) is None


def test_out_receives_the_results():
    td, out = source(), source().lock_()
    array = out["a"]
    assert td.map(plus_one, num_workers=0, chunksize=4, out=out) is out
    assert out["a"] is array
    np.testing.assert_array_equal(array, td["a"] + 1)


def test_arguments():
    for options in (
        {"chunksize": 1, "num_chunks": 2},
        {"chunksize": -1},
        {"num_chunks": 0},
        {"dim": 1},
        {"num_workers": -1},
    ):
        for method in (source().map, source().map_iter):
            raises(ValueError, r"chunks|dim|num_workers", method, plus_one, **options)


def test_iteration_is_ordered_and_lazy():
    seen = []

    def note(td: Any) -> Any:
        seen.append(td["s"])
        return td

    results = source().map_iter(note, num_workers=0, chunksize=0)
    assert seen == []
    assert next(results)["s"] == "a"
    assert seen == ["a"]
    assert [x["s"] for x in results] == list("bcdef")


def test_shuffled():
    def values(seed: int, chunksize: int) -> list[int]:
        results = source().map_iter(
            plus_one, num_workers=0, chunksize=chunksize, shuffle=True, generator=seed
        )
        return [int(v) for td in results for v in np.ravel(td["a"][..., 0])]

    for chunksize in (0, 2):
        assert sorted(values(1, chunksize)) == [1, 3, 5, 7, 9, 11]
        assert values(1, chunksize) == values(1, chunksize) != [1, 3, 5, 7, 9, 11]


def test_progress_bar(capsys):
    source().map(plus_one, num_workers=0, chunksize=2, pbar=True)
    text = capsys.readouterr().err
    assert text.startswith("\r0/3 [....")
    assert "\r3/3 [#####" in text
