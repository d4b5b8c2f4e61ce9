import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises
from helpers.data import live_writer
from helpers.data.numbered_frames import frames, torn
from helpers.waiting import LONG

import lite
from lite import TensorDict
from lite.data import (
    LazyMemmapStorage,
    LazyTensorStorage,
    MultiStepTransform,
    ReplayBuffer,
    TensorDictMaxValueWriter,
    TensorDictReplayBuffer,
)
from lite.data.replay import mapped_storage
from lite.data.replay.kept_file import KeptFile
from lite.data.replay.ring_file import WriterLock


def opened(folder: Path, size: int = 10, **options) -> ReplayBuffer:
    return ReplayBuffer(storage=LazyMemmapStorage(size, scratch_dir=folder, existsok=True, **options))


def same(a: TensorDict, b: TensorDict) -> bool:
    return bool((a == b).all())


def test_a_buffer_goes_on_where_the_last_one_stood(tmp_path) -> None:
    whole = ReplayBuffer(storage=LazyTensorStorage(10))
    at = 0
    for size in (3, 1, 5, 2, 12, 30, 4):
        buffer = opened(tmp_path / "f")
        data = frames(at, at + size)
        assert buffer.extend(data).tolist() == whole.extend(data).tolist()
        assert (len(buffer), buffer.write_count) == (len(whole), whole.write_count)
        assert same(buffer[:], whole[:])
        buffer.storage.close()
        at += size
    assert same(opened(tmp_path / "f")[:], whole[:])


def test_a_table_that_must_not_be_there(tmp_path) -> None:
    buffer = opened(tmp_path / "f")
    buffer.extend(frames(0, 3))
    buffer.storage.close()
    other = ReplayBuffer(storage=LazyMemmapStorage(10, scratch_dir=tmp_path / "f"))
    assert len(other) == 0
    raises(RuntimeError, "existsok=True goes on with it", lambda: other.extend(frames(7, 9)))
    assert opened(tmp_path / "f")[:]["step"].tolist() == [0, 1, 2]
    (tmp_path / "f" / "meta.json").unlink()  # as where a table was begun, and its writer died
    again = opened(tmp_path / "f", 12)
    again.extend(frames(7, 9))
    assert again[:]["step"].tolist() == [7, 8]
    KeptFile(tmp_path).write_first(None)  # as where all rows are withheld
    withheld = ReplayBuffer(storage=LazyMemmapStorage(10, scratch_dir=tmp_path))
    raises(RuntimeError, "existsok=True goes on with it", lambda: withheld.extend(frames(0, 3)))


def test_other_arguments_than_those_of_the_folder(tmp_path) -> None:
    opened(tmp_path / "f").extend(frames(0, 3))
    for options in ({"size": 11}, {"ndim": 2}, {"compress_next": True}):
        raises(ValueError, re.escape(str(tmp_path)), opened, tmp_path / "f", **options)


def test_a_table_that_others_wrote_is_full(tmp_path) -> None:
    frames(0, 10).memmap(tmp_path / "f")
    buffer = opened(tmp_path / "f")
    assert (len(buffer), buffer.write_count) == (10, 10)
    assert same(buffer[:], frames(0, 10))
    assert not (tmp_path / "f" / "%ring").exists()
    assert buffer.extend(frames(10, 12)).tolist() == [0, 1]
    again = opened(tmp_path / "f")
    assert again[:]["step"].tolist() == [10, 11, *range(2, 10)]


def test_one_writes_at_a_time(tmp_path) -> None:
    first, second = opened(tmp_path / "f"), opened(tmp_path / "f")
    first.extend(frames(0, 3))
    assert second[:]["step"].tolist() == [0, 1, 2]
    raises(RuntimeError, "another process, or another storage, writes to", second.extend, frames(3, 4))
    first.extend(frames(3, 5))
    assert len(second) == 5
    first.storage.close()
    second.extend(frames(5, 6))
    raises(RuntimeError, "writes to", lambda: first.extend(frames(6, 7)))
    assert first[:]["step"].tolist() == list(range(6))


