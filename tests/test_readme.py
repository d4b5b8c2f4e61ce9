"""Documents run as printed: the Python of each README in one fresh process from top to bottom."""

import json
import os
import re
from pathlib import Path

import pytest
from helpers import ray_jobs, readme_blocks
from helpers.cases import each_case
from helpers.readme_blocks import needs_more, needs_ray, python_of, stated

ROOT = Path(__file__).parents[1]
# Two folders of lite are links to the top ones.
READMES = [
    "README.md",
    *(
        path.relative_to(ROOT).as_posix()
        for pattern in ("[!.]*/README.md", "lite/*/README.md", "lite/guides/*/*.md")
        for path in sorted(ROOT.glob(pattern))
        if not path.parent.is_symlink()
    ),
]
WITH_PYTHON = [document for document in READMES if python_of(document)]


def test_every_guide_is_linked_from_a_readme() -> None:
    """The README of the package; that of lite for the first pages of readers of five kinds."""
    pattern = re.compile(r"guides/(\w+)/([\w-]+)\.md")
    readmes = [document for document in READMES if document.endswith("README.md")]
    linked = {found for each in readmes for found in pattern.findall((ROOT / each).read_text("utf-8"))}
    guides = {(path.parent.name, path.stem) for path in ROOT.glob("lite/guides/*/*.md")}
    assert len(guides) > 40
    assert guides - linked == set()
    assert [path for path in ROOT.glob("lite/guides/**/*") if path.is_file() and path.suffix != ".md"] == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a process with the imports is forked for each")
@pytest.mark.parametrize(
    "readme", [pytest.param(each, id=f"{each}+parity" if needs_more(each) else each) for each in WITH_PYTHON]
)
def test_blocks_run_as_printed(readme: str) -> None:
    skipped = []
    for block, result in zip(python_of(readme), readme_blocks.run(readme), strict=True):
        where = f"{readme}, line {result.get('line') or block.line}"
        assert "failed" not in result, f"{where}: {result['failed']}"
        if "skipped" in result and not needs_ray(block):  # these run below
            skipped.append(f"{where}: {result['skipped']}")
    assert not (skipped and os.environ.get("LITE_REQUIRE_PARITY")), skipped
    if skipped:
        pytest.skip("; ".join(skipped))


def test_lines_state_values() -> None:
    """Which the blocks are compared with as they run."""
    count = {each: sum(len(stated(block)) for block in python_of(each)) for each in WITH_PYTHON}
    assert count["README.md"] >= 5
    for folder in ("lite/guides/tensordicts", "lite/guides/nn", "lite/guides/models"):
        assert sum(number for each, number in count.items() if each.startswith(folder)) >= 3, folder
    assert sum(count.values()) >= 70


def test_a_name_that_no_block_makes_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner itself, on a document that is wrong in four ways, lacks a package, and is right in one."""
    source = """```python
x = [1, 2]
len(x), 3               # (2, 3)
```
```python
y = unknown + 1
```
```python
(1, 2)                  # (1, 3)
```
```python
import a_package_that_nobody_has
made = 1
```
```python
made                    # of what is lacking here, as the block above
```
## Another section
```python
["a", "b"]              # ['a', ...]
x + [y]
```
"""
    (tmp_path / "README.md").write_text(source)
    monkeypatch.setattr(readme_blocks, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", ["", "README.md"])
    results = []
    monkeypatch.setattr("builtins.print", lambda text: results.extend(json.loads(text)))
    readme_blocks._main("README.md")
    assert results[0]["stated"] == 1
    assert results[1]["failed"] == "NameError: name 'unknown' is not defined"
    assert results[1]["line"] == 6
    assert "line 9 states (1, 3), and is (1, 2)" in results[2]["failed"]
    assert results[3]["skipped"] == "a_package_that_nobody_has is not installed"
    assert results[4]["skipped"] == "a_package_that_nobody_has is not installed"
    assert results[5]["failed"] == "NameError: name 'y' is not defined"


# -- what documents say of themselves ----------------------------------------------------------------------


def test_readme_is_one_page() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 9000


@each_case("document", [each for each in READMES if each.endswith("/README.md")])
def test_readme_of_a_folder_is_short(document: str) -> None:
    """What the folder is and where things are; how to do something is a page of lite/guides."""
    assert len((ROOT / document).read_bytes()) <= (12_000 if document.startswith("lite/") else 13_000)


def test_differences_are_few_and_each_has_its_reason() -> None:
    rows = []
    for file in ("lite/DIFFERENCES.md", "models/DIFFERENCES.md"):
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        rows += [line for line in lines if line.startswith("| ") and not line.startswith("| what |")]
    assert 0 < len(rows) <= 120
    for row in rows:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        assert len(cells) == 4, row
        assert all(cells), row


@each_case("document", [*READMES, "CONTRIBUTING.md", "lite/DIFFERENCES.md", "models/DIFFERENCES.md"])
def test_files_that_documents_name_exist(document: str) -> None:
    text = re.sub(r"^```.*?^```", "", (ROOT / document).read_text(encoding="utf-8"), flags=re.M | re.S)
    links = [
        (ROOT / document).parent / link for link in re.findall(r"\]\(([^)#: ]+)(?: \"[^\"]*\")?\)", text)
    ]
    paths = [ROOT / path for path in re.findall(r"`((?:lite|kernels|models|tests|bench)/[\w/.]*)`", text)]
    assert links + paths or document.startswith("lite/guides/")
    assert [str(path) for path in links + paths if not path.exists()] == []


@each_case("document", [*READMES, "CONTRIBUTING.md"])
def test_sections_that_links_name_exist(document: str) -> None:
    """A heading is linked to by its words in lower case, joined by hyphens."""

    def sections(file: Path) -> set[str]:
        text = re.sub(r"^```.*?^```", "", file.read_text(encoding="utf-8"), flags=re.M | re.S)
        headings = re.findall(r"^#+ (.*)", text, flags=re.M)
        return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    text = (ROOT / document).read_text(encoding="utf-8")
    for path, section in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
        file = (ROOT / document).parent / path if path else ROOT / document
        assert section in sections(file), f"{document} links to {path}#{section}"


@pytest.mark.processes
def test_blocks_on_ray() -> None:
    ray_jobs.need_ray()
    models, data = (python_of(f"lite/guides/{part}/many-machines.md") for part in ("models", "data"))
    (rows,) = (block for block in models if "ray.data" in block.source)
    (batches,) = (block for block in data if "RayCollector" in block.source)
    script = f"""
import json, os, sys
os.chdir(sys.argv[1])
{ray_jobs.start()}
ray.init = lambda: None
{rows.source}
ids = sorted(row['id'] for row in scored.take_all())
{batches.source}
print(json.dumps([ids, [len(batch)]]))
ray.shutdown()
"""
    assert ray_jobs.run(script) == [list(range(64)), [64]]


def test_environment_variables_are_in_the_table() -> None:
    """Those that the packages read; what builds libraries beforehand says for itself what it takes."""
    table = (ROOT / "lite/README.md").read_text(encoding="utf-8").partition("## Environment variables")[2]
    told = set(re.findall(r"`([A-Z][A-Z_]+)`", table.partition("\n## ")[0]))
    files = [file for top in ("lite", "kernels", "models") for file in (ROOT / top).rglob("*.py")]
    text = "".join(file.read_text(encoding="utf-8") for file in files if "prebuild" not in file.parts)
    read = set(re.findall(r"""environ(?:\.get\(|\[)["']([A-Z_]+)["']""", text))
    assert len(read) > 5
    assert read - told == {"COMPUTERNAME"}  # which Windows sets
