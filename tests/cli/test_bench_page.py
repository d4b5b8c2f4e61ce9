"""Pages of `lite bench`."""

import re
from xml.etree import ElementTree

import pytest

from lite.cli.bench_page import _chart, claims_page


def test_bars_begin_at_one() -> None:
    rows = [
        {
            "case": "<a>",
            "peer": "p",
            "times_faster": value,
            "group": "g",
            "lite_ms": 1.0,
            "peer_ms": value,
            "note": None,
        }
        for value in (100.0, 0.1, 1.0)
    ]
    drawn = _chart(rows)
    ElementTree.fromstring(drawn)
    (faster, slower, same) = [
        (float(x), float(width))
        for x, width in re.findall(r'<rect class="mark" x="(\S+)" y="\d+" width="(\S+)"', drawn)
    ]
    assert faster[0] == same[0] == slower[0] + slower[1]
    assert (same[1], faster[1]) == (0.0, pytest.approx(2 * slower[1], abs=0.2))
    assert "&lt;a&gt;, p" in drawn


def test_claims_stand_in_three_columns() -> None:
    page = claims_page({"cores": 2}, [("files", "failed: <b>")], [("what <i>", "1 to 2", "not run")], [])
    assert "<td>what &lt;i&gt;</td><td>1 to 2</td><td>not run</td>" in page
    assert "failed: &lt;b&gt;" in page
    assert "<svg" not in page
    assert "Scripts" not in claims_page({}, [], [("what", "1", "2")], [])


def test_figures_are_drawn_in_two_lanes() -> None:
    """On one scale: a power of ten is as wide everywhere, and 1 has a line."""
    page = claims_page(
        {}, [], [], [("<a>", [("1 to 10", "10 to 100"), ("0.5", "-")]), ("b", [("5, 1", "1")])]
    )
    drawn = page[page.index("<svg") : page.index("</svg>") + 6]
    ElementTree.fromstring(drawn)
    assert "&lt;a&gt;" in drawn
    marks = re.findall(r'<rect class="(\w+)" x="(\S+)" y="(\d+)" width="(\S+)"', drawn)
    lanes = [(kind, int(y)) for kind, _, y, _ in marks]
    one = float(re.findall(r'<path class="axis" d="M(\S+) ', drawn)[0])
    (first, half, found, five, single, here) = [(float(x), float(width)) for _, x, _, width in marks]
    assert [kind for kind, _ in lanes] == ["claim", "claim", "mark", "claim", "claim", "mark"]
    assert lanes[0][1] == lanes[1][1] < lanes[2][1] < lanes[3][1] == lanes[4][1] < lanes[5][1]
    assert first[0] == single[0] == here[0] == one
    assert found[0] == pytest.approx(first[0] + first[1], abs=0.2)
    assert found[1] == pytest.approx(first[1], abs=0.2)
    assert half[0] < one < five[0] < found[0]
