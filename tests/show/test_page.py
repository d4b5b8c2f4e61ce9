"""Pages: one file, everything in it, nothing of the data taken for markup."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from lite._show.page import bars, escape, heading, page, table

HOSTILE = [
    "</script><script>bad()</script>", "</style><img src=x onerror=bad()>", '" onmouseover="bad()" \'',
    "&amp; &lt; &#60;", "<!-- -->", "]]>", "a\x00b\x1b[31m\x7f\x85\r", "\ud800 \udfff \ufffe",
    "\u202egnp.exe", "😀 é\u0301\t\n",
]  # fmt: skip


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.text = ""
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_escaped_text_is_text() -> None:
    for text in HOSTILE:
        escaped = escape(text)
        parser = _Text()
        parser.feed(f'<p title="{escaped}">{escaped}</p>')
        parser.close()
        assert parser.tags == ["p"]
        visible = re.sub(
            "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe]",
            lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(),
            text,
        )
        assert parser.text == visible  # nothing is lost, and nothing of it looks like something else
        escaped.encode()
        ElementTree.fromstring(f"<p title='{escaped}'>{escaped}</p>")  # also in drawings, which are XML


def test_a_page_holds_all_it_needs() -> None:
    text = page(
        HOSTILE[0],
        [heading(HOSTILE[1]), table(("a", ""), [(HOSTILE[2], "b")]), bars(HOSTILE[0], [("c", 1)], "{}")],
    )
    assert text.count("<script") == 0
    assert "<img" not in text
    assert set(re.findall(r"https?://[^\"' ]+", text)) == {"http://www.w3.org/2000/svg"}  # a name, no address
    assert "url(" not in text
    assert "default-src 'none'" in text


def test_numbers_stand_on_the_right() -> None:
    text = table(("name", "share", "count"), [("a", "5.0%", "-3"), ("b", "50.5%", "1")])
    assert re.findall(r"<td( class=number)?>", text) == ["", " class=number", " class=number"] * 2


def test_bars() -> None:
    """Each below the one before, as long as its share of the largest one, in a drawing of their height."""
    text = bars("two", [("a", 2), ("b", 1)], "{}")
    (first, long), (second, short) = re.findall(r'<rect[^>]* y="(\d+)" width="([\d.]+)"', text)
    assert float(long) == 2 * float(short) > 0
    height = int(re.findall(r'viewBox="0 0 \d+ (\d+)"', text)[0])
    assert height == 2 * (int(second) - int(first)) > 0


def test_bars_of_nothing() -> None:
    assert 'width="0.0"' in bars("none", [("a", 0)], "{}")
    assert "<rect" not in bars("none", [], "{}")
