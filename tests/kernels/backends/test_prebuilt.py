"""Libraries compiled beforehand: which are taken, which are refused, and what their kernels accept."""

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cases import raises
from helpers.kernels import small_library

from lite.kernels.backends import prebuilt
from lite.kernels.prebuild.signatures import _NUMBERS, SIGNATURES

Library = prebuilt.Library


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a library, named by the environment."""
    copy = tmp_path / "libraries"
    shutil.copytree(small_library.folder(), copy)
    monkeypatch.setenv("LITE_KERNELS_PATH", str(copy))
    return copy


@pytest.fixture
def library(folder: Path) -> Library:
    found = prebuilt.find()
    assert found is not None
    return found


def refusals() -> str:
    said: list[str] = []
    assert prebuilt.find(None, said) is None
    return "\n".join(said)


def change(folder: Path, **values: Any) -> None:
    """Write other values into the manifest, those of a library into its row."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    for name, value in values.items():
        target = manifest["libraries"][0] if name in ("file", "target", "level", "size") else manifest
        target[name] = value
    path.write_text(json.dumps(manifest))


def tree_of(*leaves: float, dtype: Any = np.float32) -> Any:
    values = np.array(leaves, dtype)
    tree = np.zeros(2 * len(values), dtype)
    tree[len(values) :] = values
    for node in range(len(values) - 1, 0, -1):
        tree[node] = tree[2 * node] + tree[2 * node + 1]
    return tree


def found_by(search: Callable[..., Any], tree: Any, *mass: float) -> list[int]:
    nodes = np.empty(len(mass), np.int64)
    assert search(tree, np.array(mass), nodes) == -1
    return list(nodes)


def never(*args: Any) -> Any:
    raise AssertionError("the kernel is compiled")


# Which libraries are taken.


def test_a_level_that_nobody_made_is_not_found(folder: Path) -> None:
    assert prebuilt.find("x86-64-v0") is None


def test_a_library_says_what_it_is(library: Library, folder: Path) -> None:
    row = json.loads((folder / "manifest.json").read_text())["libraries"][0]
    assert library.path == folder / row["file"]
    assert library.level == row["target"]
    assert set(library.methods) == set(small_library.KERNELS)
    assert prebuilt.find(library.level) == library


