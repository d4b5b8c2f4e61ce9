"""The site: each document is a page, links lead to pages, pictures show what calls gave, programs run."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from helpers.browser import Browser, browser
from helpers.cases import each_case
from helpers.pyodide.pages import need_pyodide, served, wait_for

ROOT = Path(__file__).parents[1]
SVG = "{http://www.w3.org/2000/svg}"


class Sources(NamedTuple):
    """The modules that write the site."""

    documents: ModuleType
    pages: ModuleType
    check: ModuleType
    notebook: ModuleType
    run_cell: ModuleType


@pytest.fixture(scope="module")
def sources() -> Iterator[Sources]:
    """Those of .site, and the list of packages of .ci, which are not on the path otherwise."""
    pytest.importorskip("pdoc", reason="needs the dev extra: pip install -e '.[dev]'")
    added = [str(ROOT / ".site"), str(ROOT / ".site" / "browser"), str(ROOT / ".ci")]
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


# -- the programs of the page that runs them -------------------------------------------------------------

CELLS = ROOT / ".site" / "browser" / "cells"


class Shown(NamedTuple):
    """What a program showed: what it printed, and what its last line is worth."""

    told: str
    kind: str
    text: str


@pytest.fixture(scope="module")
def here(sources: Sources) -> dict[str, Shown]:
    """What the programs show on CPython."""
    shown = {}
    for file in CELLS.glob("*.py"):
        told: list[str] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(sys.modules, "tokenizers", None)  # as in a browser
            result = sources.run_cell.run(file.read_text(encoding="utf-8"), "program", told.append)
        shown[file.stem] = Shown("".join(told), *result)
    return shown


def test_programs_show_what_their_page_says(here: dict[str, Shown], written: Path) -> None:
    page = (written / "browser.md").read_text(encoding="utf-8")
    assert page.count("<textarea") == len(here) == 4
    assert here["tensordict"].told.splitlines()[-2:] == ["['maze 2', 'maze 3'] [0. 2.]", "[7.]"]
    assert here["tensordict"].text.startswith("TensorDict(")
    assert here["multi_step"].told == "7 rewards of 1; the largest return is 1.900\n"
    assert "5-step returns" in here["multi_step"].text
    assert float(here["cartpole"].told.split()[-1]) >= 150
    assert {here["multi_step"].kind, here["cartpole"].kind} == {"svg"}
    lines = here["chat"].told.splitlines()
    assert [line.partition("  (each token")[0] for line in lines[:4]] == [
        "What is 17 + 25?  42",
        "Is 53 greater than 88?  no",
        "Sort in descending order: 70 95 12  95 70 12",
        "Say w o l f in reverse order.  f l o w",
    ]
    assert here["chat"].kind == "nothing"


@each_case(
    ("source", "told", "kind", "text"),
    [
        ("print(1)\n2 + 3", "1\n", "text", "5"),
        ("x = 3", "", "nothing", ""),
        ("", "", "nothing", ""),
        ("import sys\nprint('a', file=sys.stderr)", "a\n", "nothing", ""),
        ("print('a')\n{}['gone']", "a\n", "error", "line 2, in <module>\n    {}['gone']"),
        ("import sys\nsys.exit(3)", "", "error", "SystemExit: 3"),
        ("x = (", "", "error", "SyntaxError"),
    ],
)
def test_a_program_is_run_as_in_a_notebook(sources, source, told, kind, text):
    printed: list[str] = []
    shown = sources.run_cell.run(source, "program", printed.append)
    assert shown[0] == kind
    assert text in shown[1]
    assert "run_cell" not in shown[1]
    assert "".join(printed) == told


# -- the whole site, built once --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It builds without a warning, without a dead link, and within its weight."""
    for name in ("sphinx", "furo", "myst_parser", "pdoc", "nbclient"):
        pytest.importorskip(name, reason="needs the site extra: pip install -e '.[llm,site]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, str(ROOT / ".ci" / "site"), str(folder)]
    if os.environ.get("LITE_PYODIDE"):
        command += ["--pyodide", str(need_pyodide())]
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
    for name in ("tensordicts/what-it-is", "nn/steps-as-graphs", "start/language-model"):
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
        found = (
            "const end = Date.now() + 20000;"
            "const list = () => [...document.querySelectorAll('ul.search li a')].map((link) => link.href);"
            "return new Promise(done => { const look = () => list().length > 5 || Date.now() > end ?"
            " done(list()) : setTimeout(look, 50); look(); })"
        )
        for word, page in {  # in a title, as a public name, and in neither: of the words in conf.py
            "Replay buffers": "/data/replay-buffers.html",
            "MultiStep": "/reference/lite.data.html#rows=MultiStep",
            "gymnasium": "/data/index.html",
        }.items():
            shown.visit(f"{(site / 'search.html').as_uri()}?q={quote(word)}")
            assert page in shown.ask(found)[0], word


class _Programs:
    """The page whose programs run, in a browser."""

    def __init__(self, shown: Browser) -> None:
        self._browser = shown

    def start(self, name: str, source: str | None = None) -> None:
        """Begin a program, by Ctrl+Enter, with another text than its own if one is given."""
        edit = "" if source is None else f"code.value = {json.dumps(source)};"
        self._browser.ask(
            f"const code = document.querySelector('#cell-{name} textarea'); {edit}"
            "code.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', ctrlKey: true}))"
        )

    def press(self, name: str, button: str) -> None:
        self._browser.ask(f"document.querySelector('#cell-{name} .{button}').click()")

    def part(self, name: str, selector: str) -> Any:
        found = f"document.querySelector('#cell-{name} {selector}')"
        return self._browser.ask(f"return {found} && ({found}.value || {found}.alt || {found}.textContent)")

    def end(self, name: str) -> str:
        """How a program that runs has ended."""
        button = f"document.querySelector('#cell-{name} .run')"
        wait_for(self._browser, f"return {button}.textContent === 'Run'", seconds=300)
        return str(self.part(name, ".state"))

    def run(self, name: str, source: str | None = None) -> str:
        self.start(name, source)
        return self.end(name)


@pytest.fixture(scope="module")
def programs(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Programs]:
    need_pyodide()
    with browser(tmp_path_factory.mktemp("browser")) as shown, served(site) as address:
        shown.visit(f"{address}browser.html")
        loaded = "return performance.getEntriesByType('resource').map((entry) => entry.name).join(' ')"
        assert "_browser/" not in shown.ask(loaded)  # before something is run
        yield _Programs(shown)


@pytest.mark.processes
@pytest.mark.parametrize("name", ["tensordict", "multi_step", "cartpole", "chat"])
def test_programs_run_in_a_browser(programs: _Programs, here: dict[str, Shown], name: str) -> None:
    assert programs.run(name).endswith(" s")
    told = programs.part(name, ".told")
    if name in ("tensordict", "multi_step"):
        assert told == here[name].told
        shown = programs.part(name, "pre.text" if name == "tensordict" else "img")
        assert shown in here[name].text
    elif name == "cartpole":
        assert float(told.split()[-1]) >= 150
        assert "how long poles stand" in programs.part(name, "img")
    else:  # probabilities are rounded sums of single precision
        answers = [[line.partition("  (each")[0] for line in x.splitlines()] for x in (told, here[name].told)]
        assert answers[0] == answers[1]


@pytest.mark.processes
def test_programs_are_edited_fail_and_are_stopped(programs: _Programs) -> None:
    own = programs.part("multi_step", "textarea")
    programs.run("multi_step", own.replace("60, 5, 0.9", "60, 1, 0.9"))
    assert programs.part("multi_step", ".told") == "7 rewards of 1; the largest return is 1.000\n"
    assert programs.part("multi_step", "img") == "1-step returns of two episodes"
    programs.press("multi_step", "reset")
    assert programs.part("multi_step", "textarea") == own
    indented = programs._browser.ask(
        "const code = document.querySelector('#cell-chat textarea'); code.focus(); code.select();"
        "document.execCommand('insertText', false, '  if x:');"
        "code.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', cancelable: true}));"
        "return code.value"
    )
    assert indented == "  if x:\n      "

    assert programs.run("tensordict", "x = 1\nraise KeyError('gone')").startswith("an error after")
    told = programs.part("tensordict", "pre.error")
    assert told.startswith("Traceback")
    assert "line 2" in told
    assert told.endswith("KeyError: 'gone'\n")
    assert programs.run("tensordict", "x").startswith("an error")  # names are each program's own

    programs.start("tensordict", "print('begun')\nwhile True:\n    pass")
    told = "document.querySelector('#cell-tensordict .told')"
    wait_for(programs._browser, f"return {told}?.textContent === 'begun\\n'")
    assert programs._browser.ask("return document.querySelector('#cell-chat .run').disabled")
    programs.press("tensordict", "run")
    assert programs.end("tensordict") == "stopped"
    assert programs.run("tensordict", "6 * 7").endswith(" s")  # in a Python that is loaded anew
    assert programs.part("tensordict", "pre.text") == "42"


@pytest.mark.processes
def test_a_file_that_is_not_of_the_release_is_not_run(site: Path, tmp_path: Path) -> None:
    need_pyodide()
    page = (site / "browser.html").read_text(encoding="utf-8")
    setup = page.partition('browser_worker.js">')[2].partition("</script>")[0]
    told = json.loads(setup)
    sums = [told["sums"]["pyodide.asm.mjs"], told["sums"]["pyodide.asm.wasm"], told["wheel_sum"]]
    other = "sha384-" + 64 * "A"
    with browser(tmp_path) as shown, served(site) as address:
        for number, each in enumerate(sums):
            (site / f"other{number}.html").write_text(page.replace(each, other), encoding="utf-8")
            shown.visit(f"{address}other{number}.html")
            wrong = _Programs(shown)
            assert wrong.run("tensordict").startswith("It did not load:")
        shown.visit((site / "browser.html").as_uri())
        assert "from a server only" in wrong.run("tensordict")
