"""What the site consists of: which page is of what, in which order, and where links of documents lead."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import re
import shutil
from pathlib import Path

import browser_page
import documents
from documents import ROOT, Link, Page

RESULTS = ROOT / "bench" / "results"
PLOTS = (".png", ".svg")
GUIDES = ROOT / "lite" / "guides"
"""A folder for each part of the site; the README of a part links to its guides, in the order of the site."""

FRONT = ROOT / ".site" / "front.md"
"""What stands on the front page beside README: the first pages of five kinds of readers."""

WHOLE = {
    "README.md": "index",
    "CONTRIBUTING.md": "project/contributing",
    "CHANGELOG.md": "project/changelog",
    "lite/README.md": "tensordicts/index",
    "lite/nn/README.md": "nn/index",
    "lite/data/README.md": "data/index",
    "kernels/README.md": "kernels/index",
    "models/README.md": "models/index",
    "bench/README.md": "measured/index",
    "lite/DIFFERENCES.md": "differences/index",
    "models/DIFFERENCES.md": "differences/models",
    "tests/examples/first_steps.ipynb": "notebook",
    ".site/browser/page.md": "browser",
}
"""The documents that are one page each."""

SHOWN = ("tests/examples", "tests/scripts")
"""The folders whose programs have a page each; so has every other file that a document links to."""

TITLES = {
    "tensordicts": "TensorDicts, files, devices",
    "nn": "Modules that learn",
    "data": "Environments and buffers",
    "kernels": "Compiled kernels",
    "models": "Language models",
}


class Site:
    """The sources of the site, in a folder that Sphinx reads.

    Args:
        folder: where they go.
        figures: pictures of pages.
        runtime: what the page with programs loads to run them.
    """

    def __init__(self, folder: Path, figures: dict[str, str], runtime: str = "{}") -> None:
        self.folder = folder
        self._runtime = runtime
        self._figures = figures  # of pages, which stand below their headings
        self._places: dict[Link, str] = {}  # where links lead: a page, and perhaps a heading there
        self._sources: dict[str, str] = {}  # files of the repository that are shown -> their pages
        self._pages: list[Page] = []

    def write(self, notebook: Page) -> None:
        """Write all pages; that of the notebook is given."""
        self._collect(notebook)
        for page in self._pages:
            text = documents.replace_links(
                page.source, page.text, lambda link, page=page: self._to(link, page)
            )
            self._put(page.name, _with_figure(documents.for_readers(text), self._figures.pop(page.name, "")))
        if self._figures:
            raise ValueError(f"there are no pages {sorted(self._figures)} for pictures")
        self._reference()
        self._shown()

    def _collect(self, notebook: Page) -> None:
        whole = {**WHOLE}
        for guide in sorted(GUIDES.rglob("*.md")):
            whole[guide.relative_to(ROOT).as_posix()] = guide.relative_to(GUIDES).with_suffix("").as_posix()
        whole |= {
            f"bench/results/{file.name}": f"measured/{file.stem}" for file in sorted(RESULTS.glob("*.md"))
        }
        for source, name in whole.items():
            self._places[Link(source, "")] = name
            if source.endswith(".md"):
                text = (ROOT / source).read_text(encoding="utf-8")
                for _, _, words in documents.headings(text):
                    self._places[Link(source, documents.slug(words))] = f"{name}#{documents.slug(words)}"
                self._pages.append(Page(name, source, self._more(name, source, text)))
        self._pages.append(notebook)

    def _more(self, name: str, source: str, text: str) -> str:
        """A document with what the site adds: contents, plots and figures of results, a field for rows."""
        field = _field("rows")
        if name == "browser":
            return browser_page.with_cells(text, self._runtime)
        if name == "index":
            intro, heading, rest = text.partition("\n## ")
            front = FRONT.read_text(encoding="utf-8")
            return f"{intro}\n{front}{heading}{rest}\n{_contents()}"
        if name.startswith("differences/"):
            intro, heading, rest = text.partition("\n## ")
            other = "models.md" if name == "differences/index" else "index.md"
            tree = _toctree(["models"], "", hidden=True) if other == "models.md" else ""
            return f"{intro}\n{field}\n{tree}{heading}{rest}"
        if name == "measured/index":
            names = sorted(file.stem for file in RESULTS.glob("*.md"))
            intro, heading, rest = text.partition("\n## ")
            tree = _toctree(_guides(source, text, "measured") + names, "", hidden=True)
            return f"{intro}\n{_results(names)}\n{tree}{heading}{rest}"
        if (folder := name.removesuffix("/index")) in TITLES:
            return f"{text}\n{_toctree(_guides(source, text, folder), 'On these pages')}"
        if source.startswith("bench/results/"):
            plots = [
                f
                for f in sorted(RESULTS.iterdir())
                if f.suffix in PLOTS and f.stem.startswith(name.partition("/")[2])
            ]
            missing = [
                plot for plot in plots if f"({plot.name})" not in text and _owner(plot) == Path(source).stem
            ]
            text += "".join(f"\n![{plot.stem.replace('_', ' ')}]({plot.name})\n" for plot in missing)
            figures = RESULTS / f"{Path(source).stem}.json"
            if figures.exists():
                text += f"\nAll figures, to be read by programs: [{figures.name}]({figures.name}).\n"
            head, _, table = text.partition("\n|")
            return f"{head}\n{field}\n|{table}" if table.count("\n|") > 15 else text
        return text

    def _to(self, link: Link, page: Page) -> str:
        """The target of a link, as it is written on a page."""
        if link in self._places:
            return self._relative(self._places[link], page)
        if link.section and Link(link.path, "") in self._places:
            raise ValueError(f"{page.source} links to {link.path}#{link.section}, which is no heading there")
        file = ROOT / link.path
        if file.suffix in (*PLOTS, ".json") and file.parent == RESULTS:
            copy = self.folder / "measured" / file.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
            return os.path.relpath(copy, (self.folder / page.name).parent)
        if file.is_dir() and link.path in SHOWN:
            return self._relative(f"sources/{link.path}/index", page)
        if not file.is_file():
            raise ValueError(f"{page.source} links to {link.path}, which has no page")
        self._sources[link.path] = f"sources/{link.path}"
        return self._relative(self._sources[link.path], page)

    def _relative(self, place: str, page: Page) -> str:
        name, _, section = place.partition("#")
        path = os.path.relpath(name, os.path.dirname(page.name)) if name != page.name else ""
        return (f"{path}.md" if path else "") + (
            f"#{section}" if section else ""
        ) or f"{os.path.basename(name)}.md"

    def _put(self, name: str, text: str) -> None:
        file = self.folder / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _reference(self) -> None:
        """A page for each package, with a line for each public name: what it is, and its page of the API."""
        from api_pages import PACKAGES  # of .ci, beside the program that writes those pages

        kinds = {}  # of names, for the search
        for package in PACKAGES:
            module = importlib.import_module(package)
            lines = [
                f"# {package}",
                "",
                _first_line(module),
                "",
                _field("names"),
                "| name | what it is |",
                "|---|---|",
            ]
            for name in sorted(module.__all__, key=str.lower):
                found = getattr(module, name)
                target = f"../api/{package.replace('.', '/')}.html#{name}"
                told = "" if inspect.ismodule(found) or not found.__doc__ else _first_line(found)
                lines.append(f"| [`{name}`]({target}){{.external}} | {told} |")
                kinds[f"{package}.{name}"] = (
                    "class" if inspect.isclass(found) else "function" if callable(found) else "data"
                )
            self._put(f"reference/{package}", "\n".join([*lines, ""]))
        (self.folder / "reference" / "kinds.json").write_text(json.dumps(kinds), encoding="utf-8")
        intro = (
            "# All public names\n\nEach leads to its page: shapes, dtypes, errors, an example that runs.\n"
        )
        self._put("reference/index", f"{intro}\n{_toctree(PACKAGES, '')}")

    def _shown(self) -> None:
        """Programs and other files that documents link to."""
        for folder in SHOWN:
            files = [
                file
                for file in sorted((ROOT / folder).glob("*.py"))
                if not file.stem.startswith(("test_", "__"))
            ]
            for file in files:
                path = file.relative_to(ROOT).as_posix()
                self._sources[path] = f"sources/{path}"
            # No part of the tree: each page has the whole of it, which with the programs is a third larger.
            names = "\n".join(f"- [{file.name}]({file.name}.md)" for file in files)
            title = {"tests/examples": "Examples", "tests/scripts": "Scripts of TorchRL"}[folder]
            self._put(f"sources/{folder}/index", f"# {title}\n\nPrograms in `{folder}`.\n\n{names}\n")
        for path, name in self._sources.items():
            file = ROOT / path
            language = {".py": "python", ".json": "json", ".md": "md", ".html": "html"}.get(
                file.suffix, "text"
            )
            text = file.read_text(encoding="utf-8")
            shown = f"# {file.name}\n\n`{path}`\n\n````{language}\n{text.rstrip()}\n````\n"
            self._put(name, f"---\norphan: true\n---\n{shown}")


def _guides(source: str, text: str, folder: str) -> list[str]:
    """The guides of a folder that a document links to, in that order; one that it leaves out is an error."""
    paths = [Path(link.path) for link in documents.links(source, text)]
    linked = dict.fromkeys(path.stem for path in paths if path.parent == GUIDES.relative_to(ROOT) / folder)
    if missing := {guide.stem for guide in (GUIDES / folder).glob("*.md")} - set(linked):
        raise ValueError(f"{source} links to no {sorted(missing)} of lite/guides/{folder}")
    return list(linked)


def _results(names: list[str]) -> str:
    """A table of all results: the command that wrote each, where it ran, on which day."""
    lines = ["## Results", "", _field("results"), "| result | command | machine | day |", "|---|---|---|---|"]
    for name in names:
        text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
        command = re.search(r"`(python bench/[^`]+)`", text.partition("\n|")[0])
        parts = [
            re.search(pattern, text)
            for pattern in (
                r"\bgpu ([A-Z][^,(\n]+)",
                r"\bprocessor ([A-Z][^,\n]+)",
                r"\bdate (\d{4}-\d\d-\d\d)",
            )
        ]
        gpu, processor, day = (found[1].strip() if found else "" for found in parts)
        title = documents.headings(text)[0][2]
        machine = ", ".join(filter(None, [gpu, processor]))
        told = f"`{command[1]}`" if command else "by hand"
        lines.append(f"| [{title}](results/{name}.md) | {told} | {machine} | {day} |")
    return "\n".join([*lines, ""])


def _field(what: str) -> str:
    """A field that hides the rows of a page's tables without the words in it (`static/rows.js`)."""
    return (
        f'<input class="rows" type="search" placeholder="Show {what} with these words" aria-label="{what}">\n'
    )


