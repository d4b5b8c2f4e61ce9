"""`lite bench --full`: scripts in processes of their own, and README's figures beside what they found."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lite.cli import main
from lite.cli.bench import _benchmarks

ROOT = Path(__file__).parents[2]
# Takes what the scripts of bench/ take and writes what they write, and imports nothing that takes time.
TINY = """
import json, os, sys
flags = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print("said on the way")
ratio = int(flags.get("--rounds", 7))
rows = [{"case": f"case {i}", "group": "five leaves", "ratio": ratio} for i in range(3)]
with open(f"{flags['--output']}/{NAME}.json", "w") as file:
    json.dump({"about": {"torch": "1.0+cpu", "load_before": 9.0, "cores": 2}, "rows": rows}, file)
"""
Make = Callable[..., None]


@pytest.fixture
def bench() -> SimpleNamespace:
    return _benchmarks()


@pytest.fixture
def tiny(bench: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Make:
    """Puts a program in the place of a script; the scripts of all names need nothing then."""
    for name, script in bench.catalogue.SCRIPTS.items():
        own = replace(script, file=str(tmp_path / f"{name}.py"), needs=())
        monkeypatch.setitem(bench.catalogue.SCRIPTS, name, own)

    def make(name: str, source: str = TINY, **changed: Any) -> None:
        (tmp_path / f"{name}.py").write_text(source.replace("NAME", repr(name)))
        own = replace(bench.catalogue.SCRIPTS[name], **changed)
        monkeypatch.setitem(bench.catalogue.SCRIPTS, name, own)

    return make


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_script_runs_and_its_figures_stand_beside_the_readme(
    tiny: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tiny("tensordict")
    output = tmp_path / "figures" / "of mine"
    assert main(["bench", "--full", "tensordict", "--output", str(output), "--plot", str(output)]) == 0
    out, err = capsys.readouterr()
    assert "tensordict, 1 of 1" in err
    assert re.search(r"tensordict: done: \d\.\d min", err)
    first, second = out.splitlines()[:6][::3], out.splitlines()[:6][2::3]
    assert first[0].startswith("TensorDict beside tensordict")
    assert second[0].startswith(
        "  found   7, the mean of 3 operations; 7 with five leaves; keys of 100 entries -"
    )
    assert "(torch 1.0, not 2" in second[0]
    assert second[1] == f"  found   not run: lite bench --full files --output '{output}'"
    assert {file.name for file in output.iterdir()} == {
        "tensordict.json", "tensordict.log", "scripts.json", "bench.html"
    }  # fmt: skip
    assert (output / "tensordict.log").read_text() == "said on the way\n"
    page = (output / "bench.html").read_text(encoding="utf-8")
    assert "7, the mean of 3 operations" in page
    assert page.count("not run") == out.count("not run") > 5


def test_json_rounds_and_the_table_again(
    tiny: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tiny("files")
    tiny("backends")
    output = str(tmp_path / "o")
    flags = ["--output", output, "--rounds", "3", "--json", "--quiet"]
    assert main(["bench", "--full", "files", "backends", *flags]) == 0
    found = told(capsys)
    assert [one["status"] for one in found["scripts"]] == ["done", "done"]
    (claim,) = (claim for claim in found["claims"] if claim["here"] is not None)
    assert (claim["source"], claim["here"]) == ("files", "3")
    assert [here for _, here in claim["ratios"].values()] == ["3"]
    assert re.fullmatch(r"torch 1.0, not [\d.]+; under a load of 9", claim["remarks"])
    rows = json.loads((tmp_path / "o" / "scripts.json").read_text())["rows"]
    assert [(row["script"], row["rounds"]) for row in rows] == [("files", 3), ("backends", 3)]
    assert main(["bench", "--compare", output, "--json"]) == 0
    again = told(capsys)
    assert again["claims"] == found["claims"]
    assert again["scripts"] == []
    assert again["about"] == found["about"]


def test_without_names_what_the_readme_claims_runs(
    tiny: Make, bench: SimpleNamespace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One of them without the models that it takes."""
    for name in bench.catalogue.CLAIMED:
        tiny(name)
    assert main(["bench", "--full", "--output", str(tmp_path / "o"), "--json", "--quiet"]) == 0
    found = {one["script"]: one for one in told(capsys)["scripts"]}
    assert {name for name, one in found.items() if one["status"] == "done"} == {
        "tensordict", "files", "nn", "layers", "vmap", "grad", "kernels", "data"
    }  # fmt: skip
    assert found["llm"]["status"] == "no models"
    assert "llm_models.py" in found["llm"]["note"]


