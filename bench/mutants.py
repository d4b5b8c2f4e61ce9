"""What the tests catch: random single mutants of lite/, kernels/ and models/.

    pip install -e ".[test]"
    python bench/mutants.py --count 40 --seed 1 --tier mirror     # the mirrored test files only
    python bench/mutants.py --count 400 --tier all --jobs 2       # hours
    python bench/mutants.py --paths lite/_ops kernels/cpu         # mutants of these folders or files

    pip install pytest-cov
    pytest --cov=lite --cov=kernels --cov=models --cov-context=test --cov-report=
    python bench/mutants.py --tier default --contexts .coverage   # minutes: tests that run the mutated lines

A mutant is one small change of the source: `<` becomes `<=`, a call is left out, a condition is negated, a
constant is one more, and so on (`mutations`). It is made in a copy of the checkout, which is imported instead
of the installed package. Tests run until one fails: first the files that mirror the mutated one (see
tests/test_mirror.py), then `pytest`, then `pytest --all`; `--tier` names the last of these. A tier that
exceeds its time limit has caught the mutant, too. In the end, what failed must pass without a mutant.

`--contexts` is what pytest-cov wrote of the last tier, of this checkout: only tests run that ran the mutated
statement, or the body of the function whose default is mutated. What is outside of functions has the tests
that ran anything of its file, and, as defaults do, those of the public names; what a fixture runs has all of
the fixture's file; what is never run, or in processes that leave no trace, has the mirrored files and tests
that run much in processes. What survives all of them meets the mirrored files whole.
Nor do compiled kernels leave one: they have the tests of kernels and the files with tests marked `compiled`.
Whatever this leaves out makes a mutant survive.

Survivors are printed at once, as diffs. Whether a survivor is equivalent, so that no test can tell it from
the original, is for the reader to judge; the counts of the table at the end include equivalent mutants.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import functools
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from queue import SimpleQueue
from types import NoneType

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import test_mirror  # noqa: E402

# A test named in a command is run as by `pytest --all`: a plugin selects tests among those of their files.
PLUGIN = """
import os, pathlib
def pytest_collection_modifyitems(items):
    names = set(pathlib.Path(os.environ["LITE_MUTANTS_TESTS"]).read_text("utf-8").splitlines())
    items[:] = [each for each in items if {each.nodeid, each.nodeid.partition("::")[0]} & names]
