"""`lite bench`: cases of the checkout, lite alone or beside what is installed."""

import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from helpers.commands import Run

import lite
from lite.cli.bench import _report
from lite.cli.commands import build_parser


def bench(run: Run, *flags: str) -> dict[str, Any]:
    said = run(["bench", "--json", "--quiet", "--rounds", "1", *flags])
    assert said.err == ""
    return dict(said.json)


def test_lite_alone(run: Run) -> None:
    found = bench(run, "returns")
    assert found["about"]["cores"] >= 1
    assert {row["group"] for row in found["rows"]} == {"returns"}
    assert len(found["rows"]) == len({row["case"] for row in found["rows"]}) > 1
    for row in found["rows"]:
        assert row["lite_ms"] > 0
        assert (row["peer"], row["times_faster"], row["note"]) == (None, None, None)


@pytest.mark.processes
def test_peers_that_are_missing_are_named(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("torch", "tensordict", "torchrl"):
        monkeypatch.setitem(sys.modules, name, None)
    found = bench(run, "tensordicts", "gradients", "--peers", "--plot", str(tmp_path))
    told = {row["peer"]: row["note"] for row in found["rows"]}
    assert told == {"tensordict": "not installed", "torch": "not installed", "a loop": None}
    (loop,) = (row for row in found["rows"] if row["note"] is None)
    assert loop["times_faster"] == pytest.approx(loop["peer_ms"] / loop["lite_ms"])
    page = (tmp_path / "bench.html").read_text(encoding="utf-8")
    assert page.count("<rect") == 1
    assert "not installed" in page
    out, err = run(["bench", "tensordicts", "--peers", "--rounds", "1"])
    assert out.count("tensordict  not installed") == 6
    assert "lite bench: tensordicts: td[0]" in err  # progress


def test_a_runtime_that_is_missing_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setenv("LITE_RUNTIME", "onnxruntime")
    (row,) = bench(run, "generation")["rows"]
    assert row["lite_ms"] is None
    assert "onnxruntime" in row["note"]


def test_names_are_checked_and_all_in_the_help(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        "there is nothing to time called nothing; there are tensordicts," in run(["bench", "nothing"], 2).err
    )
    with pytest.raises(SystemExit, match="0"):
        build_parser().parse_args(["bench", "--help"])
    said = " ".join(capsys.readouterr().out.split())
    groups = list(_report().on_this_machine.GROUPS)
    assert f"of {', '.join(groups[:-1])} and {groups[-1]} (all)" in said


def test_an_installed_package_has_no_benchmarks(run, monkeypatch, tmp_path):
    monkeypatch.setattr(lite, "__file__", str(tmp_path / "lite" / "__init__.py"))
    assert "the benchmarks are in a checkout" in run(["bench"], 1).err


def test_a_page_needs_a_folder(run: Run, tmp_path: Path) -> None:
    assert "there is no such folder" in run(["bench", "returns", "--plot", str(tmp_path / "none")], 1).err


def test_bars_begin_at_one() -> None:
    rows = [
        {"case": "<a>", "peer": "p", "times_faster": value, "group": "g", "lite_ms": 1.0, "peer_ms": value}
        | {"note": None}
        for value in (100.0, 0.1, 1.0)
    ]
    drawn = _report()._chart(rows)
    ElementTree.fromstring(drawn)
    (faster, slower, same) = [
        (float(x), float(width))
        for x, width in re.findall(r'<rect class="mark" x="(\S+)" y="\d+" width="(\S+)"', drawn)
    ]
    assert faster[0] == same[0] == slower[0] + slower[1]
    assert (same[1], faster[1]) == (0.0, pytest.approx(2 * slower[1], abs=0.2))
    assert "&lt;a&gt;, p" in drawn
