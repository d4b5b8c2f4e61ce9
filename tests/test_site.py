"""The site: each document is a page, links lead to pages, pictures show what calls gave."""

from __future__ import annotations

import importlib
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from helpers.browser import browser

ROOT = Path(__file__).parents[1]
SVG = "{http://www.w3.org/2000/svg}"


class Sources(NamedTuple):
    """The modules that write the site."""

    documents: ModuleType
    pages: ModuleType
    check: ModuleType
    notebook: ModuleType


@pytest.fixture(scope="module")
def sources() -> Iterator[Sources]:
    """Those of .site, and the list of packages of .ci, which are not on the path otherwise."""
    pytest.importorskip("pdoc", reason="needs the dev extra: pip install -e '.[dev]'")
    added = [str(ROOT / ".site"), str(ROOT / ".ci")]
    sys.path[:0] = added
    try:
        yield Sources(*(importlib.import_module(name) for name in Sources._fields))
    finally:
        for path in added:
            sys.path.remove(path)


@pytest.fixture(scope="module")
def written(sources: Sources, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What Sphinx reads, with the notebook as it is kept; a link that leads nowhere raises here."""
    folder = tmp_path_factory.mktemp("source")
    sources.pages.Site(folder, {}).write(sources.pages.notebook_page(sources.notebook.as_kept()))
    return folder


def test_all_documents_have_pages(sources: Sources, written: Path) -> None:
    pages = {path.relative_to(written).as_posix() for path in written.rglob("*.md")}
    assert {f"measured/{path.name}" for path in (ROOT / "bench/results").glob("*.md")} <= pages
    guides = ROOT / "lite/guides"
    assert {path.relative_to(guides).as_posix() for path in guides.rglob("*.md")} <= pages
    assert {"index.md", "notebook.md", "differences/index.md", "differences/models.md"} <= pages
    assert {"tensordicts/index.md", "nn/losses.md", "reference/lite.data.md"} <= pages
    plots = {path.name for path in (ROOT / "bench/results").iterdir() if path.suffix in (".png", ".svg")}
    assert plots <= {path.name for path in (written / "measured").iterdir()}


def test_links_of_pages_lead_to_pages(sources: Sources, written: Path) -> None:
    count = 0
    for page in written.rglob("*.md"):
        if "sources" in page.parts:
            continue
        for link in sources.documents.links("", page.read_text(encoding="utf-8")):
            if link.path and not link.path.startswith(("api/", "../api/")):
                assert (page.parent / link.path).is_file(), f"{page.name} links to {link.path}"
                count += 1
    assert count > 200


def test_a_link_to_a_heading_that_is_gone_is_an_error(sources: Sources, tmp_path: Path) -> None:
    site = sources.pages.Site(tmp_path, {})
    page = sources.documents.Page("made", "lite/README.md", "# Made\n[up](#no-such-heading)\n")
    site._collect(sources.pages.notebook_page(sources.notebook.as_kept()))
    with pytest.raises(ValueError, match="no-such-heading"):
        sources.documents.replace_links(page.source, page.text, lambda link: site._to(link, page))
    assert (
        site._to(sources.documents.Link("lite/README.md", "conventions"), page)
        == "tensordicts/index.md#conventions"
    )
    with pytest.raises(ValueError, match="no pages"):
        sources.pages.Site(tmp_path, {"lite/no-such-page": "<svg/>"}).write(
            sources.pages.notebook_page(sources.notebook.as_kept())
        )


def test_a_guide_that_its_readme_leaves_out_is_an_error(sources: Sources) -> None:
    text = (ROOT / "lite/nn/README.md").read_text(encoding="utf-8")
    names = sources.pages._guides("lite/nn/README.md", text, "nn")
    assert names[:2] == ["distributions", "policies"]  # in the order of the links
    with pytest.raises(ValueError, match=r"\['losses'\] of lite/guides/nn"):
        sources.pages._guides("lite/nn/README.md", text.replace("/losses.md", "/policies.md"), "nn")


def test_dead_links_are_told(sources: Sources, tmp_path: Path) -> None:
    (tmp_path / "b.html").write_text(
        '<h1 id="there">b</h1><a href="https://pyodide.org">x</a>', encoding="utf-8"
    )
    (tmp_path / "a.html").write_text(
        '<a href="b.html#there">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><a href="#top">4</a>'
        '<script src="https://cdn.example/x.js"></script><img src="data:image/png;base64,AA">'
        '<a href="api/x.html">5</a>',
        encoding="utf-8",
    )
    assert sources.check.dead_links(tmp_path, without=("api/",)) == [
        "a.html: b.html#gone names no heading of that page",
        "a.html: c.html is not there",
        "a.html: https://cdn.example/x.js comes from elsewhere",
    ]


def test_pictures_are_drawn_within_their_frame(sources: Sources) -> None:
    pytest.importorskip("onnxruntime", reason="needs the llm extra: pip install -e '.[llm]'")
    pictures = importlib.import_module("pictures")
    for picture in pictures.PICTURES:
        root = ET.fromstring(picture.draw())
        width, height = (float(root.attrib[name]) for name in ("width", "height"))
        words = root.findall(f"{SVG}text")
        assert len(words) > 5
        for each in words:
            letter = 4 if "faint" in each.attrib["class"] else 5
            size = letter * len(each.text or "")
            begins = {"start": 0.0, "middle": -size / 2, "end": -size}[each.attrib["text-anchor"]]
            x, y = float(each.attrib["x"]) + begins, float(each.attrib["y"])
            assert x >= 0, each.text
            assert x + size <= width, each.text
            assert 0 < y < height, each.text


def test_the_picture_of_multi_step_has_its_numbers(sources: Sources) -> None:
    root = ET.fromstring(importlib.import_module("pictures").multi_step())
    words = [each.text for each in root.findall(f"{SVG}text")]
    assert "0.81 · 2 = 1.62" in words  # 0.9 ** 2 * 2
    assert words.count("done") == 2


# -- the whole site, built once --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It builds without a warning, without a dead link, and within its weight."""
    for name in ("sphinx", "furo", "myst_parser", "pdoc", "nbclient"):
        pytest.importorskip(name, reason="needs the site extra: pip install -e '.[llm,site]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / ".ci" / "site"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    assert "WARNING:" not in done.stderr
    return folder


@pytest.mark.processes
def test_the_site_is_whole(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert (site / "api" / "lite.html").is_file()
    outputs = (site / "notebook.html").read_text(encoding="utf-8")
    assert "lite-tokens" in outputs  # what cells showed, and their plot
    assert "data:image/png" in outputs
    for name in (
        "tensordicts/what-it-is",
        "nn/steps-as-graphs",
        "start/language-model",
    ):
        assert "<svg" in (site / f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.processes
def test_pages_answer_in_a_browser(site: Path, tmp_path: Path) -> None:
    """The field over tables, the search, and the switch between light and dark."""
    with browser(tmp_path) as shown:
        shown.visit((site / "differences" / "index.html").as_uri())
        count = "return [...document.querySelectorAll('article tbody tr')].filter(x => x.offsetHeight).length"
        every = shown.ask(count)
        shown.ask(
            "const field = document.querySelector('input.rows');"
            "field.value = 'numel'; field.dispatchEvent(new Event('input'))"
        )
        assert 1 <= shown.ask(count) < 10 < every
        shown.ask("document.body.dataset.theme = 'dark'")
        dark = shown.ask("return getComputedStyle(document.body).backgroundColor")
        shown.ask("document.body.dataset.theme = 'light'")
        assert shown.ask("return getComputedStyle(document.body).backgroundColor") != dark
        shown.visit(f"{(site / 'search.html').as_uri()}?q=MultiStep")
        found = (
            "const end = Date.now() + 20000;"
            "const list = () => document.querySelectorAll('ul.search li').length;"
            "return new Promise(done => { const look = () => list() > 5 || Date.now() > end ? done(list())"
            " : setTimeout(look, 50); look(); })"
        )
        assert shown.ask(found) > 5
