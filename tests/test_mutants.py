"""The mutations of bench/mutants.py."""

import ast
from pathlib import Path

import pytest
from helpers import bench_files
from helpers.cases import each_case

pytest.importorskip("resource", reason="bench/mutants.py limits memory as Unix does")


@each_case(
    ("source", "changes"),
    [
        ("a = b < c <= d", ["< -> <=", "<= -> <"]),
        ("a = b not in c or d is None", ["or -> and", "not in -> in", "is -> is not"]),
        ('a = "é" + (b) + 2 * f"{1}"', ["+ -> -", "* -> //", "2 -> 3"]),
        ("a = 0, 1, 1.5, True, 'b'", ["0 -> 1", "1 -> 0", "1.5 -> 2.5", "True -> False"]),
        ("if not (a):\n  b(c)", ["not -> ", "b(c) -> pass"]),
        ("if a: b.c = d", ["a -> (not (a))", "b.c = d -> pass"]),
        ("a[b] += c", ["+ -> -", "a[b] += c -> pass"]),
        ("while True:\n  break", ["True -> False", "break -> continue"]),
        (
            "def a(b: c(1) = None, *, d='é') -> c(2):\n  'Doc.'\n  return b",
            ["None -> False", "'é' -> 'é_'", "b -> None"],
        ),
        ("if TYPE_CHECKING: a = 1\n__all__ = [1]\nif a: raise b(1)", ["a -> (not (a))"]),
    ],
)
def test_each_mutation_is_one_change_of_the_program(source, changes, monkeypatch):
    text = source.encode()
    found = bench_files.imported("mutants", monkeypatch).mutations(text)
    assert [f"{text[m.start : m.end].decode()} -> {m.text}" for m in found] == changes
    for mutation in found:
        assert ast.dump(ast.parse(mutation.apply(text))) != ast.dump(ast.parse(text))


def test_mirrored_files_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of the file, and by that of the package where a file has none of its own."""
    mirrored = bench_files.imported("mutants", monkeypatch).mirrored
    assert mirrored(Path("lite/_tree/keys.py")) == ["tests/tree/test_keys.py"]
    assert "tests/kernels/cuda/test_cuda.py" in mirrored(Path("kernels/cuda/scans.py"))


def test_a_default_is_tested_by_what_runs_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    source = b"@a\ndef b(\n  c=1,\n):\n  d(\n    2\n  )\n  return c\nif e: f = 3\n"
    mutants = bench_files.imported("mutants", monkeypatch)
    assert [line for line in range(1, 10) if mutants.in_a_function(source, line)] == [5, 6, 7, 8]
    lines = mutants.lines_that_tell
    assert {line: list(lines(source, line)) for line in (1, 3, 6, 8, 9)} == {
        1: [1], 3: [5, 6, 7, 8], 6: [5, 6], 8: [8], 9: [9],
    }  # fmt: skip
