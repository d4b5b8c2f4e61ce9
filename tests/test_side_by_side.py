"""What the scripts of bench/ share: arguments, and the one way to write results."""

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from helpers import bench_files
from helpers.cases import each_case

ROOT = Path(__file__).parents[1]


@pytest.fixture
def side_by_side(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return bench_files.imported("side_by_side", monkeypatch)


def test_results_go_where_they_are_wanted(side_by_side: ModuleType, tmp_path: Path) -> None:
    """A part of them goes to no folder unless one is named."""
    parser = side_by_side.arguments("What it is.", rounds=7)
    plain, named = parser.parse_args([]), parser.parse_args(["--output", str(tmp_path), "--rounds", "2"])
    assert (plain.rounds, named.rounds) == (7, 2)
    assert side_by_side.place(plain) == side_by_side.RESULTS == ROOT / "bench" / "results"
    assert side_by_side.place(plain, part=True) is None
    assert side_by_side.place(named) == side_by_side.place(named, part=True) == tmp_path


@each_case("rounds", ["0", "-1", "x"])
def test_rounds_are_counted_from_one(side_by_side, rounds, capsys):
    with pytest.raises(SystemExit, match="2"):
        side_by_side.arguments(None, rounds=7).parse_args(["--rounds", rounds])
    assert "--rounds: " in capsys.readouterr().err


def test_a_report_is_saved_whole(side_by_side, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["bench/files.py", "--rounds", "1"])
    result = side_by_side.measure({"lite": lambda: None, "other": lambda: None}, rounds=1, pause=0)
    rows = [side_by_side.row("a case", "other", result)]
    folder = tmp_path / "new" / "folder"
    side_by_side.report(folder, "name", "Title", rows, {"cores": 2}, "below\n", more=[1])
    text = (folder / "name.md").read_text(encoding="utf-8")
    assert text.startswith("# Title\n\nWritten by `python bench/files.py`: cores 2.\n")
    assert text.endswith("below\n")
    assert capsys.readouterr().out == text + "\n"
    found = json.loads((folder / "name.json").read_text(encoding="utf-8"))
    assert found == {"about": {"cores": 2}, "rows": rows, "more": [1]}
    with pytest.raises(TypeError):  # what JSON cannot hold leaves what was there
        side_by_side.save(folder, "name", "other text", {"rows": object()})
    assert {file.name for file in folder.iterdir()} == {"name.md", "name.json"}
    assert (folder / "name.md").read_text(encoding="utf-8") == text
    side_by_side.save(None, "name", "text", {})