"""
PARTS = ("lite", "kernels", "models")
SECONDS = {"mirror": 600, "default": 1800, "all": 5400}  # time limit of each tier, in their order
NAMES = {"mirror": "the mirrored files", "default": "`pytest`", "all": "`pytest --all`"}
OF_DEFINITIONS = ("tests/test_public_api.py", "tests/arrays/test_public.py")  # names, places and defaults
OF_PROCESSES = (
    "tests/kernels/cuda/test_cuda.py",
    "tests/models/generation/test_sampling.py",
    "tests/test_readme.py",
)
FEW = 100  # tests that one process runs sooner than several, which import and collect first
MEMORY = 12 << 30  # bytes that a process of the tests may allocate: a mutant may ask for any amount
FILE = 2 << 30  # bytes of a file that they may write, likewise: a mutant's loop filled a disk of 50 GB

SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.And: ("and", "or"),
    ast.Or: ("or", "and"),
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
}


@dataclass(frozen=True)
class Mutation:
    """Bytes `start` to `end` of a source are replaced by `text`."""

    start: int
    end: int
    text: str
    what: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutations(source: bytes) -> list[Mutation]:
    """All mutations of a source, in the order of the syntax tree."""
    lengths = [len(line) for line in source.splitlines(keepends=True)]
    offsets = list(accumulate(lengths, initial=0))

    def start(node: ast.AST) -> int:
        return offsets[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]

    def end(node: ast.AST) -> int:
        return offsets[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]

    def replaced(node: ast.AST, text: str, what: str) -> Mutation:
        return Mutation(start(node), end(node), text, what)

    def swapped(left: ast.AST, op: ast.AST, right: ast.AST) -> Iterator[Mutation]:
        """The operator between two operands; one beside a comment or a string is left alone."""
        old, new = SWAPS.get(type(op), ("", ""))
        between = source[end(left) : start(right)]
        texts = any(isinstance(side, ast.JoinedStr) or _is_constant(side, str) for side in (left, right))
        if old and b"#" not in between and not (texts and isinstance(op, ast.Add)):
            place = end(left) + between.index(old.encode())
            yield Mutation(place, place + len(old), new, f"{old} to {new}")

    def of_operation(node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Compare():
                operands = pairwise([node.left, *node.comparators])
                for (left, right), op in zip(operands, node.ops, strict=True):
                    yield from swapped(left, op, right)
            case ast.BoolOp():
                for left, right in pairwise(node.values):
                    yield from swapped(left, node.op, right)
            case ast.BinOp():
                yield from swapped(node.left, node.op, node.right)
            case ast.AugAssign():
                yield from swapped(node.target, node.op, node.value)
            case ast.Constant(value=bool()):
                yield replaced(node, str(not node.value), f"{node.value} to {not node.value}")
            case ast.Constant(value=int() | float()):
                other = 1 - node.value if node.value in (0, 1) else node.value + 1
                yield replaced(node, repr(other), f"{node.value} to {other}")
            case ast.UnaryOp(op=ast.Not()):
                yield Mutation(start(node), start(node) + len("not"), "", "no not")
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                for default in [*node.args.defaults, *node.args.kw_defaults]:
                    if _is_constant(default, str | NoneType):
                        text = repr(f"{default.value}_" if default.value is not None else False)
                        yield replaced(default, text, f"default {text}")

    def of_statement(node: ast.AST) -> Iterator[Mutation]:
        match node:
            case ast.Return(value=ast.expr() as value) if not _is_constant(value, NoneType):
                yield replaced(value, "None", "returns None")
            case ast.Break() | ast.Continue():
                text = "continue" if isinstance(node, ast.Break) else "break"
                yield replaced(node, text, text)
            case (
                ast.Expr()
                | ast.Delete()
                | ast.Assign(targets=[ast.Attribute() | ast.Subscript(), *_])
                | ast.AugAssign(target=ast.Attribute() | ast.Subscript())
            ):
                yield replaced(node, "pass", "statement left out")

    def of_conditions(node: ast.AST) -> Iterator[Mutation]:
        tests = [node.test] if isinstance(node, ast.If | ast.IfExp | ast.While) else []
        tests += node.ifs if isinstance(node, ast.comprehension) else []
        for test in tests:
            if not isinstance(test, ast.UnaryOp) and not isinstance(test, ast.Constant):
                text = source[start(test) : end(test)].decode()
                yield replaced(test, f"(not ({text}))", "condition negated")

    found = []
    for node in _read(ast.parse(source)):
        found += [*of_operation(node), *of_statement(node), *of_conditions(node)]
    return found


def _is_constant(node: ast.AST | None, kind: type) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, kind)


def _read(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes to mutate: no annotations, docstrings, errors, `__all__`, or code for type checkers."""
    match node:
        case ast.Raise() | ast.Assert() | ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return
        case ast.FunctionDef(decorator_list=[ast.Name(id="overload"), *_]):
            return
    yield node
    for name, value in ast.iter_fields(node):
        if name not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _read(child)


def sources(paths: list[Path]) -> list[Path]:
    """The files to mutate, each in its real folder and once, without the data of assets."""
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))]
    inner = {file.resolve().relative_to(ROOT) for file in files}
    return sorted(file for file in inner if file.parts[0] in PARTS and "assets" not in file.parts)


@functools.cache
def mirrored(file: Path) -> list[str]:
    """The test files of a file; of a file that has none, those of its package."""
    above = list(file.parts[:-1] if file.parts[0] == "lite" else ("lite", *file.parts[:-1]))
    folder = test_mirror.TESTS.joinpath(*(part.lstrip("_") for part in above[1:]))
    names = {*test_mirror.sources().get(folder, set()), above[-1].lstrip("_")}
    tests = {test: test_mirror.named_for(test, names) for test in sorted(folder.glob("test_*.py"))}
    wanted = [test for test, name in tests.items() if name == file.stem.lstrip("_")]
    if not wanted:
        beside = [*tests, *sorted(folder.parent.glob("test_*.py"))]
        wanted = [test for test in beside if test_mirror.named_for(test, {above[-1].lstrip("_")})]
    return [str(test.relative_to(ROOT)) for test in wanted]


class Contexts:
    """Which tests ran a line, out of what pytest-cov wrote of this checkout."""

    def __init__(self, file: Path) -> None:
        from coverage import CoverageData

        self._data = CoverageData(str(file))
        self._data.read()
        self._files = {Path(name).resolve(): name for name in self._data.measured_files()}

    def tests(self, file: Path, source: bytes, mutation: Mutation) -> list[str]:
        """The tests that ran the mutated statement, and test files."""
        ran = self._data.contexts_by_lineno(self._files.get((ROOT / file).resolve(), ""))
        line = 1 + source.count(b"\n", 0, mutation.start)
        lines = lines_that_tell(source, line)
        found = {context for line in lines for context in ran.get(line, ())}
        # Run at import, which belongs to no test, nor to the one that was the first to use the module.
        imported = found == {""} or (line in lines and not in_a_function(source, line))
        defines = imported or line not in lines
        if imported:
            found = {context for contexts in ran.values() for context in contexts}
        # What a fixture ran, all tests of its file may look at: coverage knows the first that asked for it.
        parts = [context.partition("|") for context in found - {""}]
        names = sorted({test.partition("::")[0] if phase == "setup" else test for test, _, phase in parts})
        names = names or [*mirrored(file), *OF_PROCESSES]
        if file.parts[0] == "kernels":
            names = [*of_compiled_kernels(), *names]
        return [*names, *OF_DEFINITIONS] if defines else names


