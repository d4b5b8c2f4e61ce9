"""Tests over versions of Python and NumPy, and over what runs the kernels: `python bench/platforms.py`.

For every interpreter found (on the path, by pyenv, or named by `--python`) it makes environments of wheels:
NumPy's newest version, or the oldest that lite admits and that has a wheel there, each with Numba
(the newest, or the oldest), without it, and with a wheel of prebuilt kernels if one is given.
lite is built once, installed as users install it, and tested from a copy of the tree that is not on the path.
`results/platforms.md` has a row for each environment: what the tests said, or why nothing ran.

Two groups of tests are run: CORE, which needs pytest and Hypothesis alone, and MODELS where onnxruntime and
tokenizers have wheels; `--full` runs everything outside of tests/parity, with those of the extras that have
wheels. What concerns the tree and not the platform (layers, lists of files) is left to the usual run.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import xml.etree.ElementTree as xml
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
WANTED = ("3.11", "3.12", "3.13", "3.14", "3.14t")  # a t: without the global interpreter lock
TOOLS = ("pytest>=9", "hypothesis>=6.135", "cloudpickle>=3", "setuptools>=77")
BACKENDS = ("numba", "numpy", "prebuilt")
CORE = (
    "tests/test_threads.py",
    "tests/containers",
    "tests/files/test_mapping.py",
    "tests/kernels/test_threads.py",
    "tests/ops",
    "tests/processes/test_workers.py",
    "tests/tensorclass",
    "tests/transforms/grad/test_rules_coverage.py",
    "tests/tree",
)
MODELS = ("tests/models/wrapper/test_onnx_wrapper.py",)
FULL = ("tests", "lite")
# About the tree, or in an environment of their own.
NOT_HERE = (
    "tests/parity",
    "tests/kernels/cuda",
    "tests/test_layers.py",
    "tests/test_mirror.py",
    "tests/test_packaging.py",
)
PROBE = """
import json, platform, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(), "implementation": platform.python_implementation(),
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")), "libc": " ".join(platform.libc_ver()),
    "machine": platform.machine(), "executable": sys.executable,
}))
"""
FOUND = """
import importlib.metadata, json, sys
import numpy, lite, lite.kernels
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
lite.kernels.sample_tokens(numpy.zeros((1, 8), numpy.float32), [0])
print(json.dumps({
    "numpy": numpy.__version__, "numba": version("numba"), "backend": lite.kernels.backend(),
    "gil": getattr(sys, "_is_gil_enabled", lambda: True)(), "from": lite.__file__,
}))
"""


@dataclass
class Interpreter:
    """One Python: `name` is its short version, with a t if it has no global interpreter lock."""

    name: str
    version: str
    libc: str
    path: Path


@dataclass
class Row:
    """What one environment said."""

    python: str
    numpy: str
    backend: str
    numba: str | None = None
    gil: bool | None = None
    libc: str = ""
    tests: dict[str, dict[str, int]] = field(default_factory=dict)  # by group: passed, failed, skipped
    failed: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)  # extras that there is no wheel for
    seconds: float = 0.0
    reason: str = ""  # why nothing ran


class Impossible(Exception):
    """This environment cannot be had; says why."""


def probe(path: Path) -> Interpreter | None:
    """What is at `path`, if it is a CPython that starts."""
    try:
        said = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, timeout=60, check=True)
        what = json.loads(said.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    if what["implementation"] != "CPython":
        return None
    short = ".".join(what["version"].split(".")[:2]) + "t" * what["free_threaded"]
    return Interpreter(short, what["version"], what["libc"] or "musl", path)


def interpreters(named: Iterable[Path]) -> list[Interpreter]:
    """One for each short version: those named, else those on the path, else pyenv's."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    on_path = (shutil.which(f"python{name}") for name in WANTED)
    candidates = [
        *named,
        *(Path(found) for found in on_path if found),
        *sorted(versions.glob("*/bin/python3")),
    ]
    oldest = tuple(map(int, WANTED[0].split(".")))
    chosen: dict[tuple[str, str], Interpreter] = {}
    for path in candidates:
        found = probe(path)
        if found and tuple(map(int, found.version.split(".")[:2])) >= oldest:
            chosen.setdefault((found.name, "musl" if "musl" in found.libc else "libc"), found)
    return sorted(chosen.values(), key=lambda one: (int(one.name.split(".")[1].rstrip("t")), one.name))


