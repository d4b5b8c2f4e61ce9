"""The Python of a README as it is printed: its blocks in order, in one fresh process, in an empty folder.

Nothing is fed in: a name that no block makes is an error. A line that states its value, as in `len(x)  # 3`,
has to have it. Run as a script, this file imports what takes long once, forks for every line it reads, and
prints what became of each block as JSON.
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import gc
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
_FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.M | re.S)
# What a comment states: an array, a tuple of numbers, a truth value, a list of texts. Words may follow.
_STATED = re.compile(r"#\s+(array\(.*?\)|\([\d, ]+\)|True|False|\[(?:'[^']*'(?:, )?)*(?:\.\.\.)?\])")


_OF_TEST = {"gymnasium", "lite", "numba", "numpy", "ray"}
# What many documents import: once, before the process is forked for each. A quarter of a second for each.
PACKAGES = [
    "lite.data.collectors", "lite.data.replay", "lite.envs", "lite.models.decoder", "lite.models.generation",
    "lite.models.text", "lite.models.wrapper", "lite.nn.distributions", "lite.nn.layers", "lite.nn.losses",
    "lite.nn.tensordict_modules", "lite.optim", "gymnasium", "jinja2", "onnxruntime", "tokenizers",
]  # fmt: skip


class Block(NamedTuple):
    """Fenced text of a document: `language` is "" for commands, `line` is where its text starts,
    `section` the number of headings above."""

    language: str
    source: str
    line: int
    section: int = 0


def blocks(document: str) -> list[Block]:
    """All fenced blocks of a document, named by its path from the root."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        Block(m[1], m[2], text.count("\n", 0, m.start(2)) + 1, text.count("\n## ", 0, m.start()))
        for m in _FENCED.finditer(text)
    ]


def python_of(document: str) -> list[Block]:
    return [block for block in blocks(document) if block.language == "python"]


def needs_more(document: str) -> bool:
    """Whether a document imports what the `test` extra does not bring."""
    trees = [ast.parse(block.source) for block in python_of(document)]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return bool({name.partition(".")[0] for name in names} - sys.stdlib_module_names - _OF_TEST)


def needs_ray(block: Block) -> bool:
    """Whether a block starts processes of Ray, which have tests of their own."""
    return "import ray" in block.source or "RayCollector" in block.source


@cache
def run(document: str) -> list[dict[str, Any]]:
    """Of each Python block: how many values were compared; if it `failed` or was `skipped`, why."""
    program = _program()
    assert program.stdin is not None
    assert program.stdout is not None
    print(json.dumps([document, tempfile.mkdtemp(), dict(os.environ)]), file=program.stdin, flush=True)
    status, told = json.loads(program.stdout.readline())
    assert status == 0, told
    results: list[dict[str, Any]] = json.loads(told.splitlines()[-1])
    return results


@cache
def _program() -> subprocess.Popen[str]:
    """This file as a process, which ends with its input."""
    command = [sys.executable, "-W", "error", "-W", "ignore:os.fork", "-W", "ignore:This process", __file__]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    program = subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    atexit.register(program.communicate)
    return program


def _absent(error: BaseException | None) -> str | None:
    """The package that an error is about, if it is not installed."""
    while error is not None:
        name = getattr(error, "name", None)
        if isinstance(error, ImportError) and name and find_spec(name.partition(".")[0]) is None:
            return name
        error = error.__cause__
    return None


def _same(got: Any, stated: str) -> bool:
    import numpy as np

    if not stated.startswith("["):
        wanted = eval(stated, {"array": np.array})
        return bool(np.allclose(np.asarray(got), np.asarray(wanted), rtol=1e-4))
    texts = ast.literal_eval(stated)
    if texts[-1:] == [...]:
        texts = texts[:-1]
        got = list(got)[: len(texts)]
    return list(got) == texts


def stated(block: Block) -> dict[int, str]:
    """The values that lines of a Python block state, by the number of the statement."""
    lines = block.source.splitlines()
    found = {}
    for number, statement in enumerate(ast.parse(block.source).body):
        comment = _STATED.search(lines[(statement.end_lineno or 1) - 1][statement.end_col_offset :])
        if comment is not None and isinstance(statement, ast.Expr):
            found[number] = comment[1]
    return found


def _run_block(block: Block, document: str, names: dict[str, Any]) -> int:
    values = stated(block)
    for number, statement in enumerate(ast.parse(block.source).body):
        ast.increment_lineno(statement, block.line - 1)
        if isinstance(statement, ast.Expr):
            value = eval(compile(ast.Expression(statement.value), document, "eval"), names)
            if number in values and not _same(value, values[number]):
                raise AssertionError(f"line {statement.end_lineno} states {values[number]}, and is {value!r}")
        else:
            exec(compile(ast.Module([statement], []), document, "exec"), names)
    return len(values)


def _main(document: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    results = []
    lacking: dict[int, str] = {}  # what a block of a section needs, the later ones of it need, too
    for block in python_of(document):
        result: dict[str, Any] = {"stated": 0}
        start = time.perf_counter()
        try:
            if needs_ray(block):
                result["skipped"] = "it starts Ray"
            else:
                result["stated"] = _run_block(block, document, names)
        except Exception as error:
            absent = _absent(error)
            if absent:
                lacking[block.section] = absent
            elif not isinstance(error, AssertionError):
                absent = lacking.get(block.section)
            result["skipped" if absent else "failed"] = (
                f"{absent} is not installed" if absent else f"{type(error).__name__}: {error}"
            )
            result["line"] = _line(error, document)
        result["seconds"] = round(time.perf_counter() - start, 1)
        results.append(result)
    print(json.dumps(results))


def _line(error: BaseException, document: str) -> int | None:
    """The line of the document that an error came from."""
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == document:
            found = trace.tb_lineno
        trace = trace.tb_next
    return found


_status = 1  # of this process when it ends


def _end() -> None:
    sys.stdout.flush()
    os._exit(_status)


def _forked(document: str, folder: str, environment: dict[str, str]) -> tuple[int, str]:
    """The status of a process that runs a document, and what it printed."""
    global _status
    with tempfile.TemporaryFile("w+", encoding="utf-8") as told:
        child = os.fork()
        if not child:
            for output in (1, 2):
                os.dup2(told.fileno(), output)
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(environment, PYTHONPATH=str(ROOT))
            _main(document)
            _status = 0
            sys.exit()
        _, status = os.waitpid(child, 0)
        told.seek(0)
        return os.waitstatus_to_exitcode(status), told.read()


if __name__ == "__main__":
    # After all handlers: freeing what is imported, object by object, took half of the time of the documents.
    atexit.register(_end)
    for package in PACKAGES:
        with contextlib.suppress(ImportError):
            importlib.import_module(package)
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(_forked(*json.loads(line))), flush=True)