def test_models_are_handed_on(tiny: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny("llm", TINY + "\nprint(sys.argv[-1])\n")
    assert main(["bench", "--full", "llm", "--models", str(tmp_path), "--output", str(tmp_path / "o")]) == 0
    assert (tmp_path / "o" / "llm.log").read_text().splitlines()[-1] == str(tmp_path)


def test_what_a_script_left_out_is_told(
    tiny: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lacking = '"cores": 2, "left out": "queue (no model), a peer"'
    tiny("tensordict", TINY.replace('"cores": 2', lacking))
    tiny("files", TINY.replace('"cores": 2', '"cores": 2, "left out": "nothing"'))
    assert main(["bench", "--full", "tensordict", "files", "--output", str(tmp_path / "o")]) == 0
    err = capsys.readouterr().err
    assert re.search(r"tensordict: done: \d\.\d min; left out: queue \(no model\), a peer\n", err)
    assert re.search(r"files: done: \d\.\d min\n", err)


def test_what_is_not_installed_is_named_with_the_way_to_it(
    tiny: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "json5_of_nobody", None)
    tiny("tensordict", needs=("json", "json5_of_nobody"), install="pip install json5")
    tiny("files")
    both = ["--output", str(tmp_path / "o")]
    assert main(["bench", "--full", "tensordict", *both]) == 1
    err = capsys.readouterr().err
    assert "tensordict: not installed: json5_of_nobody (pip install json5)" in err
    assert "times lite alone" in err
    assert main(["bench", "--full", "tensordict", "files", *both]) == 1  # named, and could not run
    assert "files: done" in capsys.readouterr().err
    assert main(["bench", "--list"]) == 0
    assert "not installed: json5_of_nobody (pip install json5)" in capsys.readouterr().out


def test_another_version_of_a_peer_is_told_and_timed(
    tiny: Make,
    bench: SimpleNamespace,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    claimed = bench.catalogue.versions_of(bench.side_by_side.RESULTS, "tensordict", ("tensordict",))
    monkeypatch.setattr(bench.catalogue, "version", lambda package: "0.1+local")
    tiny("tensordict", beside=("tensordict",))
    assert main(["bench", "--full", "tensordict", "--output", str(tmp_path / "o")]) == 0
    said = f"README's figures are beside tensordict {claimed['tensordict']}; here it is timed beside 0.1"
    assert said in capsys.readouterr().err


def test_a_script_that_fails_does_not_end_the_others(
    tiny: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    tiny("tensordict", "raise ValueError('\\x1b[2Jno luck')")
    tiny("nn", "print('wrote nothing')")
    tiny("files")
    names = ["tensordict", "nn", "files"]
    assert main(["bench", "--full", *names, "--output", str(tmp_path / "o")]) == 1
    out, err = capsys.readouterr()
    log = tmp_path / "o" / "tensordict.log"
    assert "tensordict: failed: ValueError: ?[2Jno luck (all that it said is in " in err
    assert str(log) in err
    assert "Traceback" in log.read_text()
    assert "it wrote no results" in err
    assert "  found   7" in out


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("stubborn", [False, True])
def test_an_interruption_ends_the_script_and_says_what_is_done(tmp_path: Path, stubborn: bool) -> None:
    """Ctrl-C, which a terminal sends to all, or a signal to the command alone."""
    wait = f"open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))\nimport time\ntime.sleep(60)\n"
    (tmp_path / "nn.py").write_text("import os\n" + wait)
    (tmp_path / "files.py").write_text(TINY.replace("NAME", "'files'"))
    program = f"""
import sys
from dataclasses import replace
from lite.cli import main
from lite.cli.bench import _benchmarks
scripts = _benchmarks().catalogue.SCRIPTS
for name in ("files", "nn"):
    scripts[name] = replace(scripts[name], file={str(tmp_path)!r} + f"/{{name}}.py", needs=())
sys.exit(main(["bench", "--full", "files", "nn", "--output", {str(tmp_path / "o")!r}]))
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = int((tmp_path / "pid").read_text())
    (os.kill if stubborn else os.killpg)(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith(
        "lite bench: interrupted: in nn; done before it: files; results are in"
    )
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert (tmp_path / "o" / "files.json").is_file()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--full"], "--full needs --output DIR"),
        (["--full", "--output", ""], "--output got an empty name"),
        (["--compare", ""], "--compare got an empty name"),
        (["--output", "o"], "--output is for --full"),
        (["--models", "m"], "--models is for --full"),
        (["--compare", "o", "--list"], "give one of them"),
        (["files", "--compare", "o"], "--compare takes no names, got files"),
        (["files", "--list"], "--list takes no names, got files"),
        (
            ["--full", "tensordicts", "--output", "o"],
            "nothing to time called tensordicts; there are tensordict,",
        ),
        (["--full", "--output", str(ROOT / "bench" / "results")], "name a folder of your own"),
    ],
)
def test_command_lines_that_contradict_themselves(
    flags: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", *flags]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") <= 2  # a busy machine is told, too
    assert list(tmp_path.iterdir()) == []


def test_folders_that_are_none(
    bench: SimpleNamespace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["bench", "--full", "files", "--output", str(tmp_path / "file")]) == 1
    assert "is a file: name a folder" in capsys.readouterr().err
    assert main(["bench", "--compare", str(tmp_path / "none")]) == 1
    assert "there is no such folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == ""


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[1, 2]",
        b'{"rows": 3}',
        b'{"rows": [1]}',
        b'{"rows": ' + b"[" * 100_000,
        b'{"rows": [' + b"9" * 5000 + b"]}",
        b"\x1b[2J",
    ],
    ids=repr,
)
def test_damaged_results_are_named(
    content: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "files.json").write_bytes(content)
    assert main(["bench", "--compare", str(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert "files.json is damaged" in err
    assert err.count("\n") == 1
    assert "\x1b" not in err + out
    assert out.count("found   damaged") == 1
    assert out.count("found   not run") == 9


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"case": 3, "ratio": "7"},
        {"case": ["write"], "ratio": float("nan")},
        {"case": "write", "ratio": float("inf")},
        {"case": "write", "ratio": 10**400},
        {"case": "write", "ratio": 1.7e308},
        {"case": "write", "ratio": 5e-324},
        {"case": "write", "ratio": -1},
        {"case": "write", "ratio": 0},
        {"case": "write", "ratio": None},
        {"case": "mapped td[0]", "ratio": 3.0},
    ],
    ids=str,
)
def test_figures_that_are_none_are_not_run(
    row: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "files.json").write_text(json.dumps({"about": ["<b>"], "rows": [row]}))
    assert main(["bench", "--compare", str(tmp_path), "--json"]) == 0
    assert [claim["here"] for claim in told(capsys)["claims"]] == [None] * 10


def test_a_page_of_hostile_results_holds_no_markup_of_theirs(tmp_path: Path) -> None:
    about = {"processor": "<script>", "torch": "<script>", "tensordict": "9" * 1000}
    row = {"case": "write <script>", "ratio": 2.0}
    (tmp_path / "files.json").write_text(json.dumps({"about": about, "rows": [row]}))
    (tmp_path / "scripts.json").write_text(json.dumps({"about": about, "rows": [row]}))
    assert main(["bench", "--compare", str(tmp_path), "--plot", str(tmp_path), "--quiet"]) == 0
    page = (tmp_path / "bench.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page  # of this machine's description


def test_the_projects_own_results_agree_with_the_readme(
    bench: SimpleNamespace, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shutil.copytree(bench.side_by_side.RESULTS, tmp_path / "copy")
    assert main(["bench", "--compare", str(tmp_path / "copy")]) == 0
    lines = capsys.readouterr().out.splitlines()
    claimed = [line.removeprefix("  README  ") for line in lines if line.startswith("  README")]
    assert [line.removeprefix("  found   ") for line in lines if line.startswith("  found")] == claimed
    assert len(claimed) == 10


def test_the_list_as_json(bench: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--list", "--json"]) == 0
    found = told(capsys)
    assert list(found["cases"]) == list(bench.on_this_machine.GROUPS)
    assert [one["script"] for one in found["scripts"]] == list(bench.catalogue.SCRIPTS)
