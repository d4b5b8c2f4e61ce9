"""Links of built pages: the file and the heading that each names are there, and no other server is needed."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Read(HTMLParser):
    """What a page leads to, what it loads, and what can be led to on it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.leads: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = {"", "top"}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if "src" in given or (tag == "link" and given.get("rel") in ("stylesheet", "icon")):
            self.loads.append(given.get("src") or given["href"])
        elif tag == "a" and "href" in given:
            self.leads.append(given["href"])


def dead_links(folder: Path, without: tuple[str, ...] = ()) -> list[str]:
    """A line for each link of the pages in a folder that leads nowhere, or loads something from elsewhere.

    Args:
        folder: the site.
        without: how the paths begin that were left out of it, and are not looked for.
    """
    pages = {
        file.resolve(): _Read(file.read_text(encoding="utf-8")) for file in sorted(folder.rglob("*.html"))
    }
    root, told = folder.resolve(), []
    for file, page in pages.items():
        where = file.relative_to(root)
        for target, loaded in [(t, False) for t in page.leads] + [(t, True) for t in page.loads]:
            parts = urlsplit(target)
            if parts.scheme == "data":
                continue
            if parts.scheme or parts.netloc:
                if loaded or parts.scheme not in ("https", "http", "mailto"):
                    told.append(f"{where}: {target} comes from elsewhere")
                continue
            found = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not found.is_relative_to(root) or not found.is_file():
                if not str(found).startswith(tuple(f"{root}/{start}" for start in without)):
                    told.append(f"{where}: {target} is not there")
            elif not loaded and found in pages and unquote(parts.fragment) not in pages[found].ids:
                told.append(f"{where}: {target} names no heading of that page")
    return told
