"""Compiled kernels on disk: read from every folder that can be read, whatever may be written."""

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import lite
from lite.kernels.backends import portable
from lite.kernels.backends.choice import backend

pytestmark = pytest.mark.skipif(backend() != "numba", reason="Numba does not run the kernels")
numba = pytest.importorskip("numba")
cache = pytest.importorskip("lite.kernels.backends.cache")


def _double(x: float) -> float:
    return 2 * x


@pytest.fixture
def misses(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., int]]:
    """`misses(folder, ...)`: how often a function is compiled whose cache has these folders."""

    def misses(*folders: Path) -> int:
        monkeypatch.setattr(cache, "folders", lambda: folders)
        compiled = numba.njit(_double)
        compiled._cache = cache.KernelCache(_double)
        assert compiled(3.0) == 6.0
        return sum(compiled.stats.cache_misses.values())

    cache._warn_no_cache.cache_clear()
    yield misses
    cache._warn_no_cache.cache_clear()


def test_what_one_wrote_the_next_one_reads(misses: Any, tmp_path: Path) -> None:
    assert misses(tmp_path / "a") == 1
    assert misses(tmp_path / "a") == 0


def test_every_folder_is_read(misses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    monkeypatch.setattr(cache.config, "CACHE_DIR", "")
    assert misses(second) == 1
    assert misses(first, second) == 0
    assert not first.exists()


def test_the_folder_of_the_environment_becomes_whole(misses, tmp_path, monkeypatch):
    """It may be taken elsewhere, where the others are not."""
    first, second = tmp_path / "a", tmp_path / "b"
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(first))
    first.mkdir()
    assert misses(second) == 1
    assert misses(first, second) == 0
    assert misses(first) == 0


def test_the_next_folder_is_written_where_the_first_cannot_be(misses: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert misses(blocked / "a", tmp_path / "b") == 1
    assert misses(blocked / "a", tmp_path / "b") == 0


def test_one_warning_where_no_folder_can_be_written(misses: Any, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.warns(RuntimeWarning, match="NUMBA_CACHE_DIR"):
        assert misses(blocked / "a") == 1
    assert misses(blocked / "a") == 1  # warnings are errors here


def test_code_of_other_sources_is_not_read(misses, tmp_path, monkeypatch):
    assert misses(tmp_path) == 1
    monkeypatch.setattr(cache.sources, "digest", lambda: "another")
    assert misses(tmp_path) == 1


def test_who_asks_for_a_processor_gets_no_code_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, level in ((None, portable.level()), ("x86-64-v2", None)):
        monkeypatch.setattr(cache.portable, "fits", lambda features: True)
        monkeypatch.setattr(cache.config, "CPU_NAME", name)
        assert cache._level.__wrapped__() == level


@pytest.mark.skipif(os.name != "posix", reason="modes of folders are those of POSIX")
def test_what_any_user_may_write_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a cache holds is run."""
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path))
    folder, owner = tmp_path / f"lite_kernels_{cache.sources.digest()}", os.getuid()
    for mine, above, mode, used in (
        (True, 0o755, 0o755, True),
        (True, 0o777, 0o755, True),
        (True, 0o755, 0o777, False),
        (False, 0o755, 0o755, True),
        (False, 0o1777, 0o755, False),  # somebody may have made it first
    ):
        other = SimpleNamespace(st_uid=owner if mine else 12345, st_mode=mode)
        cache.folders.cache_clear()
        with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            own = SimpleNamespace(st_uid=owner, st_mode=0o755)
            fake = {folder: other, tmp_path: SimpleNamespace(st_mode=above)}
            patch.setattr(cache, "_BESIDE", tmp_path / "beside")
            patch.setattr(Path, "stat", lambda self, fake=fake, own=own: fake.get(self, own))
            assert (folder in cache.folders()) is used
        assert ["any user may have written" in str(one.message) for one in said] == [True] * (not used)
    cache.folders.cache_clear()


def test_the_folders_in_their_order(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cache.config, "CACHE_DIR", str(tmp_path / "given"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of the user"))
    try:
        cache.folders.cache_clear()
        given, package, user = cache.folders()
        assert given.parent == tmp_path / "given"
        assert package.parent == Path(lite.__file__).parents[1] / "__pycache__"  # pip removes no folder of it
        if sys.platform == "linux":
            assert tmp_path / "of the user" in user.parents
            monkeypatch.setenv("XDG_CACHE_HOME", "~/.cache")  # what is left without a home
            cache.folders.cache_clear()
            assert cache.folders() == (given, package)
    finally:
        cache.folders.cache_clear()


PROGRAM = """
import os, sys, warnings

def read_only(event, args):
    if event in ("os.mkdir", "os.rename", "os.remove") or (
        event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    ):
        raise OSError(30, "Read-only file system")

sys.addaudithook(read_only)
import numpy as np
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import lite.kernels as k
    from lite.kernels.cpu import returns
    done = np.zeros((2, 3), bool)
    assert k.reward_to_go(np.ones((2, 3), np.float32), done).tolist() == [[3, 2, 1]] * 2
    assert k.reward_to_go(np.ones((2, 3)), done).tolist() == [[3, 2, 1]] * 2
print(sum(returns.short_lambda_returns.stats.cache_misses.values()), *(str(w.message) for w in caught))
"""
FILL = "\n".join(line for line in PROGRAM.splitlines() if "addaudithook" not in line)


def _run(program: str, folder: Path, **environment: str) -> tuple[int, str]:
    """How many kernels a process compiles that has no home and, but for FILL, may write nothing; warnings."""
    home = folder.parent / "nobody"
    done = subprocess.run(
        [sys.executable, "-B", "-c", program],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder), "HOME": str(home), "XDG_CACHE_HOME": str(home)}
        | environment,
        capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, _, warned = done.stdout.partition(" ")
    return int(count), warned.strip()


@pytest.mark.processes
def test_a_warm_cache_is_read_where_nothing_may_be_written(tmp_path: Path) -> None:
    """Compiled for the level that most processors have, read by a process that compiles for this one."""
    if not portable.fits(cache.binding.get_host_cpu_features()):
        pytest.skip("this processor lacks the portable level")
    warm = tmp_path / "warm"
    level = {"NUMBA_CPU_NAME": str(portable.level()), "NUMBA_CPU_FEATURES": ""}
    assert _run(FILL, warm, **level) == (2, "")
    assert _run(PROGRAM, warm) == (0, "")


@pytest.mark.processes
def test_without_any_folder_there_is_one_warning(tmp_path: Path) -> None:
    count, warned = _run(PROGRAM, tmp_path / "empty", LITE_NUM_THREADS="1")
    assert count in (0, 2)  # beside the sources there may be some
    assert (warned.count("compiled again") == 1) == (count == 2)
