"""lite on ARM64 Linux, emulated: the tests of the kernels, and `lite demo` beside what this machine samples.

    apt-get install qemu-user-static debootstrap
    python bench/arm64.py --make-root DIR   # once: Debian for ARM64 with Python and wheels, 0.7 GB
    python bench/arm64.py --root DIR        # hours: the emulated Numba compiles everything
    python -m lite.kernels.prebuild --target armv8 --output LIB
    python bench/arm64.py --root DIR --library LIB   # minutes: kernels out of that library

QEMU runs one program for ARM64 and hands its system calls on to this machine's kernel, so nothing has to be
booted and no privileges are needed; only making the root needs those of debootstrap. Results go to
`results/arm64.json` and `arm64.md`, beside those of other processors and kernels. The script ends with 0 if
all is well, with 1 if a test failed or samples differ, and with 2, saying what is missing, if it cannot run.
"""

from __future__ import annotations

import argparse
import glob
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent
WHEELS = ["numpy", "numba", "tokenizers", "jinja2", "onnxruntime", "pytest", "hypothesis", "ml-dtypes"]
MODULES = "numpy, numba, tokenizers, jinja2, onnxruntime, pytest, hypothesis, ml_dtypes"
PLATFORMS = ("manylinux2014_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64")
PACKAGES = "python3.11,libstdc++6"
WHEELS_AT = "usr/local/lib/python3.11/dist-packages"
# Programs must not read the text about this machine's processor: onnxruntime crashes, LLVM knows none.
PROCESSOR = """processor	: {}
BogoMIPS	: 108.00
Features	: fp asimd evtstrm crc32 cpuid
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x0
CPU part	: 0xd08
CPU revision	: 3

"""
DEMO = "import sys; from lite.cli import main; sys.exit(main(['demo', '--json']))"
LEFT_OUT = ("tests/kernels/cuda", "tests/kernels/prebuild")  # are not about the processor they run on
CLOSE = 1e-4  # log-probs of a whole response; networks round differently on other processors


class Emulator(NamedTuple):
    """Python for ARM64.

    Attributes:
        qemu: the program that emulates.
        root: Debian for ARM64.
        launcher: starts Python in it; programs started from Python start this again.
        processor: what is emulated, as `qemu-aarch64 -cpu help` lists it.
        environment: for all programs.
    """

    qemu: str
    root: Path
    launcher: Path
    processor: str
    environment: dict[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = os.environ | self.environment | {"QEMU_CPU": self.processor}
        command = [str(self.launcher), *arguments]
        return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True)


def emulator(qemu: str, root: Path, folder: Path, processor: str, library: Path | None) -> Emulator:
    launcher = folder / "python"
    # -0 gives Python the launcher's name: this machine could not start a program for ARM64 itself.
    launcher.write_text(
        f'#!/bin/sh\nexec "{qemu}" -0 "$0" -L "{root}" -E PYTHONHOME=/usr "{root}/usr/bin/python3.11" "$@"\n'
    )
    launcher.chmod(0o755)
    kernels = {"LITE_KERNELS": "prebuilt", "LITE_KERNELS_PATH": str(library.resolve())} if library else {}
    environment = {
        "PYTHONPATH": str(CHECKOUT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "NUMBA_CACHE_DIR": str(root / "numba-cache"),
        **kernels,
    }
    return Emulator(qemu, root, launcher, processor, environment)


def make_root(root: Path) -> None:
    """Unpack Debian for ARM64 and wheels; none of their programs is run."""
    root.mkdir(parents=True)
    subprocess.run(
        ["debootstrap", "--foreign", "--arch=arm64", "--variant=minbase", f"--include={PACKAGES}",
         "bookworm", str(root)], check=True,
    )  # fmt: skip
    for package in glob.glob(f"{root}/var/cache/apt/archives/*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, str(root)], check=True)
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--target", str(root / WHEELS_AT), "--only-binary=:all:",
         *(f"--platform={name}" for name in PLATFORMS), "--python-version=3.11", *WHEELS], check=True,
    )  # fmt: skip
    (root / "proc" / "cpuinfo").write_text("".join(map(PROCESSOR.format, range(2))))


def missing(qemu: str | None, root: Path | None) -> list[str]:
    """What it takes to begin, in words."""
    found, qemu = [], qemu or "qemu-aarch64-static"
    if shutil.which(qemu) is None:
        found.append(f"{qemu} is not on PATH: apt-get install qemu-user-static, or --qemu FILE")
    if root is None:
        found.append("no ARM64 root: set LITE_ARM64_ROOT or --root DIR; --make-root DIR makes one")
    else:
        for name in ("usr/bin/python3.11", "proc/cpuinfo"):
            if not (root / name).exists():
                found.append(f"{root}/{name} does not exist: --make-root DIR makes a root that has it")
    return found


def demo_differences(mine: list[dict[str, Any]], its: list[dict[str, Any]]) -> list[str]:
    """Where the samples of two runs of `lite demo --json` are not the same."""
    if len(mine) != len(its):
        return [f"{len(its)} samples instead of {len(mine)}"]

    def said(sample: dict[str, Any]) -> str:
        return f"{sample['response']!r}, log-prob {sample['log_prob']:.6f}"

    return [
        f"sample {k}: {said(y)} instead of {said(x)}"
        for k, (x, y) in enumerate(zip(mine, its, strict=True))
        if (x["response"], x["tokens"]) != (y["response"], y["tokens"])
        or not math.isclose(x["log_prob"], y["log_prob"], abs_tol=CLOSE)
    ]


