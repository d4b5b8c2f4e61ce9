"""Single files: the old or the new content, whatever happens to the writer, and nothing left beside it."""

import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import each_case
from helpers.tiers import standing_for_all

from lite import TensorDict
from lite._files import commit

WRITE = """
import sys, numpy as np
from lite import TensorDict

def write(path, value, rows=40_000):
    td = TensorDict({"a": np.full(rows, value), "b": np.arange(rows)}, [rows])
    name = path.rpartition(".")[2]
    if name == "parquet":
        td.to_parquet(path, compression=None, use_dictionary=False)
    elif name == "h5":
        td.to_h5(path)
    elif name == "one":
        td.consolidate(path)
    else:
        td.save(path)
"""
NAMES = ("tdz", "npz", "safetensors", "h5", "parquet", "one")
exec(WRITE)  # what the processes of these tests run, too


def read(path: Path) -> Any:
    kind = path.suffix[1:]
    readers = {
        "parquet": TensorDict.from_parquet,
        "h5": TensorDict.from_h5,
        "one": TensorDict.from_consolidated,
    }
    td = readers.get(kind, TensorDict.load)(str(path))
    np.testing.assert_array_equal(td["a"], td["a"][0])
    np.testing.assert_array_equal(td["b"], np.arange(len(td["b"])))
    return td["a"][0]


@pytest.mark.processes
@pytest.mark.parametrize("name", ["tdz", "h5"])
def test_killed_writers(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"f.{name}"
    write(str(path), 0)  # noqa: F821
    code = WRITE + "k = 0\nprint('ready', flush=True)\nwhile True:\n    k += 1\n    write(sys.argv[1], k)\n"
    rng = random.Random(0)
    for _ in range(2):
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(rng.uniform(0.005, 0.05))
            process.send_signal(signal.SIGKILL)
        read(path)
    write(str(path), -1)  # noqa: F821
    assert read(path) == -1
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_files_of_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    ours = f"{path}%new-{commit._host()}"
    kept = [
        f"{ours}-{os.getpid()}-{commit.PROCESS}0a",
        f"{path}%new-elsewhere-999999-0a",
        f"{tmp_path}/g.npz%new-x",
        f"{ours}-x-0a",
    ]
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    before = f"{ours}-{os.getpid()}-0b"  # by a process of the same number, as the first of a container is
    for name in (*kept, f"{ours}-{dead.pid}-0a", before):
        Path(name).touch()
    write(str(path), 1)  # noqa: F821
    assert sorted(os.listdir(tmp_path)) == sorted(["f.npz", *(os.path.basename(name) for name in kept)])


def test_a_folder_of_many_files_is_not_listed_by_every_write(tmp_path: Path, monkeypatch: Any) -> None:
    listed: list[str] = []

    def slow(folder: str) -> list[str]:
        listed.append(folder)
        time.sleep(0.2)  # as of a million files
        return []

    monkeypatch.setattr(os, "listdir", slow)
    for number in range(5):
        write(str(tmp_path / f"{number}.npz"), number)  # noqa: F821
    assert len(listed) == 1


@pytest.mark.skipif(os.name == "nt", reason="permissions")
@each_case("name", NAMES)
def test_permissions_are_those_of_new_files(name: str, tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write(str(tmp_path / f"f.{name}"), 1)  # noqa: F821
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / f"f.{name}").stat().st_mode) == 0o640


@pytest.mark.depth
@pytest.mark.parametrize("name", standing_for_all(["npz", "folder", "safetensors", "h5", "parquet"]))
def test_a_full_disk(name: str, tmp_path: Path) -> None:
    """A limit of the size of files stands for the end of the disk."""
    path = tmp_path / f"f.{name}" if name != "folder" else tmp_path / "f"
    write(str(path), 5, 100)  # noqa: F821
    code = WRITE + (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))\n"
        "write(sys.argv[1], 6)\n"
    )
    run = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert re.match(rf"OSError: \[Errno 27\] .*'{path}'", run.stderr.splitlines()[-1])
    assert os.listdir(tmp_path) == [path.name]
    if name != "folder":
        assert read(path) == 5
    else:
        np.testing.assert_array_equal(TensorDict.load_memmap(path)["a"], 5)
    import resource

    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
