"""Tokens, log-probs and conversations as HTML."""

import math
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np

from lite import lazy_stack
from lite.models import History, LogProbs, Sampling, Tokens
from lite.models.text.to_html import SHADES, chips, named, shade, shade_names


class _Seen(HTMLParser):
    """The text, without styles; fails on tags that close in another order than they were opened."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.titles: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)


def test_shades_part_the_probabilities() -> None:
    for i, least in enumerate(SHADES):
        above = least + 1e-6
        assert shade(math.log(above)) == i
    assert shade(math.nan) is None
    assert shade(1e-7) == 0  # rounding may put a log-prob above 0
    assert len(shade_names()) == len(SHADES)


def test_hovering_tells_the_numbers() -> None:
    seen = _Seen(chips(["a", "b\n"], [math.log(0.25), -math.inf], ["one", "two"]))
    assert seen.texts == ["a", "b↵", "\n"]  # the line ends behind the token
    assert seen.titles == [
        "token 0, log-prob -1.3863, probability 25.00%, all other tokens 75.00%, one",
        "token 1, log-prob -inf, probability 0.00%, all other tokens 100.00%, two",
    ]
    assert _Seen(chips(["a"], [math.nan])).titles[0].startswith("token 0, log-prob nan")
    assert _Seen(chips(["a"], None)).titles == ["token 0"]


def test_hovering_tells_the_alternatives() -> None:
    known = [[("42", math.log(0.5)), ('"\n', math.log(0.2))], [], [("x", math.nan)]]
    seen = _Seen(chips(["a", "b", "c"], [math.log(0.25)] * 3, ["one", "", "two"], known))
    numbers = "log-prob -1.3863, probability 25.00%, all other tokens 75.00%"
    assert seen.titles == [
        f'token 0, {numbers}, one\n50.00% "42"\n20.00% "\\"\\n"\n30.00% all tokens that are not listed',
        f"token 1, {numbers}",
        f'token 2, {numbers}, two\nnan% "x"',
    ]
    (title,) = _Seen(chips(["a"], None, None, [[("<b>", -1e-9)]])).titles  # rounding leaves less than nothing
    assert title == 'token 0\n100.00% "<b>"\n0.00% all tokens that are not listed'
    (title,) = _Seen(chips(["a"], [1e-3], None, named([[0, -1]], [[1e-3, 0.0]]))).titles  # rounded above 0
    assert "probability 100.00%, all other tokens 0.00%\n100.00% id 0\n0.00% all" in title


def test_what_is_known_of_draws() -> None:
    known = Sampling(
        sampled_log_probs=np.array([[-0.5, -0.25]], np.float32),
        top_ids=np.array([[[7, 8], [9, -1]]]),
        top_log_probs=np.log(np.array([[[0.5, 0.25], [1.0, 0.5]]], np.float32)),
        entropy=np.ones((1, 2), np.float32),
        batch_size=[1],
    )
    html = known._repr_html_()
    seen = _Seen(html)
    assert [text for text in seen.texts if text in ("-0.50", "-0.25", "7", "9")] == [
        "-0.50", "-0.25", "7", "9",
    ]  # fmt: skip
    assert "50.00% id 7\n25.00% id 8\n25.00% all tokens that are not listed" in seen.titles[2]
    assert "lite-td" in html  # all fields, as a tree
    assert "entropy" in seen.texts


def test_what_is_known_of_draws_in_ragged_rows_or_of_another_kind() -> None:
    rows = [Sampling(top_ids=np.full((n, 1), n), top_log_probs=np.zeros((n, 1), np.float32)) for n in (1, 2)]
    html = lazy_stack(rows)._repr_html_()
    assert re.findall(r'title="token (\d+)[^"]*">(\d+)<', html) == [("0", "1"), ("0", "2"), ("1", "2")]
    for odd in (
        Sampling(top_ids="text", top_log_probs=np.zeros((2, 1))),
        Sampling(top_ids=np.zeros((3, 1), int), top_log_probs=np.zeros((2, 1))),
        Sampling(top_ids=np.zeros(3, int), top_log_probs=np.zeros(3)),
        Sampling(top_ids=np.zeros((3, 1), int)),
        Sampling(entropy=np.zeros(3)),
        Sampling(),
    ):
        assert "lite-tokens" not in odd._repr_html_().split("</style>")[-1]
        assert "lite-td" in odd._repr_html_()


def test_rows_of_any_shape() -> None:
    ids = np.arange(12).reshape(2, 2, 3)
    for tokens, rows in (
        (Tokens(full=np.arange(3)), [[0, 1, 2]]),
        (Tokens(full=ids, prompt=ids[..., :1], batch_size=[2, 2]), [[0], [3], [6], [9], *ids.reshape(4, 3)]),
        (lazy_stack([Tokens(full=np.arange(n)) for n in (1, 2)]), [[0], [0, 1]]),
        (Tokens(full=np.zeros((0, 5), np.int64), batch_size=[0]), []),
    ):
        html = tokens._repr_html_()
        found = [
            re.findall(r'title="token \d+">(\d+)<', line) for line in html.split('class="lite-tokens"')[1:]
        ]
        assert found == [[str(i) for i in row] for row in rows]
        assert "lite-p0" not in html.split("</style>")[1]  # ids have no colour
        assert f"Tokens, batch_size={tokens.batch_size}" in _Seen(html).texts
    assert "no field is set" in Tokens()._repr_html_()


def test_log_probs_are_coloured_and_long_rows_cut() -> None:
    seen = _Seen(LogProbs(response=np.full((30, 600), -0.5, np.float32), batch_size=[30])._repr_html_())
    assert seen.texts.count("-0.50") == 20 * 500
    assert seen.texts.count("and 100 more tokens") == 20
    assert "and 10 more rows" in seen.texts


def test_fields_that_hold_something_else_are_shown_as_a_tree() -> None:
    for odd in ("text", np.array(["a", "b"])):
        assert "lite-td" in Tokens(full=odd)._repr_html_()
    assert "lite-td" in LogProbs(full=np.zeros(2, complex))._repr_html_()


def turns(count: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": f"turn {i}"} for i in range(count)]


def test_conversations_turn_by_turn() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"name": "<f>"}], "is_complete": False}
    filler = {"role": "<none>", "content": "filler"}
    history = History.from_chats([[*turns(1), call], [*turns(1), filler]])
    html = history._repr_html_()
    seen = "".join(_Seen(html).texts)
    assert seen.count("turn 0") == 2
    assert 'tool_calls: [{"name": "<f>"}]' in seen
    assert "(not complete)" in seen
    assert "filler" not in seen
    assert html.count('lite-turn lite-user"') == 2
    assert "conversation 1" in seen
    assert history[0, 0]._repr_html_().count('lite-turn lite-user"') == 1  # a message alone


def test_contents_of_any_kind() -> None:
    cases: list[Any] = [[{"type": "text", "text": "part <1>"}], {1, 2}, None, "x" * 5000]
    for content in cases:
        history = History(role="user", content=content)
        seen = "".join(_Seen(history._repr_html_()).texts)
        assert len(seen) < 3000, content
        assert {list: "part <1>", set: "1, 2", type(None): "null", str: "(5,000 characters)"}[
            type(content)
        ] in seen


def test_long_histories_are_cut() -> None:
    seen = _Seen(History.from_chats([turns(60)] * 25)._repr_html_()).texts
    assert seen.count("and 10 more turns") == 20
    assert "and 5 more conversations" in seen
