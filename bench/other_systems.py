"""Kernels compiled for Windows and macOS: what they compute beside those for Linux, call by call.

    pip install ziglang; apt-get install wine qemu-user-static
    python -m lite.kernels.prebuild --output LIB --compiler "python -m ziglang cc" --target \\
        x86-64-v3,windows-x86-64-v3,windows-armv8,macos-x86-64-v3,macos-armv8
    python bench/other_systems.py --libraries LIB

The tests of the kernels run here with the library for Linux, and calls of every kernel are written down. Then
each other library repeats them, and what it returns and leaves in the arrays is compared. There is no machine
of these systems: Wine loads the library for Windows on x86-64, `replay_calls.c` maps those for macOS and
for Windows on ARM into a process of Linux, and QEMU emulates ARM. So this tells whether the machine code is
right, and not whether the system loads its file. Results go to `results/other_systems.json` and
`other_systems.md`.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import RESULTS, machine, show

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
# But for those of memory and of libraries themselves, which writing calls down disturbs.
TESTS = ["tests/kernels", "tests/nn/layers", "tests/optim", "--ignore=tests/kernels/backends"]
TESTS += ["-k", "not no_array_of_the_logits_size"]
REFERENCE = "x86-64-v3"
# What runs each library: the target that zig compiles replay_calls.c for, and the command before it.
RUNS: dict[str, tuple[str, list[str], str]] = {
    REFERENCE: ("x86_64-linux-gnu.2.31", [], "as it is"),
    "windows-x86-64-v3": ("x86_64-windows-gnu", ["wine"], "loaded by Wine"),
    "windows-armv8": ("aarch64-linux-musl", ["qemu-aarch64-static"], "mapped, under QEMU"),
    "macos-x86-64-v3": ("x86_64-linux-musl", [], "mapped"),
    "macos-armv8": ("aarch64-linux-musl", ["qemu-aarch64-static"], "mapped, under QEMU"),
}
Call = dict[str, Any]


def recorded(libraries: Path, scratch: Path) -> list[Call]:
    """Calls that the tests make of the library for Linux."""
    file = scratch / "calls.jsonl"
    environment = os.environ | {
        "LITE_CALLS": str(file),
        "LITE_KERNELS": f"prebuilt:{REFERENCE}",
        "LITE_KERNELS_PATH": str(libraries),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(CHECKOUT), os.environ.get("PYTHONPATH", "")]),
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "record_calls", *TESTS],
        cwd=CHECKOUT, env=environment, text=True, capture_output=True,
    )  # fmt: skip
    print(done.stdout.strip().splitlines()[-1])
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def replayed(
    target: str, calls: list[Call], libraries: Path, scratch: Path
) -> Iterator[tuple[int, int, bytes]]:
    """For each call whether it gave an integer (-1: the library lacks it), that, and the arrays it left."""
    zig, before, _ = RUNS[target]
    program = scratch / f"replay-{zig}.exe"
    command = [sys.executable, "-m", "ziglang", "cc", "-target", zig, "-O2", "-fno-sanitize=undefined"]
    subprocess.run([*command, str(HERE / "replay_calls.c"), "-o", str(program)], check=True)
    row = next(row for row in _manifest(libraries) if row["target"] == target)
    given, results = scratch / "calls", scratch / "results"
    parts = [struct.pack("<qq", row["level"], len(calls))]
    for call in calls:
        parts += [call["kernel"].encode() + b"\0", base64.b64decode(call["given"])]
    given.write_bytes(b"".join(parts))
    environment = os.environ | {"WINEPREFIX": str(scratch / "wine"), "WINEDEBUG": "-all"}
    subprocess.run(
        [*before, str(program), str(libraries / row["file"]), str(given), str(results)],
        check=True,
        env=environment,
    )
    data, at = results.read_bytes(), 0
    for call in calls:
        size = len(base64.b64decode(call["left"]))
        state, returned = struct.unpack_from("<qq", data, at)
        yield state, returned, data[at + 16 : at + 16 + size]
        at += 16 + size
    if at != len(data):
        raise RuntimeError(f"{results} has {len(data)} bytes, expected {at}")


def _manifest(libraries: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((libraries / "manifest.json").read_text())["libraries"]
    return rows


def compared(target: str, calls: list[Call], libraries: Path, scratch: Path) -> dict[str, Any]:
    """How many calls agree to the bit or nearly, and the largest difference of numbers."""
    same, largest, other = 0, {"float32": 0.0, "float64": 0.0}, []
    for call, (state, returned, left) in zip(calls, replayed(target, calls, libraries, scratch), strict=True):
        expected = base64.b64decode(call["left"])
        integer = call["returned"] is not None
        if state != integer or (integer and returned != call["returned"]):
            other.append(
                f"{call['kernel']}({call['types']}): returned {state}, {returned}, not {call['returned']}"
            )
            continue
        if left == expected:
            same += 1
            continue
        at = 0
        for kind, count in call["arrays"]:
            dtype = np.dtype(kind)
            got, want = (np.frombuffer(data, dtype, count, at) for data in (left, expected))
            at += dtype.itemsize * count
            if dtype.kind != "f":
                if not np.array_equal(got, want):
                    other.append(f"{call['kernel']}({call['types']}): an array of {dtype} differs")
                continue
            scale = np.maximum(1, np.abs(want))
            with np.errstate(invalid="ignore"):
                apart = np.where(
                    (got == want) | (np.isnan(got) & np.isnan(want)), 0, np.abs(got - want) / scale
                )
            largest[dtype.name] = max(largest[dtype.name], float(apart.max(initial=0)))
    return {
        "target": target,
        "run": RUNS[target][2],
        "calls": len(calls),
        "same": same,
        "other": other,
    } | largest


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--libraries", type=Path, required=True, metavar="DIR", help="of prebuild --output")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="DIR", help="default: bench/results")
    asked = parser.parse_args()
    here = [target for target in RUNS if target in {row["target"] for row in _manifest(asked.libraries)}]
    programs = {word for target in here for word in RUNS[target][1]}
    if lacking := sorted(name for name in programs if shutil.which(name) is None):
        print(f"not on PATH: {', '.join(lacking)}")
        return 2
    # Wine writes its registry when it ends, a little later than the program.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        calls = recorded(asked.libraries.resolve(), Path(name))
        rows = [compared(target, calls, asked.libraries.resolve(), Path(name)) for target in here]
    kernels = len({call["kernel"] for call in calls})
    types = len({(call["kernel"], call["types"]) for call in calls})
    about = machine()
    lines = [
        "# Kernels for Windows and macOS",
        "",
        f"Written by `python bench/other_systems.py`: {len(calls)} calls that the tests make on Linux, of",
        f"{kernels} kernels with {types} signatures, repeated by each library. NumPy {about['numpy']}, Numba",
        f"{about['numba']}. No machine of these systems was here: this tells that the code is right, not",
        "that the system loads the file, but for Windows on x86-64, whose file Wine loaded. Differences are",
        "relative to max(1, |number|); functions such as exp are of another C library, and ARM adds up in",
        "another order.",
        "",
        "| library | run | calls | equal to the bit | most apart, float32 | float64 | other results |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        lines.append(
            f"| {row['target']} | {row['run']} | {row['calls']} | {row['same']} | {row['float32']:.1e} | "
            f"{row['float64']:.1e} | {len(row['other'])} |"
        )
        print(*row["other"][:20], sep="\n")
    show(asked.output, "other_systems", lines, rows)
    return 1 if any(row["other"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
