"""The package lists match the folders, and the files users rely on say the same thing."""

import email
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from helpers.building import build, copy_of_the_checkout
from helpers.kernels import small_library

from lite.kernels.prebuild.targets import TARGETS
from lite.kernels.prebuild.wheel import insert
from lite.models import embedded_model_path

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
VERSION = re.findall(r'^__version__ = "(.+)"$', (ROOT / "lite" / "__init__.py").read_text(), re.M)[0]
FOLDERS = {"lite": ROOT / "lite", "lite.kernels": ROOT / "kernels", "lite.models": ROOT / "models"}


def _folder(package: str) -> Path:
    top = max((name for name in FOLDERS if f"{package}.".startswith(f"{name}.")), key=len)
    return FOLDERS[top].joinpath(*package.removeprefix(top).split("."))


def _packages_on_disk() -> set[str]:
    found = set()
    for package, folder in FOLDERS.items():
        for init in folder.rglob("__init__.py"):
            inner = init.parent.relative_to(folder).parts
            if package == "lite" and inner[:1] in {("kernels",), ("models",)}:
                continue
            found.add(".".join((package, *inner)))
    return found


def test_every_package_is_listed() -> None:
    assert set(SETUPTOOLS["packages"]) == _packages_on_disk()


def test_the_top_level_is_fixed() -> None:
    """Examples that are run in a checkout write files there, which no commit should take along."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout, whose files Git lists")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    top = {line.split("/")[0] for line in listed.splitlines()}
    assert {name for name in top if name[0] != "."} == {
        *("bench", "kernels", "lite", "models", "tests"),
        *("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "pyproject.toml"),
    }


def test_links_point_to_the_top_folders() -> None:
    for name in ("kernels", "models"):
        link = ROOT / "lite" / name
        if os.name == "nt" and link.is_file():  # as Git makes it without the right to make links
            assert link.read_text("utf-8") == f"../{name}"
        else:
            assert (link / "__init__.py").samefile(ROOT / name / "__init__.py")


def test_package_data_exists() -> None:
    for package, patterns in SETUPTOOLS["package-data"].items():
        for pattern in patterns:
            assert list(_folder(package).glob(pattern)), f"{package}: nothing matches {pattern}"


def _of_the_product(names: Iterable[str]) -> list[str]:
    return [name for name in names if ".dist-info/" not in name]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is built, with the build folder of an earlier version that had one more file."""
    folder = copy_of_the_checkout(tmp_path_factory.mktemp("packaging") / "source")
    (folder / "build" / "lib" / "lite").mkdir(parents=True)
    (folder / "build" / "lib" / "lite" / "renamed_since.py").touch()
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(build("wheel", source, source.parent / "wheel"))


@pytest.mark.processes
def test_the_wheel_holds_the_listed_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    expected = {
        "/".join((package.replace(".", "/"), file.relative_to(_folder(package)).as_posix()))
        for package, patterns in SETUPTOOLS["package-data"].items()
        for pattern in patterns
        for file in _folder(package).glob(pattern)
    }
    for package in SETUPTOOLS["packages"]:
        files = _folder(package).glob("*.py")
        expected |= {f"{package.replace('.', '/')}/{file.name}" for file in files}
    assert set(_of_the_product(wheel.namelist())) == expected


@pytest.mark.processes
def test_the_wheel_needs_no_links(wheel: zipfile.ZipFile) -> None:
    for entry in wheel.infolist():
        assert not stat.S_ISLNK(entry.external_attr >> 16), entry.filename


