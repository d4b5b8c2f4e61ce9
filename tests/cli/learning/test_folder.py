"""Where a run of `lite learn` stands."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises

from lite import TensorDict, save
from lite.cli.learning.folder import Folder, RunState

RUN = {"method": "grpo", "rows": {"path": "/a", "sha256": "1"}, "lr": 0.5}


def run_state(steps: int) -> RunState:
    params = TensorDict(a=TensorDict(b=np.full(3, steps, np.float32)))
    return RunState(steps, params, TensorDict(step=np.asarray(steps), exp_avg=params.clone()))


def filled(path: Path, steps: int = 2) -> Folder:
    folder = Folder(str(path), RUN)
    for step in range(steps + 1):
        folder.append({"step": step})
        folder.write(run_state(step))
    return folder


def test_a_state_comes_back(tmp_path: Path) -> None:
    assert Folder(str(tmp_path / "out"), RUN).read() is None
    filled(tmp_path / "out")
    moved = {**RUN, "rows": {"path": "/b", "sha256": "1"}}
    found = Folder(str(tmp_path / "out"), moved).read()
    assert found is not None
    assert found.steps == 2
    np.testing.assert_array_equal(found.params["a", "b"], np.full(3, 2, np.float32))
    np.testing.assert_array_equal(found.optimizer["exp_avg", "a", "b"], found.params["a", "b"])
    found.params["a", "b"][0] = 7  # a copy, no view of the file
    assert Folder(str(tmp_path / "out"), RUN).read().params["a", "b"][0] == 2  # type: ignore[union-attr]


def test_a_line_without_its_state_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once: a kill while it is removed leaves the lines that have a state."""
    monkeypatch.setattr(Path, "write_bytes", lambda *_: pytest.fail("empties the file first"))
    folder = filled(tmp_path)
    folder.append({"step": 3})
    with open(tmp_path / "steps.jsonl", "a", encoding="utf-8") as file:
        file.write('{"st')
    assert folder.records(2) == [{"step": 0}, {"step": 1}, {"step": 2}]
    folder.append({"step": 3})
    assert [one["step"] for one in folder.records(3)] == [0, 1, 2, 3]
    raises(ValueError, "does not have the lines of 4 steps", lambda: folder.records(4))


def test_a_model_is_older_than_a_later_state_whatever_the_clock_says(tmp_path: Path) -> None:
    folder = filled(tmp_path, 1)
    (tmp_path / "model").mkdir()
    (tmp_path / "model/model.onnx").touch()
    assert folder.is_saved()
    os.utime(tmp_path / "model/model.onnx", (2**32, 2**32))  # the clock was ahead then
    folder.append({"step": 2})
    folder.write(run_state(2))
    assert not folder.is_saved()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of descriptors")
def test_lines_wait_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of a step is there before its state, which asks for it, also where other files do not wait."""
    synced: list[str] = []
    real = os.fsync

    def sync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", sync)
    filled(tmp_path / "a/b", 0)
    kinds = [Path(path).name.partition("%")[0] for path in synced]
    assert kinds == [tmp_path.name, "a", "steps.jsonl", "state.tdz", "b"]


def test_a_killed_beginning_is_begun_anew(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path), RUN)
    folder.append({"step": 0})
    (tmp_path / "state.tdz%new-host-1-ab").write_bytes(b"half")
    assert folder.read() is None
    folder.append({"step": 0})
    assert folder.records(0) == [{"step": 0}]


def _other_options(path: Path) -> dict[str, Any]:
    filled(path)
    return {**RUN, "lr": 0.25}


def _other_rows(path: Path) -> dict[str, Any]:
    filled(path)
    return {**RUN, "rows": {"path": "/a", "sha256": "2"}}


def _other_files(path: Path) -> dict[str, Any]:
    (path / "notes.txt").write_text("mine")
    return RUN


def _another_state(path: Path) -> dict[str, Any]:
    save(TensorDict(steps=3, run=np.zeros(3)), path / "state.tdz")
    return RUN


def _a_cut_state(path: Path) -> dict[str, Any]:
    filled(path)
    os.truncate(path / "state.tdz", 100)
    return RUN


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (_other_options, "lr was 0.5 and is 0.25. Give another folder"),
        (_other_rows, "rows was"),
        (_other_files, "holds other files"),
        (_another_state, "is not what `lite learn` wrote"),
        (_a_cut_state, "is not what `lite learn` wrote"),
    ],
)
def test_what_is_there_is_told_and_left(prepare: Any, message: str, tmp_path: Path) -> None:
    run = prepare(tmp_path)
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    raises(ValueError, message, lambda: Folder(str(tmp_path), run).read())
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    raises(NotADirectoryError, "is not a folder", lambda: Folder(str(tmp_path / "out"), RUN))


def test_of_two_that_begin_at_once_one_is_told(tmp_path: Path) -> None:
    first, second = Folder(str(tmp_path / "out"), RUN), Folder(str(tmp_path / "out"), RUN)
    assert first.read() is second.read() is None
    first.append({"step": 0})
    raises(ValueError, "another `lite learn` writes there now", lambda: second.append({"step": 0}))
    first.write(run_state(0))
    first.close()
    before = (tmp_path / "out" / "steps.jsonl").read_bytes()
    raises(ValueError, "another `lite learn` has written there meanwhile", lambda: second.append({"step": 0}))
    assert (tmp_path / "out" / "steps.jsonl").read_bytes() == before
