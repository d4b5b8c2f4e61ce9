"""`lite learn --html`: the curves."""

import re
from xml.etree import ElementTree

import numpy as np

from lite.cli.learning.page import curve, learn_page


def test_points_are_where_their_numbers_say() -> None:
    svg = curve("Reward", [(0, 0.0), (1, 0.5), (4, 2.0)])
    ElementTree.fromstring(svg)
    points = np.array(
        [p.split(",") for p in re.findall(r'points="([^"]*)"', svg)[0].split()], dtype=np.float64
    )
    left, top, bottom, right = map(float, re.findall(r'd="M(\S+) (\S+)V(\S+)H(\S+)"', svg)[0])
    np.testing.assert_allclose(points[:, 0], left + (right - left) * np.array([0, 0.25, 1]), atol=0.06)
    np.testing.assert_allclose(points[:, 1], bottom - (bottom - top) * np.array([0, 0.25, 1]), atol=0.06)
    assert svg.count("<circle") == 3
    assert "step 4: 2" in svg


def test_any_values_fit() -> None:
    cases: list[list[float]] = [[0.0], [-1.0], [2.0, 2.0], [-1.0, -3.0], [1e-9, 0.0]]
    for values in cases:
        svg = curve("Loss", list(enumerate(values, 3)))
        ElementTree.fromstring(svg)
        assert "nan" not in svg, values
        for y in re.findall(r'cy="(\S+)"', svg):
            assert 0 <= float(y) <= 170, values


def test_a_page_has_the_curves_that_there_are_and_escapes_names() -> None:
    records = [{"step": 0, "held_out": 0.1}, {"step": 1, "reward": 0.5, "kl": 0.0, "held_out": 0.75}]
    html = learn_page(records, {"model": {"path": "/<script>alert(1)</script>"}, "reward": "a&b"})
    assert "<script" not in html
    assert "&lt;script" in html
    assert "a&amp;b" in html
    assert html.count("<svg") == 3
    assert "Share of clipped tokens" not in html
