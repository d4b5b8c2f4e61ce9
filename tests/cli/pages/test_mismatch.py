"""The page of `lite mismatch`: whole, self-contained, nothing of a file's text taken for markup."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np

from lite.cli.pages.mismatch import page
from lite.models import LoggedResponse, Mismatch
from lite.models.comparison.causes import Cause
from lite.models.comparison.mismatch import by_position, by_probability, estimates, first_beyond


def found(rows: int = 3, tokens: int = 20, *, tried: bool = True) -> Mismatch:
    rng = np.random.default_rng(0)
    a = [-rng.exponential(1, tokens) for _ in range(rows)]
    b = [x + 0.3 * rng.standard_normal(tokens) for x in a]
    ratios = [x - y for x, y in zip(a, b, strict=True)]
    logged = [LoggedResponse(np.array([1]), np.arange(tokens), x, f"line {i}<i>") for i, x in enumerate(b)]
    together = np.concatenate(ratios)
    return Mismatch(
        logged, a, b, estimates(together), first_beyond(ratios, 0.1), 0.1, by_position(ratios),
        by_probability(np.concatenate(a), together), None,
        (Cause("temperature", "a <b> c", 0.5),) if tried else (),
    )  # fmt: skip


class Balanced(HTMLParser):
    """Fails on tags that close in another order than they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in ("meta", "rect", "circle", "path"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole() -> None:
    for rows, tokens, tried in ((3, 20, True), (1, 1, False), (300, 30, True)):
        text = page(found(rows, tokens, tried=tried), "model <A>", "b & c", "none <script>")
        parser = Balanced()
        parser.feed(text)
        parser.close()
        assert parser.open == [], rows
        for said in ("model <A>", "b & c", "none <script>", f"{rows * tokens:,} tokens of {rows} responses"):
            assert said in parser.text, rows
        assert "<script" not in text, rows
        assert ("a <b> c" in parser.text) is tried, rows
        assert len(re.findall("<svg", text)) == 4, rows
        for svg in re.findall("<svg.*?</svg>", text, re.DOTALL):
            ElementTree.fromstring(svg)
            assert "NaN" not in svg, rows
            assert 'width="-' not in svg, rows
        # It asks nothing of the network: the only address is the name of SVG's namespace.
        assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}, rows
        assert "url(" not in text, rows


def test_large_comparisons_stay_readable() -> None:
    text = page(found(300, 30), "a", "b", "none")
    assert text.count("<circle") == 4000
    assert "more</p>" in text
    assert len(text) < 500_000
