"""A reader finds all of the old files or all of the new ones, whatever happens to the writer."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from helpers.cases import raises
from helpers.versions import stopped, tree, version

from lite import TensorDict, lazy_stack
from lite._files import commit

KILLS = int(os.environ.get("LITE_TEST_KILLS", "60"))


def killed(write: Callable[[int], object], last: int, rng: random.Random) -> None:
    """Let a forked process write one version after the other, and kill it somewhere in the middle."""
    ready, begin = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(begin, b".")
            for k in range(last + 1, last + 10**6):
                write(k)
                os.write(begin, b".")
        finally:
            os._exit(1)
    for _ in range(rng.randint(2, 3)):  # however busy the machine is, at least one version gets written
        os.read(ready, 1)
    time.sleep(rng.uniform(0.0, 0.005))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    os.close(ready)
    os.close(begin)


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks its writers")
def test_a_writer_killed_at_any_point(tmp_path):
    """Forked writers replace the tree again and again, and are killed somewhere in the middle."""
    path = tmp_path / "td"
    tree(0).memmap(path)
    rng = random.Random(0)
    last = 0
    for _ in range(KILLS):
        killed(lambda k: tree(k).memmap(path), last, rng)
        now = version(path)
        assert now > last
        last = now
    tree(last + 1).memmap(path)
    assert version(path) == last + 1
    assert not [name for name in os.listdir(path) if name.startswith(("%new", "%commit"))]


@pytest.mark.depth
@pytest.mark.parametrize("fresh", [True, False])
def test_stopping_before_each_system_call(fresh, tmp_path, monkeypatch):
    """Every prefix of the sequence of changes to the disk leaves the old or the new tree."""
    for stop in range(10_000):
        path = tmp_path / f"td{stop}"
        if not fresh:
            tree(1).memmap(path)
        with monkeypatch.context() as patch:
            finished = stopped(patch, stop, lambda path=path: tree(2).memmap(path))
        if fresh and not path.exists():
            assert not finished
            continue
        assert version(path) in ((2,) if finished or fresh else (1, 2))
        tree(3).memmap(path)
        assert version(path) == 3
        if finished:
            break
    assert stop > 20


@pytest.mark.processes
def test_two_writers_at_once(tmp_path):
    path = tmp_path / "td"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: tree(k).memmap(path), range(60)))
    version(path)
    assert not [name for name in os.listdir(path) if name.startswith("%")]


def test_a_failed_write_changes_nothing(tmp_path):
    path = tmp_path / "td"
    tree(1).memmap(path)
    before = sorted(p.name for p in path.rglob("*"))
    for bad in (
        {"x": object()},
        {"x" * 300: np.zeros(2)},
        *([{"a": np.zeros(2, np.longdouble)}] if np.dtype(np.longdouble).itemsize > 8 else []),
        {"a.memmap": {"b": 1}, "a": np.zeros(2)},
    ):
        raises((TypeError, ValueError), "", TensorDict(bad).memmap, path)
        raises((TypeError, ValueError), "", TensorDict(bad).memmap, tmp_path / "other")
    assert version(path) == 1
    assert sorted(p.name for p in path.rglob("*")) == before
    assert not (tmp_path / "other").exists()


def test_the_place_is_a_file_or_holds_other_kinds(tmp_path):
    (tmp_path / "file").write_text("x")
    raises(FileExistsError, "", lambda: tree(1).memmap(tmp_path / "file"))
    path = tmp_path / "td"
    path.mkdir()
    (path / "x0.memmap").mkdir()
    (path / "mine.txt").write_text("stays")
    raises(FileExistsError, "not a file", lambda: tree(1).memmap(path))
    (path / "x0.memmap").rmdir()
    tree(1).memmap(path)
    assert version(path) == 1
    assert (path / "mine.txt").read_text() == "stays"


def test_arrays_mapped_before_keep_their_values(tmp_path):
    old = tree(1).memmap(tmp_path / "td")
    copy = old["x0"].copy()
    tree(2).memmap(tmp_path / "td")
    np.testing.assert_array_equal(old["x0"], copy)
    raises(RuntimeError, "batch dimension mismatch", lambda: old.memmap_refresh_())
    np.testing.assert_array_equal(old["x0"], copy)
    tree(4).memmap(tmp_path / "td")
    assert old.memmap_refresh_()["n", "s"] == "v4"


def test_abandoned_folders_are_removed(tmp_path):
    path = tmp_path / "td"
    tree(1).memmap(path)
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = path / f"%new-{commit._host()}-{dead.pid}-abc"
    alive = path / f"%new-{commit._host()}-{os.getpid()}-{commit.PROCESS}abc"
    other = path / f"%new-another-machine-{dead.pid}-abc"
    for folder in (left, alive, other):
        folder.mkdir()
    tree(2).memmap(path)
    assert not left.exists()
    assert alive.exists()
    assert other.exists()
    assert version(path) == 2


def test_part_of_an_unfinished_tree(tmp_path):
    """A nested folder opened by itself also belongs to the new tree."""
    path = tmp_path / "td"
    tree(1).memmap(path)
    tree(2).memmap(tmp_path / "new")
    os.rename(tmp_path / "new", path / commit.COMMIT)
    assert TensorDict.load_memmap(path / "n")["s"] == "v2"
    assert TensorDict.load_memmap(path, subpath="n")["s"] == "v2"
    assert version(path) == 2
    assert (path / commit.COMMIT).exists(), "reading changes nothing on disk"
    stack = TensorDict.load_memmap(path / "lazy")
    assert isinstance(stack, type(lazy_stack([TensorDict(a=1)])))
    early = TensorDict.load_memmap(path)
    commit.finish(str(path))
    early.memmap(path)  # the files of its leaves have moved to their places: nothing to copy
    assert version(path) == 2
    assert not (path / commit.COMMIT).exists()


@pytest.mark.skipif(os.name != "posix", reason="links need rights elsewhere")
def test_no_file_is_moved_by_a_link(tmp_path):
    """A folder of somebody else may have links where a new tree waits, or where it goes to."""
    other, root = tmp_path / "other", tmp_path / "td"
    other.mkdir()
    (other / "mine").write_text("mine")
    TensorDict(a=np.zeros(3)).memmap(root)
    (root / "%commit").symlink_to(other)
    for use in (
        lambda: TensorDict(a=np.ones(3)).memmap(root),
        lambda: commit.finish(str(root)),
        lambda: TensorDict.load_memmap(root),
    ):
        raises(ValueError, "refusing to follow the symbolic link", use)
    (root / "%commit").unlink()
    (root / "%commit" / "sub").mkdir(parents=True)
    (root / "%commit" / "sub" / "mine").write_text("other")
    (root / "sub").symlink_to(other)
    raises(ValueError, "refusing to follow the symbolic link", commit.finish, str(root))
    assert [file.read_text() for file in other.iterdir()] == ["mine"]
