"""The wheel of libraries: what is in it, and that pip installs it."""

from __future__ import annotations

import base64
import email
import hashlib
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from helpers.kernels import small_library

from lite.kernels.prebuild import wheel
from lite.kernels.prebuild.targets import TARGETS, chosen


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    libraries = tmp_path / "libraries"
    libraries.mkdir()
    for name in ("manifest.json", "x86-64-v2.so", "x86-64-v3.so", "unrelated.so"):
        (libraries / name).write_bytes(name.encode() * 100)
    return wheel.pack(libraries, chosen("x86-64-v2,x86-64-v3"), tmp_path / "dist")


def test_what_is_in_it(packed: Path) -> None:
    number = wheel.version()
    info = f"tensordict_lite_kernels-{number}.dist-info"
    platforms = ["manylinux2014_x86_64", "manylinux_2_17_x86_64", "musllinux_1_1_x86_64"]
    assert packed.name == f"tensordict_lite_kernels-{number}-py3-none-{'.'.join(platforms)}.whl"
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None
        files = {name: archive.read(name) for name in archive.namelist()}
    own = {"__init__.py", "manifest.json", "x86-64-v2.so", "x86-64-v3.so"}
    about = {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE"}
    assert set(files) == {f"tensordict_lite_kernels/{name}" for name in own} | {
        f"{info}/{name}" for name in about
    }
    assert files["tensordict_lite_kernels/__init__.py"] == b""
    metadata = email.message_from_bytes(files[f"{info}/METADATA"])
    assert (metadata["Name"], metadata["Version"]) == ("tensordict-lite-kernels", number)
    assert metadata["Requires-Dist"] is None
    tags = email.message_from_bytes(files[f"{info}/WHEEL"])
    assert tags.get_all("Tag") == [f"py3-none-{platform}" for platform in platforms]
    assert tags["Root-Is-Purelib"] == "false"


def test_the_record_is_of_every_file(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    (record,) = (name for name in files if name.endswith("/RECORD"))
    rows = [line.split(",") for line in files[record].decode().splitlines()]
    assert {row[0] for row in rows} == set(files)
    for name, digest, size in rows:
        if name != record:
            found = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
            assert (digest, int(size)) == (f"sha256={found}", len(files[name]))


def test_the_same_libraries_make_the_same_wheel(packed: Path, tmp_path: Path) -> None:
    libraries = packed.parents[1] / "libraries"
    again = wheel.pack(libraries, chosen("x86-64-v2,x86-64-v3"), tmp_path / "again")
    assert again.read_bytes() == packed.read_bytes()


def test_targets_of_two_architectures_are_refused() -> None:
    with pytest.raises(ValueError, match="one architecture, got targets for aarch64, x86_64"):
        wheel.tag(list(TARGETS.values()))


@pytest.mark.processes
def test_pip_installs_it_and_lite_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lite.kernels.backends import prebuilt

    folder = small_library.folder()
    row = json.loads((folder / "manifest.json").read_text())["libraries"][0]
    built = wheel.pack(folder, [TARGETS[row["target"]]], tmp_path)
    site = tmp_path / "site"
    subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", site,
            "--disable-pip-version-check", built,
        ],
        check=True, timeout=120,
    )  # fmt: skip
    monkeypatch.delenv("LITE_KERNELS_PATH", raising=False)
    monkeypatch.syspath_prepend(str(site))
    library = prebuilt.find()
    assert library is not None
    assert library.path == site / "tensordict_lite_kernels" / row["file"]
