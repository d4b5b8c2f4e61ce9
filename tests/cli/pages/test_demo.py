"""`lite demo --plot`: rewards and returns, drawn."""

import re
from html import unescape
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from helpers.commands import Run

from lite.cli.pages.demo import Sample, demo_page


def test_lines_and_dots_are_where_their_numbers_say() -> None:
    html = demo_page([[Sample("p", ["a", "b"], [-1.0, -2.0], [0.0, 0.4], [0.2, 0.4])]], 0.5, 3)
    (svg,) = re.findall("<svg.*?</svg>", html, re.DOTALL)
    ElementTree.fromstring(svg)
    points = np.array(
        [p.split(",") for p in re.findall(r'points="([^"]*)"', svg)[0].split()], dtype=np.float64
    )
    axis = np.array(re.findall(r'd="M(\S+) (\S+)V(\S+)H(\S+)"', svg)[0], dtype=np.float64)
    left, top, bottom, right = axis
    np.testing.assert_allclose(points[:, 0], [left, right])
    np.testing.assert_allclose(points[:, 1], bottom - (bottom - top) * np.array([0.2, 0.4]), atol=0.06)
    assert len(re.findall("<circle", svg)) == 1  # a token without reward has no dot
    assert "sample 0, token 1: reward 0.4" in svg
    assert ">token</text>" in svg
    assert "reward 0.4, return 0.4000" in html
    assert "3-step returns, gamma 0.5" in html


def test_any_number_of_tokens_and_any_reward() -> None:
    cases: list[list[float]] = [[], [0.0], [-2.0], [3.5]]
    for rewards in cases:
        tokens = ["t"] * len(rewards)
        html = demo_page([[Sample("p", tokens, [-1.0] * len(rewards), rewards, rewards)]], 1.0, 1)
        for svg in re.findall("<svg.*?</svg>", html, re.DOTALL):
            ElementTree.fromstring(svg)
            assert "nan" not in svg, rewards
            for y in re.findall(r'cy="(\S+)"', svg):
                assert 0 <= float(y) <= 170, rewards


def test_the_command_draws_what_it_prints(tmp_path: Path, run: Run) -> None:
    page = tmp_path / "demo.html"
    out, err = run(["demo", "--prompts", "2", "--samples", "3", "--plot", str(page)])
    assert str(page) in err
    html = page.read_text(encoding="utf-8")
    assert html.count("<svg") == 2
    assert html.count("<polyline") == 6
    printed = re.findall(r"(\d\.\d\d) +\d\.\d{3}$", out, re.MULTILINE)
    assert re.findall(r"</span> reward (\d\.\d\d)</b>", html) == printed
    assert len(printed) == 6
    told = [unescape(title) for title in re.findall(r'<span[^>]* title="([^"]*)"', html)]
    assert all(title.count("\n") == 6 for title in told)  # five alternatives, and what is left
    assert any('% "' in title for title in told)
    assert "there is no folder" in run(["demo", "--plot", str(tmp_path / "no" / "x.html")], 1).err
