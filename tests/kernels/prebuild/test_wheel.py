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
from helpers.cases import each_case
from helpers.kernels import elf, foreign, small_library

from lite.kernels.backends import sources
from lite.kernels.prebuild import wheel
from lite.kernels.prebuild.targets import TARGETS, chosen


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """A folder as `build_all` writes it, whose libraries are empty."""
    folder = tmp_path / "libraries"
    folder.mkdir()
    for name in ("x86-64-v2.so", "x86-64-v3.so", "unrelated.so"):
        (folder / name).write_bytes(elf.library(shown=[name]))
    (folder / "manifest.json").write_text(json.dumps({"digest": sources.digest()}))
    (folder / "LICENSE.numba").write_text("as Numba has it")
    return folder


@pytest.fixture
def packed(libraries: Path, tmp_path: Path) -> Path:
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
    about = {"METADATA", "WHEEL", "RECORD", "licenses/LICENSE", "licenses/LICENSE.numba"}
    assert set(files) == {f"tensordict_lite_kernels/{name}" for name in own} | {
        f"{info}/{name}" for name in about
    }
    assert files["tensordict_lite_kernels/__init__.py"] == b""
    metadata = email.message_from_bytes(files[f"{info}/METADATA"])
    assert (metadata["Name"], metadata["Version"]) == ("tensordict-lite-kernels", number)
    assert metadata["Requires-Dist"] is None
    assert metadata["License-Expression"] == "MIT AND BSD-2-Clause"
    assert metadata.get_all("License-File") == ["LICENSE", "LICENSE.numba"]
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


def test_the_same_libraries_make_the_same_wheel(packed: Path, libraries: Path, tmp_path: Path) -> None:
    again = wheel.pack(libraries, chosen("x86-64-v2,x86-64-v3"), tmp_path / "again")
    assert again.read_bytes() == packed.read_bytes()


METADATA = """Metadata-Version: 2.4
Name: tensordict-lite
Version: 1.2.3
License-Expression: MIT
License-File: LICENSE
Requires-Dist: numpy>=2.2
Requires-Dist: numba>=0.61.2; sys_platform != "emscripten"
Provides-Extra: numba
Provides-Extra: llm-cpu
Provides-Extra: llm-numpy
Requires-Dist: numba>=0.61.2; extra == "numba"
Requires-Dist: numba-cuda[cu12]>=0.4; extra == "cuda"

Requires-Dist: numba is said in the text, too
"""
KERNELS = Path(wheel.__file__).parents[1]


@pytest.fixture
def pure(tmp_path: Path) -> Path:
    """A wheel of lite with its kernels alone."""
    path = tmp_path / "tensordict_lite-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for file in KERNELS.rglob("*.py"):
            archive.write(file, f"lite/kernels/{file.relative_to(KERNELS).as_posix()}")
        archive.writestr("tensordict_lite-1.2.3.dist-info/METADATA", METADATA)
        archive.writestr("tensordict_lite-1.2.3.dist-info/WHEEL", "Root-Is-Purelib: true\n")
        archive.writestr("tensordict_lite-1.2.3.dist-info/RECORD", "")
        archive.writestr("tensordict_lite-1.2.3.dist-info/licenses/LICENSE", "MIT")
        archive.writestr("lite/models/tiny_chat/assets/tiny_chat/model.onnx", "a graph")
    return path


