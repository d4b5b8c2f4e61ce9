"""`lite warmup`."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from helpers.commands import Run

from lite.cli import main
from lite.kernels.backends import portable

Progress = Callable[[str, int, int], None] | None


@pytest.fixture
def warmed(monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    calls: list[Progress] = []

    def warmup(progress: Progress = None) -> None:
        calls.append(progress)
        for done, name in enumerate(("gae, float32", "silu")):
            if progress:
                progress(name, done, 2)

    monkeypatch.setattr("lite.cli.warmup.warmup", warmup)
    monkeypatch.setattr("lite.cli.warmup.backend", lambda: "numba")
    return calls


def test_every_kernel_has_a_line_and_the_time_is_told(run: Run, warmed: list[Progress]) -> None:
    said = run(["warmup"])
    assert re.match(r"kernels compiled and cached in \d+\.\d", said.out)
    assert said.err.splitlines() == ["1/2 gae, float32", "2/2 silu"]
    said = run(["warmup", "--json"])
    assert json.loads(said.out)["seconds"] >= 0
    assert said.err == ""
    assert len(warmed) == 2


def test_a_terminal_gets_a_bar(run: Run, warmed: list[Progress], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    lines = [line for line in run(["warmup"]).err.split("\r\x1b[K") if line]
    assert [line.rsplit("] ")[-1].strip() for line in lines[:2]] == ["1/2 gae, float32", "2/2 silu"]
    assert [line.count("#") for line in lines] == [0, 12, 24]


def test_other_backends_have_nothing_to_compile(run, warmed, monkeypatch):
    monkeypatch.setattr("lite.cli.warmup.backend", lambda: "prebuilt")
    assert run(["warmup"]).out == "nothing to compile: the kernels are run by prebuilt\n"


def test_a_folder_is_filled_by_a_process_of_its_own(run, capsys, tmp_path, monkeypatch):
    ran: list[Any] = []

    def run(command: list[str], env: dict[str, str], check: bool) -> Any:
        ran.append((command, env))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr("lite.cli.warmup.subprocess.run", run)
    folder = tmp_path / "a" / "cache"
    assert main(["warmup", "--output", str(folder)]) == 0
    assert folder.is_dir()
    ((command, environment),) = ran
    assert command == [sys.executable, "-m", "lite", "warmup"]
    assert environment == portable.environment(folder)
    assert environment["NUMBA_CACHE_DIR"] == str(folder) != os.environ.get("NUMBA_CACHE_DIR")
    assert f"NUMBA_CACHE_DIR={folder}" in capsys.readouterr().out
