import itertools
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises

from lite._files import blocks
from lite.data.replay import ring_file
from lite.data.replay.ring_file import RingFile, WriterLock


def writer(folder, rows: int = 10) -> tuple[RingFile, np.ndarray]:
    array = np.zeros((rows, 3), np.float32)
    ring = RingFile(str(folder), rows, 1, 0)
    ring.become_writer([array], None)
    return ring, array


def test_what_is_committed_is_read_by_others(tmp_path) -> None:
    ring, _ = writer(tmp_path)
    other = RingFile(str(tmp_path), 10, 1, 0)
    assert other.now() == (0, 0, 0)
    assert other.is_new
    for step in range(1, 6):
        ring.begin(None, 2)
        assert other.is_torn
        ring.commit(2 * step, 2 * step % 10, 2 * step, 2)
        assert other.now() == (2 * step, 2 * step % 10, 2 * step)
        assert not other.is_torn
    assert not other.is_new


def test_what_the_file_holds(tmp_path) -> None:
    """As the docstring says it, for programs that read it without lite."""
    ring, _ = writer(tmp_path)
    ring.begin(None, 3)
    ring.commit(3, 3, 3, 3, (1, 77))
    words = np.fromfile(tmp_path / "%ring", "<i8")
    assert words[:2].tobytes() == b"literbuf\1\0\0\0\0\0\0\0"
    assert words[2:4].tolist() == [10, 1]
    assert words[64] == 1
    state = words[128 + 64 * (words[64] % 2) :][:6]
    assert state.tolist() == [3, 3, 3, 3, 1, 77]
    assert words[256:258].tolist() == [3, 0]


def test_rows_that_were_touched(tmp_path) -> None:
    ring, _ = writer(tmp_path)
    ring.begin(None, 8)
    ring.commit(8, 8, 8, 8)
    begun = ring.begun()
    everything = np.arange(10)
    assert not ring.touched(begun, everything)
    ring.begin(None, 3)
    assert [ring.touched(begun, np.array([i])) for i in range(10)] == [True] + 7 * [False] + [True, True]
    ring.commit(10, 1, 11, 3)
    assert ring.touched(begun, np.array([9]))
    begun = ring.begun()
    ring.begin(np.array([4]), 0)
    assert ring.touched(begun, np.array([7]))
    assert ring.touched(ring.begun(), np.array([7]))
    ring.commit(10, 1, 11)
    assert ring.touched(begun, np.array([7]))
    assert not ring.touched(ring.begun(), np.array([7]))


def test_rows_are_put_back_unless_they_counted(tmp_path) -> None:
    for number, counts in itertools.product(range(3), (False, True)):
        index = np.array([[2, 3, 4], [9, 0, 1], [7, 3, 8]][number])
        folder = tmp_path / f"{number}{counts}"
        folder.mkdir()
        ring, array = writer(folder)
        array[:] = np.arange(30).reshape(10, 3)
        ring.commit(10, 0, 10, 10)
        before = array.copy()
        ring.begin(index, len(index))
        array[index] = -1
        if counts:
            ring.commit(10, 3, 13, 3)
        after = array.copy()
        ring.lock.close()
        again = RingFile(str(folder), 10, 1, 0)
        assert again.become_writer([array], None) is not counts
        np.testing.assert_array_equal(array, after if counts else before)
        assert not again.is_torn
        again.lock.close()
        third = RingFile(str(folder), 10, 1, 0)
        assert not third.become_writer([array], None)
        third.begin(None, 1, (0, 7))  # the next observation of the first row alone
        third.lock.close()
        places = np.arange(-1, 9)
        assert RingFile(str(folder), 10, 1, 0).become_writer([array], places)
        assert places.tolist() == [7, *range(9)]


def test_more_rows_than_before(tmp_path) -> None:
    ring, array = writer(tmp_path, 5000)
    array[:, 0] = np.arange(5000)
    ring.commit(5000, 0, 5000, 5000)
    for count in (1, 64, 65, 4999):
        ring.begin(np.arange(count), count)
        ring.commit(5000, 0, 5000, count)
    ring.begin(np.arange(5000), 5000)
    array[:] = 0
    ring.lock.close()
    assert RingFile(str(tmp_path), 5000, 1, 0).become_writer([array], None)
    np.testing.assert_array_equal(array[:, 0], np.arange(5000))


def test_another_table(tmp_path) -> None:
    writer(tmp_path)
    raises(ValueError, "belongs to a table of 10 rows", RingFile, str(tmp_path), 11, 1, 0)
    raises(ValueError, "belongs to a table of 10 rows", RingFile, str(tmp_path), 10, 2, 0)


def test_tables(tmp_path) -> None:
    assert not ring_file.is_table(str(tmp_path))
    (tmp_path / "meta.json").write_text("{}")
    assert ring_file.is_table(str(tmp_path))


def test_what_is_left_when_python_ends_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of modules may be gone then, as in a frozen program."""
    lock, block = WriterLock(str(tmp_path)), blocks.SharedBlock.new(8)
    for module in (ring_file, blocks):
        monkeypatch.setattr(module, "os", None)
    lock.__del__()
    block.__del__()
    block._descriptor = -1
    monkeypatch.undo()
    WriterLock(str(tmp_path)).close()
