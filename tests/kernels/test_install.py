"""What errors and documents say of installing: extras that exist, and no name an index may not have."""

import re
import runpy
import shutil
import tomllib
from pathlib import Path

import pytest

from lite.kernels._install import PREBUILT, install, needed

ROOT = Path(__file__).parents[2]
EXTRAS = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
TEXTS = {
    path.relative_to(ROOT): path.read_text(encoding="utf-8")
    for folder in ("lite", "kernels", "models", "tests", "bench", ".ci", ".")
    for path in ((ROOT / folder).glob("*") if folder == "." else (ROOT / folder).rglob("*"))
    if (path.suffix in (".py", ".md", ".ipynb") or path.name == "run")
    and path.is_file()
    and path.name != "CHANGELOG.md"
}


def test_no_text_has_an_index_asked_for_what_it_may_not_have() -> None:
    asking = re.compile(r"pip (?:install|download)[^\n`;]*\btensordict[-_]lite")
    found = {str(path): asking.findall(text) for path, text in TEXTS.items()}
    assert len(TEXTS) > 1000
    assert {path: lines for path, lines in found.items() if lines} == {}


def test_the_extras_that_are_named_are_there() -> None:
    asked = re.compile(
        r"""install\("([\w,-]+)"\)|install\('([\w,-]+)'\)|pip install (?:-e )?["']\.\[([\w,-]+)\]"""
    )
    named = {
        extra
        for text in TEXTS.values()
        for groups in asked.findall(text)
        for extra in "".join(groups).split(",")
    }
    assert {"llm", "cuda", "files", "gym", "ray", "grammar"} <= named <= EXTRAS
    assert install("llm,cuda") == 'pip install -e ".[llm,cuda]" in a checkout of lite'


def test_a_wheel_knows_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    shutil.copy(ROOT / "kernels/_install.py", tmp_path / "kernels")
    found = runpy.run_path(str(tmp_path / "kernels/_install.py"))["install"]("llm")
    assert found.startswith('pip install "PLACE[llm]", where PLACE is the wheel or checkout')


def test_the_wheel_of_kernels_is_made_by_a_module_that_is_there() -> None:
    (module,) = re.findall(r"python -m ([\w.]+) --wheel dist && pip install --no-deps dist/\*\.whl", PREBUILT)
    assert (ROOT / module.removeprefix("lite.").replace(".", "/") / "__main__.py").is_file()


def test_a_missing_module_is_an_error_with_its_command() -> None:
    assert needed("tomllib", "this needs tomllib", "pip install it") is tomllib
    with pytest.raises(ImportError, match=r"^this needs lite_absent: pip install it$"):
        needed("lite_absent.part", "this needs lite_absent", "pip install it")
