"""Blocks of mapped files: there before rows are written; where the disk is full, an error changes nothing."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from lite import TensorDict
from lite.data import LazyMemmapStorage, TensorDictReplayBuffer
from lite.data.replay import mapped_storage as disk_space

pytestmark = pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="a system without posix_fallocate")


def rows(count: int, value: float) -> TensorDict:
    return TensorDict(
        {"obs": np.full((count, 256), value, np.float32), "done": np.zeros(count, bool)}, [count]
    )


def blocks(folder: Path, name: str) -> int:
    return (folder / name).stat().st_blocks * 512


def test_blocks_are_there_before_rows_and_not_far_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_space, "AHEAD", 1 << 16)
    folder, most = tmp_path / "t", 4096
    buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(most, scratch_dir=folder))
    for count in (1, 100, 1000, most):
        buffer.extend(rows(count, 1.0))
        written = len(buffer) * 1024
        assert written <= blocks(folder, "obs.memmap") <= min(written + (1 << 16), most * 1024) + 8192
    assert buffer.storage.get(slice(0, 3))["obs"].sum() == 3 * 256


def test_a_full_disk_is_an_error_that_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(disk_space, "AHEAD", 1 << 12)
    buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(1000, scratch_dir=tmp_path / "t"))
    buffer.extend(rows(10, 1.0))

    def full(*args: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", full)
        with pytest.raises(OSError, match=r"no room for 113 rows.*No space left") as caught:
            buffer.extend(rows(100, 2.0))
        assert caught.value.errno == errno.ENOSPC
        with pytest.raises(OSError, match="no room"):
            TensorDictReplayBuffer(storage=LazyMemmapStorage(9, scratch_dir=tmp_path / "u")).add(
                rows(1, 3.0)[0]
            )
    assert len(buffer) == buffer.write_count == 10
    assert buffer.extend(rows(100, 2.0)).tolist() == list(range(10, 110))
    again = LazyMemmapStorage(1000, scratch_dir=tmp_path / "t", existsok=True)
    np.testing.assert_array_equal(again.get(slice(8, 12))["obs"][:, 0], [1, 1, 2, 2])


def test_reopened_tables_and_rings_that_begin_anew_ask_for_the_rest_alone(tmp_path, monkeypatch):
    asked: list[tuple[int, int]] = []
    allocate = os.posix_fallocate

    def noted(file: int, offset: int, length: int) -> None:
        asked.append((offset, length))
        allocate(file, offset, length)

    monkeypatch.setattr(os, "posix_fallocate", noted)
    monkeypatch.setattr(disk_space, "AHEAD", 0)
    first = LazyMemmapStorage(20, scratch_dir=tmp_path / "t")
    buffer = TensorDictReplayBuffer(storage=first)
    buffer.extend(rows(12, 1.0))
    assert asked == [(0, 12 * 1024), (0, 12)]
    first.close()
    asked.clear()
    buffer = TensorDictReplayBuffer(storage=LazyMemmapStorage(20, scratch_dir=tmp_path / "t", existsok=True))
    buffer.extend(rows(12, 2.0))
    copies = [(0, 4 * 8), (20 * 8, 4 * 1024), (20 * 1032, 4)]  # of the rows that are written over
    assert asked == [(12 * 1024, 8 * 1024), (12, 8), *copies]
    asked.clear()
    buffer.extend(rows(4, 3.0))
    assert asked == []


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of descriptors")
def test_no_file_is_written_that_has_no_blocks(tmp_path, monkeypatch):
    """A write into a mapped page without a block kills the process: each is asked for, or nothing changes."""
    folder, asked, no_room_for = tmp_path / "t", list[str](), ""
    allocate = os.posix_fallocate

    def noted(file: int, offset: int, length: int) -> None:
        name = os.path.relpath(os.readlink(f"/proc/self/fd/{file}"), folder)
        if name == no_room_for:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        asked.append(name)
        allocate(file, offset, length)

    def episode(value: float, count: int) -> TensorDict:
        td = rows(count, value)
        return td.set("next", td.clone()).set(("next", "obs"), td["obs"] + 1)

    monkeypatch.setattr(os, "posix_fallocate", noted)
    storage = LazyMemmapStorage(8, scratch_dir=folder, compress_next=True)
    buffer = TensorDictReplayBuffer(storage=storage)
    writes = [("obs.memmap", 3), ("_next/at.memmap", 3), ("_next/obs.memmap", 3), ("%undo", 7)]
    for value, (no_room_for, count) in enumerate(writes):
        before = None if not len(buffer) else buffer[:].clone()
        with pytest.raises(OSError, match=r"no room.*No space left") as caught:
            buffer.extend(episode(value, count))
        assert caught.value.filename == str(folder / no_room_for)
        assert before is None or (buffer[:] == before).all()
        no_room_for = ""
        buffer.extend(episode(value, count))
        np.testing.assert_array_equal(buffer[:]["next", "obs"], buffer[:]["obs"] + 1)
        storage.close()
        storage = LazyMemmapStorage(8, scratch_dir=folder, existsok=True, compress_next=True)
        buffer = TensorDictReplayBuffer(storage=storage)
    assert set(asked) > {name for name, _ in writes}
    storage = LazyMemmapStorage(100, scratch_dir=tmp_path / "u")
    monkeypatch.setattr(disk_space, "AHEAD", 0)
    storage.set(range(1), rows(1, 0.0))
    asked.clear()
    storage.set(40, rows(1, 1.0)[0])
    assert asked


@pytest.mark.parametrize("count", [30, 2000])
def test_rows_that_were_set_before_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Zeros are written ahead of rows, but never over those that hold something."""
    monkeypatch.setattr(disk_space, "AHEAD", 1 << 16)
    storage = LazyMemmapStorage(3000, scratch_dir=tmp_path / "t")
    buffer = TensorDictReplayBuffer(storage=storage)
    buffer.extend(rows(5, 1.0))
    storage.set(range(40, 100), rows(60, 2.0))
    buffer.extend(rows(count, 3.0))  # where the ring stands, which is before those
    expected = np.zeros(len(buffer))
    expected[:5], expected[40:100], expected[5 : 5 + count] = 1, 2, 3
    np.testing.assert_array_equal(buffer[:]["obs"][:, 0], expected)
    again = LazyMemmapStorage(3000, scratch_dir=tmp_path / "t", existsok=True)
    np.testing.assert_array_equal(again.get(slice(None))["obs"][:, 255], expected)
