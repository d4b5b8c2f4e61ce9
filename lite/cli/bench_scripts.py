"""`lite bench --full`: scripts of bench/, each in a process of its own, and README's figures beside theirs.

What a script prints goes to a file beside its results. `lite bench` passes the modules of bench/ as `bench`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from lite.cli.bench_page import claims_page
from lite.cli.progress import say

_APART = "what to install goes into environments of its own: tensordict 0.15.3 and torchrl exclude each other"
_PATIENCE = 10.0  # seconds that a script has to end after it was interrupted


@dataclass(frozen=True)
class Outcome:
    """What became of a script.

    Attributes:
        script: its name.
        status: "done", "failed", "not installed" or "no models".
        seconds: that it ran.
        processor_seconds: that its processes were given; None where the system does not tell.
        note: how long it took, what is missing, or the last line that it said.
    """

    script: str
    status: str
    seconds: float | None = None
    processor_seconds: float | None = None
    note: str | None = None

    def __str__(self) -> str:
        return self.status if self.note is None else f"{self.status}: {self.note}"


def make_folder(args: argparse.Namespace, bench: SimpleNamespace) -> None:
    """Make the folder of `--output`.

    Raises:
        argparse.ArgumentError: it is that of the project's own results.
        NotADirectoryError: it is a file.
    """
    output = Path(args.output)
    if output.resolve() == bench.side_by_side.RESULTS:
        raise argparse.ArgumentError(
            None, f"--output {args.output} holds the figures that documents quote: name a folder of your own"
        )
    if output.exists() and not output.is_dir():
        raise NotADirectoryError(f"--output {args.output} is a file: name a folder")
    output.mkdir(parents=True, exist_ok=True)


def run_scripts(args: argparse.Namespace, bench: SimpleNamespace, about: dict[str, Any]) -> int:
    """Run the scripts that are named, or those of README's table, one after the other; then `compare`.

    Returns:
        0; 1 if a script failed, or one that was named, or all of them, could not run.
    """
    output = Path(args.output)
    names = list(dict.fromkeys(args.name)) or list(bench.catalogue.CLAIMED)
    outcomes: list[Outcome] = []
    for number, name in enumerate(names, 1):
        try:
            outcomes.append(_outcome(args, bench, name, output, f"{number} of {len(names)}"))
        except KeyboardInterrupt:
            done = ", ".join(one.script for one in outcomes if one.status == "done") or "none"
            raise KeyboardInterrupt(f"in {name}; done before it: {done}; results are in {output}") from None
        last = outcomes[-1]
        say(args, f"{name}: {last}")
        if last.status == "done":
            _record(args, bench, output, last, about)
    if any(one.status == "not installed" for one in outcomes):
        say(args, f"{_APART}; lite bench without --full times lite alone")
    damaged = _show(args, bench, output, about, outcomes)
    statuses = [one.status for one in outcomes]
    wanted = len(names) if args.name else 1
    return 1 if damaged or "failed" in statuses or statuses.count("done") < wanted else 0


def compare(args: argparse.Namespace, bench: SimpleNamespace) -> int:
    """README's figures beside those of a folder.

    Returns:
        0; 1 if a file of results is damaged.
    """
    folder = Path(args.compare)
    if not folder.is_dir():
        raise FileNotFoundError(f"--compare {args.compare}: there is no such folder")
    return _show(args, bench, folder, bench.readme_table.about("scripts", folder), [])


def list_scripts(args: argparse.Namespace, bench: SimpleNamespace) -> int:
    """What there is to run, how long it takes and what is missing for it."""
    cases, found = bench.on_this_machine.GROUPS, []
    for name, script in bench.catalogue.SCRIPTS.items():
        absent = bench.catalogue.missing(script)
        minutes = bench.catalogue.minutes(name)
        found.append(
            {
                "script": name,
                "what": script.what,
                "minutes": minutes,
                "missing": absent,
                "install": script.install,
                "other_versions": [list(each) for each in bench.catalogue.other_versions(name, script)],
            }
        )
    if args.json:
        quick = {name: make.__doc__ for name, make in cases.items()}
        print(json.dumps({"cases": quick, "scripts": found}))
        return 0
    print("lite bench NAME ...: a few cases of each kind, all in a minute or two, lite alone or with --peers")
    for name, make in cases.items():
        print(f"  {name:12} {(make.__doc__ or '').strip()}")
    print("\nlite bench --full NAME ... --output DIR: scripts, minutes each where they were timed")
    for one in found:
        taken = "" if one["minutes"] is None else f"{_minutes(60 * one['minutes'])} min"
        print(f"  {one['script']:12} {taken:>8}  {one['what']}")
        if one["missing"]:
            print(f"{'':25}not installed: {', '.join(one['missing'])} ({one['install']})")
        for package, claimed, here in one["other_versions"]:
            print(f"{'':25}README's figures are beside {package} {claimed}; here is {here}")
    if any(one["missing"] for one in found):
        print(f"\n{_APART[0].upper()}{_APART[1:]}.")
    print(f"\nWithout names, --full runs {', '.join(bench.catalogue.CLAIMED)}: what README's table is of.")
    return 0


def _outcome(
    args: argparse.Namespace, bench: SimpleNamespace, name: str, output: Path, place: str
) -> Outcome:
    catalogue = bench.catalogue
    script = catalogue.SCRIPTS[name]
    if absent := catalogue.missing(script):
        return Outcome(name, "not installed", note=f"{', '.join(absent)} ({script.install})")
    if script.models and args.models is None:
        return Outcome(name, "no models", note=catalogue.MODELS)
    for package, claimed, here in catalogue.other_versions(name, script):
        say(args, f"{name}: README's figures are beside {package} {claimed}; here it is timed beside {here}")
    expected = catalogue.minutes(name)
    about = "" if expected is None or args.rounds else f", about {_minutes(60 * expected)} min"
    say(args, f"{name}, {place}{about}: {script.what}")
    folder, log = Path(catalogue.__file__).parent, output / f"{name}.log"
    command = [sys.executable, str(folder / script.file), "--output", str(output.resolve())]
    command += [] if args.rounds is None else ["--rounds", str(args.rounds)]
    command += [str(Path(args.models).resolve())] if script.models else []
    environment = dict(os.environ)
    # A checkout that is not installed is found by its scripts, too.
    paths = [str(folder.parent), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    start, given = time.monotonic(), _of_children()
    code = _process(command, environment, log, lambda: _tick(args, name, start))
    seconds = time.monotonic() - start
    if code == 0 and (output / f"{name}.json").is_file():
        lacks = str(bench.readme_table.about(name, output).get("left out", "nothing"))
        note = f"{_minutes(seconds)} min" + ("" if lacks == "nothing" else f"; left out: {_brief(lacks)}")
        return Outcome(name, "done", seconds, (_of_children() - given) or None, note)
    said = _last_line(log) if code else "it wrote no results"
    return Outcome(name, "failed", seconds, note=f"{said} (all that it said is in {log})")


def _of_children() -> float:
    """Processor seconds of the processes that have ended; 0 on Windows."""
    times = os.times()
    return times.children_user + times.children_system


def _process(command: Sequence[str], environment: dict[str, str], log: Path, tick: Callable[[], None]) -> int:
    """The exit status of a program that is not left running, whatever ends the wait for it."""
    with open(log, "wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return process.wait(1.0)
                tick()
        except BaseException:
            _end(process)
            raise


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait for what Ctrl-C has reached, too; interrupt it if it was not, and end what does not listen."""
    try:
        for patience in (1.0, _PATIENCE):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
                return
            process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
    finally:
        process.kill()
        process.wait()