def test_one_thread_opens_it_while_another_asks_how_many_there_are(tmp_path, monkeypatch) -> None:
    """As a learner does, which waits for rows that others are about to write."""
    folder = tmp_path / "f"
    buffer, first, load = opened(folder), opened(folder), lite.load_memmap
    first.extend(frames(0, 3))
    first.storage.close()
    opening, may_go_on, counts = threading.Event(), threading.Event(), []

    def slow(path: str) -> TensorDict:
        if not opening.is_set():
            opening.set()
            assert may_go_on.wait(LONG)
        return load(path)

    monkeypatch.setattr(lite, "load_memmap", slow)
    asks = threading.Thread(target=lambda: counts.append(len(buffer)))
    writes = threading.Thread(target=lambda: buffer.extend(frames(3, 5)))
    asks.start()
    assert opening.wait(LONG)
    writes.start()
    writes.join(0.1)
    may_go_on.set()
    asks.join()
    writes.join()
    assert counts[0] in (3, 5)
    assert buffer.storage.is_writer
    assert len(buffer) == 5


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no folder in use")
def test_a_folder_that_was_deleted_takes_no_rows(tmp_path) -> None:
    buffer = opened(tmp_path / "f")
    buffer.extend(frames(0, 3))
    (tmp_path / "f").rename(tmp_path / "moved")
    buffer.extend(frames(3, 5))
    assert len(opened(tmp_path / "moved")) == 5
    shutil.rmtree(tmp_path / "moved")
    for write in (lambda: buffer.extend(frames(5, 6)), lambda: buffer.__setitem__(0, frames(5, 6)[0])):
        raises(FileNotFoundError, "deleted", write)
    assert buffer[:]["step"].tolist() == list(range(5))


