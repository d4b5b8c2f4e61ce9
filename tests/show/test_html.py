"""The HTML tree of notebooks."""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser

import numpy as np

from lite import TensorClass, TensorDict, lazy_stack, nn

HEADINGS = ["key", "kind", "shape", "dtype", "device", "bytes", "values"]


def nested() -> TensorDict:
    return TensorDict(
        {"b": np.arange(6).reshape(3, 2), "a": np.float32([1, 2, 3]), "n": {"z": np.ones(3, bool)}},
        batch_size=[3],
    )


class Point(TensorClass):
    xy: np.ndarray
    label: str | None = None


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.text: list[str] = []
        self.details = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.stack.append(tag)
        self.details += tag == "details"

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.stack:
            self.text.append(data)


def parsed(td: object) -> tuple[_Tags, str]:
    tags = _Tags()
    tags.feed(td._repr_html_())
    tags.close()
    assert tags.stack == []
    return tags, "|".join(tags.text)


def test_html_is_a_tree_with_shapes_dtypes_and_bytes() -> None:
    tags, text = parsed(nested().lock_())
    assert tags.details == 2
    assert text.count("|".join(HEADINGS)) == 2  # of each table
    assert "b|Array|(3, 2)|int64|cpu|48 B|0 1 2 3 4 5" in text
    assert "z|Array|(3,)|bool|cpu|3 B|True True True" in text
    assert "locked, 63 B" in text


def rows_of(td: object) -> dict[str, dict[str, str]]:
    """Key -> heading -> text, of the first table."""
    table = td._repr_html_().partition("<table>")[2].partition("</table>")[0]  # type: ignore[attr-defined]
    lines = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line, re.S) for line in table.split("<tr>")[1:]]
    assert lines[0] == HEADINGS
    assert {len(line) for line in lines} == {len(HEADINGS)}
    return {line[0]: dict(zip(HEADINGS, map(unescape, line), strict=True)) for line in lines[1:]}


def test_values_are_the_first_ones() -> None:
    wide = np.lib.stride_tricks.as_strided(np.float32(1 / 3), (1 << 20, 1 << 20), (0, 0))  # 4 TiB to read
    many = np.array([f"word {i}" for i in range(1000)], object)
    td = TensorDict({"i": np.arange(1 << 10), "wide": wide[:1024], "none": np.zeros((1024, 0))}, [1024])
    found = rows_of(td)
    assert found["i"]["values"] == "0 1 2 3 4 5 ..."
    assert found["wide"]["values"] == "0.3333 " * 6 + "..."
    assert found["none"]["values"] == ""
    found = rows_of(TensorDict({"s": many, "nan": np.full(1000, np.nan), "c": np.full(1000, 1 + 2j)}, [1000]))
    assert found["s"]["values"].startswith("['word 0', 'word 1', ")
    assert found["s"]["values"].endswith("...")
    assert len(found["s"]["values"]) < 100
    short = rows_of(TensorDict({"s": np.full(1000, 1, object)}, [1000]))["s"]["values"]
    assert short.endswith("1]...")  # that there are more is said also where the text is short
    assert found["nan"]["values"].startswith("nan nan")
    assert found["c"]["values"].startswith("1+2j")


def test_values_of_lazy_stacks_are_read_where_they_can_be_stacked() -> None:
    parts = [TensorDict(r=np.full(n, n), same=np.full(2, n)) for n in (2, 3)]
    found = rows_of(lazy_stack(parts))
    assert (found["r"]["values"], found["same"]["values"]) == ("", "2 2 3 3")


def test_html_escapes_keys_and_payloads() -> None:
    td = TensorDict({"<script>alert(1)</script>": np.zeros(1), "s": "<img src=x onerror=y>", "&": {"<": 1}})
    html = td._repr_html_()
    assert "<script>" not in html
    assert "<img" not in html
    _, text = parsed(td)
    assert "<script>alert(1)</script>" in text
    assert "<img src=x onerror=y>" in text


def test_html_of_lazy_stacks_and_tensorclasses() -> None:
    td = lazy_stack([TensorDict(r=np.zeros(2), only=np.zeros(1)), TensorDict(r=np.zeros(3))])
    _, text = parsed(td)
    assert "r|Array|(2, -1)|float64|cpu|40 B" in text
    assert "only (only in 0)|Array|(1,)" in text
    _, text = parsed(TensorDict({"p": Point(xy=np.zeros((2, 2)), batch_size=[2])}, batch_size=[2]))
    assert "p|: Point" in text
    _, text = parsed(Point(xy=np.zeros((2, 2)), batch_size=[2]))
    assert text.startswith("Point ")


def test_html_of_very_many_entries_is_cut() -> None:
    td = TensorDict({str(i): np.zeros(1) for i in range(1000)})
    html = td._repr_html_()
    assert html.count("<tr>") == 202
    assert "more entries are not shown" in html


def test_values_that_are_not_at_hand_are_left_out() -> None:
    waiting = rows_of(TensorDict.from_module(nn.LazyLinear(2)))["weight"]
    assert (waiting["shape"], waiting["bytes"], waiting["values"]) == ("(-1,)", "0 B", "")
    assert rows_of(TensorDict.from_module(nn.Linear(2, 1, device="meta")))["weight"]["values"] == ""
    assert rows_of(TensorDict.from_module(nn.Linear(2, 1)))["weight"]["values"].count(" ") == 1
