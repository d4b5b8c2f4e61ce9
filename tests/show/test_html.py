"""The HTML tree of notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np

from lite import TensorClass, TensorDict, lazy_stack


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
    assert "b|Array|(3, 2)|int64|cpu|48 B" in text
    assert "z|Array|(3,)|bool|cpu|3 B" in text
    assert "locked, 63 B" in text


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
    assert html.count("<tr>") == 201
    assert "more entries are not shown" in html
