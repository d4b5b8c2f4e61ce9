"""Libraries of kernels: how they are linked, and what is said where that fails."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from helpers.cases import each_case
from helpers.kernels import small_library

pytest.importorskip("numba")

from lite.kernels.backends import sources
from lite.kernels.prebuild import __main__, library
from lite.kernels.prebuild.targets import TARGETS

V3, ARM = TARGETS["x86-64-v3"], TARGETS["armv8"]


def test_a_library_needs_no_other_and_shows_only_what_is_read() -> None:
    folder = small_library.folder()
    (row,) = json.loads((folder / "manifest.json").read_text())["libraries"]
    assert row["size"] == (folder / row["file"]).stat().st_size < 200_000
    code = (folder / row["file"]).read_bytes()
    dynamic = code[code.index(b"lite_") - 1 :]
    shown = {name for name in dynamic[: dynamic.index(b"\0\0")].split(b"\0") if name}
    assert shown == {b"lite_methods", b"lite_count", b"lite_digest", b"lite_prepare", b"lite_fits"}


def test_the_manifest_tells_the_sources() -> None:
    manifest = json.loads((small_library.folder() / "manifest.json").read_text())
    assert manifest["format"] == 1
    assert manifest["digest"] == sources.digest()
    assert set(manifest["compilers"]) == {"numba", "llvmlite"}
    assert set(manifest["libraries"][0]) == {"file", "target", "level", "size"}


@pytest.mark.grid
def test_progress_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    script = tmp_path / "compiler"
    script.write_text("#!/bin/sh\nexit 0\n")
    script.chmod(0o755)
    with pytest.raises(FileNotFoundError):  # this compiler writes nothing
        library.build(V3, tmp_path, str(script), ["optimizers.lerp"], told.append)
    assert told == ["x86-64-v3: optimizers.lerp, 1 of 1"]


@pytest.fixture
def linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(shutil, "which", lambda name: None if "aarch64" in name else f"/usr/bin/{name}")
    monkeypatch.delenv("CC", raising=False)


@pytest.mark.usefixtures("linux")
def test_the_compiler_is_the_one_asked_for_or_the_usual_one(monkeypatch: pytest.MonkeyPatch) -> None:
    zig = ["-target", "aarch64-linux-gnu.2.17", "-fno-sanitize=undefined"]
    assert library.compiler_for(V3, None) == ["/usr/bin/cc"]
    assert library.compiler_for(V3, "ccache gcc") == ["ccache", "gcc"]
    assert library.compiler_for(ARM, None) == [sys.executable, "-m", "ziglang", "cc", *zig]
    assert library.compiler_for(ARM, "python -m ziglang cc") == ["python", "-m", "ziglang", "cc", *zig]
    monkeypatch.setenv("CC", "clang -m64")
    assert library.compiler_for(V3, None) == ["clang", "-m64"]
    assert library.compiler_for(ARM, None)[0] == sys.executable  # CC is for this machine
    for name, triple in [("windows-armv8", "aarch64-windows-gnu"), ("macos-x86-64-v3", "x86_64-macos.11.0")]:
        assert library.compiler_for(TARGETS[name], None)[1:5] == ["-m", "ziglang", "cc", "-target"]
        assert library.compiler_for(TARGETS[name], None)[5] == triple
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert library.compiler_for(ARM, None) == ["/usr/bin/aarch64-linux-gnu-gcc"]


def test_a_compiler_that_is_missing_or_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(library.BuildError, match="the C compiler: no-such-compiler was not found"):
        library.build(V3, tmp_path, "no-such-compiler")
    failing = f"{sys.executable} -c 'raise SystemExit(\"it is broken\")'"
    with pytest.raises(library.BuildError, match=r"(?s)the C compiler failed: .*it is broken"):
        library.build(V3, tmp_path, failing)
    assert list(tmp_path.iterdir()) == []


@each_case(
    ("arguments", "error"),
    [
        ([], "--output DIR or --wheel [DIR] is needed"),
        (["--output", "x", "--target", "sparc"], "got 'sparc'"),
        (["--wheel", "--target", "x86-64-v3,armv8"], "a wheel is for one architecture and system"),
        (["--wheel", "--libraries", "x", "--output", "y"], "--libraries DIR goes with --wheel, and not with"),
        (["--wheel", "dist", "--into", "missing.whl"], "--into WHEEL is a file, and goes with --wheel"),
    ],
)
def test_command_lines_that_are_refused(capsys, arguments, error):
    with pytest.raises(SystemExit) as ended:
        __main__.main(arguments)
    assert ended.value.code == 2
    assert error in capsys.readouterr().err


def test_the_command_says_in_one_line_what_failed(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"error: the C compiler: no-such-compiler was not found"):
        __main__.main(["--output", str(tmp_path), "--compiler", "no-such-compiler", "--target", "x86-64-v3"])


def test_libraries_are_packed_twice_without_compiling_again(tmp_path, capsys):
    folder = small_library.folder()
    (row,) = json.loads((folder / "manifest.json").read_text())["libraries"]
    options = ["--target", row["target"], "--libraries", str(folder), "--wheel", str(tmp_path)]
    __main__.main(options)
    (wheel,) = tmp_path.iterdir()
    assert capsys.readouterr().out == f"wrote {wheel}\n"
    assert wheel.name.startswith("tensordict_lite_kernels-")
    with pytest.raises(SystemExit, match=r"error: expected tensordict_lite-VERSION-py3-none-any"):
        __main__.main([*options, "--into", str(wheel)])
