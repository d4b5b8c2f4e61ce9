"""Locks, processes and replaced files. What Windows does is imitated elsewhere, and itself there."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict
from lite._files import system


def opened(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT)


@pytest.mark.skipif(sys.platform == "emscripten", reason="no locks")
def test_a_file_is_locked_until_it_is_closed(tmp_path: Path) -> None:
    first, second = opened(tmp_path / "x"), opened(tmp_path / "x")
    os.write(second, b"12")
    assert system.lock_file(first)
    assert not system.lock_file(second)
    assert os.lseek(second, 0, os.SEEK_CUR) == 2, "where it is written next"
    os.close(first)
    assert system.lock_file(second)
    os.close(second)


@pytest.mark.skipif(sys.platform == "emscripten", reason="no locks")
def test_who_locks_a_folder_waits_for_the_other(tmp_path: Path) -> None:
    said = []

    def second() -> None:
        with system.locked_folder(f"{tmp_path}"):
            said.append("second")

    with system.locked_folder(f"{tmp_path}"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.05)
        said.append("first")
    thread.join()
    assert said == ["first", "second"]


def test_processes_that_run_and_that_have_ended() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert system.is_alive(os.getpid())
    assert not system.is_alive(ended.pid)


class Windows:
    """Neither removes nor replaces files that are mapped, but renames them; leaves alone what is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.mapped: set[str] = set()
        self.open: set[str] = set()
        monkeypatch.setattr(system, "WINDOWS", True)
        monkeypatch.setattr(system, "_PAUSES", (0.0, 0.0))
        for name, places in (("unlink", slice(0, 1)), ("replace", slice(1, 2)), ("rename", slice(0, 0))):
            monkeypatch.setattr(os, name, self._refusing(getattr(os, name), places))

    def _refusing(self, call, places):
        def refusing(*paths, **options):
            names = [os.path.basename(path) for path in paths]
            if self.open.intersection(names):
                raise PermissionError(13, "Access is denied")
            if {name.partition("%")[0] for name in names[places]} & self.mapped:
                raise OSError(22, "a file with a user-mapped section is open")
            return call(*paths, **options)

        return refusing


def test_a_mapped_file_makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = Windows(monkeypatch)
    windows.mapped = {"a.memmap", "b.memmap"}
    path = tmp_path / "td"
    TensorDict({"a": np.zeros(2), "b": np.zeros(3)}).memmap(path)
    TensorDict({"a": np.ones(5)}).memmap(path)
    assert TensorDict.load_memmap(path)["a"].tolist() == [1] * 5
    aside = sorted(name.partition("%old-")[0] for name in os.listdir(path) if "%" in name)
    assert aside == ["a.memmap", "b.memmap"]
    system.remove(f"{path}/a.memmap")
    assert "a.memmap" not in os.listdir(path)
    windows.mapped = set()
    TensorDict({"a": np.zeros(2)}).memmap(path)
    assert sorted(os.listdir(path)) == ["a.memmap", "meta.json"]


def test_an_open_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = Windows(monkeypatch)
    td = TensorDict({"a": np.zeros(2)})
    for name in ("x.npz", "x.tdz"):
        path = tmp_path / name
        td.save(path)
        before = path.read_bytes()
        windows.open = {name}
        raises(PermissionError, "", (td + 1).save, path)
        assert path.read_bytes() == before
        windows.open = set()
    assert sorted(os.listdir(tmp_path)) == ["x.npz", "x.tdz"]


def test_a_virus_scanner_lets_go_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    windows = Windows(monkeypatch)
    (tmp_path / "new").mkdir()
    windows.open = {"new"}
    monkeypatch.setattr(system.time, "sleep", lambda _: windows.open.clear())
    system.rename(f"{tmp_path}/new", f"{tmp_path}/there")
    assert os.listdir(tmp_path) == ["there"]