def run(command: Sequence[str | Path], **options: object) -> subprocess.CompletedProcess[str]:
    """Run to the end; the caller looks at the code."""
    return subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload, no-any-return]


class Environment:
    """A fresh virtual environment; `pip`, a folder with that package, installs wheels into it."""

    def __init__(self, folder: Path, interpreter: Interpreter, pip: Path) -> None:
        made = run([interpreter.path, "-m", "venv", "--without-pip", folder])
        if made.returncode:
            raise Impossible(f"no virtual environment: {last_line(made.stderr or made.stdout)}")
        self.folder = folder
        self.with_pip = os.environ | {"PYTHONPATH": str(pip)}
        self.python = folder / "bin" / "python" if os.name == "posix" else folder / "Scripts" / "python.exe"

    def pip(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", self.python]
        return run([*pip, "--disable-pip-version-check", *arguments], env=self.with_pip)

    def install(self, *requirements: str | Path, only_try: bool = False) -> bool:
        done = self.pip("install", "-q", "--no-compile", "--only-binary=:all:", *requirements)
        if done.returncode and not only_try:
            raise Impossible(refusal(done.stderr, requirements))
        return not done.returncode

    def oldest(self, package: str, least: str, *beside: str) -> str:
        """The lowest version from `least` on that installs `beside` the others; it is installed."""
        said = self.pip("index", "versions", package).stdout
        listed = re.search(r"Available versions: (.*)", said)
        every = listed[1].split(", ") if listed else []
        fitting = sorted((v for v in every if numbers(v) >= numbers(least)), key=numbers)
        for version in fitting:
            if self.install(f"{package}=={version}", *beside, only_try=True):
                return version
        raise Impossible(f"no version of {package} from {least} on has a wheel for it")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "no message"


def refusal(text: str, requirements: Iterable[object]) -> str:
    """The line in which pip says what it did not find."""
    errors = [line.strip() for line in text.splitlines() if line.startswith("ERROR: No matching")]
    wanted = ", ".join(str(r) for r in requirements)
    return errors[-1].removeprefix("ERROR: ") if errors else f"pip install {wanted}: {last_line(text)}"


def lower_bounds() -> dict[str, str]:
    """Package -> the least version that lite admits."""
    required = (ROOT / ".build" / "dependencies.txt").read_text(encoding="utf-8").splitlines()
    parts = (re.match(r"([\w-]+)>=([\d.]+)", line) for line in required)
    return {found[1]: found[2] for found in parts if found}


def extras(full: bool) -> list[list[str]]:
    """Requirements to try one by one: those of the language models, or all that the tests use."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    if not full:
        return [optional["llm-cpu"]]
    groups = ("files", "grammar", "gym", "ray")
    return [
        optional["llm-cpu"],
        *([line] for group in groups for line in optional[group]),
        ["ml-dtypes>=0.5"],
    ]


def copy_of_the_tree(folder: Path) -> Path:
    """What git tracks or would track, links as links."""
    listed = run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, check=True).stdout
    for name in filter(None, listed.split("\0")):
        target = folder / name
        if os.path.lexists(ROOT / name):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target, follow_symlinks=False)
    return folder


def newest_pip(folder: Path) -> Path:
    """The folder itself, with a pip that knows the tags of free-threaded wheels."""
    got = run([sys.executable, "-m", "pip", "install", "-q", "--target", folder, "pip>=24.1"])
    if got.returncode:
        raise SystemExit(got.stderr)
    return folder


def built_wheel(tree: Path, folder: Path) -> Path:
    """lite as it is installed."""
    built = run([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, tree])
    if built.returncode:
        raise SystemExit(built.stderr)
    (wheel,) = folder.glob("*.whl")
    return wheel


def tested(
    environment: Environment, tree: Path, tests: Iterable[str], variables: dict[str, str]
) -> xml.Element:
    """The report of one run of pytest in the copy."""
    report = environment.folder / "report.xml"
    report.unlink(missing_ok=True)
    command: list[str | Path] = [
        environment.python,
        "-P",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
    ]
    left_out = [f"--ignore={path}" for path in NOT_HERE]
    done = run([*command, *left_out, *tests], cwd=tree, env=variables)
    (environment.folder / "pytest.log").write_text(done.stdout + done.stderr, encoding="utf-8")
    if not report.exists():
        raise Impossible(f"pytest ended with {done.returncode}: {last_line(done.stderr or done.stdout)}")
    return xml.parse(report).getroot()[0]


def count(suite: xml.Element) -> tuple[dict[str, int], list[str]]:
    """Passed, failed and skipped, and the names of those that failed."""
    number = {key: int(suite.get(key, "0")) for key in ("tests", "failures", "errors", "skipped")}
    failed = number["failures"] + number["errors"]
    names = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    ]
    passed = number["tests"] - failed - number["skipped"]
    return {"passed": passed, "failed": failed, "skipped": number["skipped"]}, names


def fill(row: Row, environment: Environment, options: argparse.Namespace, tree: Path, wheel: Path) -> None:
    """Install, test, and note in `row` what came out."""
    bounds = lower_bounds()
    if row.numpy == "oldest":
        row.numpy = environment.oldest("numpy", bounds["numpy"])
        if row.backend == "numba":
            row.numba = environment.oldest("numba", bounds["numba"], f"numpy=={row.numpy}")
    else:
        environment.install("numpy", *(["numba"] if row.backend == "numba" else []))
    kept = environment.pip("list", "--format=freeze").stdout.split()
    environment.install(*kept, *TOOLS)
    if row.backend == "prebuilt":
        environment.install("--no-deps", options.prebuilt)
    environment.install("--no-deps", wheel)
    for group in extras(options.full) if not options.core else ():
        if not environment.install(*kept, *group, only_try=True):
            row.without += [re.split(r"[<>=\[]", line)[0] for line in group]
    variables = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")
    }
    variables |= {"LITE_KERNELS": row.backend, "NUMBA_CACHE_DIR": str(environment.folder / "numba")}
    said = run([environment.python, "-c", FOUND], env=variables, cwd=environment.folder)
    if said.returncode:
        raise Impossible(last_line(said.stderr))
    what = json.loads(said.stdout)
    row.numpy, row.numba, row.gil = what["numpy"], what["numba"], what["gil"]
    groups = {"core": CORE} if options.core else {"core": CORE, "models": MODELS}
    if options.full:
        groups = {"full": FULL}
    if options.tests:
        groups = {"chosen": options.tests}
    for name, tests in groups.items():
        if name == "models" and row.without:
            continue
        row.tests[name], failed = count(tested(environment, tree, tests, variables))
        row.failed += failed


def planned(options: argparse.Namespace) -> Iterator[tuple[Row, Interpreter | None]]:
    """The rows of the table, with the interpreter of each, if there is one."""
    found = interpreters(options.python)
    chosen = options.only or {*WANTED, *(one.name for one in found)}
    backends = [b for b in options.backend or BACKENDS if b != "prebuilt" or options.prebuilt]
    for name in sorted(chosen, key=lambda name: (numbers(name), name)):
        fitting = [one for one in found if one.name == name]
        if not fitting:
            yield Row(name, "", "", reason="not tested: no interpreter of this version was found"), None
        for one in fitting:
            for numpy in options.numpy or ("oldest", "newest"):
                for backend in backends:
                    version = one.version + "t" * name.endswith("t")
                    yield Row(version, numpy, backend, libc=one.libc), one


def run_row(
    row: Row, interpreter: Interpreter | None, number: int, work: Path, pip: Path, **shared: Any
) -> Row:
    """Fill the row in an environment of its own."""
    if interpreter is not None:
        folder = work / f"{number}-{interpreter.name}-{row.numpy}-{row.backend}"
        begun = time.perf_counter()
        try:
            fill(row, Environment(folder, interpreter, pip), **shared)
        except Impossible as why:
            row.reason = f"not tested: {why}"
        row.seconds = round(time.perf_counter() - begun, 1)
        if not shared["options"].keep:
            shutil.rmtree(folder, ignore_errors=True)
    return row


def table(every: list[Row]) -> str:
    """The rows as a page."""
    lines = [
        "# Platforms",
        "",
        f"Written by `python bench/platforms.py`: date {datetime.now(tz=UTC).date()}, {platform.system()}",
        f"{platform.machine()}, cores {os.cpu_count()}, in fresh environments.",
        "Tests: passed / failed / skipped. Seconds are those of the whole row, with others at the same time.",
        "",
        "| Python | libc | NumPy | Numba | kernels | core | models | s | |",
        "|---|---|---|---|---|--:|--:|--:|---|",
    ]
    for row in every:
        groups = list(row.tests.items())
        cells = [" / ".join(str(n) for n in numbers.values()) for _, numbers in groups] + ["", ""]
        notes = [row.reason] if row.reason else []
        if row.gil is False:
            notes.append("no GIL")
        if row.without:
            notes.append(f"no wheels of {', '.join(row.without)}")
        lines.append(
            f"| {row.python} | {row.libc} | {row.numpy} | {row.numba or ''} | {row.backend} "
            f"| {cells[0]} | {cells[1]} | {row.seconds or ''} | {'; '.join(notes)} |"
        )
    failed = sorted({name for row in every for name in row.failed})
    if failed:
        lines += ["", "Failed:", ""]
        for name in failed:
            where = [f"{r.python}/{r.numpy}/{r.backend}" for r in every if name in r.failed]
            lines.append(f"- `{name}`: {', '.join(where)}")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tests", nargs="*", help="files or folders of tests instead of the usual groups")
    parser.add_argument(
        "--python", action="append", default=[], type=Path, metavar="PATH", help="one more Python"
    )
    parser.add_argument("--only", action="append", metavar="VERSION", help="such as 3.12 or 3.14t")
    parser.add_argument("--numpy", action="append", choices=("oldest", "newest"))
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--prebuilt", metavar="WHEEL", type=Path, help="a wheel of tensordict-lite-kernels")
    parser.add_argument("--core", action="store_true", help="without the language models")
    parser.add_argument("--full", action="store_true", help="all tests, with all their packages")
    parser.add_argument(
        "--work", type=Path, help="where the environments are made; by default a temporary folder"
    )
    parser.add_argument("--keep", action="store_true", help="leave the environments, with pytest.log in each")
    parser.add_argument("--jobs", type=int, default=1, help="rows at the same time")
    parser.add_argument("--output", type=Path, default=RESULTS / "platforms", help="without suffix")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = options.work or Path(temporary)
        work.mkdir(parents=True, exist_ok=True)
        tree = copy_of_the_tree(Path(temporary) / "tree")
        wheel = built_wheel(tree, Path(temporary) / "wheel")
        rows = list(planned(options))
        pip = newest_pip(Path(temporary) / "pip")
        shared: dict[str, Any] = {
            "pip": pip,
            "work": work.absolute(),
            "options": options,
            "tree": tree,
            "wheel": wheel,
        }
        with ThreadPoolExecutor(options.jobs) as pool:
            running = [pool.submit(run_row, row, one, i, **shared) for i, (row, one) in enumerate(rows)]
            for done in as_completed(running):
                print(json.dumps(asdict(done.result())), flush=True)
    every = [row for row, _ in rows]
    options.output.with_suffix(".json").write_text(json.dumps([asdict(r) for r in every], indent=1) + "\n")
    options.output.with_suffix(".md").write_text(table(every))


if __name__ == "__main__":
    main()