def test_libraries_inside_of_lite_s_wheel(libraries: Path, pure: Path, tmp_path: Path) -> None:
    made = wheel.insert(libraries, chosen("x86-64-v2,x86-64-v3"), pure, tmp_path / "dist")
    assert made.name == f"tensordict_lite-1.2.3-{wheel.tag(chosen('x86-64-v3'))}.whl"
    with zipfile.ZipFile(pure) as before, zipfile.ZipFile(made) as archive:
        assert archive.testzip() is None
        assert len(set(archive.namelist())) == len(archive.namelist())
        info = "tensordict_lite-1.2.3.dist-info"
        own = {f"lite/kernels/libraries/{name}" for name in ("manifest.json", "x86-64-v2.so", "x86-64-v3.so")}
        assert set(archive.namelist()) - set(before.namelist()) == own | {f"{info}/licenses/LICENSE.numba"}
        assert set(before.namelist()) - set(archive.namelist()) == {
            "lite/models/tiny_chat/assets/tiny_chat/model.onnx"
        }
        told = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        tags = email.message_from_bytes(archive.read(f"{info}/WHEEL"))
        record = archive.read(f"{info}/RECORD").decode()
    assert told.get_all("Requires-Dist") == [
        "numpy>=2.2",
        'numba>=0.61.2; extra == "numba"',
        'numba-cuda[cu12]>=0.4; extra == "cuda"',
        'tensordict-lite-tiny-chat==1.2.3; extra == "llm-cpu"',
        'tensordict-lite-tiny-chat==1.2.3; extra == "llm-numpy"',
    ]
    assert str(told.get_payload()) == "Requires-Dist: numba is said in the text, too\n"
    assert told["License-Expression"] == "MIT AND BSD-2-Clause"
    assert tags["Root-Is-Purelib"] == "false"
    assert "py3-none-manylinux2014_x86_64" in tags.get_all("Tag", [])
    assert f"{info}/RECORD,," in record.splitlines()
    with zipfile.ZipFile(tmp_path / "dist/tensordict_lite_tiny_chat-1.2.3-py3-none-any.whl") as beside:
        assert beside.read("tensordict_lite_tiny_chat/tiny_chat/model.onnx") == b"a graph"
        whole = beside.read("tensordict_lite_tiny_chat-1.2.3.dist-info/WHEEL").decode()
        assert whole.endswith("Root-Is-Purelib: true\nTag: py3-none-any\n")
    again = wheel.insert(libraries, chosen("x86-64-v2,x86-64-v3"), pure, tmp_path / "again")
    assert again.read_bytes() == made.read_bytes()


def test_libraries_of_other_sources_are_not_put_in(libraries: Path, pure: Path, tmp_path: Path) -> None:
    (libraries / "manifest.json").write_text(json.dumps({"digest": "0123456789ab"}))
    with pytest.raises(ValueError, match=rf"has kernels {sources.digest()}, .* are of 0123456789ab"):
        wheel.insert(libraries, chosen("x86-64-v3"), pure, tmp_path / "dist")
    with pytest.raises(ValueError, match=r"expected tensordict_lite-VERSION-py3-none-any\.whl, got other"):
        wheel.insert(libraries, chosen("x86-64-v3"), tmp_path / "other.whl", tmp_path / "dist")
    assert not (tmp_path / "dist").exists()


def test_a_library_that_needs_something_is_not_packed(libraries: Path, tmp_path: Path) -> None:
    (libraries / "x86-64-v3.so").write_bytes(elf.library(needed=["libm.so.6"], undefined=["exp"]))
    with pytest.raises(
        ValueError, match=r"x86-64-v3\.so must .* got x86_64 on linux, which needs libm\.so\.6, exp"
    ):
        wheel.pack(libraries, chosen("x86-64-v2,x86-64-v3"), tmp_path / "dist")
    (libraries / "armv8.so").write_bytes(elf.library())
    with pytest.raises(
        ValueError, match=r"armv8\.so must be for aarch64 on linux and need nothing, got x86_64 on linux"
    ):
        wheel.pack(libraries, chosen("armv8"), tmp_path / "dist")


def test_targets_of_two_architectures_are_refused() -> None:
    found = r"for aarch64-unknown-linux-gnu, x86_64-unknown-linux-gnu"
    with pytest.raises(ValueError, match=f"one architecture and system, got targets {found}"):
        wheel.tag(chosen("armv8,x86-64-v3"))
    with pytest.raises(ValueError, match="one architecture and system"):
        wheel.tag(chosen("macos-armv8,armv8"))


@each_case(
    ("names", "platform", "code"),
    [
        ("windows-x86-64-v2,windows-x86-64-v3", "win_amd64", foreign.dll()),
        ("windows-armv8", "win_arm64", foreign.dll(machine=0xAA64)),
        ("macos-x86-64-v3", "macosx_11_0_x86_64", foreign.dylib(machine=0x01000007)),
        ("macos-armv8", "macosx_11_0_arm64",
            foreign.dylib(["/usr/lib/libSystem.B.dylib"], ["dyld_stub_binder"])),
    ],
)  # fmt: skip
def test_wheels_of_other_systems(libraries, tmp_path, names, platform, code):
    for target in chosen(names):
        (libraries / target.file).write_bytes(code)
    made = wheel.pack(libraries, chosen(names), tmp_path / "dist")
    assert made.name.endswith(f"-py3-none-{platform}.whl")
    with zipfile.ZipFile(made) as archive:
        inside = {name.rpartition("/")[2] for name in archive.namelist()}
    assert {target.file for target in chosen(names)} <= inside
    for target in chosen(names):
        (libraries / target.file).write_bytes(elf.library(machine=183))  # of Linux
    with pytest.raises(ValueError, match=r"and need nothing, got aarch64 on linux, which needs nothing"):
        wheel.pack(libraries, chosen(names), tmp_path / "dist")


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
