"""The package lists match the folders, and the files users rely on say the same thing."""

import stat
import tarfile
import tomllib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import pytest
from helpers.building import build, copy_of_the_checkout

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
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


def test_links_point_to_the_top_folders() -> None:
    for name in ("kernels", "models"):
        link = ROOT / "lite" / name
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


def test_file_names_are_possible_on_windows(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert len({name.lower() for name in names}) == len(names)  # its file systems ignore case
    for name in names:
        for part in name.split("/"):
            reserved = part.split(".")[0].upper() in {"CON", "PRN", "AUX", "NUL"}
            assert not reserved, name
            assert not part.endswith((".", " ")), name
            assert not set(part) & set('<>:"\\|?*'), name


def test_a_build_leaves_the_tree_alone(source: Path, wheel: zipfile.ZipFile) -> None:
    assert [file.name for file in (source / "build").rglob("*.py")] == ["renamed_since.py"]


@pytest.mark.processes
def test_the_source_distribution_builds_the_same_wheel(source: Path, wheel: zipfile.ZipFile) -> None:
    with tarfile.open(build("sdist", source, source.parent / "sdist")) as archive:
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
            if "assets" in file.parts:
                continue
            for line in file.read_text().splitlines():
                words = line.split()
                if words[:1] in (["import"], ["from"]) and words[1].split(".")[0] in banned:
                    raise AssertionError(f"{file}: {line.strip()}")
