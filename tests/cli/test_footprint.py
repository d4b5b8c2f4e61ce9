"""`lite footprint`."""

import json
import tomllib
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.commands import Run

from lite.cli import footprint


def asked(run: Run, *arguments: str) -> tuple[Any, str]:
    said = run(["footprint", "--json", "--repeat", "1", *arguments])
    return json.loads(said.out), said.err


@pytest.mark.processes
def test_the_files_of_packages_are_counted(run: Run) -> None:
    facts, progress = asked(run, "--only", "installed")
    assert progress == "lite footprint: installed\n"
    installed = facts["installed"]
    assert list(installed) == ["numpy only", "edge", "edge with language models", "llm-cpu", "llm"]
    files = [Path(str(file.locate())) for file in metadata.files("numpy") or []]
    assert installed["edge"]["numpy"] == sum(file.stat().st_size for file in files)
    assert 20e6 < installed["edge"]["numpy"] < 200e6
    assert all(installed[extra]["numpy"] == installed["edge"]["numpy"] for extra in ("llm-cpu", "llm"))


def test_a_checkout_is_counted_as_a_wheel_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    root = Path(__file__).parents[2]
    told = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]
    places = {name: root / name.replace(".", "/") for name in told["packages"]}
    wanted = {file.resolve() for place in places.values() for file in place.glob("*.py")}
    for name, patterns in told["package-data"].items():
        wanted |= {file.resolve() for pattern in patterns for file in places[name].glob(pattern)}
    found = [path.resolve() for path in footprint._of_checkout() if path.suffix != ".pyc"]
    assert len(found) == len(set(found))
    assert set(found) == wanted

    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    least = sum(file.stat().st_size for file in wanted)
    for distribution in (missing, lambda name: SimpleNamespace(files=[])):  # on a path alone; pip install -e
        monkeypatch.setattr("lite.cli.footprint.metadata.distribution", distribution)
        assert least <= (footprint._bytes("tensordict-lite") or 0) < 4 * least
    monkeypatch.setattr("lite.cli.footprint.metadata.distribution", missing)
    assert footprint._bytes("numpy") is None


def test_what_a_package_requires_is_counted_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    requires = {
        "numba": ["llvmlite<0.50,>=0.47", "numpy>=1.22"],
        "llvmlite": ["Under_Score[big]; python_version > '3'", "sphinx; extra == 'doc'", "absent>=1"],
        "under-score": None,
    }
    sizes = {"numba": 1, "llvmlite": 2, "under-score": 4, "numpy": 8, "sphinx": 16}
    monkeypatch.setattr("lite.cli.footprint.metadata.requires", lambda name: requires.get(name))
    monkeypatch.setattr("lite.cli.footprint._bytes", sizes.get)
    facts, _ = asked(run, "--only", "installed")
    assert facts["installed"]["llm"] == {
        "tensordict-lite": None, "numpy": 8, "numba": 1, "onnxruntime-gpu": None, "tokenizers": None,
        "jinja2": None, "llvmlite": 2, "under-score": 4,
    }  # fmt: skip
    assert facts["installed"]["edge"] == {
        "tensordict-lite": None,
        "numpy": 8,
        "tensordict-lite-kernels": None,
    }
    said = run(["footprint", "--only", "installed"]).out
    assert "numpy only: 0.0 MB on disk (without what is not installed)" in said
    assert "  tensordict-lite-kernels      not installed\n" in said


@pytest.mark.processes
def test_imports_and_memory_grow_from_stage_to_stage(run: Run) -> None:
    facts, _ = asked(run, "--only", "import", "--only", "memory")
    assert 0 < facts["import"]["lite over numpy"] < 5
    stages = facts["memory"]["policy"]
    assert list(stages) == ["python", "import numpy", "import lite", "a policy step"]
    assert list(stages.values()) == sorted(stages.values())
    assert stages["python"] > 2e6


@pytest.mark.processes
def test_first_calls_by_backend(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite.cli.footprint._KERNELS", {"nothing": "call = lambda: kernels.gae"})
    monkeypatch.setenv("LITE_KERNELS_PATH", "/does/not/exist")
    facts, _ = asked(run, "--only", "kernels")
    assert 0 < facts["kernels"]["numpy"]["nothing"]["cold"] < 1
    assert set(facts["kernels"]) == {"prebuilt", "numba", "numpy"}


@pytest.mark.processes
def test_what_cannot_run_here_says_why(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    program = "print('told'); raise ImportError('pip install this')"
    monkeypatch.setattr("lite.cli.footprint._GENERATION", program)
    monkeypatch.setattr("lite.cli.footprint._FIRST_CALL", "{}" + program)
    monkeypatch.setattr("lite.cli.footprint._KERNELS", {"any": ""})
    said = run(["footprint", "--only", "memory", "--only", "kernels"]).out
    assert "memory, generation: not here: ImportError: pip install this\n" in said
    assert "first call of a kernel, numpy: not here: ImportError: pip install this\n" in said


def test_the_demo_is_timed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def child(program: str | None, settings: dict[str, str] | None = None) -> dict[str, Any]:
        calls.append((program, *(settings or {})))
        return {}

    monkeypatch.setattr("lite.cli.footprint._child", child)
    monkeypatch.setattr("os.getloadavg", lambda: (7.0, 8.0, 9.0))
    facts, progress = asked(run, "--only", "demo")
    assert (facts["load"], progress) == (7, "lite footprint: demo\n")
    assert calls == [(None, "NUMBA_CACHE_DIR")] * 2
    assert set(facts["demo"]) == {"cold", "warm"}
