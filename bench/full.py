"""Run the scripts that documents' figures come from, and show README's figures beside those found.

    python bench/full.py --output DIR                      # the scripts of README's table
    python bench/full.py tensordict layers --output DIR    # some of `catalogue.py`
    python bench/full.py --compare DIR                     # the table again; runs nothing
    python bench/full.py --list                            # scripts, minutes, what is not installed

Each script runs in a process of its own. DIR gets its results, and NAME.log with what it printed.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import catalogue
import readme_table
import side_by_side


def main(argv: list[str] | None = None) -> int:
    """The exit status: 1 if a script failed, or one that was named could not run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="*", help=f"of {', '.join(catalogue.SCRIPTS)}")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--output", type=Path, metavar="DIR", help="folder for what the scripts find")
    what.add_argument("--compare", type=Path, metavar="DIR", help="folder that --output has filled")
    what.add_argument("--list", action="store_true", help="scripts, minutes, what is not installed")
    parser.add_argument("--models", type=Path, metavar="DIR", help="what llm_models.py has made, for llm")
    parser.add_argument("--rounds", metavar="N", help="fewer are quick, for figures that mean nothing")
    asked = parser.parse_args(argv)
    if unknown := [name for name in asked.name if name not in catalogue.SCRIPTS]:
        parser.error(f"there is no script called {', '.join(unknown)}")
    if asked.list:
        print(catalogue.table())
        for name, script in catalogue.SCRIPTS.items():
            if absent := catalogue.missing(script):
                print(f"{name}: not installed: {', '.join(absent)} ({script.install})")
        return 0
    if asked.compare is not None:
        show(asked.compare)
        return 0
    if asked.output.resolve() == side_by_side.RESULTS:
        parser.error("documents quote the figures of bench/results: name a folder of your own")
    asked.output.mkdir(parents=True, exist_ok=True)
    failed = False
    for name in asked.name or catalogue.CLAIMED:
        reason = obstacle(name, asked) or run(name, asked)
        print(f"{name}: {reason or 'done'}", file=sys.stderr, flush=True)
        failed |= bool(reason) and (bool(asked.name) or reason.startswith("failed"))
    show(asked.output)
    return int(failed)


def obstacle(name: str, asked: argparse.Namespace) -> str:
    """Why a script cannot run, and the command that helps; empty if it can."""
    script = catalogue.SCRIPTS[name]
    if absent := catalogue.missing(script):
        return f"not installed: {', '.join(absent)} ({script.install})"
    return catalogue.MODELS if script.models and asked.models is None else ""


def run(name: str, asked: argparse.Namespace) -> str:
    """Run a script and add its time to `scripts.json`; how it failed, or nothing."""
    script, output, log = catalogue.SCRIPTS[name], asked.output, asked.output / f"{name}.log"
    expected = catalogue.minutes(name)
    print(f"{name}: {script.what}; {expected or 0:.0f} min", file=sys.stderr, flush=True)
    command = [sys.executable, Path(__file__).parent / script.file, "--output", output.resolve()]
    command += [] if asked.rounds is None else ["--rounds", asked.rounds]
    command += [asked.models.resolve()] if script.models else []
    # A checkout that is not installed is found by its scripts, too.
    paths = [str(readme_table.ROOT), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    about, start, given = side_by_side.machine(), time.monotonic(), _of_children()
    with open(log, "wb") as out:
        code = subprocess.run(command, env=environment, stdout=out, stderr=subprocess.STDOUT).returncode
    if code or not (output / f"{name}.json").is_file():
        return f"failed with status {code}; see {log}"
    own = {
        "script": name,
        "seconds": time.monotonic() - start,
        "processor_seconds": _of_children() - given,
        "rounds": asked.rounds,
    }
    try:
        rows = readme_table.rows("scripts", output)
    except FileNotFoundError:
        rows = []
    rows = [*(row for row in rows if row["script"] != name), own]
    side_by_side.save(output, "scripts", None, {"about": about, "rows": rows})
    return ""


def _of_children() -> float:
    """Processor seconds of the processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def show(folder: Path) -> None:
    """Print README's figures beside those of a folder."""
    for claim in readme_table.claims(folder):
        found = f"not run: python bench/full.py {claim.source} --output {folder}"
        if claim.here is not None:
            remarks = "; ".join(_remarks(claim.source, folder))
            found = f"{claim.here} ({remarks})" if remarks else claim.here
        print(f"{claim.what}\n  README  {claim.claimed}\n  found   {found}")


def _remarks(name: str, folder: Path) -> list[str]:
    """Versions of peers that are not those of README's figures, and the load of a busy machine."""
    packages = catalogue.SCRIPTS[name].beside
    claimed = catalogue.versions_of(side_by_side.RESULTS, name, packages)
    here = catalogue.versions_of(folder, name, packages)
    found = [
        f"{package} {text}, not {claimed[package]}"
        for package, text in here.items()
        if claimed.get(package, text) != text
    ]
    about: dict[str, Any] = readme_table.about(name, folder)
    load = about.get("load_before", 0)
    return found + ([f"under a load of {load:g}"] if load > about.get("cores", 1) / 2 else [])


if __name__ == "__main__":
    sys.exit(main())
