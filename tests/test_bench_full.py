"""`bench/full.py`: scripts in processes of their own, and README's figures beside what they found."""

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from helpers import bench_files
from helpers.cases import each_case

# Takes what the scripts of bench/ take and writes what they write, and imports nothing that takes time.
TINY = """
import json, sys
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print("said on the way")
ratio = int(flags.get("--rounds", 7))
rows = [{"case": f"case {i}", "group": "five leaves", "ratio": ratio} for i in range(3)]
with open(f"{flags['--output']}/{NAME}.json", "w") as file:
    json.dump({"about": {"torch": "1.0+cpu", "load_before": 9.0, "cores": 2}, "rows": rows}, file)
print(sys.argv[-1])
"""
Make = Callable[..., None]


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return bench_files.imported("full", monkeypatch)


@pytest.fixture
def tiny(full: ModuleType, tmp_path: Path) -> Make:
    """Puts a program in the place of a script, which needs nothing then."""

    def make(name: str, source: str = TINY, **changed: Any) -> None:
        file = tmp_path / f"{name}.py"
        file.write_text(source.replace("NAME", repr(name)))
        scripts = full.catalogue.SCRIPTS
        scripts[name] = replace(scripts[name], **({"file": str(file), "needs": ()} | changed))

    return make


def test_figures_stand_beside_those_of_the_readme(full, tiny, capsys, tmp_path):
    tiny("tensordict")
    tiny("llm")
    output = tmp_path / "figures" / "of mine"
    assert full.main(["tensordict", "llm", "--models", str(tmp_path), "--output", str(output)]) == 0
    out, err = capsys.readouterr()
    assert "tensordict: done" in err
    first, second = out.splitlines()[:6][::3], out.splitlines()[:6][2::3]
    assert first[0].startswith("TensorDict beside tensordict")
    assert second[0].startswith(
        "  found   7, the geometric mean of 3 operations; 7 with five leaves; keys of 100 entries -"
    )
    assert "(torch 1.0, not 2" in second[0]
    assert second[0].endswith("; under a load of 9)")
    assert second[1] == f"  found   not run: python bench/full.py files --output {output}"
    assert (output / "tensordict.log").read_text().startswith("said on the way\n")
    assert (output / "llm.log").read_text().splitlines()[-1] == str(tmp_path)
    assert full.main(["--compare", str(output)]) == 0
    assert capsys.readouterr().out == out
    assert full.main(["tensordict", "--rounds", "3", "--output", str(output)]) == 0
    assert "  found   3, the geometric mean" in capsys.readouterr().out
    rows = json.loads((output / "scripts.json").read_text())["rows"]
    assert [(row["script"], row["rounds"]) for row in rows] == [("llm", None), ("tensordict", "3")]


@pytest.mark.processes
def test_what_cannot_run_does_not_end_the_others(full, tiny, capsys, monkeypatch, tmp_path):
    """Without names, only a script that fails makes the status 1."""
    monkeypatch.setitem(sys.modules, "json5_of_nobody", None)
    output = ["--output", str(tmp_path / "o")]
    for name in full.catalogue.CLAIMED:
        tiny(name)
    tiny("nn", needs=("json", "json5_of_nobody"), install="pip install json5")
    assert full.main(output) == 0
    err = capsys.readouterr().err
    assert "nn: not installed: json5_of_nobody (pip install json5)" in err
    assert "llm: python bench/llm_models.py" in err
    assert "data: done" in err
    assert full.main(["nn", *output]) == 1
    assert full.main(["--list"]) == 0
    assert "nn: not installed: json5_of_nobody (pip install json5)" in capsys.readouterr().out
    tiny("tensordict", "raise ValueError('no luck')")
    tiny("files", "")
    (tmp_path / "o" / "files.json").unlink()
    assert full.main(output) == 1
    assert full.main(["files", *output]) == 1
    err = capsys.readouterr().err
    assert f"tensordict: failed with status 1; see {tmp_path / 'o' / 'tensordict.log'}" in err
    assert "files: failed with status 0" in err
    assert "no luck" in (tmp_path / "o" / "tensordict.log").read_text()


@each_case(
    ("flags", "said"),
    [
        (["--output", "o", "nothing"], "there is no script called nothing"),
        (["--compare", "o", "--list"], "not allowed with"),
        ([], "required"),
        (["--output", str(bench_files.BENCH / "results")], "name a folder of your own"),
    ],
)
def test_command_lines_that_are_wrong(flags, said, full, capsys):
    with pytest.raises(SystemExit, match="2"):
        full.main(flags)
    assert said in capsys.readouterr().err
