"""The package lists match the folders, and the files users rely on say the same thing."""

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PYPROJECT["tool"]["setuptools"]
FOLDERS = {"lite": ROOT / "lite", "lite.kernels": ROOT / "kernels", "lite.models": ROOT / "models"}


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
            assert list(FOLDERS[package].glob(pattern)), f"{package}: nothing matches {pattern}"


def test_the_wheel_holds_the_listed_packages_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "source"
    skipped = shutil.ignore_patterns("__pycache__", ".*", "tests", "bench", "build", "*.egg-info")
    shutil.copytree(ROOT, source, symlinks=True, ignore=skipped)
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", build], cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    code = [name for name in names if name.endswith(".py")]
    assert {name.rsplit("/", 1)[0].replace("/", ".") for name in code} == set(SETUPTOOLS["packages"])
    expected = {
        "/".join((package.replace(".", "/"), file.relative_to(FOLDERS[package]).as_posix()))
        for package, patterns in SETUPTOOLS["package-data"].items()
        for pattern in patterns
        for file in FOLDERS[package].glob(pattern)
    }
    assert set(names) - set(code) == expected


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
    for command in ('pip install ".[llm]" && lite demo', 'pip install -e ".[test]" && pytest'):
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