def test_entries_of_no_numbers(tmp_path) -> None:
    for capacity in (3, 10):
        buffer = opened(tmp_path / f"{capacity}", capacity)
        for start in (0, 2):
            buffer.extend(TensorDict({"x": np.zeros((2, 0)), "y": np.arange(start, start + 2)}, [2]))
        assert buffer[:]["x"].shape == (min(capacity, 4), 0)
        buffer.storage.close()
        assert opened(tmp_path / f"{capacity}", capacity).sample(5)["x"].shape == (5, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_does_not_hold_the_lock(tmp_path) -> None:
    buffer = opened(tmp_path / "f")
    buffer.extend(frames(0, 3))
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            buffer.extend(frames(3, 4))
            os.write(write, b"written")
        except RuntimeError:
            os.write(write, b"refused")
        os.close(write)
        time.sleep(60)
        os._exit(0)
    try:
        assert os.read(read, 7) == b"refused"
        buffer.extend(frames(3, 4))
        buffer.storage.close()
        opened(tmp_path / "f").extend(frames(4, 5))
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def test_a_folder_of_its_own_goes_with_the_storage() -> None:
    buffer = ReplayBuffer(storage=LazyMemmapStorage(10))
    buffer.extend(frames(0, 3))
    folder = buffer.storage.scratch_dir
    assert os.path.isdir(folder)
    del buffer
    assert not os.path.exists(folder) or os.name == "nt"


def test_folders_that_could_not_be_removed_yet(tmp_path, monkeypatch) -> None:
    """Of killed processes; on Windows also while their files are mapped, until the process has ended."""
    monkeypatch.setattr(mapped_storage.tempfile, "tempdir", str(tmp_path))
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    before, *names = [
        f"lite-replay-{os.getpid()}-y",  # by a process of the same number, as the first of a container is
        f"lite-replay-{ended.pid}-x",
        f"lite-replay-{os.getpid()}-{mapped_storage.PROCESS}x",
        *("lite-replay-x", f"{ended.pid}-x", f"lite-replay-{ended.pid}-z"),
    ]
    for name in (before, *names):
        (tmp_path / name).mkdir()
    lock = WriterLock(str(tmp_path / names[-1]))  # of another container, whose numbers are others
    with monkeypatch.context() as patch:
        patch.setattr(mapped_storage.shutil, "rmtree", lambda *_: None)
        left = LazyMemmapStorage(3)
        folder = left.scratch_dir
        del left
    assert os.path.isdir(folder)
    alive = LazyMemmapStorage(3)
    assert {*os.listdir(tmp_path)} == {os.path.basename(alive.scratch_dir), *names[1:]}
    lock.close()


def test_rows_written_over_are_put_back_if_the_writer_dies(tmp_path) -> None:
    buffer = opened(tmp_path / "f")
    buffer.extend(frames(0, 14))
    before = buffer[:].clone()
    storage = buffer.storage
    storage._before(4, 3, 10)  # and then the rows are written, but the call does not get to its end
    storage.entry("obs")[4:6] = -1
    storage.close()
    reader = opened(tmp_path / "f")
    # A reader that waits for the rows finds that nobody writes, and puts them back.
    assert same(reader[:], before)
    assert reader.sample(100)["obs"].min() >= 0
    writer = opened(tmp_path / "f")
    assert writer.extend(frames(14, 15)).tolist() == [4]
    assert same(writer[[4]], frames(14, 15))


def test_rows_that_are_being_written_are_not_drawn(tmp_path) -> None:
    buffer = opened(tmp_path / "f")
    buffer.extend(frames(0, 10))
    reader = opened(tmp_path / "f")
    buffer.storage._before(0, 4, 10)
    buffer.storage.entry("obs")[:4] = -1
    for _ in range(20):
        assert reader.sample(1)["step"].min() >= 4
    begun = reader.storage._begin()
    assert not reader.storage._unchanged(begun, np.array([7, 3]))
    assert reader.storage._unchanged(begun, np.array([7, 4]))


def test_a_reader_does_not_wait_for_ever(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("lite.data.replay.mapped_storage._PATIENCE", 0.2)
    buffer = opened(tmp_path / "f")
    buffer.extend(frames(0, 10))
    buffer.storage._before(0, 10, 10)
    raises(RuntimeError, "written over whenever they were read", lambda: opened(tmp_path / "f").sample(3))


@pytest.mark.processes
@pytest.mark.parametrize(("compress", "size"), [(False, 40), (True, 1)])
def test_one_process_writes_while_others_read(tmp_path, compress: bool, size: int) -> None:
    folder, capacity = tmp_path / "f", 500
    code = [sys.executable, live_writer.__file__, str(folder), str(capacity), str(int(compress)), str(size)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with subprocess.Popen(code, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as writer:
        assert writer.stdout.readline() == b"ready\n"
        buffer = ReplayBuffer(
            storage=LazyMemmapStorage(capacity, scratch_dir=folder, existsok=True, compress_next=compress),
            batch_size=32,
        )
        first = buffer.write_count
        end = time.monotonic() + 0.7
        batches = 0
        while time.monotonic() < end:
            assert not torn(buffer.sample()).any()
            batches += 1
        assert batches > 5
        got = buffer[:]
        assert not torn(got).any()
        steps = np.sort(got["step"])
        assert (np.diff(steps) == 1).all()
        assert buffer.write_count > first
        writer.stdin.close()
        assert writer.wait(30) == 0
    buffer.extend(frames(buffer.write_count, buffer.write_count + 3))


def test_who_takes_over_goes_on_with_what_the_other_withheld(tmp_path) -> None:
    def made() -> ReplayBuffer:
        storage = LazyMemmapStorage(30, scratch_dir=tmp_path / "f", existsok=True)
        return ReplayBuffer(storage=storage, transform=MultiStepTransform(3, 0.9))

    whole = ReplayBuffer(storage=LazyTensorStorage(30), transform=MultiStepTransform(3, 0.9))
    first = made()
    first.extend(frames(0, 8))
    second = made()
    first.extend(frames(8, 11))
    first.storage.close()
    second.extend(frames(11, 13))
    second.storage.close()
    first.extend(frames(13, 20))
    first.flush()
    whole.extend(frames(0, 20))
    whole.flush()
    assert same(first[:], whole[:])


def test_what_is_withheld_while_no_row_is_written(tmp_path) -> None:
    def made() -> ReplayBuffer:
        return ReplayBuffer(
            storage=LazyMemmapStorage(2, scratch_dir=tmp_path / "f", existsok=True),
            writer=TensorDictMaxValueWriter("step"),
            transform=MultiStepTransform(2, 0.9),
        )

    buffer = made()
    buffer.extend(frames(10, 14))
    buffer.extend(frames(0, 3))
    assert buffer[:]["step"].tolist() == [12, 13]
    raises(KeyError, "", lambda: buffer.extend(frames(3, 4).exclude("obs")))
    buffer.storage.close()
    assert made().transform.withheld["0"]["step"].tolist() == [1, 2]


@pytest.mark.parametrize("compress", [False, True])
def test_a_call_that_is_interrupted_leaves_everything(tmp_path, monkeypatch, compress: bool) -> None:
    buffer = opened(tmp_path / "f", compress_next=compress)
    buffer.extend(frames(0, 14))
    before = buffer[:].clone()
    for at in ("commit", "begin"):
        with monkeypatch.context() as patch:
            patch.setattr(
                f"lite.data.replay.ring_file.RingFile.{at}",
                lambda *_: (_ for _ in ()).throw(KeyboardInterrupt),
            )
            raises(KeyboardInterrupt, "", lambda: buffer.extend(frames(14, 19)))
        assert same(buffer[:], before)
        assert buffer.write_count == 14
    assert buffer.extend(frames(14, 19)).tolist() == [4, 5, 6, 7, 8]
    buffer.storage.close()
    assert not torn(opened(tmp_path / "f", compress_next=compress)[:]).any()


def test_elements_of_two_dimensions_are_written_by_one_process(tmp_path) -> None:
    first, second = [
        ReplayBuffer(
            storage=LazyMemmapStorage(6, ndim=2, scratch_dir=tmp_path / "f", existsok=True), dim_extend=0
        )
        for _ in range(2)
    ]
    first.extend(TensorDict(x=np.zeros((3, 2)), batch_size=[3, 2]))
    with pytest.raises(RuntimeError, match="another process"):
        second[1, 0] = TensorDict(x=1.0)
    changes = second.storage._changes
    first[1, 0] = TensorDict(x=2.0)
    assert second.storage._changes > changes
    with pytest.raises(IndexError):
        first[5, 0] = TensorDict(x=3.0)
    assert second[:]["x"].tolist() == [[0, 0], [2, 0], [0, 0]]


def test_saving_while_another_process_writes(tmp_path) -> None:
    writer = opened(tmp_path / "f")
    writer.extend(frames(0, 5))
    reader = opened(tmp_path / "f")
    reader.dumps(tmp_path / "dump")
    reader.storage.state_dict()
    writer.storage._before(5, 2, 5)
    raises(RuntimeError, "another process wrote", lambda: reader.dumps(tmp_path / "other"))
    raises(RuntimeError, "another process wrote", lambda: reader.storage.state_dict())
    assert not (tmp_path / "other").exists()


def test_frames_of_another_transform(tmp_path) -> None:
    storage = LazyMemmapStorage(30, scratch_dir=tmp_path / "f", existsok=True)
    buffer = ReplayBuffer(storage=storage, transform=MultiStepTransform(3, 0.9))
    buffer.extend(frames(0, 8))
    storage.close()
    storage = LazyMemmapStorage(30, scratch_dir=tmp_path / "f", existsok=True)
    with pytest.raises(ValueError, match=r"those that can are \['1'\]"):
        ReplayBuffer(storage=storage, transform=lambda td: td).append_transform(MultiStepTransform(3, 0.9))


def test_highest_ranks_survive(tmp_path) -> None:
    def made() -> TensorDictReplayBuffer:
        return TensorDictReplayBuffer(
            storage=LazyMemmapStorage(5, scratch_dir=tmp_path / "f", existsok=True),
            writer=TensorDictMaxValueWriter(rank_key="rank"),
        )

    whole = TensorDictReplayBuffer(
        storage=LazyTensorStorage(5), writer=TensorDictMaxValueWriter(rank_key="rank")
    )
    rng = np.random.default_rng(0)
    for _ in range(6):
        data = TensorDict({"rank": rng.random(4), "id": rng.integers(0, 99, 4)}, [4])
        buffer = made()
        assert buffer.extend(data).tolist() == whole.extend(data).tolist()
        assert same(buffer[:], whole[:])
        assert buffer.write_count == whole.write_count
        buffer.storage.close()


def test_emptied(tmp_path) -> None:
    buffer = ReplayBuffer(
        storage=LazyMemmapStorage(10, scratch_dir=tmp_path / "f"), transform=MultiStepTransform(2, 0.9)
    )
    buffer.empty()
    buffer.extend(frames(0, 7))
    buffer.empty()
    buffer.storage.close()
    again = opened(tmp_path / "f")
    assert (len(again), again.write_count, again.storage.kept()) == (0, 0, None)


def test_one_array(tmp_path) -> None:
    buffer = opened(tmp_path / "f", 4)
    buffer.extend(np.arange(6.0))
    assert opened(tmp_path / "f", 4)[:].tolist() == [4.0, 5.0, 2.0, 3.0]


@pytest.mark.skipif(os.name == "nt", reason="Windows cuts no mapped file")
def test_damaged_folders(tmp_path) -> None:
    damages = (
        lambda f: (f / "%ring").write_bytes(b"x" * 4096),
        lambda f: (f / "%ring").write_bytes(b"x"),
        lambda f: words(f, 2, 99),
        lambda f: words(f, 193, 99),
        lambda f: words(f, 193, -1),
        lambda f: (words(f, 128, 11), words(f, 192, 11)),
        lambda f: ((f / "%ring").unlink(), (f / "%ring").symlink_to("/dev/zero")),
        lambda f: (f / "meta.json").write_text("{"),
        lambda f: (f / "step.memmap").write_bytes(b""),
    )
    for number, damage in enumerate(damages):
        folder = tmp_path / f"{number}"
        buffer = opened(folder)
        buffer.extend(frames(0, 3))
        buffer.storage.close()
        damage(folder)
        with pytest.raises(ValueError, match=re.escape(str(folder))):
            opened(folder).extend(frames(0, 1))


def words(folder: Path, at: int, value: int) -> None:
    """Change a word of the file that says where the ring stands."""
    array = np.memmap(folder / "%ring", np.int64, "r+")
    array[at] = value


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no folder in use")
def test_damaged_copies_of_rows(tmp_path) -> None:
    for at, value in ((321, 11), (321, -1), (322, 1 << 40), (None, 99)):
        folder = tmp_path / f"{at}{value}"
        buffer = opened(folder)
        buffer.extend(frames(0, 12))
        buffer.storage._before(2, 3, 10)
        buffer.storage.close()
        if at is None:
            copies = np.memmap(folder / "%undo", np.int64, "r+")
            copies[1] = value
        else:
            words(folder, at, value)
        with pytest.raises(ValueError, match="damaged"):
            opened(folder).extend(frames(0, 1))
        shutil.rmtree(folder)


def test_after_a_power_failure(tmp_path, monkeypatch) -> None:
    """What is flushed, in which order: copies of rows before these are written, rows before they count."""
    flushed: list[str] = []
    monkeypatch.setenv("LITE_FSYNC", "1")
    monkeypatch.setattr("lite.data.replay.ring_file.flush", lambda path: flushed.append(Path(path).name))
    with monkeypatch.context() as patch:
        patch.setattr("lite._files.commit.flush", lambda path: flushed.append(Path(path).name))
        opened(tmp_path / "e" / "f").extend(frames(0, 1))
        assert flushed[:2] == [tmp_path.name, "e"]  # of new folders
        flushed.clear()
    buffer = opened(tmp_path / "f")
    buffer.extend(frames(0, 9))
    rows = ["obs.memmap", "step.memmap", "obs.memmap", "reward.memmap", "done.memmap"]
    assert flushed == [*rows, "%ring", "%ring"]
    flushed.clear()
    buffer.extend(frames(9, 12))
    assert flushed == ["f", "%undo", "%ring", "%ring", *rows, "%ring", "%ring"]
    flushed.clear()
    armed: list[bool] = []

    def flush(path: str) -> None:
        flushed.append(Path(path).name)
        armed.append(np.fromfile(tmp_path / "f/%ring", np.int64)[320] >= 0)

    monkeypatch.setattr("lite.data.replay.ring_file.flush", flush)
    with monkeypatch.context() as patch:
        patch.setattr(
            "lite.data.replay.ring_file.RingFile.commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        raises(KeyboardInterrupt, "", lambda: buffer.extend(frames(12, 13)))
    # Rows that are restored are there before their copies are of no use.
    assert flushed[-5:] == rows
    assert all(armed[-5:])


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of descriptors")
def test_a_new_table_opens_after_a_power_failure(tmp_path, monkeypatch) -> None:
    """Its files wait for the disk once, when they are made; rows do with LITE_FSYNC=1 alone."""
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))
    buffer = opened(tmp_path / "x" / "f")
    buffer.extend(frames(0, 3))
    names = {Path(path).name.partition("%new")[0] for path in synced}
    assert {tmp_path.name, "x", "f", "%ring", "meta.json"} <= names
    synced.clear()
    buffer.extend(frames(3, 12))
    ReplayBuffer(storage=LazyMemmapStorage(10)).extend(frames(0, 3))  # a folder that goes with it
    assert synced == []


def test_entries_that_are_objects_are_named(tmp_path: Path) -> None:
    td = TensorDict({"x": np.zeros(2), "text": {"response": ["a", "b"]}, "o": np.array(["a", None])}, [2])
    storage = LazyMemmapStorage(2, scratch_dir=tmp_path / "rows")
    raises(TypeError, r"\('text', 'response'\).* objects: exclude them", lambda: storage.set(range(2), td))
    storage.set(range(2), td.exclude("text", "o"))
    assert len(storage) == 2
