"""The page of `lite bench`."""

import re
from xml.etree import ElementTree

import pytest

from lite.cli.bench_page import _chart


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
