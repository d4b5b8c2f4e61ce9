"""The scripts that `bench/full.py` runs: what the catalogue says of them is so."""

import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from helpers import bench_files

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "bench"


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return bench_files.imported("catalogue", monkeypatch)


def test_every_script_takes_the_same_arguments(catalogue: ModuleType) -> None:
    """And saves in one way, under the name that it has here."""
    for name, script in catalogue.SCRIPTS.items():
        source = (BENCH / script.file).read_text(encoding="utf-8")
        assert "arguments(__doc__, " in source, script.file
        assert re.search(rf'(?:report|save|show)\([^"]*"{name}"', source), script.file
        assert "RESULTS" not in source, script.file


def test_every_script_is_in_the_catalogue(catalogue: ModuleType) -> None:
    """What runs on a GPU is not: results of it are not there to compare with."""
    sharing = {path.name for path in BENCH.glob("*.py") if "arguments(__doc__, " in path.read_text("utf-8")}
    listed = {script.file for script in catalogue.SCRIPTS.values()}
    assert sharing - listed == {"cuda_jit.py", "cuda_kernels.py", "cuda_llm.py"}


def test_what_the_readme_claims_can_be_run(catalogue: ModuleType) -> None:
    assert set(catalogue.CLAIMED) == catalogue.readme_table.SOURCES


def test_versions_to_install_are_those_of_the_claims(catalogue: ModuleType) -> None:
    results = catalogue.RESULTS
    claimed = catalogue.versions_of(results, "tensordict", ("torch", "tensordict"))
    pinned = dict(re.findall(r"(\w+)==([\d.]+)", catalogue.BESIDE_TENSORDICT))
    assert pinned == claimed
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    of_parity = dict(re.findall(r"(torch|torchrl)==([\d.]+)", " ".join(extras["parity"])))
    assert of_parity == catalogue.versions_of(results, "kernels", ("torch", "torchrl"))
    for script in catalogue.SCRIPTS.values():
        for extra in re.findall(r"\[([\w,-]+)\]", script.install):
            assert set(extra.split(",")) <= set(extras)


def test_modules_that_are_missing_are_found(catalogue: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "tensordict"):
        monkeypatch.setitem(sys.modules, name, None)
    assert catalogue.missing(catalogue.SCRIPTS["tensordict"]) == ["torch", "tensordict"]


def test_the_readme_has_the_table(catalogue: ModuleType) -> None:
    readme = (BENCH / "README.md").read_text(encoding="utf-8")
    assert catalogue.table() in readme, "put in what python bench/catalogue.py prints"


def test_minutes_are_those_of_a_run(catalogue: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "scripts.json").write_text('{"rows": [{"script": "files", "processor_seconds": 90}]}')
    assert catalogue.minutes("files", tmp_path) == 1.5
    assert catalogue.minutes("vmap", tmp_path) is None
    rows = catalogue.readme_table.rows("scripts")
    assert {row["script"] for row in rows} <= set(catalogue.SCRIPTS)
    assert {row["rounds"] for row in rows} == {None}  # all of them
