"""Documents of the repository as pages of the site: a page has the text of its document, but for links."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.M | re.S)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?( \"[^\"]*\")?\)")
_HEADING = re.compile(r"^(#+) (.*)$", re.M)


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