def _with_figure(text: str, figure: str) -> str:
    """A page with a picture below its heading, or below its first paragraph if that is set apart."""
    if not figure:
        return text
    lines = text.split("\n")
    place = lines.index("", 2) if not lines[1] and lines[2][:1].isalpha() else 1
    return "\n".join([*lines[:place], "", figure, *lines[place:]])


def _owner(plot: Path) -> str:
    """The results that a plot is of: the longest name that begins its own."""
    names = [file.stem for file in RESULTS.glob("*.md") if plot.stem.startswith(file.stem)]
    return max(names, key=len)


def _first_line(thing: object) -> str:
    """The first paragraph of a docstring, as a cell of a table."""
    paragraph = (inspect.getdoc(thing) or "").partition("\n\n")[0]
    return " ".join(paragraph.split()).replace("|", "\\|").replace("<", "&lt;")


def _toctree(
    names: list[str], caption: str, hidden: bool = False, titled: dict[str, str] | None = None
) -> str:
    options = (
        [":maxdepth: 1"] + ([f":caption: {caption}"] if caption else []) + ([":hidden:"] if hidden else [])
    )
    entries = [f"{titled[name]} <{name}>" if titled and name in titled else name for name in names]
    return "\n".join(["```{toctree}", *options, "", *entries, "```", ""])