def samples(run: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    if run.returncode:
        raise RuntimeError(f"lite demo ended with {run.returncode}: {run.stderr[-2000:]}")
    found: list[dict[str, Any]] = json.loads(run.stdout)["samples"]
    return found


def demo(emulated: Emulator) -> tuple[bool, str]:
    """Whether the emulated demo samples what this machine does, and a cell of the table."""
    environment = os.environ | {"PYTHONPATH": str(CHECKOUT)}
    mine = samples(
        subprocess.run(
            [sys.executable, "-c", DEMO], cwd=CHECKOUT, env=environment, capture_output=True, text=True
        )
    )
    try:
        its = samples(emulated.run("-c", DEMO))
    except RuntimeError as error:
        print(error)
        return False, "does not run"
    differences = demo_differences(mine, its)
    print(*differences, sep="\n", end="\n" if differences else "")
    furthest = max(abs(x["log_prob"] - y["log_prob"]) for x, y in zip(mine, its, strict=False))
    tokens = sum(x["tokens"] for x in its)
    if differences:
        return False, f"{len(differences)} of {len(mine)} samples differ"
    return True, f"the same {tokens} tokens as {platform.machine()}, log-probs within {furthest:.0e}"


def tests(emulated: Emulator, names: list[str]) -> tuple[bool, str]:
    """Whether the tests pass, and a cell of the table."""
    run = emulated.run(
        "-m",
        "pytest",
        "-q",
        "-rfEs",
        "-p",
        "no:cacheprovider",
        *(f"--ignore={path}" for path in LEFT_OUT),
        *names,
    )
    print(run.stdout[-6000:], run.stderr[-2000:], sep="\n")
    last = run.stdout.strip().splitlines()[-1:] or [f"ended with {run.returncode}"]
    return run.returncode == 0, last[0].strip("= ").split(" in ")[0]


def versions(emulated: Emulator) -> str:
    """What runs, for the results."""
    run = emulated.run(
        "-c",
        f"import platform, {MODULES}\n"
        "for module in (numpy, numba, onnxruntime): print(module.__name__, module.__version__)\n"
        "print('Python', platform.python_version())\nprint(platform.machine())",
    )
    if run.returncode:
        raise RuntimeError(f"{emulated.root} cannot import what tests need:\n{run.stderr[-2000:]}")
    *names, machine = run.stdout.splitlines()
    if machine != "aarch64":
        raise RuntimeError(f"{emulated.root} must be for aarch64, is for {machine}")
    version = subprocess.run([emulated.qemu, "--version"], capture_output=True, text=True).stdout
    return f"{', '.join(reversed(names))}, {version.splitlines()[0].split(' (')[0]} on {platform.machine()}"


def _shortened(tests: str) -> str:
    """For the table: the figures have all names."""
    names = tests.split()
    return f"{', '.join(names[:2])} and {len(names) - 2} more" if len(names) > 3 else ", ".join(names)


def write(rows: list[dict[str, str]], output: Path) -> None:
    """Put `rows` in the place of those of the same processor, kernels and tests."""
    figures = output.with_suffix(".json")
    kept = json.loads(figures.read_text()) if figures.exists() else []
    keys = ("processor", "kernels", "tests")
    new = [[row[key] for key in keys] for row in rows]
    rows = [row for row in kept if [row[key] for key in keys] not in new] + rows
    figures.write_text(json.dumps(rows, indent=1) + "\n")
    columns = ["processor", "kernels", "tests", "passed", "lite demo", "with"]
    shown = [row | {"tests": _shortened(row["tests"])} for row in rows]
    table = [columns, ["---"] * len(columns), *([row[column] for column in columns] for row in shown)]
    lines = [f"| {' | '.join(line)} |" for line in table]
    print(*lines, sep="\n")
    lines = [
        "# ARM64 Linux, emulated", "",
        "Written by `python bench/arm64.py`. No ARM processor has been measured: emulation tells what is",
        "computed, not how fast.", "", *lines,
    ]  # fmt: skip
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make-root", type=Path, metavar="DIR", help="make a root in a new folder, and end")
    root = os.environ.get("LITE_ARM64_ROOT")
    parser.add_argument("--root", type=Path, default=root and Path(root), help="default: LITE_ARM64_ROOT")
    found = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    parser.add_argument("--qemu", default=found, help="default: the one on PATH")
    parser.add_argument("--cpu", nargs="+", default=["cortex-a72", "max"], help="processors to emulate")
    parser.add_argument("--library", type=Path, metavar="DIR", help="folder of a prebuilt library for armv8")
    parser.add_argument("--tests", nargs="*", default=["tests/kernels"], help="none: the demo alone")
    parser.add_argument("--no-demo", action="store_true", help="tests alone")
    parser.add_argument("--output", type=Path, default=HERE / "results" / "arm64.md")
    options = parser.parse_args()
    if options.make_root:
        lacking = [name for name in ("debootstrap", "dpkg-deb") if shutil.which(name) is None]
        if lacking:
            print(*(f"{name} is not on PATH: apt-get install {name}" for name in lacking), sep="\n")
            return 2
        make_root(options.make_root)
        return 0
    lacking = missing(options.qemu, options.root)
    if lacking:
        print(*lacking, sep="\n")
        return 2
    well, rows = True, []
    with tempfile.TemporaryDirectory() as folder:
        for processor in options.cpu:
            emulated = emulator(
                options.qemu, options.root.resolve(), Path(folder), processor, options.library
            )
            row = {"processor": processor, "kernels": "prebuilt" if options.library else "Numba"}
            row |= {"tests": " ".join(options.tests), "passed": "not run", "lite demo": "not run"}
            try:
                row["with"] = versions(emulated)
            except RuntimeError as error:
                print(error)
                return 2
            if options.tests:
                fine, row["passed"] = tests(emulated, options.tests)
                well &= fine
            if not options.no_demo:
                fine, row["lite demo"] = demo(emulated)
                well &= fine
            rows.append(row)
    write(rows, options.output)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
