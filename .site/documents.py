"""Documents of the repository as pages: a README is an index and a page for each section, and links follow.

Nothing is written twice: the text of a page is that of the document, but for its links, the level of its
headings, and what its blocks of Python take from earlier sections, which is told in front of them.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
READMES = {
    "lite/README.md": "lite",
    "lite/nn/README.md": "nn",
    "lite/data/README.md": "data",
    "kernels/README.md": "kernels",
    "models/README.md": "models",
}
"""The documents that are split, and the folders of the site that their pages are in."""

_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.M | re.S)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?( \"[^\"]*\")?\)")
_HEADING = re.compile(r"^(#+) (.*)$", re.M)
_PYTHON = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)


class Page(NamedTuple):
    """A page: its name on the site, without suffix; the document that it is of; its text with the heading."""

    name: str
    source: str
    text: str


class Link(NamedTuple):
    """Where a link of a document leads: to a file or folder of the repository, and a heading there."""

    path: str
    section: str


def slug(heading: str) -> str:
    """What links call a heading: its words in lower case, joined by hyphens.

    Example:
        >>> slug("What a TensorDict is, and why")
        'what-a-tensordict-is-and-why'
    """
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def headings(text: str) -> list[tuple[int, int, str]]:
    """Of each heading outside of code: where it starts, its level, its words."""
    prose = _FENCE.sub(lambda fence: re.sub(r"[^\n]", " ", fence[0]), text)
    return [(found.start(), len(found[1]), found[2]) for found in _HEADING.finditer(prose)]


def split(source: str, text: str, folder: str) -> list[Page]:
    """The index of a README, which is what stands above its sections, and a page for each of these."""
    starts = [(at, words) for at, level, words in headings(text) if level == 2]
    ends = [at for at, _ in starts[1:]] + [len(text)]
    pages = [Page(f"{folder}/index", source, text[: starts[0][0]])]
    for (start, words), end in zip(starts, ends, strict=True):
        section = text[start:end]
        for at, _, _ in reversed(headings(section)):  # a level up, from the last one on
            section = section[:at] + section[at + 1 :]
        pages.append(Page(f"{folder}/{slug(words)}", source, section))
    return pages


def with_names_from_above(pages: list[Page]) -> list[Page]:
    """The pages of a README, each with what its Python takes from the pages before it.

    The blocks of a README run in one process from top to bottom. On a page alone its readers see, in front of
    the first block, the imports to repeat, and on which page the other names are made.
    """
    made: dict[
        str, tuple[str, Page]
    ] = {}  # name -> the import that makes it, or "", and the last page that does
    done = []
    for page in pages:
        told = {name: made[name] for name in _free_names(page.text) if name in made}
        for statement in _statements(page.text):
            imported = _imports(statement)
            made |= {name: (imported.get(name, ""), page) for name in _bound(statement)}
        first = _PYTHON.search(page.text)
        if told and first:
            text = page.text[: first.start()] + _before(told) + page.text[first.start() :]
            page = page._replace(text=text)
        done.append(page)
    return done


def _before(told: dict[str, tuple[str, Page]]) -> str:
    imports: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for name, (imported, origin) in sorted(told.items()):
        if imported:
            statement, _, what = imported.partition(" import ")
            imports.setdefault(statement, []).append(what)
        else:
            others.setdefault(headings(origin.text)[0][2], []).append(f"`{name}`")
    lines = [
        '<details class="before"><summary>What the blocks of this page take from earlier ones</summary>',
        "",
    ]
    if imports:
        spelt = [f"{each} import {', '.join(names)}" if names[0] else each for each, names in imports.items()]
        lines += ["```python", *sorted(spelt, key=lambda line: line.startswith("from")), "```", ""]
    for title, names in others.items():
        lines += [f"{', '.join(names)}: [{title}](#{slug(title)}).", ""]
    return "\n".join([*lines, "</details>", "", ""])


def _imports(statement: ast.stmt) -> dict[str, str]:
    """The names that an import makes, each with an import of itself."""
    if not isinstance(statement, ast.Import | ast.ImportFrom):
        return {}
    start = f"from {statement.module} import" if isinstance(statement, ast.ImportFrom) else "import"
    return {
        alias.asname or alias.name.partition(".")[0]: f"{start} {ast.unparse(alias)}"
        for alias in statement.names
    }


def _statements(text: str) -> Iterator[ast.stmt]:
    for block in _PYTHON.findall(text):
        yield from ast.parse(block).body


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module makes."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    stored = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    inner = [n for n in ast.walk(statement) if isinstance(n, ast.Import | ast.ImportFrom | ast.FunctionDef)]
    return stored.union(*(_bound(each) for each in inner))


def _free_names(text: str) -> dict[str, None]:
    """The names that the blocks of a page read before they make them, in order."""
    bound: set[str] = set(dir(builtins))
    free: dict[str, None] = {}
    for statement in _statements(text):
        own: set[str] = set()
        for node in ast.walk(statement):
            if isinstance(node, ast.arg):
                own.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and not _at_top(statement):
                own.add(node.id)
            elif isinstance(node, ast.comprehension):
                own |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                own.add(node.name)
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound | own:
                free[node.id] = None
        bound |= _bound(statement)
    return free


def _at_top(statement: ast.stmt) -> bool:
    """Whether what a statement assigns may be read by itself before, as in `net = f(net)`."""
    return isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)


def links(source: str, text: str) -> list[Link]:
    """All links of a document that lead to files of the repository."""
    found: list[Link] = []
    replace_links(source, text, lambda link: found.append(link) or "")
    return found


def replace_links(source: str, text: str, target_of: Callable[[Link], str]) -> str:
    """A document with other targets of its links; those of code and to other sites stay."""
    folder = os.path.dirname(source)

    def replaced(found: re.Match[str]) -> str:
        path = os.path.normpath(os.path.join(folder, found[1])) if found[1] else source
        return f"]({target_of(Link(path, found[2] or ''))}{found[3] or ''})"

    parts = _CODE.split(text)
    return "".join(part if i % 2 else _LINK.sub(replaced, part) for i, part in enumerate(parts))


def for_readers(text: str) -> str:
    """Blocks without a language are commands; MyST takes a line that begins with % for a comment."""
    outside = _FENCE.split(text)
    assert not any(re.search(r"^%", part, re.M) for part in outside), "a line begins with %"
    return _FENCE.sub(
        lambda fence: f"```sh{fence[0][3:]}" if fence[0].startswith("```\n") else fence[0], text
    )