def _tick(args: argparse.Namespace, name: str, start: float) -> None:
    if not args.quiet and sys.stderr.isatty():
        seconds = time.monotonic() - start
        print(f"{name}: {seconds // 60:.0f}:{seconds % 60:02.0f}", end="\r", file=sys.stderr, flush=True)


def _last_line(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, log.stat().st_size - 4096))
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return _brief(lines[-1] if lines else "it said nothing")


def _record(
    args: argparse.Namespace, bench: SimpleNamespace, output: Path, done: Outcome, about: dict[str, Any]
) -> None:
    """Add how long a script took to `scripts.json`."""
    try:
        rows = bench.readme_table.rows("scripts", output)
    except (FileNotFoundError, ValueError):
        rows = []
    own = asdict(done) | {"rounds": args.rounds}
    rows = [row for row in rows if row.get("script") != done.script] + [own]
    bench.side_by_side.save(output, "scripts", None, {"about": about, "rows": rows})


def _show(
    args: argparse.Namespace,
    bench: SimpleNamespace,
    folder: Path,
    about: dict[str, Any],
    outcomes: Sequence[Outcome],
) -> int:
    """The table of claims, in each form that was asked for; 1 if a file of results is damaged."""
    claims = bench.readme_table.claims(folder)
    remarks = {claim.source: _remarks(bench, claim.source, folder) for claim in claims}
    damaged = list(dict.fromkeys(claim.damage for claim in claims if claim.damage is not None))
    for text in damaged:
        print(f"lite {args.command}: {_printable(text)}", file=sys.stderr)
    found = [_figures(bench, claim, remarks[claim.source], folder) for claim in claims]
    if args.plot is not None:
        file = Path(args.plot) / "bench.html"
        ran = [(one.script, str(one)) for one in outcomes]
        lines = [(claim.what, claim.claimed, text) for claim, text in zip(claims, found, strict=True)]
        drawn = [(claim.what, list(claim.ratios.values())) for claim in claims if claim.ratios]
        file.write_text(claims_page(about, ran, lines, drawn), encoding="utf-8")
        say(args, f"the page is {file}")
    if args.json:
        told = {
            "about": about,
            "folder": str(folder),
            "scripts": [asdict(one) for one in outcomes],
            "claims": [{**asdict(claim), "remarks": remarks[claim.source]} for claim in claims],
        }
        print(json.dumps(told))
        return int(bool(damaged))
    for claim, text in zip(claims, found, strict=True):
        print(f"{claim.what}\n  README  {claim.claimed}\n  found   {text}")
    print(f"\nTimes faster, medians. Found is what {folder} has, of this run or an earlier one.")
    return int(bool(damaged))


