"""Files beside torch's tensordict and plain NumPy over `mmap`: `python bench/files.py`."""

import json
import mmap
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import tensordict
import torch
from side_by_side import arguments, heading, machine, measure, place, show

import lite

KEYS = "abcde"
LOOPS = 20


def floor_write(data: dict[str, Any], folder: str) -> dict[str, Any]:
    """One file per array, mapped, and one of JSON: what the format asks for and nothing else."""
    os.mkdir(folder)
    out = {}
    for key, value in data.items():
        descriptor = os.open(f"{folder}/{key}.memmap", os.O_RDWR | os.O_CREAT, 0o666)
        os.write(descriptor, memoryview(value).cast("B"))
        out[key] = mapped(descriptor, value.nbytes, value.dtype, value.shape)
    about = {key: {"dtype": value.dtype.str, "shape": value.shape} for key, value in data.items()}
    with open(f"{folder}/meta.json", "w", encoding="utf-8") as file:
        file.write(json.dumps(about))
    return out


def floor_load(folder: str) -> dict[str, Any]:
    with open(f"{folder}/meta.json", encoding="utf-8") as file:
        about = json.loads(file.read())
    out = {}
    for key, entry in about.items():
        descriptor = os.open(f"{folder}/{key}.memmap", os.O_RDWR)
        size = os.fstat(descriptor).st_size
        out[key] = mapped(descriptor, size, np.dtype(entry["dtype"]), entry["shape"])
    return out


def mapped(descriptor: int, size: int, dtype: Any, shape: Any) -> Any:
    memory = mmap.mmap(descriptor, size)
    os.close(descriptor)
    return np.frombuffer(memory, dtype).reshape(shape)


class World:
    """The same TensorDict in one library, saved once in each way."""

    def __init__(self, lib: Any, leaf: Callable[[Any], Any], root: Path) -> None:
        self.lib, self.root, self.numbers = lib, root, count()
        root.mkdir()
        self.td = lib.TensorDict({key: leaf(np.ones((32, 4), np.float32)) for key in KEYS}, [32])
        self.nested = lib.TensorDict(
            {"a": {"b": {key: leaf(np.ones((32, 4), np.float32)) for key in KEYS}}, "s": "text"}, [32]
        )
        self.saved = self.td.memmap(root / "saved")
        self.nested.memmap(root / "nested")
        self.lazy = lib.lazy_stack([self.td.clone() for _ in range(20)])
        self.lazy.memmap(root / "lazy")
        self.td.save(root / "saved.tdz")
        self.td.consolidate(root / "one")
        self.load = lib.TensorDict.load_memmap
        self.rows = leaf(np.array([1, 5, 9, 3, 2, 8, 30, 11]))

    def new(self, suffix: str = "") -> Path:
        """A path that is not there yet."""
        return self.root / f"{next(self.numbers)}{suffix}"

    def round_trip(self, td: Any, suffix: str = "") -> Any:
        path = self.new(suffix)
        td.memmap(path)
        return self.load(path)

    def consolidated(self) -> Any:
        path = self.new()
        self.td.consolidate(path)
        return self.lib.TensorDict.from_consolidated(path)


CASES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any] | None]] = {
    "write a folder": (lambda w: w.td.memmap(w.new()), lambda f: floor_write(f.data, f.new())),
    "write over a folder": (lambda w: w.td.memmap(w.root / "saved"), None),
    "load a folder": (lambda w: w.load(w.root / "saved"), lambda f: floor_load(f.saved)),
    "round trip": (lambda w: w.round_trip(w.td), lambda f: f.round_trip()),
    "round trip, 2 deep and a string": (lambda w: w.round_trip(w.nested), None),
    "round trip, lazy stack of 20": (lambda w: w.round_trip(w.lazy), None),
    "archive round trip": (lambda w: w.round_trip(w.td, ".tdz"), None),
    "load an archive": (lambda w: w.load(w.root / "saved.tdz"), None),
    "consolidate in memory": (lambda w: w.td.consolidate(), None),
    "consolidated file round trip": (lambda w: w.consolidated(), None),
    "mapped td[0]": (lambda w: w.saved[0], lambda f: {k: v[0] for k, v in f.mapped.items()}),
    "mapped td[8 rows]": (lambda w: w.saved[w.rows], lambda f: {k: v[f.rows] for k, v in f.mapped.items()}),
}


class Floor:
    """The arrays in a plain dict."""

    def __init__(self, root: Path) -> None:
        self.root, self.numbers = root, count()
        root.mkdir()
        self.data = {key: np.ones((32, 4), np.float32) for key in KEYS}
        self.saved = str(root / "saved")
        self.mapped = floor_write(self.data, self.saved)
        self.rows = np.array([1, 5, 9, 3, 2, 8, 30, 11])

    def new(self) -> str:
        return f"{self.root}/{next(self.numbers)}"

    def round_trip(self) -> dict[str, Any]:
        path = self.new()
        floor_write(self.data, path)
        return floor_load(path)


def looped(fn: Callable[[Any], Any], argument: Any) -> Callable[[], None]:
    def run() -> None:
        for _ in range(LOOPS):
            fn(argument)

    return run


def main() -> None:
    asked = arguments(__doc__, rounds=15).parse_args()
    warnings.simplefilter("ignore")  # of the other library
    torch.set_num_threads(1)
    root = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
    about = machine(torch, tensordict) | {"threads_torch": 1}
    about["files_in"] = "memory (tmpfs)" if str(root).startswith("/dev/shm") else "a temporary folder"
    try:
        ours = World(lite, lambda x: x, root / "lite")
        theirs = World(tensordict, torch.from_numpy, root / "tensordict")
        floor = Floor(root / "floor")
        table = []
        for name, (operation, plain) in CASES.items():
            runs = {"lite": looped(operation, ours), "tensordict": looped(operation, theirs)}
            if plain is not None:
                runs["floor"] = looped(plain, floor)
            line: dict[str, Any] = {"case": name}
            for side, times in measure(runs, asked.rounds).items():
                line[f"{side}_us"] = 1e3 * times["median_ms"] / LOOPS
                line[f"{side}_min_us"] = 1e3 * times["min_ms"] / LOOPS
            line["ratio"] = line["tensordict_us"] / line["lite_us"]
            line["over_floor"] = line["lite_us"] / line["floor_us"] if plain is not None else None
            table.append(line)
    finally:
        shutil.rmtree(root)
    write(table, about, place(asked))


def write(table: list[dict[str, Any]], about: dict[str, Any], folder: Path | None) -> None:
    lines = [
        *heading("Files", about),
        "Five float32 leaves (32, 4), batch [32]; every path is a new one unless the name says otherwise.",
        "Medians of interleaved rounds in one process, in microseconds; minima in brackets.",
        "The floor is a file per array (open, write, mmap), one of JSON, and no container.",
        "",
        "| operation | lite | tensordict | floor | times faster | times the floor |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for line in table:
        floor = f"{line['floor_us']:.3g}" if line["over_floor"] is not None else ""
        over = f"{line['over_floor']:.2g}" if line["over_floor"] is not None else ""
        lines.append(
            f"| {line['case']} | {line['lite_us']:.3g} ({line['lite_min_us']:.3g}) "
            f"| {line['tensordict_us']:.4g} ({line['tensordict_min_us']:.4g}) | {floor} "
            f"| {line['ratio']:.3g} | {over} |"
        )
    show(folder, "files", lines, {"about": about, "rows": table})


if __name__ == "__main__":
    main()
