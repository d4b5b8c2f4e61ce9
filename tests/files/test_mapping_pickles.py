"""Mapped TensorDicts in pickles: the place of the file instead of its content."""

import os
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case, raises
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lite
from lite import TensorDict, lazy_stack

PROTOCOLS = range(2, pickle.HIGHEST_PROTOCOL + 1)


ROWS = 1000


def saved(at: Path) -> TensorDict:
    big = np.arange(ROWS * 100, dtype=np.float64).reshape(ROWS, 100)
    return TensorDict({"a": big, "n": {"b": np.arange(ROWS), "s": "text"}}, [ROWS]).memmap(at)


def sent(td: Any, protocol: int = pickle.HIGHEST_PROTOCOL) -> Any:
    data = pickle.dumps(td, protocol)
    assert len(data) < 3000
    return pickle.loads(data)


@each_case("protocol", PROTOCOLS)
def test_the_same_memory_arrives(protocol, tmp_path):
    td = saved(tmp_path / "td")
    out = sent(td, protocol)
    assert out.is_memmap()
    assert out.is_locked
    assert out.saved_path == td.saved_path
    assert out["n"].saved_path == td["n"].saved_path
    assert out["n", "s"] == "text"
    out["a"][0, 0] = -5
    assert td["a"][0, 0] == -5
    out.make_memmap("new", (ROWS,))
    assert "new" in td.memmap_refresh_()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_view(data, tmp_path_factory):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    array = np.arange(np.prod(shape)).reshape(shape).astype(data.draw(st.sampled_from("?bHifdD")))
    leaf = TensorDict({"x": array}).memmap(tmp_path_factory.mktemp("view") / "td")["x"]
    step = st.sampled_from([None, 1, 2, -1, -2])
    for _ in range(data.draw(st.integers(0, 3))):
        parts = [slice(None, None, data.draw(step)) for _ in leaf.shape]
        leaf = leaf[tuple(parts)].transpose(data.draw(st.permutations(range(leaf.ndim))))
    out = pickle.loads(pickle.dumps(TensorDict({"x": leaf})))
    np.testing.assert_array_equal(out["x"], leaf, strict=True)
    assert out.is_memmap()


def test_other_containers(tmp_path):
    stack = lazy_stack([TensorDict(q=np.arange(1000 + i)) for i in range(3)]).memmap(tmp_path / "lazy")
    out = sent(stack)
    assert out.is_memmap()
    assert [part["q"].shape for part in out.tensordicts] == [(1000,), (1001,), (1002,)]
    mixed = TensorDict({"mapped": saved(tmp_path / "td"), "own": np.ones((ROWS, 2))}, [ROWS])
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(mixed, protocol=5, buffer_callback=buffers.append)
    assert len(buffers) == 1, "what is not mapped still travels out of band"
    back = pickle.loads(data, buffers=buffers)
    assert np.shares_memory(back["own"], mixed["own"])
    assert back["mapped"].is_memmap()


def test_what_has_no_place_travels_by_value(tmp_path):
    td = saved(tmp_path / "td")
    td.consolidate(tmp_path / "one")
    td.save(tmp_path / "td.tdz", copy_existing=True)
    private = lite.from_consolidated(tmp_path / "one"), TensorDict.load(tmp_path / "td.tdz")
    for other in (td.clone().memmap(), *private):
        other["a"][0, 0] = -3
        out = pickle.loads(pickle.dumps(other))
        assert out["a"][0, 0] == -3, "what was written to memory alone arrives"
        out["a"][0, 0] = -4
        assert other["a"][0, 0] == -3
    empty = TensorDict({"e": np.zeros((3, 0)), "a": np.ones(3)}, [3]).memmap(tmp_path / "empty")
    assert pickle.loads(pickle.dumps(empty))["e"].shape == (3, 0)


def test_files_that_were_replaced_before(tmp_path):
    """The array still has the old values, which are in no file any more."""
    td = saved(tmp_path / "td")
    (TensorDict({"a": np.zeros((ROWS, 100))}, [ROWS])).memmap(tmp_path / "td")
    out = pickle.loads(pickle.dumps(td))
    assert out["a"][0, 1] == 1
    assert not out.is_memmap()


@pytest.mark.skipif(os.name == "nt", reason="Windows cuts no mapped file")
def test_files_that_go_away_after(tmp_path):
    td = saved(tmp_path / "td")
    data = pickle.dumps(td)
    path = tmp_path / "td" / "a.memmap"
    content = path.read_bytes()
    os.truncate(path, 100)
    raises(ValueError, r"a\.memmap has been replaced or cut.*clone\(\)", lambda: pickle.loads(data))
    assert path.stat().st_size == 100
    path.rename(tmp_path / "moved")
    raises(FileNotFoundError, r"a\.memmap is missing.*clone\(\)", lambda: pickle.loads(data))
    path.write_bytes(content)
    raises(ValueError, "has been replaced", lambda: pickle.loads(data))
    path.unlink()
    path.symlink_to(tmp_path / "moved")
    raises(ValueError, "symbolic link", lambda: pickle.loads(data))


@each_case(
    "place",
    [(0, (200_000,), (8,)), (-8, (4,), (8,)), (0, (4,), (-8,)), (8, (100_000,), None), (0, (3,), (8, 8))],
)
def test_a_place_outside_of_the_file(place, tmp_path):
    """A forged pickle gets no other memory."""
    td = saved(tmp_path / "td")
    offset, shape, strides = place
    from lite._files.mapping import _from_file, source_of

    source = source_of(td["a"])
    with pytest.raises(ValueError, match=r"is not in 800000 bytes|do not fit"):
        _from_file(source.path, source.inode, source.size, td["a"].dtype, shape, offset, strides, True)


def doubled(td: Any) -> Any:
    assert td.is_memmap()
    td["a"][...] *= 2
    return td


@pytest.mark.processes
def test_processes_work_on_the_files(tmp_path):
    td = saved(tmp_path / "td")
    expected = td["a"] * 2
    with ProcessPoolExecutor(2) as pool:
        out = td.map(doubled, pool=pool, num_chunks=4)
    np.testing.assert_array_equal(td["a"], expected)
    np.testing.assert_array_equal(out["a"], expected)