def _contents() -> str:
    """The tree of the whole site, which the front page holds for the sidebar."""
    guides = {f"{folder}/index": title for folder, title in TITLES.items()}
    look_up = {"reference/index": "Public names", "differences/index": "What differs"}
    look_up |= {"measured/index": "Measured", "sources/tests/examples/index": "Examples"}
    look_up |= {"sources/tests/scripts/index": "Scripts of TorchRL"}
    titled = guides | {"notebook": "First steps"}
    start = _guides("front.md", FRONT.read_text(encoding="utf-8"), "start")
    parts = [
        _toctree([f"start/{name}" for name in start], "In ten minutes", hidden=True),
        _toctree(["notebook", "browser", *guides], "Guides", hidden=True, titled=titled),
        _toctree(list(look_up), "Look up", hidden=True, titled=look_up),
        _toctree(["project/contributing", "project/changelog"], "The project", hidden=True),
    ]
    return "\n".join(parts)


def notebook_page(executed: dict[str, object]) -> Page:
    """The page of an executed notebook: its texts, its code, what each cell printed and showed."""
    lines: list[str] = []
    for cell in executed["cells"]:  # type: ignore[attr-defined]
        source = "".join(cell["source"])
        lines += [source, ""] if cell["cell_type"] == "markdown" else ["```python", source, "```", ""]
        for output in cell.get("outputs", []):
            if output["output_type"] == "error":
                raise RuntimeError("\n".join(output["traceback"]))
            if output["output_type"] == "stream":
                lines += ["```text", "".join(output["text"]).rstrip(), "```", ""]
            elif (data := output.get("data")) and "text/html" in data:
                lines += [
                    "```{raw} html",
                    '<div class="shown">',
                    _one_block("".join(data["text/html"])),
                    "</div>",
                    "```",
                    "",
                ]
            elif data and "image/png" in data:
                image = "".join(data["image/png"].split())
                lines += [
                    "```{raw} html",
                    f'<img class="shown" alt="plot" src="data:image/png;base64,{image}">',
                    "```",
                    "",
                ]
            elif data:
                lines += ["```text", "".join(data["text/plain"]).rstrip(), "```", ""]
    return Page("notebook", "tests/examples/first_steps.ipynb", "\n".join(lines))


def _one_block(html: str) -> str:
    """HTML without what would end a fenced block."""
    assert not re.search(r"^```", html, re.M), json.dumps(html[:200])
    return html