def test_the_package_is_found_and_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tensordict_lite_kernels"
    shutil.copytree(small_library.folder(), package)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.delenv("LITE_KERNELS_PATH", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = prebuilt.find()
    assert found is not None
    assert found.path.parent == package


def test_the_highest_level_that_the_processor_has_comes_first(folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    row = manifest["libraries"][0]
    for level in (1, 99):  # 99: none has it
        shutil.copy(folder / row["file"], folder / f"{level}.so")
        manifest["libraries"].append(row | {"file": f"{level}.so", "level": level, "target": f"t{level}"})
    path.write_text(json.dumps(manifest))
    said: list[str] = []
    found = prebuilt.find(None, said)
    assert found is not None
    assert found.level == row["target"]
    assert len(said) == 1
    assert "not of the level t99" in said[0]


# What is refused.


def test_manifests_that_are_refused(folder: Path) -> None:
    manifest = (folder / "manifest.json").read_text()
    for values, reason in [
        ({"digest": "0" * 12}, "compiled from other sources: '000000000000'"),
        ({"digest": None}, "compiled from other sources"),
        ({"format": 2}, "not of format 1"),
        ({"libraries": {}}, "at most 16 libraries"),
        ({"libraries": [{}] * 17}, "at most 16 libraries"),
        ({"libraries": [3]}, "does not say level, target, file and size: 3"),
        ({"libraries": [{"file": "x.so"}]}, "does not say"),
        ({"size": 10}, "bytes, and not the 10"),
        ({"size": -1}, "bytes, and not the -1"),
        ({"size": "10"}, "does not say"),
        ({"level": None}, "does not say"),
        ({"level": 5}, "not of the level"),
        ({"level": 1 << 70}, "does not say"),
        ({"level": -1}, "does not say"),
        ({"file": "missing.so"}, "missing"),
        ({"file": "../libraries/x86-64-v2.so"}, "not in its folder"),
        ({"file": "/etc/passwd"}, "not in its folder"),
        ({"file": "a/b.so"}, "not in its folder"),
        ({"file": "a\\b.so"}, "not in its folder"),
        ({"file": ".."}, "not in its folder"),
        ({"file": ""}, "not in its folder"),
        ({"file": "a\0.so"}, "not in its folder"),
        ({"file": "ä.so"}, "not in its folder"),
    ]:
        (folder / "manifest.json").write_text(manifest)
        change(folder, **values)
        assert reason in refusals(), values


def test_files_that_are_no_manifests(folder: Path) -> None:
    for text in ("", "[]", "null", "{", "[" * 50_000, " " * 70_000, '"\udc80"', "1e999"):
        (folder / "manifest.json").write_bytes(text.encode("utf-8", "surrogateescape"))
        assert "manifest.json" in refusals()


def test_a_folder_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LITE_KERNELS_PATH", str(tmp_path / "nothing"))
    assert "manifest.json cannot be read" in refusals()


def test_a_library_that_was_cut_short(library: Library, folder: Path) -> None:
    for whole in (False, True):
        cut = folder / "cut.so"  # a file that is in use must not change
        cut.write_bytes(library.path.read_bytes()[:300])
        change(folder, file="cut.so", **({"size": 300} if whole else {}))
        assert "cut.so" in refusals()


def test_a_library_for_another_architecture(library: Library, folder: Path) -> None:
    code = bytearray(library.path.read_bytes())
    code[18:20] = b"\xf3\x00"  # where ELF names the machine: RISC-V
    (folder / "other.so").write_bytes(code)
    change(folder, file="other.so")
    assert "other.so" in refusals()


def test_a_library_of_other_sources_that_the_manifest_hides(library: Library, folder: Path) -> None:
    code = library.path.read_bytes()
    (folder / "old.so").write_bytes(code.replace(library.digest.encode(), b"0" * 12))
    change(folder, file="old.so")
    assert "compiled from other sources" in refusals()


def test_a_shared_object_that_is_no_library_of_kernels(folder: Path) -> None:
    other = next(Path(np._core._multiarray_umath.__file__).parent.glob("*.so"))
    shutil.copy(other, folder / "other.so")
    change(folder, file="other.so", size=other.stat().st_size)
    assert "lite_fits" in refusals()


# What kernels take.


def test_a_library_is_told_the_numbers_of_all_signatures() -> None:
    """Else it refuses arrays of them, which then are computed in plain Python."""
    told = prebuilt._process()[-32:]
    for letter in set("".join(itertools.chain(*SIGNATURES.values()))).intersection(_NUMBERS):
        assert chr(told[np.dtype(letter).num]) == letter


def test_kernels_compute(library: Library) -> None:
    for dtype in (np.float32, np.float64):
        search, update = (library.entry(f"sum_tree.{name}", never) for name in ("search", "update"))
        tree = tree_of(1, 2, 0, 3, dtype=dtype)
        assert found_by(search, tree, 0.5, 1.0, 2.9, 3.0) == [0, 1, 1, 3]
        index, nodes = np.array([2]), np.empty(1, np.int64)
        for least in (False, np.False_):  # NumPy's scalars are numbers, too
            assert update(tree, index, np.array([4], dtype), nodes, least) == -1
        assert tree[1] == 10
        assert update(tree, np.array([4]), np.array([4], dtype), nodes, False) == 0


def test_numbers_of_one_axis_and_two_single_ones_and_none(library: Library) -> None:
    norm = library.entry("layers.layer_norm", never)
    x, out = np.array([[1, 3], [2, 2]], np.float32), np.empty((2, 2), np.float32)
    assert norm(x, np.full(2, 2, np.float32), np.ones(2, np.float32), np.float32(0), out) is None
    np.testing.assert_array_equal(out[0], np.array([-1, 3], np.float32))


def test_arrays_of_subclasses_and_at_any_address(library: Library, tmp_path: Path) -> None:
    search = library.entry("sum_tree.search", never)
    tree = tree_of(1, 2, 0, 3)
    mapped = np.memmap(tmp_path / "tree", np.float32, "w+", shape=tree.shape)
    mapped[:] = tree
    assert found_by(search, mapped, 2.0) == [1]
    memory = bytearray(tree.nbytes + 1)
    moved = np.frombuffer(memory, np.float32, offset=1)
    moved[:] = tree
    assert not moved.flags.aligned
    assert found_by(search, moved, 2.0) == [1]


def strided() -> Any:
    return np.zeros(16, np.float32)[::2]


def frozen() -> Any:
    tree = tree_of(1, 2)
    tree.flags.writeable = False
    return tree


NODES, MASS, TREE = np.zeros(1, np.int64), np.zeros(1), tree_of(1, 2)
OTHER = {
    "no arguments": (),
    "too few": (TREE, MASS),
    "too many": (TREE, MASS, NODES, NODES),
    "integers": (TREE.astype(np.int32), MASS, NODES),
    "half precision": (TREE.astype(np.float16), MASS, NODES),
    "complex": (TREE.astype(complex), MASS, NODES),
    "two axes": (TREE.reshape(2, 2), MASS, NODES),
    "no axes": (np.array(1.0), MASS, NODES),
    "ten axes": (TREE.reshape((4,) + (1,) * 9), MASS, NODES),
    "gaps": (strided(), MASS, NODES),
    "backwards": (TREE[::-1], MASS, NODES),
    "read-only": (frozen(), MASS, NODES),
    "other byte order": (TREE.astype(">f4"), MASS, NODES),
    "objects": (TREE.astype(object), MASS, NODES),
    "text": (TREE.astype("U3"), MASS, NODES),
    "records": (np.zeros(4, "f4,f4"), MASS, NODES),
    "dates": (np.zeros(4, "M8[s]"), MASS, NODES),
    "a list": ([1.0, 2.0], MASS, NODES),
    "None": (None, MASS, NODES),
    "a tuple": ((TREE, 1, 2, 3), MASS, NODES),
    "deep tuples": (((((((TREE,),),),),),), MASS, NODES),
    "a long tuple": ((TREE,) * 500, MASS, NODES),
    "many arrays": ((TREE,) * 90, MASS, NODES),
    "a large integer": (1 << 70, MASS, NODES),
    "a class": (np.ndarray, MASS, NODES),
    "a float subclass": (type("Real", (float,), {})(1), MASS, NODES),
    "an int subclass": (type("Whole", (int,), {})(1), MASS, NODES),
    "a tuple subclass": (type("Row", (tuple,), {})((1,)), MASS, NODES),
}


@pytest.mark.filterwarnings("ignore:the compiled kernel")
def test_what_is_not_compiled_is_interpreted(library: Library) -> None:
    got: list[tuple[Any, ...]] = []

    def otherwise(*given: Any) -> str:
        got.append(given)
        return "interpreted"

    for name, args in OTHER.items():
        got.clear()
        assert library.entry("sum_tree.search", otherwise)(*args) == "interpreted", name
        assert len(got) == 1, name
        assert all(a is b for a, b in zip(got[0], args, strict=True)), name


def test_a_warning_names_what_is_interpreted(library: Library) -> None:
    kernel = library.entry("sum_tree.search", lambda *args: 5)
    frozen, gaps = np.zeros((2, 2), np.float16), np.zeros(4, np.float16)[::2]
    frozen.flags.writeable = False
    types = r"float16\[:\] not in C order, float16\[:, :\] read-only, str"
    with pytest.warns(RuntimeWarning, match=rf"sum_tree.search was not made for \({types}\)"):
        assert kernel(gaps, frozen, "x") == 5
    with warnings.catch_warnings():  # once is enough
        warnings.simplefilter("error")
        assert kernel(np.zeros(10, np.float16)[::5], frozen, "x") == 5


@pytest.mark.filterwarnings("ignore:the compiled kernel")
def test_errors_of_what_is_interpreted_are_raised(library: Library) -> None:
    def fail(*args: Any) -> None:
        raise ZeroDivisionError("as it came")

    raises(ZeroDivisionError, "as it came", library.entry("sum_tree.search", fail), 1)


@pytest.mark.filterwarnings("ignore:the compiled kernel")
def test_a_kernel_that_the_library_lacks_is_interpreted(library: Library) -> None:
    assert library.entry("sum_tree.nothing", lambda x: 2 * x)(21) == 42


def test_there_are_no_arguments_by_name(library: Library) -> None:
    raises(TypeError, "no keyword arguments", library.entry("sum_tree.search", never), tree=TREE)


def test_nothing_is_held_and_nothing_let_go(library: Library) -> None:
    search, tree, mass, nodes = (
        library.entry("sum_tree.search", never), tree_of(1, 2), np.zeros(1), NODES.copy(),
    )  # fmt: skip
    before = [sys.getrefcount(x) for x in (tree, mass, nodes)]
    for _ in range(200):
        search(tree, mass, nodes)
    assert [sys.getrefcount(x) for x in (tree, mass, nodes)] == before


# Threads and processes.


def test_the_interpreter_runs_on_meanwhile(library: Library) -> None:
    search = library.entry("sum_tree.search", never)
    tree = tree_of(*np.ones(1 << 16))
    mass, nodes = np.linspace(0, 60_000, 1_000_000), np.empty(1_000_000, np.int64)
    span: list[float] = []

    def run() -> None:
        span.append(time.perf_counter())
        search(tree, mass, nodes)
        span.append(time.perf_counter())

    inside = 0
    for _ in range(3):  # another program may have the processors
        span.clear()
        mass[:] = np.linspace(0, 60_000, mass.size)
        thread = threading.Thread(target=run)
        thread.start()
        stamps = []
        while thread.is_alive():
            stamps.append(time.perf_counter())
        thread.join()
        first, last = span
        margin = (last - first) / 4
        inside = sum(first + margin < stamp < last - margin for stamp in stamps)
        if inside:
            break
    assert inside > 0


def test_a_hundred_threads(library: Library) -> None:
    search, update = (library.entry(f"sum_tree.{name}", never) for name in ("search", "update"))

    def work(seed: int) -> list[int]:
        tree = tree_of(*np.zeros(64))
        update(tree, np.array([seed % 64]), np.ones(1, np.float32), np.empty(1, np.int64), False)
        return [found_by(search, tree, 0.5)[0] for _ in range(50)]

    with ThreadPoolExecutor(100) as pool:
        results = list(pool.map(work, range(100)))
    assert results == [[seed % 64] * 50 for seed in range(100)]


PROGRAM = """
import os, sys
import numpy as np
from lite.kernels import backend, search_sum_tree, sum_tree, update_sum_tree

def run():
    tree = sum_tree(4)
    update_sum_tree(tree, [0, 3], [1.0, 2.0])
    assert search_sum_tree(tree, [0.5, 1.5]).tolist() == [0, 3]

run()
if hasattr(os, "fork"):
    child = os.fork()
    if not child:
        run()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(backend(), *sorted({"numba", "llvmlite"} & set(sys.modules)))
"""


@pytest.mark.processes
def test_a_program_and_a_forked_one_run_without_numba(folder: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env=os.environ | {"LITE_KERNELS": "prebuilt", "LITE_KERNELS_PATH": str(folder)},
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert run.stdout.split() == ["prebuilt"]


def test_libraries_in_lite_come_before_those_of_a_package(tmp_path, monkeypatch):
    inside = tmp_path / "inside"
    monkeypatch.setattr(prebuilt, "_INSIDE", inside)
    monkeypatch.setenv("LITE_KERNELS_PATH", str(tmp_path / "named"))
    assert inside not in prebuilt._folders()
    inside.mkdir()
    assert prebuilt._folders()[:2] == [tmp_path / "named", inside]
