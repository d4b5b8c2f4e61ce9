"""Pages and notebook cells in a real browser: what was data is text there, and what is drawn can be seen."""

from collections.abc import Iterator

import numpy as np
import pytest
from helpers.browser import Browser, browser

from lite import TensorDict, lazy_stack
from lite._show.page import page
from lite.cli.pages.demo import Sample, demo_page
from lite.models import History, LogProbs, Tokens
from lite.models.text.to_html import STYLE, chips

pytestmark = pytest.mark.processes

HOSTILE = (
    '</script><script>window.bad = 1</script><img src=x onerror=\'window.bad = 1\'>" onclick="bad" \x00\ud800'
)
SEEN = HOSTILE.replace("\x00", "\\x00").replace("\ud800", "\\ud800")
FOREIGN = "return [document.scripts.length, document.images.length, window.bad === undefined]"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("browser")) as one:
        yield one


def cell(html: str) -> str:
    """A notebook's output: without the policy that pages have."""
    return f"<!doctype html><meta charset=utf-8><body>{html}</body>"


def test_hostile_tokens_are_text(shown: Browser) -> None:
    shown.open(page(HOSTILE, [chips([HOSTILE, "b"], [-0.01, -5.0], [HOSTILE, ""])], STYLE))
    assert shown.ask(FOREIGN) == [0, 0, True]
    assert shown.ask("return performance.getEntriesByType('resource').map(x => x.name)") == []
    assert shown.ask("return document.title") == " ".join(SEEN.split())
    spans = "return [...document.querySelectorAll('.lite-tokens span')].map(x => [x.textContent, x.title])"
    (text, title), (plain, told) = shown.ask(spans)
    assert (text, plain) == (SEEN, "b")
    assert title.endswith(SEEN)
    assert "log-prob -5.0000, probability 0.67%, all other tokens 99.33%" in told
    colours = shown.ask(
        "const spans = [...document.querySelectorAll('.lite-tokens span')];"
        "return spans.map(x => getComputedStyle(x).backgroundColor)"
    )
    assert colours[0] == "rgba(0, 0, 0, 0)"
    assert colours[1].startswith("rgba(225, 70, 30, 0.7")  # in the shade of what is hardly probable


def test_conversations_in_a_notebook(shown: Browser) -> None:
    turns = [
        {"role": HOSTILE, "content": HOSTILE},
        {"role": "assistant", "content": "b", "is_complete": False},
    ]
    shown.open(cell(History.from_chats([turns, turns[:1]])._repr_html_()))
    assert shown.ask(FOREIGN) == [0, 0, True]
    said = shown.ask("return [...document.querySelectorAll('.lite-turn')].map(x => x.textContent)")
    assert said == [SEEN + SEEN, "assistantb (not complete)", SEEN + SEEN]


def test_log_probs_and_tokens_in_a_notebook(shown: Browser) -> None:
    rows = lazy_stack([LogProbs(response=np.log(np.float32(p))) for p in ([0.95, 0.3], [0.001])])
    shown.open(cell(rows._repr_html_()))
    kinds = "return [...document.querySelectorAll('span[title]')].map(x => [x.className, x.textContent])"
    assert shown.ask(kinds) == [["lite-p0", "-0.05"], ["lite-p2", "-1.20"], ["lite-p5", "-6.91"]]
    shown.open(cell(Tokens(full=np.arange(3))._repr_html_()))
    assert [text for _, text in shown.ask(kinds)] == ["0", "1", "2"]


def test_columns_stand_on_the_left_in_jupyterlab(shown: Browser) -> None:
    """Whose own style moves the cells of all tables to the right."""
    rule = ":not(.jp-RenderedMarkdown).jp-RenderedHTMLCommon :is(td, th) { text-align: right; }"
    table = TensorDict({"a": np.zeros(2), "a long key": np.zeros(2)})._repr_html_()
    shown.open(cell(f'<style>{rule}</style><div class="jp-RenderedHTMLCommon">{table}</div>'))
    cells = "return [...document.querySelectorAll('td, th')].map(x => getComputedStyle(x).textAlign)"
    assert set(shown.ask(cells)) == {"left"}


def test_the_demo_is_drawn(shown: Browser) -> None:
    sample = Sample(HOSTILE, ["4", "2", HOSTILE], [-0.1, -1.0, -3.0], [0.0, 0.0, 1.0], [0.81, 0.9, 1.0])
    worse = Sample(HOSTILE, ["5"], [-2.0], [0.0], [0.0])
    shown.open(demo_page([[sample, worse], [worse]], 0.9, 32))
    assert shown.ask(FOREIGN) == [0, 0, True]
    assert shown.ask("return document.querySelector('h2').textContent") == SEEN
    lines = "return [...document.querySelectorAll('polyline')].map(x => x.points.length)"
    assert shown.ask(lines) == [1, 3, 1]
    # A line lies where its numbers say: higher on the screen for more, within the drawing.
    y = shown.ask("return [...document.querySelector('.sample-0 polyline').points].map(p => p.y)")
    assert y[0] > y[1] > y[2] >= 0
    box = shown.ask(
        "const s = document.querySelector('svg').getBoundingClientRect();"
        "const l = document.querySelector('.sample-0').getBoundingClientRect();"
        "return [s.width > 300, l.width > 200, l.left >= s.left, l.right <= s.right, l.bottom <= s.bottom]"
    )
    assert box == [True] * 5
    assert shown.ask("return document.querySelectorAll('.sample').length") == 3


def test_narrow_screens_cut_no_token_and_scroll_what_is_wide(shown: Browser) -> None:
    """A token is on one line, unless a line is too short for it; a tree scrolls within its cell."""
    narrow = "<style>body{width:300px;margin:0}</style>"
    texts = ["-inf", "<|im_end|>", "a\n", "b", "x" * 200] * 4
    tree = TensorDict({"k" * 100: np.zeros((3, 4)), "b": ["text " * 9] * 3}, [3])._repr_html_()
    shown.open(cell(f"{narrow}<style>{STYLE}</style>{chips(texts, [-1.0] * len(texts))}{tree}"))
    lines = shown.ask(
        "return [...document.querySelectorAll('.lite-tokens span')].map(x => x.getClientRects().length)"
    )
    assert lines == [1] * len(texts)
    assert shown.ask("return document.documentElement.scrollWidth <= window.innerWidth")
    box = "const d = document.querySelector('.lite-td');"
    assert shown.ask(f"{box}return [d.offsetWidth <= 300, d.scrollWidth > d.offsetWidth]") == [True, True]
    places = shown.ask(
        "return [...document.querySelectorAll('.lite-tokens span')].map(x => [x.offsetLeft, x.offsetTop])"
    )
    assert places[3][0] == places[0][0]  # the line ends behind the token with the line break
    assert places[3][1] > places[2][1]