def lines_that_tell(source: bytes, line: int) -> range:
    """The lines that a test runs if it runs the statement of a line; of a function's head, its body's."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    around = [node for node in statements if node.lineno <= line <= (node.end_lineno or 0)]
    inner = max(around, key=lambda node: node.lineno, default=None)
    if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
        return range(inner.body[0].lineno, (inner.end_lineno or 0) + 1)
    return range(inner.lineno if inner else line, line + 1)


def in_a_function(source: bytes, line: int) -> bool:
    """Whether a line is in the body of a function."""
    nodes = ast.walk(ast.parse(source))
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return any(node.body[0].lineno <= line <= (node.end_lineno or 0) for node in functions)


@functools.cache
def of_compiled_kernels() -> list[str]:
    """The test files that run what is compiled; all others run kernels in NumPy (see tests/conftest.py)."""
    marked = (test for test in test_mirror.TESTS.rglob("test_*.py") if ".compiled" in test.read_text("utf-8"))
    files = {*marked, *(test_mirror.TESTS / "kernels").rglob("test_*.py")} - {Path(__file__)}
    return sorted(str(test.relative_to(ROOT)) for test in files)


class Copy:
    """A copy of the checkout whose package is imported instead of the installed one."""

    def __init__(self, folder: Path, contexts: Contexts | None) -> None:
        self.contexts = contexts
        self.root = folder / "tree"
        listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_symlink() or (ROOT / name).is_file():
                (self.root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.root / name, follow_symlinks=False)
        self.temporary = folder / "tmp"
        plugin = folder / "plugin" / "selected_tests.py"
        plugin.parent.mkdir()
        plugin.write_text(PLUGIN, encoding="utf-8")
        path = os.pathsep.join([str(self.root), str(plugin.parent)])
        self.environment = os.environ | {"PYTHONPATH": path, "TMPDIR": str(self.temporary)}
        # Kernels of the unmutated sources: the tests keep those of other sources in the temporary folder.
        self.kernels = {"NUMBA_CACHE_DIR": str(folder / "numba")}

    def run(
        self, tier: str, tests: list[str] | None, workers: int, kernels_changed: bool = False
    ) -> tuple[str, str]:
        """What stopped the tests of a tier, "" if they pass; and the output."""
        shutil.rmtree(self.temporary, ignore_errors=True)
        self.temporary.mkdir()
        shutil.rmtree(self.root / ".hypothesis", ignore_errors=True)  # examples that earlier mutants failed
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"-n{workers}"]
        command += ["--all"] if tier == "all" else []
        environment = self.environment | ({} if kernels_changed else self.kernels)
        if tests:
            names = self.temporary.with_suffix(".tests")
            names.write_text("".join(f"{test}\n" for test in tests), encoding="utf-8")
            environment |= {"LITE_MUTANTS_TESTS": str(names)}
            command += ["-p", "selected_tests", *dict.fromkeys(test.partition("::")[0] for test in tests)]
        with (self.temporary.with_suffix(".log")).open("w+") as log:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdout=log, stderr=log, start_new_session=True
            )
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (MEMORY, MEMORY))
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (FILE, FILE))
            try:
                status = process.wait(SECONDS[tier])
            except subprocess.TimeoutExpired:
                return "time limit", ""
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)  # and the processes that tests started
                process.wait()
            log.seek(0)
            output = log.read()
            if status in (0, 5):  # 5: no tests were selected
                return "", output
            if status == 4 and "not found: " in output:  # and not what the mutant does to tests/conftest.py
                raise RuntimeError(f"tests of {NAMES[tier]} are not there:\n{output}")
            failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", output, re.M)
            return failed[1] if failed else f"exit status {status}", output

    def caught(
        self, index: int, file: Path, mutation: Mutation, tiers: list[str], workers: int
    ) -> tuple[str, str]:
        """The first tier that fails with a mutant, and what stopped it; empty if all pass."""
        path = self.root / file
        before, stamp = path.read_bytes(), path.stat().st_mtime
        path.write_bytes(mutation.apply(before))
        mirror = mirrored(file)
        known = self.contexts.tests(file, before, mutation) if self.contexts else None
        if known is not None:  # those of neighbours first
            known.sort(key=lambda test: -len(os.path.commonpath([test, *mirror])))
        # Compiled files are keyed by size and time: a time of its own hides no mutant behind another.
        os.utime(path, (stamp + 10 * index, stamp + 10 * index))
        try:
            for tier in tiers:
                tests = mirror if tier == "mirror" else None
                if known is not None:
                    tests = [
                        test for test in known if (tier == "mirror") == (test.partition("::")[0] in mirror)
                    ]
                if tests == []:
                    continue
                kernels_changed = file.parts[0] == "kernels"
                few = tests is not None and len(tests) < FEW and not (kernels_changed and tier != "mirror")
                stopped, _ = self.run(tier, tests, 0 if few else workers, kernels_changed)
                if stopped:
                    return tier, stopped
            if known is None or not mirror:
                return "", ""
            # Whole files, last: what tests keep for one another is of the first test that asked for it.
            stopped, _ = self.run("mirror", mirror, workers, file.parts[0] == "kernels")
            return ("mirror", stopped) if stopped else ("", "")
        finally:
            path.write_bytes(before)
            os.utime(path, (stamp, stamp))


def shown(file: Path, source: bytes, mutation: Mutation) -> str:
    """A mutant as a unified diff."""
    before = source.decode().splitlines(keepends=True)
    after = mutation.apply(source).decode().splitlines(keepends=True)
    return "".join(difflib.unified_diff(before, after, str(file), f"{file} ({mutation.what})"))


def table(results: list[str], tiers: list[str]) -> str:
    """How many mutants each tier catches, with those before it."""
    rows = ["| caught by | mutants | of all |", "|---|--:|--:|"]
    for last, tier in enumerate(tiers, 1):
        count = sum(result in tiers[:last] for result in results)
        name = " or ".join(NAMES[tier] for tier in tiers[:last])
        rows.append(f"| {name} | {count} | {count / len(results):.0%} |")
    return "\n".join([*rows, f"| none | {results.count('')} | {results.count('') / len(results):.0%} |"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--count", type=int, default=40, help="mutants to draw (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (%(default)s)")
    parser.add_argument("--paths", type=Path, nargs="+", default=[ROOT / part for part in PARTS])
    parser.add_argument(
        "--tier", choices=list(SECONDS), default="default", help="the last tier that is asked"
    )
    parser.add_argument("--contexts", type=Path, help="what pytest-cov wrote (see above)")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time, each in its own copy")
    parser.add_argument("--numbers", type=int, nargs="+", help="run only these of the drawn")
    args = parser.parse_args()
    tiers = list(SECONDS)[: list(SECONDS).index(args.tier) + 1]
    workers = max(1, (os.cpu_count() or 1) // args.jobs)

    contents = {file: (ROOT / file).read_bytes() for file in sources(args.paths)}
    found = [(file, mutation) for file, source in contents.items() for mutation in mutations(source)]
    drawn = random.Random(args.seed).sample(found, min(args.count, len(found)))
    print(f"{len(drawn)} of {len(found)} mutants of {len(contents)} files, seed {args.seed}", flush=True)
    numbered = list(enumerate(drawn, 1))
    numbered = [(number, mutant) for number, mutant in numbered if number in (args.numbers or [number])]

    contexts = Contexts(args.contexts) if args.contexts else None
    with tempfile.TemporaryDirectory(prefix="lite-mutants-") as folder:
        copies: SimpleQueue[Copy] = SimpleQueue()
        for number in range(args.jobs):
            copies.put(Copy(Path(folder, str(number)), contexts))

        def judged(mutant: tuple[int, tuple[Path, Mutation]]) -> tuple[str, str]:
            index, (file, mutation) = mutant
            copy, began = copies.get(), time.monotonic()
            try:
                tier, stopped = copy.caught(index, file, mutation, tiers, workers)
            finally:
                copies.put(copy)
            line = 1 + contents[file].count(b"\n", 0, mutation.start)
            result = f"{tier}, {stopped}" if tier else "SURVIVED"
            said = f"{index} {file}:{line} {mutation.what}: {result} ({time.monotonic() - began:.0f} s)"
            print(said if tier else f"{said}\n{shown(file, contents[file], mutation)}", flush=True)
            return tier, stopped

        with ThreadPoolExecutor(args.jobs) as pool:
            results = list(pool.map(judged, numbered))

        print(f"\n{table([tier for tier, _ in results], tiers)}", flush=True)
        failed = {stopped for _, stopped in results if "::" in stopped}
        copy = copies.get()
        while failed:
            stopped, log = copy.run(args.tier, sorted(failed), 0)
            if stopped not in failed:
                sys.exit(f"{log}\nwithout a mutant: {stopped}" if stopped else None)
            print(f"fails without a mutant, too: {stopped}")
            failed.remove(stopped)


if __name__ == "__main__":
    main()
