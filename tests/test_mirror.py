"""Tests mirror the tree: `tests/ops/test_cast.py` is for `lite/_ops/cast.py`, and so on, in both directions.

A file of tests may add an aspect to the name: `test_cast_devices.py`; it may also be named for a package, in
its folder or beside it. Not mirrored are `tests/parity`, sorted by what it compares; `tests/examples` and
`tests/scripts`, programs that use everything; `kernels/cuda`, which `tests/cuda` runs in a process of its
own; the tests of the whole project beside this one; and those of a whole package that are listed here.
"""

import functools
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
NOT_MIRRORED = {"parity", "cuda", "examples", "helpers", "scripts", "vectors"}
OF_A_PACKAGE = {
    "models/test_hostile.py",
    "nn/import/test_conformance.py",
    "nn/import/test_exports.py",
    "transforms/grad/test_programs.py",
}


def sources() -> dict[Path, set[str]]:
    """Folder of tests -> the names of the files that are tested there."""
    found: dict[Path, set[str]] = {}
    for top in ("lite", "kernels", "models"):
        for file in (ROOT / top).rglob("*.py"):
            inner = file.relative_to(ROOT / top).parts
            linked = top == "lite" and inner[0] in ("kernels", "models")
            if linked or (top == "kernels" and inner[0] == "cuda"):
                continue
            if file.stem.startswith("__"):  # __init__ and __main__
                continue
            folders = [] if top == "lite" else [top]
            folder = TESTS.joinpath(*folders, *(part.lstrip("_") for part in inner[:-1]))
            found.setdefault(folder, set()).add(file.stem.lstrip("_"))
    return found


@functools.cache
def packages(folder: Path) -> set[str]:
    """That of a folder of tests, and the packages right below."""
    inner = folder.relative_to(TESTS).parts
    top = inner[0] if inner[:1] in (("kernels",), ("models",)) else "lite"
    wanted = inner[1:] if top != "lite" else inner
    return {parts[-1] for parts in all_packages(top) if parts and wanted in (parts[:-1], parts)}


@functools.cache
def all_packages(top: str) -> list[tuple[str, ...]]:
    below = [path.relative_to(ROOT / top).parts[:-1] for path in (ROOT / top).rglob("__init__.py")]
    return [tuple(part.lstrip("_") for part in parts) for parts in below]


def named_for(test: Path, names: set[str]) -> str | None:
    """The source file that a file of tests is named for: the longest name that begins its own."""
    stem = test.stem.removeprefix("test_")
    fitting = [name for name in names if stem == name or stem.startswith(f"{name}_")]
    return max(fitting, key=len, default=None)


def test_every_file_has_its_tests() -> None:
    missing = []
    for folder, names in sources().items():
        tested = {named_for(test, names) for test in folder.glob("test_*.py")}
        missing += [f"{folder.relative_to(ROOT)}/test_{name}.py" for name in sorted(names - tested)]
    assert missing == []


def test_every_test_is_named_for_a_file() -> None:
    known = sources()
    stray = [
        str(test.relative_to(ROOT))
        for test in TESTS.rglob("test_*.py")
        if test.parent != TESTS
        and test.relative_to(TESTS).parts[0] not in NOT_MIRRORED
        and test.relative_to(TESTS).as_posix() not in OF_A_PACKAGE
        and named_for(test, known.get(test.parent, set()) | packages(test.parent)) is None
    ]
    assert stray == []