def _figures(bench: SimpleNamespace, claim: Any, remarks: str, folder: Path) -> str:
    """What stands beside the figures of README."""
    if claim.damage is not None:
        return "damaged"
    if claim.here is None:
        models = " --models DIR" if bench.catalogue.SCRIPTS[claim.source].models else ""
        return f"not run: lite bench --full {claim.source} --output {shlex.quote(str(folder))}{models}"
    return f"{claim.here} ({remarks})" if remarks else str(claim.here)


def _remarks(bench: SimpleNamespace, name: str, folder: Path) -> str:
    """Versions of peers that are not those of README's figures, and the load of a busy machine."""
    packages = bench.catalogue.SCRIPTS[name].beside
    claimed = bench.catalogue.versions_of(bench.side_by_side.RESULTS, name, packages)
    here = bench.catalogue.versions_of(folder, name, packages)
    found = [
        f"{package} {text}, not {claimed[package]}"
        for package, text in here.items()
        if claimed.get(package, text) != text
    ]
    about = bench.readme_table.about(name, folder)
    load, cores = about.get("load_before"), about.get("cores")
    if isinstance(load, float) and isinstance(cores, int) and load > cores / 2:
        found.append(f"under a load of {load:g}")
    return "; ".join(found)


def _brief(text: str) -> str:
    return _printable(text)[:300]


def _printable(text: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}" if seconds < 600 else f"{seconds / 60:.0f}"