@pytest.mark.processes
def test_file_names_are_possible_on_windows(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert len({name.lower() for name in names}) == len(names)  # its file systems ignore case
    for name in names:
        for part in name.split("/"):
            reserved = part.split(".")[0].upper() in {"CON", "PRN", "AUX", "NUL"}
            assert not reserved, name
            assert not part.endswith((".", " ")), name
            assert not set(part) & set('<>:"\\|?*'), name


@pytest.mark.processes
def test_a_build_leaves_the_tree_alone(source: Path, wheel: zipfile.ZipFile) -> None:
    assert [file.name for file in (source / "build").rglob("*.py")] == ["renamed_since.py"]


@pytest.fixture(scope="module")
def sdist(source: Path) -> Path:
    return build("sdist", source, source.parent / "sdist")


@pytest.mark.processes
def test_the_source_distribution_builds_the_same_wheel(source, sdist, wheel):
    with tarfile.open(sdist) as archive:
        members, names = archive.getmembers(), archive.getnames()
        archive.extractall(source.parent, filter="data")
    assert all(member.isfile() or member.isdir() for member in members)
    top = {name.split("/")[1] for name in names if "/" in name}
    assert top >= {"lite", "kernels", "models", "LICENSE", "README.md", "pyproject.toml"}
    # Of the tests all or none are of use.
    assert not top & {"tests", "bench", "build"}
    (unpacked,) = source.parent.glob("tensordict_lite-*")
    again = zipfile.ZipFile(build("wheel", unpacked, source.parent / "again"))
    assert _of_the_product(again.namelist()) == _of_the_product(wheel.namelist())


def _a_copy_made_later(source: Path, folder: Path) -> Path:
    """The same files in another folder, with other times and access rights."""
    shutil.copytree(source, folder, symlinks=True)
    for file in folder.rglob("*"):
        if file.is_file() and not file.is_symlink():
            file.chmod(0o600)
            os.utime(file, (1_700_000_000, 1_700_000_000))
    return folder


@pytest.mark.processes
def test_two_builds_give_the_same_bytes(source, sdist, wheel, tmp_path):
    later = _a_copy_made_later(source, tmp_path / "elsewhere" / "later")
    assert wheel.filename is not None
    again = build("wheel", later, tmp_path / "wheel")
    assert again.read_bytes() == Path(wheel.filename).read_bytes()
    assert build("sdist", later, tmp_path / "sdist").read_bytes() == sdist.read_bytes()
    with tarfile.open(sdist) as archive:
        assert {(m.uid, m.gid, m.uname, m.mtime) for m in archive.getmembers()} == {(0, 0, "", 315_532_800)}
        (info,) = (name for name in archive.getnames() if re.fullmatch(r"[^/]*/PKG-INFO", name))
        told = archive.extractfile(info)
        assert told is not None
        assert "Requires-Dist" in email.message_from_bytes(told.read()).get_all("Dynamic", [])


@pytest.mark.processes
def test_what_an_index_shows_of_the_wheel(wheel: zipfile.ZipFile) -> None:
    info = next(name.rpartition("/")[0] for name in wheel.namelist() if name.endswith(".dist-info/RECORD"))
    told = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    assert (told["Name"], told["Version"]) == ("tensordict-lite", VERSION)
    needed = [line for line in told.get_all("Requires-Dist", []) if "extra ==" not in line]
    assert needed == ["numpy>=2.2", 'numba>=0.61.2; sys_platform != "emscripten"']
    assert (told["License-Expression"], told["License-File"]) == ("MIT", "LICENSE")
    assert wheel.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    text = str(told.get_payload())
    assert "pip install" in text
    relative = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert relative == []


@pytest.fixture
def with_kernels(wheel: zipfile.ZipFile, tmp_path: Path) -> Path:
    """The wheel with a library of a few kernels inside."""
    folder = small_library.folder()
    (row,) = json.loads((folder / "manifest.json").read_text())["libraries"]
    assert wheel.filename is not None
    return insert(folder, [TARGETS[row["target"]]], Path(wheel.filename), tmp_path / "dist")


@pytest.mark.processes
def test_a_wheel_with_kernels_inside_runs_them(with_kernels: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    install = ["install", "-q", "--no-index", "--no-deps", "--no-compile", "--target", str(site)]
    subprocess.run([sys.executable, "-m", "pip", *install, str(with_kernels)], check=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LITE_")}

    def printed(program: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=environment | {"PYTHONPATH": str(site)},
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()

    program = "import lite.kernels, sys; print(lite.__file__, lite.kernels.backend(), 'numba' in sys.modules)"
    assert printed(program).split() == [str(site / "lite" / "__init__.py"), "prebuilt", "False"]
    demo = "import sys, lite.cli; sys.exit(f'ended with {lite.cli.main([\"demo\"])}')"
    with pytest.raises(subprocess.CalledProcessError) as ended:
        printed(demo)
    assert "tensordict_lite_tiny_chat" in ended.value.stderr
    assert "Traceback" not in ended.value.stderr
    (model,) = with_kernels.parent.glob("tensordict_lite_tiny_chat-*-py3-none-any.whl")
    subprocess.run([sys.executable, "-m", "pip", *install, str(model)], check=True)
    found = Path(printed("from lite.models import embedded_model_path as path; print(path())"))
    assert found == site / "tensordict_lite_tiny_chat" / "tiny_chat"
    assert {file.name for file in found.iterdir()} == {file.name for file in embedded_model_path().iterdir()}


@pytest.mark.processes
def test_the_bill_of_materials(with_kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / ".ci"))
    bill = import_module("sbom").bill(with_kernels)
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    parts = {part["bom-ref"]: part for part in bill["components"]}
    (beside,) = with_kernels.parent.glob("tensordict_lite_tiny_chat-*.whl")
    model, tokenizer = import_module("sbom").bill(beside)["components"]
    assert model["bom-ref"] == "tensordict_lite_tiny_chat/tiny_chat/model.onnx"
    assert (model["type"], tokenizer["name"]) == ("machine-learning-model", "tokenizer.json")
    assert model["licenses"] == [{"expression": "MIT"}]
    content = (embedded_model_path() / "model.onnx").read_bytes()
    assert model["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]
    libraries = [name for name in parts if name.endswith(".so")]
    assert len(libraries) == 1
    assert parts["numba"]["licenses"] == [{"expression": "BSD-2-Clause"}]
    required = [part["name"] for part in bill["components"] if part.get("scope") == "required"]
    assert required == ["numpy"]
    (depends,) = bill["dependencies"]
    assert set(depends["dependsOn"]) <= set(parts)
    assert len(parts) == len(bill["components"])
    assert import_module("sbom").bill(with_kernels) == bill


@pytest.fixture
def archives(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / ".build"))
    monkeypatch.delitem(sys.modules, "archives", raising=False)
    return import_module("archives")


def test_links_of_the_readme_on_an_index(archives: Any) -> None:
    text = "[a `b`](lite/README.md#c), [d](https://e.example), [here](#f)\n```\nx[1](y)\n```\n[g](h)"
    assert archives.for_index(text, None) == (
        "a `b`, [d](https://e.example), [here](#f)\n```\nx[1](y)\n```\ng"
    )
    assert archives.for_index(text, "https://home.example/blob/v1") == (
        "[a `b`](https://home.example/blob/v1/lite/README.md#c), [d](https://e.example), [here](#f)\n"
        "```\nx[1](y)\n```\n[g](https://home.example/blob/v1/h)"
    )


def test_the_version_is_one() -> None:
    """lite/__init__.py has it; what has to name the wheel's file names the same."""
    assert {"version", "dependencies"} == set(PYPROJECT["project"]["dynamic"])
    assert SETUPTOOLS["dynamic"]["version"] == {"attr": "lite.__version__"}
    named = {
        document: re.findall(r"tensordict_lite-([\w.]+?)-py3", (ROOT / document).read_text(encoding="utf-8"))
        for document in ("lite/guides/tensordicts/browser.md", "tests/examples/n_step_returns.html")
    }
    assert set(map(tuple, named.values())) == {(VERSION,)}


def test_the_changelog_has_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", text, re.M)
    assert released[0] == VERSION
    assert re.search(r"^## \[Unreleased\]$", text, re.M)


def test_recipe_is_not_shipped() -> None:
    patterns = [p for group in SETUPTOOLS["package-data"].values() for p in group]
    assert not any(p.endswith(("*", ".py")) for p in patterns)


def test_embedded_model_fits_the_wheel() -> None:
    folder = FOLDERS["lite.models"]
    files = {f for pattern in SETUPTOOLS["package-data"]["lite.models"] for f in folder.glob(pattern)}
    assert 0 < sum(f.stat().st_size for f in files) <= 6_000_000


def test_ci_runs_the_commands_of_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    ci = (ROOT / ".ci" / "run").read_text().replace("pip install -q ", "pip install ")
    for command in ('pip install -e ".[llm]" && lite demo', 'pip install -e ".[test]" && pytest'):
        assert command in readme
        assert command in ci


def test_torch_is_never_imported_by_the_product() -> None:
    banned = ("torch", "tensordict", "torchrl", "transformers")
    for folder in FOLDERS.values():
        for file in folder.rglob("*.py"):
            for line in file.read_text().splitlines():
                words = line.split()
                if words[:1] in (["import"], ["from"]) and words[1].split(".")[0] in banned:
                    raise AssertionError(f"{file}: {line.strip()}")


def test_documents_of_the_project_are_well_formed() -> None:
    """Issue forms ask for something, and those about faults for `lite doctor`."""
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the extras ray and parity")
    forms = {
        path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))
        for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")
    }
    assert set(forms) == {"bug", "config", "missing", "model"}
    for name in ("bug", "missing", "model"):
        assert {"name", "description", "body"} <= set(forms[name])
        asked = [field["id"] for field in forms[name]["body"]]
        assert len(asked) == len(set(asked)) >= 2
        assert ("doctor" in asked) == (name != "missing")
    citation = yaml.safe_load((ROOT / ".github" / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["license"] == PYPROJECT["project"]["license"]
    assert citation["authors"] == PYPROJECT["project"]["authors"]
